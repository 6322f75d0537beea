/**
 * The administrator's API of organisations, teams, keys and the audit. The caller is already checked; errors are thrown
 * to the app that includes this one.
 */

import { type Context, Hono } from "hono";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import { listBody } from "../../core/list-body.js";
import { operatorNameIn } from "../api/operator-name.js";
import { requestIdIn } from "../api/request-id.js";
import type { ScopeKind } from "../scope.js";
import { scopeUse, type UsageOf } from "./own-key.js";
import { type ScopeRecord, shownScope } from "./records.js";
import { creationSchema, limitsOf, parseFields, type Settings } from "./settings.js";
import { type Actor, DEFAULT_ORG, type NewKey, type TenantStore } from "./tenant-store.js";

const MAX_BODY_BYTES = 64 * 1024;
const DEFAULT_GRACE_SECONDS = 24 * 3600;
const MAX_GRACE_SECONDS = 90 * 24 * 3600;
/** The year 9999. */
const MAX_TIME_SECONDS = 253_402_300_799;

/** One part of an id, which occurs in paths, metrics and claims. */
const slug = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, {
  error: "expected 1 to 63 of the letters a-z, digits, ., _ and -",
});
const teamId = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\/[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, {
  error: "expected the id of a team, such as acme/search",
});
const time = z.number().int().min(0).max(MAX_TIME_SECONDS);

const named = { name: z.string().min(1).max(200).optional() };
const orgBody = creationSchema({ ...named, id: slug });
const teamBody = creationSchema({ ...named, id: slug, org: slug });
const keyBody = creationSchema({
  org: slug.optional(),
  team: teamId.optional(),
  expires_at: time.optional(),
});
const rotateBody = z.strictObject({
  grace_seconds: z.number().int().min(0).max(MAX_GRACE_SECONDS).default(DEFAULT_GRACE_SECONDS),
});
const yes = z.enum(["true", "false"]).default("false");
const oneQuery = z.strictObject({ usage: yes });
const pageQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(100).default(20),
  after: z.string().max(200).optional(),
});
const listQuery = pageQuery.extend({
  org: z.string().max(200).optional(),
  team: z.string().max(200).optional(),
  /** Whether to list deleted and revoked scopes too. */
  ended: yes,
  /** Whether to list the use of each scope too. */
  usage: yes,
});

async function bodyOf(c: Context): Promise<Readonly<Record<string, unknown>>> {
  const announced = Number(c.req.header("content-length") ?? "0");
  if (announced > MAX_BODY_BYTES) throw tooLarge();
  let numBytes = 0;
  const chunks: Uint8Array[] = [];
  for await (const chunk of (c.req.raw.body ?? []) as AsyncIterable<Uint8Array>) {
    numBytes += chunk.length;
    if (numBytes > MAX_BODY_BYTES) throw tooLarge();
    chunks.push(chunk);
  }
  if (numBytes === 0) return {};
  const value = jsonOf(Buffer.concat(chunks).toString("utf8"));
  if (isPlainObject(value)) return { ...value };
  throw new MillraceError("invalid_json", "expected a JSON object as body, got something else");
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new MillraceError("invalid_json", "expected a JSON object as body, got something else", { cause });
  }
}

function tooLarge(): MillraceError {
  return new MillraceError("body_too_large", `expected a body of at most ${MAX_BODY_BYTES} bytes, got more`);
}

/** The actor of a request with a checked key. */
function actorOf(c: Context): Actor {
  return { name: operatorNameIn(c), requestId: requestIdIn(c) };
}

function settingsFrom(fields: Readonly<Record<string, unknown>>, name: string): Settings {
  const { id: _id, org: _org, team: _team, expires_at: _expires, ...settings } = fields;
  return { ...settings, name } as Settings;
}

function page<T>(rows: readonly T[], limit: number, shown: (row: T) => object, idOf: (row: T) => string) {
  const data = rows.slice(0, limit);
  return {
    ...listBody(data.map(shown)),
    first_id: data.length === 0 ? null : idOf(data[0]!),
    last_id: data.length === 0 ? null : idOf(data.at(-1)!),
    has_more: rows.length > limit,
  };
}

/** Forbids caches: they must not keep the text of a key. */
function answerKey(c: Context, { record, key }: NewKey, status: 200 | 201): Response {
  c.header("Cache-Control", "no-store");
  return c.json({ ...shownScope(record), key }, status);
}

/**
 * @param store called for each request
 * @param usageOf undefined: nothing is counted, and the use of each scope is null
 * @example app.route("/admin", createTenantsApp(() => store, usageOf))
 */
