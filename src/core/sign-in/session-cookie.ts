/** The cookie of a session, and the proof that a request with it comes from the app's own page. */
import type { IncomingMessage } from "node:http";
import { givenKeys } from "../api-keys.js";
import { MillraceError } from "../errors.js";
import type { Who } from "./roles.js";
import { type FoundSession, type Grant, isSameSecret, SESSION_MS, type Session, type Sessions } from "./sessions.js";

type Asked = Pick<IncomingMessage, "method" | "headers" | "socket">;

const SAFE_METHODS = ["GET", "HEAD"];
const CSRF_HEADER = "x-csrf-token";
/** A character that no token contains. */
const TOKEN_SEPARATOR = ".";
/** A browser sends one cookie for each path that leads here; more come from somebody else. */
const MAX_COOKIES = 8;

/** The two kinds of sessions. A browser has a cookie for each, so that neither sign-in changes or uses the other. */
export const SIDES = ["operator", "client"] as const;
export type Side = (typeof SIDES)[number];

export const addressOf = ({ socket }: Asked): string => socket.remoteAddress ?? "";

export const isHttps = (origin: string | undefined): boolean => origin?.startsWith("https:") ?? false;

/**
 * Over https, a name that browsers accept only from exactly this host, so that no page of a neighbouring host plants a
 * session. Such a cookie applies to all paths of the host, and browsers send it to all the host's ports, so each server
 * on a host needs its own name.
 */
export const cookieName = (start: string, { socket }: Asked, { serverId }: Sessions, isSecure: boolean): string =>
  isSecure ? `__Host-${start}-${serverId}` : `${start}-${socket.localPort}`;

/**
 * The attributes after the value. Without Path, as over http, a browser uses the folder of the requested address. All
 * paths that set a cookie are in the app's own folder, so the result is right under any prefix of a proxy.
 */
export const cookieEnd = (sameSite: "Strict" | "Lax", isSecure: boolean): string =>
  `HttpOnly; SameSite=${sameSite}${isSecure ? "; Path=/; Secure" : ""}`;

const nameOf = (asked: Asked, sessions: Sessions, side: Side, isSecure: boolean): string =>
  cookieName(`millrace-${side}-session`, asked, sessions, isSecure);

/** Whether https reaches this server itself, or, by the page's or proxy's word, a proxy before it. */
function comesByHttps({ headers: { origin, "x-forwarded-proto": proto }, socket }: Asked): boolean {
  if ("encrypted" in socket && socket.encrypted === true) return true;
  return isHttps(origin) || /^https\b/i.test(proto?.toString() ?? "");
}

/** Of several cookies with one name, the one with the longest path comes first. */
export function cookiesNamed({ headers }: Asked, name: string): readonly string[] {
  const start = `${name}=`;
  const pairs = (headers.cookie ?? "").split(/; */).filter((pair) => pair.startsWith(start));
  return pairs.slice(0, MAX_COOKIES).map((pair) => pair.slice(start.length));
}

/** @param id undefined: removes the cookie */
export function sessionCookie(
  asked: Asked,
  sessions: Sessions,
  side: Side,
  id: string | undefined,
  isSecure: boolean,
): string {
  const maxAge = id === undefined ? 0 : SESSION_MS / 1000;
  return `${nameOf(asked, sessions, side, isSecure)}=${id ?? ""}; Max-Age=${maxAge}; ${cookieEnd("Strict", isSecure)}`;
}

/**
 * The session of one side, for any request with its cookie. A cookie with the other side's id does not count, nor, over
 * https, one under the name that any neighbouring host may set.
 */
export function foundSession(asked: Asked, sessions: Sessions, side: Side): FoundSession | undefined {
  for (const isSecure of comesByHttps(asked) ? [true] : [true, false]) {
    for (const id of cookiesNamed(asked, nameOf(asked, sessions, side, isSecure))) {
      const session = sessions.find(id);
      if (session !== undefined && sideOf(session) === side && session.isSecure === isSecure) return session;
    }
  }
  return undefined;
}

const sideOf = ({ clientKey }: Pick<Grant, "clientKey">): Side => (clientKey === undefined ? "operator" : "client");

/** Throws forbidden if another page than the one that signed in sends the cookie. */
export function sessionOf(asked: Asked, sessions: Sessions, side: Side): FoundSession | undefined {
  const session = foundSession(asked, sessions, side);
  if (session !== undefined) assertFromApp(asked, session);
  return session;
}

