/** A browser's session at /session: sign in with a key, read the session, and end it. */
import type { HttpBindings } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { z } from "zod";
import { noValidKey } from "../api-keys.js";
import { Secret } from "../config-values.js";
import { MillraceError, toMillraceError } from "../errors.js";
import { readIncoming } from "../json-body.js";
import { FailedSignIns } from "./failed-sign-ins.js";
import type { Who } from "./roles.js";
import {
  addressOf,
  assertOwnPage,
  csrfTokenOf,
  endSessions,
  foundSession,
  openSession,
  SIDES,
  type Side,
  sessionCookie,
  sessionOf,
} from "./session-cookie.js";
import type { FoundSession, Grant, Session, Sessions } from "./sessions.js";

/** Tokens of identity providers are long. */
const MAX_KEY_CHARACTERS = 8192;
/** Small limits, since the sender has shown no key yet. */
const BODY_LIMITS = { maxBodyBytes: 2 * MAX_KEY_CHARACTERS, bodyTimeoutMs: 10_000 };
const signInBody = z.strictObject({ key: z.string().trim().regex(/^\S+$/).max(MAX_KEY_CHARACTERS) });
/** Other texts cannot be in a header, so they are not clients' keys. */
const IN_HEADERS = /^[\x21-\x7e]+$/;

/** The client with a key. */
interface KnownClient {
  /**
   * Limits of the number of sessions are per owner. The client's own page gets this name to distinguish its session
   * from
   * others. Not a secret.
   */
  readonly owner: string;
  /** Whether the server keeps the client's conversations. */
  readonly keepsChats: boolean;
  /** Shown to the person who is signed in; null: the key has no name. */
  readonly name: string | null;
}

/** Finds the owners of a server's keys. */
export interface KeyOwners {
  /** @returns a function that finds the operator, called for each request; undefined: the key belongs to no operator */
  operator(key: string): (() => Who | undefined) | undefined;
  /** Throws or rejects if the key is not valid now. @returns undefined: clients have no keys */
  client(key: string): KnownClient | undefined | Promise<KnownClient | undefined>;
  /** The ways for operators to sign in. */
  ways(): readonly ("key" | "oidc")[];
  /** Name of the identity provider, if there is one. */
  readonly provider?: string | undefined;
  /** Whether the server accepts clients' feedback on its answers; absent: no. */
  readonly takesFeedback?: boolean;
}

export const incomingOf = (c: Context) => (c.env as HttpBindings).incoming;

/** A browser's valid sessions. */
interface SignedIn {
  readonly operator: FoundSession | undefined;
  readonly client: { readonly session: Session; readonly known: KnownClient } | undefined;
}

