/** The session of a browser at /session: signed in to with a key, looked at, and ended. */
import type { HttpBindings } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { z } from "zod";
import { noValidKey } from "../api-keys.js";
import { Secret } from "../config-values.js";
import { MillraceError, toMillraceError } from "../errors.js";
import { FailedSignIns } from "./failed-sign-ins.js";
import type { Who } from "./roles.js";
import { addressOf, assertOwnPage, endSessions, openSession, sessionCookie, sessionOf } from "./session-cookie.js";
import type { Session, Sessions } from "./sessions.js";

/** Tokens of identity providers are long. */
const MAX_KEY_CHARACTERS = 8192;
const MAX_BODY_BYTES = 2 * MAX_KEY_CHARACTERS;
const signInBody = z.strictObject({ key: z.string().trim().regex(/^\S+$/).max(MAX_KEY_CHARACTERS) });
/** Other texts cannot be in a header, and so are no client's key. */
const IN_HEADERS = /^[\x21-\x7e]+$/;

/** Tells to whom the keys of a server belong. */
export interface KeyOwners {
  /** @returns somebody who runs the server, asked for with each request; undefined: the key is no operator's */
  operator(key: string): (() => Who | undefined) | undefined;
  /** Throws or rejects where the key is not valid now. @returns the client's name; undefined: clients have no keys */
  client(key: string): string | undefined | Promise<string | undefined>;
  /** How operators sign in. */
  ways(): readonly ("key" | "oidc")[];
  /** Name of the identity provider, if there is one. */
  readonly provider?: string | undefined;
}

export const incomingOf = (c: Context) => (c.env as HttpBindings).incoming;

export function createSessionApp(owners: KeyOwners, sessions: Sessions): Hono {
  const app = new Hono();
  const failed = new FailedSignIns();
  const signIns = () => ({ ways: owners.ways(), provider: owners.provider ?? null });
  const shown = ({ csrfToken, clientKey, endsMs }: Session, who: Who | undefined) => ({
    signed_in: true,
    name: who?.name ?? null,
    role: who?.role ?? null,
    is_client: clientKey !== undefined,
    csrf_token: csrfToken,
    ends_at: Math.floor(endsMs / 1000),
    ...signIns(),
  });
  /** @returns the client's name, or why the key is no client's */
  const clientOf = async (key: string): Promise<string | MillraceError> => {
    try {
      return (IN_HEADERS.test(key) ? await owners.client(key) : undefined) ?? noValidKey([key]);
    } catch (thrown) {
      return toMillraceError(thrown);
    }
  };
  app.use(async (c, next) => {
    c.header("Cache-Control", "no-store");
    await next();
  });
  app.get("/", async (c) => {
    const session = sessionOf(incomingOf(c), sessions);
    if (session === undefined) return c.json({ signed_in: false, ...signIns() });
    const { clientKey, who } = session;
    const client = clientKey === undefined ? undefined : await clientOf(clientKey.reveal());
    if (client instanceof MillraceError && client.status === 503) throw client;
    const isClient = typeof client === "string";
    if (isClient || who !== undefined) {
      return c.json(shown(isClient ? session : { ...session, clientKey: undefined }, who));
    }
    endSessions(incomingOf(c), sessions);
    return c.json({ signed_in: false, ...signIns() });
  });
  const onError = (): never => {
    throw new MillraceError("body_too_large", `expected a body of at most ${MAX_BODY_BYTES} bytes, got more`);
  };
  app.post("/", bodyLimit({ maxSize: MAX_BODY_BYTES, onError }), async (c) => {
    const incoming = incomingOf(c);
    const origin = assertOwnPage(incoming);
    const key = await keyIn(c);
    const operator = owners.operator(key);
    const client = await clientOf(key);
    const isClient = typeof client === "string";
    if (operator === undefined && !isClient) {
      const tooMany = client.code === "invalid_api_key" ? failed.add(addressOf(incoming)) : undefined;
      throw tooMany ?? client;
    }
    const owner = operator === undefined ? `client ${client}` : `operator ${operator()?.name}`;
    const clientKey = isClient ? new Secret(key) : undefined;
    const { id, session } = openSession(incoming, sessions, { operator, clientKey, owner, origin });
    c.header("Set-Cookie", sessionCookie(incoming, id, origin?.startsWith("https:") ?? false));
    return c.json(shown(session, session.operator?.()), 201);
  });
  app.delete("/", (c) => {
    const incoming = incomingOf(c);
    const session = sessionOf(incoming, sessions);
    endSessions(incoming, sessions);
    c.header("Set-Cookie", sessionCookie(incoming, undefined, session?.origin?.startsWith("https:") ?? false));
    return c.body(null, 204);
  });
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
