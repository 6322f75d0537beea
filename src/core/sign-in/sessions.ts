/**
 * Sessions of browsers that signed in: kept in memory, bounded in number and in time, so that a restart ends them all.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Secret } from "../config-values.js";
import type { Who } from "./roles.js";

const MAX_SESSIONS = 1000;
export const SESSION_MS = 12 * 3_600_000;

/** A browser's rights after signing in: as somebody who runs the server, or as a client of its API. */
export interface Grant {
  /** Asked for with each request, since a reload may change the role or end it. Undefined: a client. */
  readonly operator: (() => Who | undefined) | undefined;
  /**
   * Requests with the session are requests with this key: its limits are theirs, and whatever ends it ends them.
   * Undefined: an operator.
   */
  readonly clientKey: Secret | undefined;
  /** Owner of the key that signed in. */
  readonly owner: string;
  /**
   * Origin of the page that signed in; requests that change something must come from there. Undefined: a program signed
   * in.
   */
  readonly origin: string | undefined;
  /** Whether the sign-in came by https: the session's cookie then has the name that no other host can set. */
  readonly isSecure: boolean;
}

export interface Session extends Grant {
  /** Requests that change something must repeat it in a header, which pages of others cannot read. */
  readonly csrfToken: string;
  readonly endsMs: number;
}

export type FoundSession = Session & { readonly who: Who | undefined };

const secretText = (): string => randomBytes(32).toString("base64url");
const ID = /^[\w-]{43}$/;
/** Ids are looked up by their digest, so that the time of a look-up tells nothing of them. */
const digestOf = (text: string): string => createHash("sha256").update(text).digest("base64");

export const isSameSecret = (a: string, b: string): boolean =>
  timingSafeEqual(Buffer.from(digestOf(a)), Buffer.from(digestOf(b)));

export class Sessions {
  /** Tells this server's cookies from those of others on the same host. */
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

  /** Ends a session of the owner who has the most, so that nobody ends the sessions of others by many sign-ins. */
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
