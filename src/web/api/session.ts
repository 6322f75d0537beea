/** Who is signed in to a gateway with this browser. The cookie that says so is the browser's, out of reach of scripts. */
import { signal } from "@preact/signals";

export type OperatorRole = "viewer" | "operator" | "admin";

interface Session {
  readonly signed_in: boolean;
  readonly name?: string;
  readonly role?: OperatorRole;
  /** Sent with every change, which pages of others cannot read. */
  readonly csrf_token?: string;
  /** Ways to sign in; none where the gateway has no operators. */
  readonly ways?: readonly ("key" | "oidc")[];
  /** Name of the identity provider. */
  readonly provider?: string | null;
}

export const session = signal<Session | undefined>(undefined);

export async function learnSession(): Promise<void> {
  const answer = await fetch("session");
  session.value = answer.ok ? ((await answer.json()) as Session) : undefined;
}