/** A key precedes a cookie, so that programs never need proofs that only pages have. */
function sessionWithoutKey(asked: Asked, sessions: Sessions, side: Side): FoundSession | undefined {
  const { authorization, "x-api-key": apiKey, cookie } = asked.headers;
  if (cookie === undefined || givenKeys(authorization, apiKey?.toString()).length > 0) return undefined;
  return sessionOf(asked, sessions, side);
}

/**
 * The operator of the request's session. Throws like `sessionOf`.
 * @returns undefined if the request has a key, or no such session
 */
export const sessionOperator = (asked: Asked, sessions: Sessions): Who | undefined =>
  sessionWithoutKey(asked, sessions, "operator")?.who;

/**
 * The Authorization behind a client's session. Throws like `sessionOf`.
 * @returns undefined if the request has a key, or no such session
 */
export function sessionAuthorization(asked: Asked, sessions: Sessions): string | undefined {
  const key = sessionWithoutKey(asked, sessions, "client")?.clientKey;
  return key === undefined ? undefined : `Bearer ${key.reveal()}`;
}

export function endSessions(asked: Asked, sessions: Sessions, side: Side): void {
  for (const isSecure of [true, false]) {
    for (const id of cookiesNamed(asked, nameOf(asked, sessions, side, isSecure))) sessions.end(id);
  }
}

/**
 * Replaces the browser's session on the grant's side; the other side's session stays unchanged.
 * @returns the session, and its cookie
 */
export function openSession(
  asked: Asked,
  sessions: Sessions,
  grant: Omit<Grant, "isSecure">,
): { readonly session: Session; readonly cookie: string } {
  const side = sideOf(grant);
  endSessions(asked, sessions, side);
  // A program has no page; a sign-in at a provider comes from the provider's page.
  const isSecure = grant.origin === undefined ? comesByHttps(asked) : isHttps(grant.origin);
  const { id, session } = sessions.open({ ...grant, isSecure });
  return { session, cookie: sessionCookie(asked, sessions, side, id, isSecure) };
}

/** The value that a page sends in X-CSRF-Token, for requests of any of its sessions. */
export const csrfTokenOf = (sessions: readonly Session[]): string =>
  sessions.map(({ csrfToken }) => csrfToken).join(TOKEN_SEPARATOR);

function notOwnPage(expected: string, got: string | undefined): MillraceError {
  const shown = got === undefined ? "none" : JSON.stringify(got.slice(0, 80));
  return new MillraceError("forbidden", `expected ${expected}, got ${shown}`, {
    hint: "use the app's own page; programs send a key as 'Authorization: Bearer KEY'",
  });
}

/** Browsers set Sec-Fetch-Site themselves, except over plain HTTP to other machines. */
function assertSameSite({ headers }: Asked, others: readonly string[] = []): string | undefined {
  const site = headers["sec-fetch-site"]?.toString();
  if (site === undefined || site === "same-origin" || others.includes(site)) return site;
  throw notOwnPage("the app's own page (Sec-Fetch-Site)", site);
}

/**
 * Throws forbidden if a page of another origin signs its visitor in.
 * @returns the page's origin; undefined: a program
 */
export function assertOwnPage(asked: Asked): string | undefined {
  const { origin, host: ownHost, "x-forwarded-host": forwarded } = asked.headers;
  if (assertSameSite(asked) !== undefined || origin === undefined) return origin;
  const host = URL.canParse(origin) ? new URL(origin).host : "";
  const own = [ownHost, forwarded?.toString()];
  if (own.includes(host)) return origin;
  throw notOwnPage(`a page of ${own.filter((each) => each !== undefined).join(" or ")} (Origin)`, origin);
}

/**
 * Throws forbidden unless the request comes from the page that signed in. Pages state their origin with every change,
 * and browsers mark reads from other pages.
 */
function assertFromApp(asked: Asked, session: Session): void {
  const { origin, [CSRF_HEADER]: token } = asked.headers;
  const isRead = SAFE_METHODS.includes(asked.method ?? "");
  // "none": the reader typed the address.
  assertSameSite(asked, isRead ? ["none"] : []);
  if (isRead && origin === undefined) return;
  if (origin !== session.origin) throw notOwnPage("the page that signed in (Origin)", origin);
  const tokens = typeof token === "string" ? token.split(TOKEN_SEPARATOR, SIDES.length) : [];
  if (isRead || tokens.some((each) => isSameSecret(each, session.csrfToken))) return;
  throw notOwnPage(`the session's csrf_token in ${CSRF_HEADER}`, token === undefined ? undefined : "another");
}
