/**
 * The two paths of a sign-in at an identity provider. They lie in the app's own folder, so that cookies without Path
 * apply to it.
 */
import { type Context, Hono } from "hono";
import { MillraceError } from "../../core/errors.js";
import { incomingOf } from "../../core/sign-in/session-app.js";
import { cookieEnd, cookieName, cookiesNamed, isHttps, openSession } from "../../core/sign-in/session-cookie.js";
import type { Sessions } from "../../core/sign-in/sessions.js";
import { ATTEMPT_SECONDS, type ProviderSignIn } from "./provider-sign-in.js";

export function createProviderApp(provider: ProviderSignIn | undefined, sessions: Sessions): Hono {
  const app = new Hono();
  const known = (): ProviderSignIn => {
    if (provider !== undefined) return provider;
    throw new MillraceError("not_found", "expected a gateway with sign-in, got none", {
      hint: "add sign-in to the configuration",
    });
  };
  const publicUrl = new URL(provider?.settings.publicUrl ?? "http://localhost");
  const isSecure = isHttps(publicUrl.origin);
  const nameOf = (c: Context): string => cookieName("millrace-sign-in", incomingOf(c), sessions, isSecure);
  // The provider's page leads back here, so the browser must send this cookie from another site, once.
  const setAttempt = (c: Context, attempt: string, seconds: number) => {
    const cookie = `${nameOf(c)}=${attempt}; Max-Age=${seconds}; ${cookieEnd("Lax", isSecure)}`;
    c.header("Set-Cookie", cookie, { append: true });
    c.header("Cache-Control", "no-store");
  };
  app.get("/sign-in", async (c) => {
    const { url, attempt } = await known().begin();
    setAttempt(c, attempt, ATTEMPT_SECONDS);
    return c.redirect(url.href);
  });
  app.get("/signed-in", async (c) => {
    const who = await known().finish(cookiesNamed(incomingOf(c), nameOf(c))[0], new URL(c.req.url).search);
    const grant = { operator: () => who, clientKey: undefined, owner: `operator ${who.name}` };
    // The visitor comes from another site, so the browser withholds its session cookies: a client's session stays as it
    // is.
    const { cookie } = openSession(incomingOf(c), sessions, { ...grant, origin: publicUrl.origin });
    setAttempt(c, "", 0);
    c.header("Set-Cookie", cookie, { append: true });
    // Always redirects to the app, so that no link can choose another target.
    return c.redirect("./");
  });
  return app;
}
