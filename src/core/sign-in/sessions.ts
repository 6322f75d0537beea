/** Browser sessions: in memory, bounded in number and time, so that a restart ends them all. */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Secret } from "../config-values.js";
import type { Who } from "./roles.js";

const MAX_SESSIONS = 1000;
export const SESSION_MS = 12 * 3_600_000;

/** A browser's rights after signing in: as an operator, or as a client of the API. */
export interface Grant {
  /** Called for each request, since a reload may change or end the role. Undefined: a client. */
  readonly operator: (() => Who | undefined) | undefined;
  /**
   * Requests in the session count as requests with this key: its limits apply, and its end ends the session. Undefined:
   * an
   * operator.
   */
  readonly clientKey: Secret | undefined;
  /** Owner of the key of the sign-in. */
  readonly owner: string;
  /** Origin of the page that signed in; requests with changes must come from it. Undefined: a program signed in. */
  readonly origin: string | undefined;
  /** Whether the sign-in used https: the session's cookie then has the name that no other host can set. */
  readonly isSecure: boolean;
}

export interface Session extends Grant {
  /** Requests with changes must repeat it in a header; other sites' pages cannot read it. */
  readonly csrfToken: string;
  readonly endsMs: number;
}

export type FoundSession = Session & { readonly who: Who | undefined };

const secretText = (): string => randomBytes(32).toString("base64url");
const ID = /^[\w-]{43}$/;
/** Ids are looked up by digest, so that the time of a look-up reveals nothing about them. */
const digestOf = (text: string): string => createHash("sha256").update(text).digest("base64");

export const isSameSecret = (a: string, b: string): boolean =>
  timingSafeEqual(Buffer.from(digestOf(a)), Buffer.from(digestOf(b)));

export class Sessions {
  /** Distinguishes this server's cookies from those of others on the same host. */
  readonly serverId = randomBytes(6).toString("hex");
  readonly #byDigest = new Map<string, Session>();

  /** @param now milliseconds since 1970 */
  constructor(private readonly now: () => number = Date.now) {}

  /** Always under a new id, so that nobody can plant one. */
  open(grant: Grant, endsMs = this.now() + SESSION_MS): { readonly id: string; readonly session: Session } {
    const id = secretText();
    const session = { ...grant, csrfToken: secretText(), endsMs };
    this.#byDigest.set(digestOf(id), session);
    for (const [digest, each] of this.#byDigest) if (each.endsMs <= this.now()) this.#byDigest.delete(digest);
    if (this.#byDigest.size > MAX_SESSIONS) this.#endOldest();
    return { id, session };
  }

  find(id: string): FoundSession | undefined {
    if (!ID.test(id)) return undefined;
    const session = this.#byDigest.get(digestOf(id));
    const isOpen = session !== undefined && this.now() < session.endsMs;
    const who = isOpen ? session.operator?.() : undefined;
    if (isOpen && (who !== undefined || session.clientKey !== undefined)) return { ...session, who };
    this.end(id);
    return undefined;
  }

  end(id: string): void {
    this.#byDigest.delete(digestOf(id));
  }

  /** Ends a session of the owner with the most, so that nobody can end others' sessions by many sign-ins. */
  #endOldest(): void {
    const oldest = new Map<string, { readonly digest: string; count: number }>();
    for (const [digest, { owner }] of this.#byDigest) {
      const counted = oldest.get(owner);
      if (counted === undefined) oldest.set(owner, { digest, count: 1 });
      else counted.count++;
    }
    const most = [...oldest.values()].reduce((a, b) => (b.count > a.count ? b : a));
    this.#byDigest.delete(most.digest);
  }
}
