/** Browser sign-in at a server of one model: with one of its API keys, or with the administrator's. */
import type { Hono } from "hono";
import { createKeyCheck } from "../../core/api-keys.js";
import { ADMIN_NAME } from "../../core/sign-in/roles.js";
import { createSessionApp } from "../../core/sign-in/session-app.js";
import { sessionAuthorization, sessionOperator } from "../../core/sign-in/session-cookie.js";
import { isSameSecret, type Sessions } from "../../core/sign-in/sessions.js";
import type { AppContext, AppEnv, AppOptions } from "./context.js";

const ADMINISTRATOR = { name: ADMIN_NAME, role: "admin" } as const;
/** Prefixes of the key-protected paths that the app calls. */
const PREFIXES = ["/v1/", "/watch/"];

export function addSignIn(app: Hono<AppEnv>, { apiKeys, adminKey }: AppOptions, sessions: Sessions): void {
  const check = createKeyCheck(apiKeys);
  const owners = {
    operator: (key: string) =>
      adminKey !== undefined && isSameSecret(key, adminKey) ? () => ADMINISTRATOR : undefined,
    client: (key: string) =>
      apiKeys.length === 0 ? undefined : { owner: check(undefined, key), name: null, keepsChats: false },
    ways: () => (adminKey === undefined ? [] : (["key"] as const)),
  };
  app.use("/session", async (c, next) => {
    c.set("route", "/session");
    await next();
  });
  app.route("/session", createSessionApp(owners, sessions));
}

/**
 * The Authorization of a request, or of its browser session. Throws forbidden if another site's page sends the cookie.
 */
export function authorizationOf(c: AppContext, sessions: Sessions): string | undefined {
  const own = c.req.header("Authorization");
  if (!PREFIXES.some((prefix) => c.req.path.startsWith(prefix))) return own;
  const incoming = c.env?.incoming;
  return (incoming === undefined ? undefined : sessionAuthorization(incoming, sessions)) ?? own;
}

/** Whether the administrator has signed in. Throws like `authorizationOf`. */
export function isAdministrator(c: AppContext, sessions: Sessions): boolean {
  const incoming = c.env?.incoming;
  return incoming !== undefined && sessionOperator(incoming, sessions) !== undefined;
}
