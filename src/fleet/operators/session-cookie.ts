/** The cookie of a session, and the proof that a request with it comes from the app's own page. */
import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import { MillraceError } from "../../core/errors.js";
import { isSameSecret, SESSION_MS, type Session, type Sessions } from "./sessions.js";

const SAFE_METHODS = ["GET", "HEAD"];
const CSRF_HEADER = "x-csrf-token";

const socketOf = (c: Context) => (c.env as HttpBindings).incoming.socket;

export const addressOf = (c: Context): string => socketOf(c).remoteAddress ?? "";

/** Browsers send cookies to every port of a host, so gateways side by side need names of their own. */
export const portOf = (c: Context): number | undefined => socketOf(c).localPort;
const nameOf = (c: Context): string => `millrace-session-${portOf(c)}`;

/** Of several with one name, that of the longest path comes first. */
export function cookiesNamed(c: Context, name: string): readonly string[] {
  const pairs = (c.req.header("cookie") ?? "").split(/; */);
  const start = `${name}=`;
  return pairs.filter((pair) => pair.startsWith(start)).map((pair) => pair.slice(start.length));
}

/**
 * Without Path, a browser takes the folder of the address that it asked. All paths that set the cookie are in the app's own folder, so it is right under any
 * prefix of a proxy.
 * @param id undefined: the cookie is removed
 */
export function setSessionCookie(c: Context, id: string | undefined, isSecure: boolean): void {
  const maxAge = id === undefined ? 0 : SESSION_MS / 1000;
  const end = isSecure ? "; Secure" : "";
  c.header("Set-Cookie", `${nameOf(c)}=${id ?? ""}; Max-Age=${maxAge}; HttpOnly; SameSite=Strict${end}`, {
    append: true,
  });
}

export function sessionOf(c: Context, sessions: Sessions) {
  for (const id of cookiesNamed(c, nameOf(c))) {
    const session = sessions.find(id);
    if (session !== undefined) return session;
  }
  return undefined;
}

export function endSessions(c: Context, sessions: Sessions): void {
  for (const id of cookiesNamed(c, nameOf(c))) sessions.end(id);
}

function notOwnPage(expected: string, got: string | undefined): MillraceError {
  const shown = got === undefined ? "none" : JSON.stringify(got.slice(0, 80));
  return new MillraceError("forbidden", `expected ${expected}, got ${shown}`, {
    hint: "use the app's own page; programs send a key as 'Authorization: Bearer KEY'",
  });
}

/** Browsers set Sec-Fetch-Site themselves; they leave it out over plain HTTP to other machines. */
function assertSameSite(c: Context): string | undefined {
  const site = c.req.header("sec-fetch-site");
  if (site !== undefined && site !== "same-origin") throw notOwnPage("the app's own page (Sec-Fetch-Site)", site);
  return site;
}

/** Throws forbidden where a page of another origin signs its visitor in. @returns the page's origin; undefined: a program */
export function assertOwnPage(c: Context): string | undefined {
  const origin = c.req.header("origin");
  if (assertSameSite(c) !== undefined || origin === undefined) return origin;
  const host = URL.canParse(origin) ? new URL(origin).host : "";
  const own = [c.req.header("host"), c.req.header("x-forwarded-host")];
  if (own.includes(host)) return origin;
  throw notOwnPage(`a page of ${own.filter((each) => each !== undefined).join(" or ")} (Origin)`, origin);
}

/** Throws forbidden unless a request that changes something comes from the page that signed in. */
export function assertFromApp(c: Context, session: Session): void {
  if (SAFE_METHODS.includes(c.req.method)) return;
  assertSameSite(c);
  const origin = c.req.header("origin");
  if (origin !== session.origin) throw notOwnPage("the page that signed in (Origin)", origin);
  const token = c.req.header(CSRF_HEADER);
  if (token !== undefined && isSameSecret(token, session.csrfToken)) return;
  throw notOwnPage(`the session's csrf_token in ${CSRF_HEADER}`, token === undefined ? undefined : "another");
}