export function createTenantsApp(store: () => TenantStore, usageOf?: UsageOf): Hono {
  const app = new Hono();
  app.post("/orgs", async (c) => {
    const fields = parseFields(orgBody, await bodyOf(c));
    const settings = settingsFrom(fields, fields.name ?? fields.id);
    return c.json(shownScope(await store().createOrg(fields.id, settings, actorOf(c))), 201);
  });
  app.post("/teams", async (c) => {
    const fields = parseFields(teamBody, await bodyOf(c));
    const settings = settingsFrom(fields, fields.name ?? fields.id);
    return c.json(shownScope(await store().createTeam(fields.org, fields.id, settings, actorOf(c))), 201);
  });
  app.post("/keys", async (c) => {
    const fields = parseFields(keyBody, await bodyOf(c));
    const owner = ownerOf(fields.org, fields.team);
    const expiresMs = fields.expires_at === undefined ? undefined : fields.expires_at * 1000;
    const made = await store().createKey(owner, settingsFrom(fields, fields.name), expiresMs, actorOf(c));
    return answerKey(c, made, 201);
  });
  app.post("/keys/:id/rotate", async (c) => {
    const { grace_seconds: graceSeconds } = parseFields(rotateBody, await bodyOf(c));
    return answerKey(c, await store().rotate(c.req.param("id"), graceSeconds * 1000, actorOf(c)), 200);
  });
  const context = { app, store, usageOf };
  addCommon(context, "org", "/orgs", "/orgs/:id");
  addCommon(context, "team", "/teams", "/teams/:id{.+}");
  addCommon(context, "key", "/keys", "/keys/:id");
  app.get("/audit", (c) => {
    const { limit, after } = parseFields(pageQuery, c.req.query());
    const from = after === undefined ? undefined : parseFields(z.coerce.number().int().min(0), after);
    const rows = store().audit(from, limit + 1);
    const shown = ({ atMs, requestId, ...rest }: (typeof rows)[number]) => ({
      object: "audit",
      ...rest,
      at: Math.floor(atMs / 1000),
      request_id: requestId,
    });
    return c.json(page(rows, limit, shown, ({ seq }) => String(seq)));
  });
  return app;
}

interface Common {
  readonly app: Hono;
  readonly store: () => TenantStore;
  readonly usageOf: UsageOf | undefined;
}

function addCommon({ app, store, usageOf }: Common, kind: ScopeKind, all: string, one: string): void {
  const idOf = (c: Context): string => c.req.param("id") ?? "";
  const withUse = async (record: ScopeRecord): Promise<object> => {
    const limits = limitsOf(record.settings);
    const used = await usageOf?.({ kind, id: record.id, limits });
    return { ...shownScope(record), used: used === undefined ? null : scopeUse(limits, used) };
  };
  app.get(all, async (c) => {
    const { limit, ended, usage, ...query } = parseFields(listQuery, c.req.query());
    const rows = store().list({ ...query, kind, withEnded: ended === "true", limit: limit + 1 });
    const shown = page(rows, limit, shownScope, ({ id }: ScopeRecord) => id);
    if (usage === "false") return c.json(shown);
    return c.json({ ...shown, data: await Promise.all(rows.slice(0, limit).map(withUse)) });
  });
  app.get(one, async (c) => {
    const { usage } = parseFields(oneQuery, c.req.query());
    const record = store().find(kind, idOf(c));
    return c.json(usage === "true" ? await withUse(record) : shownScope(record));
  });
  app.patch(one, async (c) => {
    const { expires_at: expiresAt, ...patch } = await bodyOf(c);
    if (expiresAt !== undefined && kind !== "key") {
      throw new MillraceError("invalid_parameter", "body: no field expires_at", { param: "expires_at" });
    }
    const seconds =
      expiresAt === undefined
        ? undefined
        : parseFields(z.strictObject({ expires_at: time.nullable() }), { expires_at: expiresAt }).expires_at;
    const expiresMs = typeof seconds === "number" ? seconds * 1000 : seconds;
    return c.json(shownScope(await store().update(kind, idOf(c), patch, expiresMs, actorOf(c))));
  });
  app.delete(one, async (c) => c.json(shownScope(await store().end(kind, idOf(c), actorOf(c)))));
}

/** The id of a team begins with its organisation's. */
function ownerOf(org: string | undefined, team: string | undefined) {
  const teamOrg = team?.split("/", 1)[0];
  if (org !== undefined && teamOrg !== undefined && org !== teamOrg) {
    throw new MillraceError("invalid_parameter", `team: expected a team of ${org}, got ${team}`, { param: "team" });
  }
  return { org: org ?? teamOrg ?? DEFAULT_ORG, team };
}
