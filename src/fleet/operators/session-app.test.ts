/** Sign-in with a key: the cookie, its rights, and attempts of other sites' pages to use it. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { adminTarget } from "../../../test/helpers/admin-target.js";
import type { Json } from "../../../test/helpers/json.js";
import { Secret } from "../../core/config-values.js";
import type { Role } from "../../core/sign-in/roles.js";
import { adminHandler } from "../admin.js";
import type { Operator } from "../config/sections/operators.js";

let server: Server;
let url: string;
let operators: readonly Operator[];
const drained: string[] = [];

const operator = (role: Role): Operator => ({ name: `the-${role}`, role, key: new Secret(`k-${role}`) });

beforeEach(async () => {
  operators = [operator("viewer"), operator("operator"), operator("admin")];
  drained.length = 0;
  const target = {
    ...adminTarget([]),
    operators: () => operators,
    scale: (model: string, instances: number) => {
      drained.push(model);
      return { instances, limitedBy: undefined };
    },
  };
  const handle = adminHandler(target);
  server = createServer((incoming, outgoing) => {
    if (!handle(incoming, outgoing, "request-1")) outgoing.writeHead(418).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  server.close();
  server.closeAllConnections();
});

type Headers = Readonly<Record<string, string>>;

async function ask(method: string, path: string, headers: Headers = {}, body?: string) {
  const answer = await fetch(url + path, { method, headers, ...(body === undefined ? {} : { body }) });
  const text = await answer.text();
  const cookie = answer.headers.get("set-cookie");
  return {
    status: answer.status,
    headers: answer.headers,
    cookie,
    json: text === "" ? {} : (JSON.parse(text) as Json),
  };
}

const JSON_TYPE = { "content-type": "application/json" };

async function signIn(role: Role, headers: Headers = { origin: url }) {
  const answer = await ask("POST", "/session", { ...JSON_TYPE, ...headers }, JSON.stringify({ key: `k-${role}` }));
  const cookie = answer.cookie?.split(";", 1)[0] ?? "";
  return { ...answer, page: { ...headers, cookie }, token: { "x-csrf-token": answer.json.csrf_token as string } };
}

const SCALE = "/admin/models/m/scale";
const BODY = '{"instances": 1}';

test("a key gives a cookie that reads and, with the session's token, changes; signing out ends it", async () => {
  const { status, cookie, json, page, token, headers } = await signIn("operator");
  expect([status, json.name, json.role]).toEqual([201, "the-operator", "operator"]);
  expect(cookie).toMatch(
    /^millrace-(?:client|operator)-session-\d+=[\w-]{43}; Max-Age=43200; HttpOnly; SameSite=Strict$/,
  );
  expect(headers.get("cache-control")).toBe("no-store");
  expect((await ask("GET", "/admin/instances", page)).status).toBe(200);
  expect((await ask("GET", "/session", page)).json).toEqual(json);
  expect((await ask("POST", SCALE, { ...page, ...token }, BODY)).status).toBe(202);
  const out = await ask("DELETE", "/session", { ...page, ...token });
  expect([out.status, out.cookie]).toEqual([204, expect.stringContaining("=; Max-Age=0;")]);
  expect((await ask("GET", "/admin/instances", page)).status).toBe(401);
  expect((await ask("GET", "/session", page)).json).toEqual({
    signed_in: false,
    ways: ["key"],
    provider: null,
    takes_feedback: false,
  });
});

test("the role of a session is its operator's, as of now", async () => {
  const { page, token } = await signIn("viewer");
  const scale = () => ask("POST", SCALE, { ...page, ...token }, BODY);
  expect((await scale()).json).toMatchObject({ error: { code: "forbidden" } });
  operators = [{ ...operators[0]!, role: "operator" }];
  expect((await scale()).status).toBe(202);
  operators = [{ ...operators[0]!, key: new Secret("another") }];
  expect((await ask("GET", "/admin/instances", page)).status).toBe(401);
});

test.each([
  ["without the token", {}],
  ["with another token", { "x-csrf-token": "guess" }],
  ["of a page of another origin", { origin: "http://evil.example" }],
  ["of a page of another site", { "sec-fetch-site": "cross-site" }],
  ["of a neighbour of the site", { "sec-fetch-site": "same-site" }],
  ["of a link", { "sec-fetch-site": "none" }],
] as const)("a change by cookie %s is refused, and so is a sign-out", async (what, headers) => {
  const { page, token } = await signIn("admin");
  const forged = { ...page, ...(what.includes("token") ? {} : token), ...headers };
  const path = [SCALE, "/session"] as const;
  for (const [index, method] of (["POST", "DELETE"] as const).entries()) {
    const answer = await ask(method, path[index]!, forged, method === "POST" ? BODY : undefined);
    expect([answer.status, answer.json.error.code]).toEqual([403, "forbidden"]);
  }
  expect(drained).toEqual([]);
  expect((await ask("GET", "/admin/instances", page)).status).toBe(200);
});

test("a change without Origin, which pages always send, is refused", async () => {
  const { page, token } = await signIn("admin");
  expect((await ask("POST", SCALE, { cookie: page.cookie, ...token }, BODY)).status).toBe(403);
});

test.each([
  ["another origin", { origin: "http://evil.example", ...JSON_TYPE }, 403],
  ["an origin that is none", { origin: "null", ...JSON_TYPE }, 403],
  ["another site", { "sec-fetch-site": "cross-site", ...JSON_TYPE }, 403],
  ["a form", { "content-type": "text/plain" }, 400],
] as const)("nobody is signed in by %s", async (_, headers, status) => {
  const answer = await ask("POST", "/session", headers, '{"key": "k-admin"}');
  expect([answer.status, answer.cookie]).toEqual([status, null]);
});

test.each([
  ["no JSON", "{", 400],
  ["no key", "{}", 400],
  ["a list", '{"key": ["k-admin"]}', 400],
  ["a wrong key", '{"key": "k"}', 401],
  ["a huge body", `{"key": "${"k".repeat(20_000)}"}`, 413],
] as const)("%s is refused", async (_, body, status) => {
  const answer = await ask("POST", "/session", JSON_TYPE, body);
  expect([answer.status, answer.cookie]).toEqual([status, null]);
  expect(answer.json.error).toHaveProperty("code");
});

test("behind a proxy the cookie is Secure where the page is, and the forwarded host counts", async () => {
  const headers = { origin: "https://llm.example", "x-forwarded-host": "llm.example" };
  expect((await signIn("viewer", headers)).cookie).toMatch(/; Secure$/);
  const fetched = { origin: "https://other.example", "sec-fetch-site": "same-origin" };
  expect((await signIn("viewer", fetched)).status).toBe(201);
});

test("each sign-in has a new id, which no client chooses, and ends the one before", async () => {
  const first = await signIn("viewer");
  const planted = `${first.page.cookie.split("=")[0]}=${"a".repeat(43)}`;
  expect((await signIn("viewer", { origin: url, cookie: planted })).page.cookie).not.toBe(planted);
  const second = await signIn("viewer", first.page);
  expect(second.cookie?.split(";")[0]).not.toBe(first.page.cookie);
  expect((await ask("GET", "/admin/instances", first.page)).status).toBe(401);
});

test("a key counts before a cookie, and needs no token", async () => {
  const { page } = await signIn("viewer");
  const programs = { ...page, authorization: "Bearer k-admin" };
  expect((await ask("POST", SCALE, programs, BODY)).status).toBe(202);
  expect((await ask("GET", "/admin/instances", { ...page, authorization: "Bearer k" })).status).toBe(401);
});

test("after ten failures a wrong key is told to wait, and a right one signs in", async () => {
  const wrong = () => ask("POST", "/session", JSON_TYPE, '{"key": "guess"}');
  for (let i = 0; i < 10; i++) expect((await wrong()).status).toBe(401);
  const { status, headers, json } = await wrong();
  expect([status, json.error.code]).toEqual([429, "rate_limit_exceeded"]);
  expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
  // Wrong attempts of one proxy's clients do not block a right key, only further wrong ones.
  expect((await signIn("admin")).status).toBe(201);
  expect((await wrong()).status).toBe(429);
});
