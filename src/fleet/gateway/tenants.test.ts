/** Managed keys through the real proxy: an administrator's actions, and the rights of a key after them. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { adminTarget } from "../../../test/helpers/admin-target.js";
import type { Json } from "../../../test/helpers/json.js";
import { answerJson, startFleet, type TestFleet } from "../../../test/helpers/stand-in.js";
import { type CallerIdentity, identityOf } from "../../gateway/caller-identity.js";
import { openDatabase } from "../../gateway/store/database.js";
import { ModelAccess } from "../../gateway/tenants/model-access.js";
import type { ScopeUsage } from "../../gateway/tenants/own-key.js";
import { adminHandler } from "../admin.js";
import { parseConfig } from "../config/read-config.js";
import { Tenants } from "./tenants.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const FILE = `
admin-key: boss
managed-keys: true
api-keys:
  - {tenant: search, key: sk-search}
models:
  - {name: m, attach: [{url: "http://127.0.0.1:1"}]}
`;

interface Gateway {
  readonly fleet: TestFleet;
  readonly tenants: Tenants;
  admin(
    method: string,
    path: string,
    body?: object,
  ): Promise<{ readonly status: number; readonly body: Json; readonly requestId: string | null }>;
  /** A chat request's status and error code. */
  chat(key: string | undefined, body?: object): Promise<readonly [number, unknown]>;
}

