/**
 * Clients who sign in to a gateway with a browser: their session has the key's rights but not the key, exists beside an
 * operator's session, and is useless to others who send the cookie.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { BrowserSession, FORGED } from "../../test/helpers/browser-session.js";
import { answerJson, startFleet, startStandIn } from "../../test/helpers/stand-in.js";
import { startWholeGateway } from "../../test/helpers/whole-gateway.js";
import type { Fleet } from "./fleet.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-client-sign-in-"));
let fleet: Fleet;
let engine: Awaited<ReturnType<typeof startStandIn>>;
let page: BrowserSession;

beforeAll(async () => {
  engine = await startStandIn(answerJson({ id: "c", choices: [], data: [{ index: 0, embedding: [1, 0] }] }));
  fleet = await startWholeGateway(
    folder,
    engine.url,
    `
operators:
  - { name: vera, role: viewer, key: k-viewer }
  - { name: anna, role: admin, key: k-admin }
api-keys:
  - { tenant: search, key: sk-search }`,
  );
  await admin("POST", "/orgs", { id: "acme" });
});
afterAll(async () => {
  await fleet?.close();
  await engine?.die();
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  page = new BrowserSession(fleet.url);
});

async function admin(method: string, path: string, body?: object) {
  const answer = await fetch(`${fleet.url}/admin${path}`, {
    method,
    headers: { authorization: "Bearer k-admin" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return (await answer.json()) as { readonly id: string; readonly key: string };
}

const makeKey = (more: object = {}) => admin("POST", "/keys", { org: "acme", name: "laptop", ...more });
const CHAT = "/v1/chat/completions";
const BODY = { model: "m", messages: [] };

test("a client's cookie stands for its key, until the key is revoked", async () => {
  const { id, key } = await makeKey();
  const { json, headers } = await page.signIn(key);
  expect(json).toMatchObject({ signed_in: true, name: null, role: null, is_client: true });
  expect(headers.get("set-cookie")).toMatch(/=[\w-]{43}; Max-Age=43200; HttpOnly; SameSite=Strict$/);
  expect((await page.ask("POST", CHAT, BODY)).status).toBe(200);
  expect((await page.ask("GET", "/v1/key")).json).toMatchObject({ id, tenant: "org:acme" });
  expect((await page.ask("GET", "/v1/models")).status).toBe(200);
  expect((await page.ask("GET", "/session")).json).toEqual(json);
  await admin("DELETE", `/keys/${id}`);
  expect((await page.ask("POST", CHAT, BODY)).code).toBe("invalid_api_key");
  expect((await page.ask("GET", "/session")).json).toMatchObject({ signed_in: false, ways: ["key"] });
  expect((await page.ask("GET", "/v1/models")).status).toBe(401);
});

test("an operator of any role reads the models without a client's key", async () => {
  await page.signIn("k-viewer");
  const { data } = (await page.ask("GET", "/admin/models")).json as { data: { id: string }[] };
  expect(data.map(({ id }) => id)).toEqual(["e", "m", "smart"]);
  expect((await page.ask("GET", "/v1/models")).status).toBe(401);
});

test("the limits and models of the key hold for its session", async () => {
  const { key } = await makeKey({ requests_per_minute: 1, models: ["m"] });
  await page.signIn(key);
  expect((await page.ask("POST", CHAT, { ...BODY, model: "e" })).code).toBe("model_not_allowed");
  expect((await page.ask("POST", CHAT, BODY)).status).toBe(200);
  expect((await page.ask("POST", CHAT, BODY)).status).toBe(429);
});

test("a client may do nothing of an operator's, and an operator is no client", async () => {
  await page.signIn("sk-search");
  expect((await page.ask("GET", "/admin/keys")).status).toBe(401);
  expect((await page.ask("POST", "/admin/orgs", { id: "mine" })).status).toBe(401);
  expect((await page.ask("GET", "/watch/requests")).status).toBe(401);
  const other = new BrowserSession(fleet.url);
  await other.signIn("k-admin");
  expect((await other.ask("POST", CHAT, BODY)).status).toBe(401);
  expect((await other.ask("GET", "/v1/models")).status).toBe(401);
});

test("one browser has a session of each, with its own rights and its own sign-out", async () => {
  await page.signIn("sk-search");
  const { json } = await page.signIn("k-viewer");
  expect(json).toMatchObject({ name: "vera", role: "viewer", is_client: true, client: "search" });
  expect((await page.ask("GET", "/session")).json).toEqual(json);
  expect((await page.ask("POST", CHAT, BODY)).status).toBe(200);
  expect((await page.ask("GET", "/admin/keys")).status).toBe(200);
  expect((await page.ask("POST", "/admin/orgs", { id: "mine" })).code).toBe("forbidden");
  expect((await page.signOut("client")).status).toBe(204);
  expect((await page.ask("POST", CHAT, BODY)).status).toBe(401);
  expect((await page.ask("GET", "/session")).json).toMatchObject({ name: "vera", is_client: false, client: null });
  await page.signIn("sk-search");
  expect((await page.signOut("operator")).status).toBe(204);
  expect((await page.ask("GET", "/admin/keys")).status).toBe(401);
  expect((await page.ask("POST", CHAT, BODY)).status).toBe(200);
  await page.signIn("k-viewer");
  expect((await page.signOut()).status).toBe(204);
  expect((await page.ask("POST", CHAT, BODY)).status).toBe(401);
  expect((await page.ask("GET", "/admin/keys")).status).toBe(401);
  expect((await page.ask("DELETE", "/session?as=both")).code).toBe("invalid_parameter");
});

test("the session that an operator opens has no key of the client before, and a token of each is good for its own", async () => {
  await page.signIn("sk-search");
  const ofClient = { cookie: page.cookie, token: page.token };
  await page.signIn("k-admin");
  const [operators] = page.cookie.split("; ").filter((pair) => pair !== ofClient.cookie);
  const [token] = page.token.split(".").filter((each) => each !== ofClient.token);
  const alone = { cookie: operators!, "x-csrf-token": token! };
  expect((await page.ask("POST", CHAT, BODY, alone)).status).toBe(401);
  expect((await page.ask("POST", "/admin/orgs", {}, alone)).code).toBe("invalid_parameter");
  expect((await page.ask("POST", "/admin/orgs", {}, { "x-csrf-token": ofClient.token })).code).toBe("forbidden");
  expect((await page.ask("POST", CHAT, BODY, { "x-csrf-token": token! })).code).toBe("forbidden");
  expect((await page.ask("POST", CHAT, BODY, { "x-csrf-token": ofClient.token })).status).toBe(200);
});

test("sign-ins at the same time each get a session, and none the other's rights", async () => {
  const pages = Array.from({ length: 8 }, () => new BrowserSession(fleet.url));
  await Promise.all(pages.map((each, i) => each.signIn(i % 2 === 0 ? "k-viewer" : "sk-search")));
  expect(new Set(pages.map(({ cookie }) => cookie)).size).toBe(8);
  for (const [i, each] of pages.entries()) {
    expect((await each.ask("GET", "/admin/keys")).status).toBe(i % 2 === 0 ? 200 : 401);
    expect((await each.ask("POST", CHAT, BODY)).status).toBe(i % 2 === 0 ? 401 : 200);
  }
});

test.each(FORGED)("a chat by cookie %s is refused", async (_, headers) => {
  await page.signIn("sk-search");
  const numChats = () => engine.received.filter(({ path }) => path === CHAT).length;
  const numBefore = numChats();
  expect((await page.ask("POST", CHAT, BODY, headers)).code).toBe("forbidden");
  expect(numChats()).toBe(numBefore);
});

test.each([
  ["of a page of another origin", { origin: "http://evil.example" }],
  ["of a page of another site", { "sec-fetch-site": "cross-site" }],
  ["of another port of the host", { "sec-fetch-site": "same-site" }],
] as const)("reading by cookie %s is refused, with the operator's rights too", async (_, headers) => {
  await page.signIn("sk-search");
  await page.signIn("k-viewer");
  for (const path of ["/v1/models", "/v1/key", "/admin/keys", "/watch/requests", "/session"]) {
    const answer = await page.ask("GET", path, undefined, headers);
    expect([path, answer.code]).toEqual([path, "forbidden"]);
    expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
  }
});

test("pages of others with a key go on, cookie or not, and never with credentials", async () => {
  await page.signIn("sk-search");
  const other = { origin: "http://127.0.0.1:3000", authorization: "Bearer sk-search", "x-csrf-token": "" };
  const answer = await page.ask("POST", CHAT, BODY, other);
  expect(answer.status).toBe(200);
  expect(answer.headers.get("access-control-allow-origin")).toBe("*");
  expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
  expect((await page.ask("POST", CHAT, BODY, { ...other, authorization: "Bearer sk-other" })).status).toBe(401);
});

test("no page of another origin may send by which the app's own page is known", async () => {
  const answer = await fetch(fleet.url + CHAT, {
    method: "OPTIONS",
    headers: {
      origin: "http://evil.example",
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization, X-CSRF-Token,x-forwarded-host,content-type",
    },
  });
  expect(answer.headers.get("access-control-allow-headers")).toBe("authorization,content-type");
});

test("planted, malformed and very many cookies are no session", async () => {
  await page.signIn("sk-search");
  const [name] = page.cookie.split("=");
  const planted = `${name}=${"a".repeat(43)}`;
  const malformed = ["=", ";;;", `${name}`, `${name}=`, `${name}=%00`, `${name}=é`, `${name}="${"x".repeat(8000)}"`];
  for (const cookie of [planted, ...malformed, Array(200).fill(planted).join("; ")]) {
    const bytes = Buffer.from(cookie).toString("latin1");
    expect((await page.ask("POST", CHAT, BODY, { cookie: bytes })).status).toBe(401);
  }
  const { headers } = await page.signIn("sk-search", { cookie: planted });
  expect(headers.get("set-cookie")).not.toContain(planted);
  expect((await page.ask("POST", CHAT, BODY)).status).toBe(200);
});

test("an engine that has keys gets the client's, and neither cookie nor token", async () => {
  const fleet = await startFleet([answerJson({ id: "c" })], {
    proxy: { sessionAuthorization: () => "Bearer sk-client" },
  });
  const headers = { cookie: "millrace-session-1=x", "x-csrf-token": "t" };
  await fleet.post(CHAT, BODY, { headers });
  await fleet.stop();
  const [received] = fleet.standIns[0]!.received;
  expect(received!.headers).toMatchObject({ authorization: "Bearer sk-client" });
  expect(received!.headers).not.toHaveProperty("cookie");
  expect(received!.headers).not.toHaveProperty("x-csrf-token");
});
