/** Sessions of operators who signed in with a browser: kept in memory, bounded in number and in time, so that a restart ends them all. */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Operator } from "../config/sections/operators.js";

const MAX_SESSIONS = 1000;
export const SESSION_MS = 12 * 3_600_000;

/** What is known of whoever asks. */
export type Who = Pick<Operator, "name" | "role">;

export interface Session {
  /** Asked for each request, since a reload may change the role or end it. */
  readonly who: () => Who | undefined;
  /** Of the page that signed in; requests that change something must come from there. */
  readonly origin: string | undefined;
  /** Requests that change something must repeat it in a header, which pages of others cannot read. */
  readonly csrfToken: string;
  readonly endsMs: number;
}

const secretText = (): string => randomBytes(32).toString("base64url");
/** Ids are looked up by their digest, so that the time of a look-up tells nothing of them. */
const digestOf = (text: string): string => createHash("sha256").update(text).digest("base64");

export const isSameSecret = (a: string, b: string): boolean =>
  timingSafeEqual(Buffer.from(digestOf(a)), Buffer.from(digestOf(b)));

export class Sessions {
  readonly #byDigest = new Map<string, Session>();

  /** @param now milliseconds since 1970 */
  constructor(private readonly now: () => number = Date.now) {}

  /** Always under a new id, so that nobody can plant one. */
  open(who: Session["who"], origin: string | undefined): { id: string; session: Session } {
    const id = secretText();
    const session = { who, origin, csrfToken: secretText(), endsMs: this.now() + SESSION_MS };
    this.#byDigest.set(digestOf(id), session);
    for (const oldest of this.#byDigest.keys()) {
      if (this.#byDigest.size <= MAX_SESSIONS) break;
      this.#byDigest.delete(oldest);
    }
    return { id, session };
  }

  find(id: string): (Session & { readonly by: Who }) | undefined {
    const session = this.#byDigest.get(digestOf(id));
    const by = session !== undefined && this.now() < session.endsMs ? session.who() : undefined;
    if (session !== undefined && by !== undefined) return { ...session, by };
    this.end(id);
    return undefined;
  }

  end(id: string): void {
    this.#byDigest.delete(digestOf(id));
  }
}