async function start(file = FILE, database = openDatabase(undefined)): Promise<Gateway> {
  const config = parseConfig(file, "millrace.yaml", {});
  const logger = pino({ level: "silent" });
  const usage: ScopeUsage = {
    requestsThisMinute: 3,
    tokensThisMinute: 70,
    concurrentRequests: 1,
    budgets: [
      { unit: "money", window: "day", spent: 250_000_000n, reserved: 1n, endsMs: 86_400_000 },
      { unit: "tokens", window: "total", spent: 1_000n, reserved: 20n, endsMs: undefined },
    ],
  };
  const tenants = new Tenants({ config, database: () => database, logger, usageOf: () => usage });
  const admin = adminHandler(adminTarget([tenants.adminApp()], () => config.adminKey));
  const fleet = await startFleet([answerJson({ id: "c" })], {
    proxy: {
      authorize: (headers) => tenants.authorize(headers),
      policies: [new ModelAccess((name) => name)],
      handleOther: (...request) => tenants.handle(...request) || admin(...request),
    },
  });
  closing.push(async () => {
    await fleet.stop();
    await tenants.close();
  });
  return {
    fleet,
    tenants,
    admin: async (method, path, body) => {
      const answer = await fetch(`${fleet.proxy.url}/admin${path}`, {
        method,
        headers: { authorization: "Bearer boss" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: answer.status, body: await answer.json(), requestId: answer.headers.get("x-request-id") };
    },
    chat: async (key, body = {}) => {
      const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
      const answer = await fleet.post("/v1/chat/completions", { model: "m", messages: [], ...body }, { headers });
      return [answer.status, ((await answer.json()) as Json).error?.code] as const;
    },
  };
}

test("a key works from its creation to its revocation, beside the keys of the file", async () => {
  const { admin, chat, fleet } = await start();
  expect(await chat(undefined)).toEqual([401, "invalid_api_key"]);
  expect(await chat("mk-nobody")).toEqual([401, "invalid_api_key"]);
  const { status, body: made } = await admin("POST", "/keys", { name: "laptop" });
  expect([status, made.org, made.key]).toEqual([201, "default", expect.stringMatching(/^mk-[\w-]{43}$/)]);
  expect(await chat(made.key)).toEqual([200, undefined]);
  expect(await chat("sk-search")).toEqual([200, undefined]);
  // Engines see the file's keys, to tell tenants apart, but no managed keys.
  const seen = fleet.standIns[0]!.received.map(({ headers }) => headers.authorization);
  expect(seen).toEqual([undefined, "Bearer sk-search"]);
  const { body: shown } = await admin("GET", `/keys/${made.id}`);
  expect(shown).toMatchObject({ name: "laptop", last_used_at: expect.any(Number), revoked_at: null });
  expect(JSON.stringify(shown)).not.toContain(made.key);
  expect((await admin("DELETE", `/keys/${made.id}`)).body.revoked_at).toEqual(expect.any(Number));
  expect(await chat(made.key)).toEqual([401, "invalid_api_key"]);
  expect((await admin("GET", "/keys")).body.data).toEqual([]);
  expect((await admin("GET", "/keys?ended=true")).body.data).toHaveLength(1);
});

test("models are allowed where the organisation, the team and the key allow them", async () => {
  const { admin, chat, fleet } = await start();
  await admin("POST", "/orgs", { id: "acme", models: ["m*"] });
  await admin("POST", "/teams", { org: "acme", id: "search" });
  const { body: made } = await admin("POST", "/keys", { name: "k", team: "acme/search", models: ["m"] });
  const models = async () => {
    const answer = await fetch(`${fleet.proxy.url}/v1/models`, { headers: { "x-api-key": made.key } });
    return ((await answer.json()) as Json).data.map(({ id }: Json) => id);
  };
  expect([await chat(made.key), await models()]).toEqual([[200, undefined], ["m"]]);
  expect((await admin("PATCH", "/teams/acme/search", { models: ["other"] })).status).toBe(200);
  expect([await chat(made.key), await models()]).toEqual([[403, "model_not_allowed"], []]);
  // The answer also hides names that the key may not use.
  const unknown = await fetch(`${fleet.proxy.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "x-api-key": made.key },
    body: '{"model":"gpt","messages":[]}',
  });
  const { error } = (await unknown.json()) as Json;
  expect(error.message).toBe('expected the model to be one of none, got "gpt"');
  await admin("PATCH", "/teams/acme%2Fsearch", { models: null });
  expect(await chat(made.key)).toEqual([200, undefined]);
  // Deleting a team deletes its keys.
  await admin("DELETE", "/teams/acme/search");
  expect(await chat(made.key)).toEqual([401, "invalid_api_key"]);
});

test("work that goes on without its request has the rights that its caller has now", async () => {
  const { admin, tenants } = await start();
  await admin("POST", "/orgs", { id: "acme" });
  const { body: made } = await admin("POST", "/keys", { name: "k", org: "acme", models: ["m"] });
  const identify = async (key: string) => {
    const identity = identityOf(await tenants.authorize({ "x-api-key": key }));
    return JSON.parse(JSON.stringify(identity)) as CallerIdentity;
  };
  const [managed, ofFile] = [await identify(made.key), await identify("sk-search")];
  for (const [identity, key] of [
    [managed, made.key],
    [ofFile, "sk-search"],
  ] as const) {
    expect(await tenants.callerOf(identity)).toEqual(await tenants.authorize({ "x-api-key": key }));
  }
  await admin("PATCH", `/keys/${made.id}`, { models: ["other"] });
  expect((await tenants.callerOf(managed)).allowsModel?.("m")).toBe(false);
  await admin("DELETE", `/keys/${made.id}`);
  expect(() => tenants.callerOf(managed)).toThrow(/expected a key that is still valid/);
  tenants.configure(parseConfig(FILE.replace("sk-search", "sk-other").replace("search", "find"), "millrace.yaml", {}));
  expect(() => tenants.callerOf(ofFile)).toThrow(/expected a key that is still valid/);
});

test("a rotated key's old text is valid for the grace period only", async () => {
  const { admin, chat } = await start();
  const { body: made } = await admin("POST", "/keys", { name: "k" });
  const { body: second } = await admin("POST", `/keys/${made.id}/rotate`, {});
  expect(second.previous_valid_until - Date.now() / 1000).toBeCloseTo(86_400, -2);
  expect([await chat(made.key), await chat(second.key)]).toEqual([
    [200, undefined],
    [200, undefined],
  ]);
  const { body: third } = await admin("POST", `/keys/${made.id}/rotate`, { grace_seconds: 0 });
  const codes = [await chat(made.key), await chat(second.key), await chat(third.key)];
  expect(codes.map(([status]) => status)).toEqual([401, 401, 200]);
});

test("the administrator sees the use of keys, teams and organisations if asked for", async () => {
  const { admin } = await start();
  const budgets = { day: { hard: "1" } };
  const tokenBudgets = { total: { hard: 5_000 } };
  await admin("POST", "/orgs", { id: "acme", budgets, token_budgets: tokenBudgets, requests_per_minute: 60 });
  await admin("POST", "/teams", { org: "acme", id: "search" });
  const limited = {
    requests_this_minute: 3,
    tokens_this_minute: null,
    concurrent_requests: null,
    budgets: { day: { spent: "0.25", reserved: "0.000000001", ends_at: 86_400 } },
    token_budgets: { total: { spent: 1_000, reserved: 20, ends_at: null } },
  };
  const orgs = (await admin("GET", "/orgs?usage=true")).body.data as Json[];
  expect(orgs.find(({ id }) => id === "acme")).toMatchObject({ token_budgets: tokenBudgets, used: limited });
  expect((await admin("GET", "/teams/acme/search?usage=true")).body.used).toMatchObject({ requests_this_minute: null });
  expect((await admin("GET", "/orgs")).body.data[0]).not.toHaveProperty("used");
  expect((await admin("GET", "/orgs/acme?usage=maybe")).status).toBe(400);
});

test("GET /v1/key shows a key its own limits and what it has used", async () => {
  const { admin, fleet } = await start();
  const budgets = { day: { hard: "5", soft: 4.25 } };
  const ofTokens = { total: { hard: 5_000, soft: 4_000 } };
  const limits = { requests_per_minute: 60, budgets, token_budgets: ofTokens };
  const { body: made } = await admin("POST", "/keys", { name: "k", ...limits });
  const ask = async (key: string) => {
    const answer = await fetch(`${fleet.proxy.url}/v1/key`, { headers: { authorization: `Bearer ${key}` } });
    return [answer.status, (await answer.json()) as Json] as const;
  };
  const [status, shown] = await ask(made.key);
  expect(status).toBe(200);
  expect(shown).toMatchObject({ id: made.id, tenant: "org:default", name: "k" });
  expect(shown.scopes).toMatchObject([
    { kind: "org", id: "default", budgets: {} },
    {
      kind: "key",
      id: made.id,
      limits: { requests_per_minute: 60, tokens_per_minute: null },
      // Without a limit, nothing is counted.
      used: { requests_this_minute: 3, tokens_this_minute: null, concurrent_requests: null },
      budgets: { day: { hard: "5", soft: "4.25", spent: "0.25", reserved: "0.000000001", ends_at: 86_400 } },
      token_budgets: { total: { ...ofTokens.total, spent: 1_000, reserved: 20, ends_at: null } },
    },
  ]);
  expect(await ask("sk-search")).toMatchObject([200, { id: null, tenant: "search", scopes: [] }]);
  expect((await ask("mk-nobody"))[0]).toBe(401);
});

test("every change is in the audit, without the texts of keys", async () => {
  const { admin } = await start();
  const { requestId: ofOrg } = await admin("POST", "/orgs", { id: "acme" });
  const { body: made, requestId: ofKey } = await admin("POST", "/keys", { name: "k", org: "acme" });
  await admin("PATCH", `/keys/${made.id}`, { name: "renamed" });
  await admin("POST", `/keys/${made.id}/rotate`, {});
  await admin("DELETE", "/orgs/acme");
  const { body: first } = await admin("GET", "/audit?limit=4");
  const { body: rest } = await admin("GET", `/audit?limit=4&after=${first.last_id}`);
  const rows = [...first.data, ...rest.data].map(({ action, kind }: Json) => `${action} ${kind}`);
  expect(rows).toEqual(["revoke key", "delete org", "rotate key", "update key", "create key", "create org"]);
  expect([first.has_more, rest.has_more]).toEqual([true, false]);
  const [revoked, deleted] = first.data as Json[];
  expect(revoked).toMatchObject({ actor: "admin-key", id: made.id, request_id: expect.stringMatching(/^.{36}$/) });
  expect(deleted!.request_id).toBe(revoked!.request_id);
  expect(rest.data.map(({ request_id }: Json) => request_id)).toEqual([ofKey, ofOrg]);
  expect(JSON.stringify([first, rest])).not.toContain(made.key);
});

test.each([
  ["POST", "/keys", {}, "invalid_parameter", 400],
  ["POST", "/keys", { name: "k", nonsense: 1 }, "invalid_parameter", 400],
  ["POST", "/keys", { name: "k", org: "nobody" }, "not_found", 404],
  ["POST", "/keys", { name: "k", budgets: { day: { hard: "1e9" } } }, "invalid_parameter", 400],
  ["POST", "/keys", { name: "k", budgets: { day: { hard: 1, soft: 2 } } }, "invalid_parameter", 400],
  ["POST", "/keys", { name: "k", budgets: { year: { hard: 1 } } }, "invalid_parameter", 400],
  ["POST", "/keys", { name: "k", token_budgets: { day: { hard: 1.5 } } }, "invalid_parameter", 400],
  ["POST", "/keys", { name: "k", token_budgets: { day: { hard: 1, soft: 2 } } }, "invalid_parameter", 400],
  ["POST", "/keys", { name: "k", requests_per_minute: -1 }, "invalid_parameter", 400],
  ["POST", "/orgs", { id: "default" }, "already_exists", 409],
  ["POST", "/orgs", { id: "a/b" }, "invalid_parameter", 400],
  ["POST", "/teams", { id: "t", org: "nobody" }, "not_found", 404],
  ["PATCH", "/keys/nobody", { name: "k" }, "not_found", 404],
  ["PATCH", "/orgs/default", { models: "m" }, "invalid_parameter", 400],
  ["PATCH", "/orgs/default", { expires_at: 1 }, "invalid_parameter", 400],
  ["DELETE", "/orgs/default", undefined, "invalid_parameter", 400],
  ["GET", "/keys?limit=0", undefined, "invalid_parameter", 400],
  ["GET", "/audit?after=x", undefined, "invalid_parameter", 400],
] as const)("%s %s %j is refused", async (method, path, body, code, status) => {
  const { admin } = await start();
  const answer = await admin(method, path, body);
  expect([answer.status, answer.body.error?.code]).toEqual([status, code]);
});

test("a store that cannot be read is 503 for keys that are not known, and the file's keys go on", async () => {
  const database = openDatabase(undefined);
  const before = await start(FILE, database);
  const { body: made } = await before.admin("POST", "/keys", { name: "k" });
  database.exec("UPDATE tenant_scopes SET settings = '{' WHERE kind = 'key'");
  const { admin, chat } = await start(FILE, database);
  expect(await chat(made.key)).toEqual([503, "key_store_unavailable"]);
  expect(await chat("sk-search")).toEqual([200, undefined]);
  expect(await chat("sk-wrong")).toEqual([401, "invalid_api_key"]);
  expect((await admin("GET", `/keys/${made.id}`)).status).toBe(503);
  // This gateway read the key before the damage.
  expect(await before.chat(made.key)).toEqual([200, undefined]);
});

test("tokens of a provider are callers of the organisations that exist", async () => {
  const { privateKey, publicKey } = await generateKeyPair("ES256");
  const keys = { keys: [{ ...(await exportJWK(publicKey)), kid: "k", alg: "ES256" }] };
  const provider = createServer((_, outgoing) => void outgoing.end(JSON.stringify(keys)));
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  closing.push(async () => {
    provider.close();
    provider.closeAllConnections();
  });
  const issuer = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  const oidc = `oidc: {issuer: "${issuer}", audience: gw, tenant-claim: org, team-claim: team, jwks-uri: "${issuer}/keys"}\n`;
  const sign = (claims: object) =>
    new SignJWT({ ...claims })
      .setProtectedHeader({ alg: "ES256", kid: "k" })
      .setIssuer(issuer)
      .setAudience("gw")
      .setExpirationTime("1h")
      .sign(privateKey);
  const { admin, chat, fleet, tenants } = await start(FILE + oidc);
  const token = await sign({ org: "acme", team: "search" });
  expect(await chat(token)).toEqual([403, "forbidden"]);
  await admin("POST", "/orgs", { id: "acme" });
  await admin("POST", "/teams", { org: "acme", id: "search", models: ["other"] });
  expect(await chat(token)).toEqual([403, "model_not_allowed"]);
  await admin("PATCH", "/teams/acme/search", { models: null });
  expect([await chat(token), await chat(await sign({ org: "acme" }))]).toEqual([
    [200, undefined],
    [200, undefined],
  ]);
  expect(fleet.standIns[0]!.received.map(({ headers }) => headers.authorization)).toEqual([undefined, undefined]);
  const ofTeam = await tenants.authorize({ "x-api-key": await sign({ org: "acme", team: "search" }) });
  expect(await tenants.callerOf(identityOf(ofTeam))).toEqual(ofTeam);
  expect(await chat(`${token.slice(0, -4)}AAAA`)).toEqual([401, "invalid_api_key"]);
  expect(await chat("sk-search")).toEqual([200, undefined]);
  // Without managed organisations, each organisation is a tenant.
  const open = await start(FILE.replace("managed-keys: true\n", "") + oidc);
  expect(await open.chat(await sign({ org: "nobody" }))).toEqual([200, undefined]);
  const outsider = await open.tenants.authorize({ "x-api-key": await sign({ org: "nobody" }) });
  expect(await open.tenants.callerOf(identityOf(outsider))).toEqual(outsider);
  const shown = await fetch(`${open.fleet.proxy.url}/v1/key`, {
    headers: { authorization: `Bearer ${await sign({ org: "nobody" })}` },
  });
  expect(await shown.json()).toMatchObject({ id: null, tenant: "oidc:nobody" });
});
