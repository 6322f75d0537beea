/**
 * The two paths of a sign-in at an identity provider. They stand in the app's own folder, since cookies without Path
 * are right there.
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
  // The provider's page leads here, so this cookie is sent along from another site, once.
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
    // The browser keeps its cookies of sessions to itself here, since the visitor comes from another site: a client's
    // session stays as it is.
    const { cookie } = openSession(incomingOf(c), sessions, { ...grant, origin: publicUrl.origin });
    setAttempt(c, "", 0);
    c.header("Set-Cookie", cookie, { append: true });
    // Always to the app, so that no link can choose where a sign-in ends.
    return c.redirect("./");
  });
  return app;
}