export function createSessionApp(owners: KeyOwners, sessions: Sessions): Hono {
  const app = new Hono();
  const failed = new FailedSignIns();
  const offers = () => ({
    ways: owners.ways(),
    provider: owners.provider ?? null,
    takes_feedback: owners.takesFeedback === true,
  });
  const shown = ({ operator, client }: SignedIn) => {
    const open = [operator, client?.session].filter((each) => each !== undefined);
    if (open.length === 0) return { signed_in: false, ...offers() };
    return {
      signed_in: true,
      name: operator?.who?.name ?? null,
      role: operator?.who?.role ?? null,
      is_client: client !== undefined,
      client: client?.known.name ?? null,
      client_id: client?.known.owner ?? null,
      keeps_chats: client?.known.keepsChats === true,
      csrf_token: csrfTokenOf(open),
      ends_at: Math.floor(Math.min(...open.map(({ endsMs }) => endsMs)) / 1000),
      ...offers(),
    };
  };
  /** @returns the client, or the error that says why the key is not a client's */
  const clientOf = async (key: string): Promise<KnownClient | MillraceError> => {
    try {
      return (IN_HEADERS.test(key) ? await owners.client(key) : undefined) ?? noValidKey([key]);
    } catch (thrown) {
      return toMillraceError(thrown);
    }
  };
  /** @returns the valid sessions, and the error that makes a client's session invalid */
  const signedIn = async (find: (side: Side) => FoundSession | undefined) => {
    const [operator, session] = SIDES.map(find);
    const known = session?.clientKey === undefined ? undefined : await clientOf(session.clientKey.reveal());
    const refusal = known instanceof MillraceError ? known : undefined;
    const isClient = session !== undefined && known !== undefined && !(known instanceof MillraceError);
    return { now: { operator, client: isClient ? { session, known } : undefined }, refusal };
  };
  app.use(async (c, next) => {
    c.header("Cache-Control", "no-store");
    await next();
  });
  app.get("/", async (c) => {
    const incoming = incomingOf(c);
    const { now, refusal } = await signedIn((side) => sessionOf(incoming, sessions, side));
    if (refusal?.status === 401 || refusal?.status === 403) endSessions(incoming, sessions, "client");
    // The key may be valid but cannot be checked now. An operator continues without the client session.
    else if (refusal !== undefined && now.operator === undefined) throw refusal;
    return c.json(shown(now));
  });
  app.post("/", async (c) => {
    const incoming = incomingOf(c);
    const origin = assertOwnPage(incoming);
    const key = await keyIn(c);
    const operator = owners.operator(key);
    const known = await clientOf(key);
    const isClient = !(known instanceof MillraceError);
    if (operator === undefined && !isClient) {
      const tooMany = known.code === "invalid_api_key" ? failed.add(addressOf(incoming)) : undefined;
      throw tooMany ?? known;
    }
    const open = (grant: Omit<Grant, "origin" | "isSecure">): Session => {
      const { session, cookie } = openSession(incoming, sessions, { ...grant, origin });
      c.header("Set-Cookie", cookie, { append: true });
      return session;
    };
    // The other side's session stays, and the answer includes it if this page may use it.
    const { now: before } = await signedIn((side) => {
      const found = foundSession(incoming, sessions, side);
      return found?.origin === origin ? found : undefined;
    });
    const who = operator?.();
    const asOperator = operator && open({ operator, clientKey: undefined, owner: `operator ${who?.name}` });
    const asClient = isClient
      ? { session: open({ operator: undefined, clientKey: new Secret(key), owner: `client ${known.owner}` }), known }
      : undefined;
    const now = {
      operator: asOperator === undefined ? before.operator : { ...asOperator, who },
      client: asClient ?? before.client,
    };
    return c.json(shown(now), 201);
  });
  app.delete("/", (c) => {
    const incoming = incomingOf(c);
    const sides = sidesIn(c.req.query("as"));
    const found = sides.map((side) => ({ side, session: sessionOf(incoming, sessions, side) }));
    for (const { side, session } of found) {
      endSessions(incoming, sessions, side);
      c.header("Set-Cookie", sessionCookie(incoming, sessions, side, undefined, session?.isSecure ?? false), {
        append: true,
      });
    }
    return c.body(null, 204);
  });
  return app;
}

/** Both sides if the query names none. */
function sidesIn(as: string | undefined): readonly Side[] {
  const sides = SIDES.filter((side) => as === undefined || as === side);
  if (sides.length > 0) return sides;
  throw new MillraceError(
    "invalid_parameter",
    `expected as=operator or as=client, got ${JSON.stringify(as?.slice(0, 80))}`,
    { param: "as" },
  );
}

/** Accepts only JSON: another site's form could be sent without permission. */
function jsonIn(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return undefined;
  }
}

async function keyIn(c: Context): Promise<string> {
  const isJson = /^application\/json\b/i.test(c.req.header("content-type") ?? "");
  const body = signInBody.safeParse(isJson ? jsonIn(await readIncoming(incomingOf(c), BODY_LIMITS)) : undefined);
  if (body.success) return body.data.key;
  throw new MillraceError("invalid_parameter", 'expected {"key": "…"} as application/json, got something else', {
    param: "key",
  });
}
