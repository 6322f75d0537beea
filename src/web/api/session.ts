/** Who is signed in with this browser. The session's cookie is the browser's, out of reach of scripts. */
import { signal } from "@preact/signals";

export type OperatorRole = "viewer" | "operator" | "admin";

export interface Session {
  readonly signed_in: boolean;
  /** The operator's name; null: only a client has signed in. */
  readonly name?: string | null;
  readonly role?: OperatorRole | null;
  /** Whether a client has signed in. */
  readonly is_client?: boolean;
  /** Name of the client's key, if the server names its keys. */
  readonly client?: string | null;
  /** Identifies the client; the same at each of its sign-ins. */
  readonly client_id?: string | null;
  /** Whether the server keeps the client's conversations. */
  readonly keeps_chats?: boolean;
  /** Whether the server accepts feedback on its answers. */
  readonly takes_feedback?: boolean;
  /** Sent with every change; other sites' pages cannot read it. */
  readonly csrf_token?: string;
  /** Ways in which operators can sign in; empty on a server without operators. */
  readonly ways?: readonly ("key" | "oidc")[];
  /** Name of the identity provider. */
  readonly provider?: string | null;
}

export const session = signal<Session | undefined>(undefined);
/** Number of times that a client has signed out on this page. Sessions that expired do not count. */
export const clientSignOuts = signal(0);

let numChanges = 0;

/** Number of sign-ins and sign-outs on this page. */
export const numSessionChanges = (): number => numChanges;

/** Takes the session that a sign-in or sign-out returns. */
export function takeSession(changed: Session | undefined): void {
  numChanges++;
  session.value = changed;
}

export async function learnSession(): Promise<void> {
  const numBefore = numChanges;
  const answer = await fetch("session");
  const learnt = answer.ok ? ((await answer.json()) as Session) : undefined;
  // Ignores an answer that was requested before a sign-in or sign-out.
  if (numBefore === numChanges) session.value = learnt;
}
