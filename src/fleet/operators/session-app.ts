/** The session of an operator's browser at /session: signed in to with a key, looked at, and ended. */
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { Operator } from "../config/sections/operators.js";
import { operatorOf } from "./admit.js";
import { FailedSignIns } from "./failed-sign-ins.js";
import { addressOf, assertFromApp, assertOwnPage, endSessions, sessionOf, setSessionCookie } from "./session-cookie.js";
import type { Session, Sessions, Who } from "./sessions.js";

const MAX_BODY_BYTES = 4096;
const signInBody = z.strictObject({ key: z.string().min(1).max(1024) });

const shown = ({ csrfToken, endsMs }: Session, { name, role }: Who) => ({
  signed_in: true,
  name,
  role,
  csrf_token: csrfToken,
  ends_at: Math.floor(endsMs / 1000),
});

export function createSessionApp(
  operators: () => readonly Operator[],
  sessions: Sessions,
  providerName: string | undefined,
): Hono {
  const app = new Hono();
  const failed = new FailedSignIns();
  app.use(async (c, next) => {
    c.header("Cache-Control", "no-store");
    await next();
  });
  app.get("/", (c) => {
    const session = sessionOf(c, sessions);
    if (session !== undefined) return c.json(shown(session, session.by));
    const ways = [...(operators().length > 0 ? ["key"] : []), ...(providerName === undefined ? [] : ["oidc"])];
    return c.json({ signed_in: false, ways, provider: providerName ?? null });
  });
  const onError = (): never => {
    throw new MillraceError("body_too_large", `expected a body of at most ${MAX_BODY_BYTES} bytes, got more`);
  };
  app.post("/", bodyLimit({ maxSize: MAX_BODY_BYTES, onError }), async (c) => {
    const origin = assertOwnPage(c);
    const key = await keyIn(c);
    const operator = attempt(c, key);
    // The operator of a key that a reload has taken away is signed in no more.
    const who = () => operators().find((each) => each.key.equals(operator.key));
    endSessions(c, sessions);
    const { id, session } = sessions.open(who, origin);
    setSessionCookie(c, id, origin?.startsWith("https:") ?? false);
    return c.json(shown(session, operator), 201);
  });
  app.delete("/", (c) => {
    const session = sessionOf(c, sessions);
    if (session !== undefined) assertFromApp(c, session);
    endSessions(c, sessions);
    setSessionCookie(c, undefined, session?.origin?.startsWith("https:") ?? false);
    return c.body(null, 204);
  });
  const attempt = (c: Context, key: string): Operator => {
    try {
      return operatorOf(operators(), undefined, key);
    } catch (thrown) {
      throw failed.add(addressOf(c)) ?? thrown;
    }
  };
  return app;
}

/** JSON alone: a form of another site needs no permission to be sent. */
async function keyIn(c: Context): Promise<string> {
  const isJson = /^application\/json\b/i.test(c.req.header("content-type") ?? "");
  const body = signInBody.safeParse(isJson ? await c.req.json().catch(() => undefined) : undefined);
  if (body.success) return body.data.key;
  throw new MillraceError("invalid_parameter", 'expected {"key": "…"} as application/json, got something else', {
    param: "key",
  });
}
