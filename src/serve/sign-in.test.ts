/**
 * Sign-in at a server of one model: the rights of a client's or administrator's cookie, and the pages that may use it.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { BrowserSession, FORGED } from "../../test/helpers/browser-session.js";
import { emptyLibrary } from "../../test/helpers/empty-library.js";
import { type FakeServer, startFakeServer } from "../../test/helpers/fake-server.js";
import { ANY_PAGE, pagePolicy } from "../core/cors.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-sign-in-"));
const open: FakeServer[] = [];
let server: FakeServer;
let page: BrowserSession;

async function start(apiKeys: readonly string[], adminKey: string | undefined, pages = ANY_PAGE): Promise<FakeServer> {
  const isolatesApiKeys = apiKeys.length > 1;
  const options = { apiKeys, adminKey, pages, isolatesApiKeys, library: emptyLibrary(folder) };
  const started = await startFakeServer({}, options);
  open.push(started);
  return started;
}

beforeEach(async () => {
  server = await start(["k-one", "k-two"], "k-boss");
  page = new BrowserSession(server.server.url);
});
afterEach(async () => {
  for (const each of open.splice(0)) await each.server.close();
  rmSync(folder, { recursive: true, force: true });
});

const CHAT = "/v1/chat/completions";
const BODY = { messages: [{ role: "user", content: "hi" }], max_tokens: 3 };
const REMOVE = "/admin/library/models/org/none";

test("a client's cookie opens the API, not /admin, until the sign-out; then nothing brings it back", async () => {
  const { status, json, headers } = await page.signIn("k-one");
  expect([status, json]).toEqual([201, expect.objectContaining({ name: null, is_client: true, ways: ["key"] })]);
  expect(headers.get("set-cookie")).toMatch(
    /^millrace-(?:client|operator)-session-\d+=[\w-]{43}; Max-Age=43200; HttpOnly; SameSite=Strict$/,
  );
  expect((await page.ask("POST", CHAT, BODY)).status).toBe(200);
  expect((await page.ask("GET", "/v1/models")).status).toBe(200);
  expect((await page.ask("GET", "/admin/library")).status).toBe(401);
  expect((await page.ask("GET", "/admin/models")).status).toBe(401);
  expect((await page.ask("DELETE", REMOVE)).status).toBe(401);
  // The app does not call these paths.
  expect((await page.ask("POST", "/tokenize", { prompt: "hi" })).status).toBe(401);
  expect((await page.ask("GET", "/api/tags")).status).toBe(401);
  expect((await page.signOut()).status).toBe(204);
  expect((await page.ask("POST", CHAT, BODY)).status).toBe(401);
  expect((await page.ask("GET", "/v1/models")).status).toBe(401);
  expect((await page.ask("GET", "/session")).json).toMatchObject({ signed_in: false });
  expect(JSON.stringify(server.lines)).not.toMatch(/k-one|millrace-session/);
});

test("a session sees the requests of its own key alone", async () => {
  const other = new BrowserSession(server.server.url);
  await page.signIn("k-one");
  await other.signIn("k-two");
  await page.ask("POST", CHAT, BODY);
  const numSeen = async (each: BrowserSession) =>
    ((await each.ask("GET", "/watch/requests")).json.data as unknown[]).length;
  expect([await numSeen(page), await numSeen(other)]).toEqual([1, 0]);
});

test("the administrator's cookie opens /admin and not the API; with a client's key as well, both", async () => {
  expect((await page.signIn("k-boss")).json).toMatchObject({ name: "admin-key", role: "admin", is_client: false });
  expect((await page.ask("GET", "/admin/library")).status).toBe(200);
  expect((await page.ask("GET", "/admin/models")).json).toMatchObject({ data: [{ id: "fake" }] });
  expect((await page.ask("GET", "/v1/models")).status).toBe(401);
  expect((await page.ask("DELETE", REMOVE)).code).toBe("model_not_found");
  expect((await page.ask("DELETE", "/api/delete", { model: "none" })).status).toBe(401);
  expect((await page.ask("POST", CHAT, BODY)).status).toBe(401);
  expect((await page.signIn("k-one")).json).toMatchObject({ role: "admin", is_client: true });
  expect((await page.ask("GET", "/admin/library")).status).toBe(200);
  expect((await page.ask("POST", CHAT, BODY)).status).toBe(200);
});

test.each(FORGED)("a change by cookie %s is refused", async (_, headers) => {
  await page.signIn("k-one");
  await page.signIn("k-boss");
  expect((await page.ask("POST", CHAT, BODY, headers)).code).toBe("forbidden");
  expect((await page.ask("DELETE", REMOVE, undefined, headers)).code).toBe("forbidden");
  expect((await page.ask("DELETE", "/session", undefined, headers)).code).toBe("forbidden");
  expect((await page.ask("POST", CHAT, BODY)).status).toBe(200);
});

test.each([
  { origin: "http://evil.example" },
  { "sec-fetch-site": "cross-site" },
])("a page with %o reads nothing by cookie, also where it may call with a key", async (headers) => {
  const { server: other } = await start(["k-one"], undefined, pagePolicy(["http://evil.example"], true, "127.0.0.1"));
  const own = new BrowserSession(other.url);
  await own.signIn("k-one");
  for (const path of ["/v1/models", "/watch/requests", "/session"]) {
    const answer = await own.ask("GET", path, undefined, headers);
    expect([path, answer.code]).toEqual([path, "forbidden"]);
    expect(answer.headers.get("access-control-allow-credentials")).toBeNull();
  }
  const withKey = { ...headers, authorization: "Bearer k-one", "x-csrf-token": "" };
  expect((await own.ask("POST", CHAT, BODY, withKey)).status).toBe(200);
});

test("keys in headers count before the cookie, and need no token", async () => {
  await page.signIn("k-one");
  const program = { authorization: "Bearer k-two", "x-csrf-token": "", origin: "" };
  expect((await page.ask("POST", CHAT, BODY, program)).status).toBe(200);
  expect((await page.ask("POST", CHAT, BODY, { ...program, authorization: "Bearer k" })).status).toBe(401);
  expect((await page.ask("GET", "/v1/models", undefined, { "x-api-key": "k" })).status).toBe(401);
});

test("servers side by side have cookies of their own", async () => {
  const other = new BrowserSession((await start(["k-one"], undefined)).server.url);
  await page.signIn("k-one");
  await other.signIn("k-one");
  const cookie = [page.cookie, other.cookie].join("; ");
  expect((await page.ask("POST", CHAT, BODY, { cookie })).status).toBe(200);
  expect((await other.ask("POST", CHAT, BODY, { cookie })).status).toBe(200);
  expect(page.cookie.split("=")[0]).not.toBe(other.cookie.split("=")[0]);
});

test("behind a proxy with TLS the cookie is this very host's, until the sign-out", async () => {
  const far = new BrowserSession(server.server.url, "https://llm.example");
  const { headers } = await far.signIn("k-one", { "x-forwarded-host": "llm.example" });
  // Browsers accept such a name only with Path=/ and Secure, and without Domain.
  expect(headers.get("set-cookie")).toMatch(
    /^__Host-millrace-client-session-[0-9a-f]{12}=[\w-]{43}; Max-Age=43200; HttpOnly; SameSite=Strict; Path=\/; Secure$/,
  );
  expect((await far.ask("POST", CHAT, BODY)).status).toBe(200);
  const { cookie } = far;
  expect((await far.signOut()).status).toBe(204);
  expect(far.cookie).toBe("");
  expect((await far.ask("POST", CHAT, BODY, { cookie })).status).toBe(401);
});

test("a program that signs in by https finds its session", async () => {
  const headers = { "x-forwarded-proto": "https" };
  const json = { ...headers, "content-type": "application/json" };
  const body = JSON.stringify({ key: "k-one" });
  const signedIn = await fetch(`${server.server.url}/session`, { method: "POST", headers: json, body });
  expect(signedIn.status).toBe(201);
  const [cookie = ""] = signedIn.headers.get("set-cookie")?.split(";") ?? [];
  expect(cookie).toMatch(/^__Host-millrace-client-session-/);
  const found = await fetch(`${server.server.url}/session`, { headers: { ...headers, cookie } });
  expect(await found.json()).toMatchObject({ signed_in: true });
});

test("over https a cookie that a host beside this one may have set is no session", async () => {
  const forwarded = { "x-forwarded-host": "llm.example" };
  const far = new BrowserSession(server.server.url, "https://llm.example");
  await far.signIn("k-one", forwarded);
  const planted = async (origin: string | undefined, own: string, asked: object = {}) => {
    const attacker = new BrowserSession(server.server.url, origin ?? "");
    await attacker.signIn("k-two", forwarded);
    const value = attacker.cookie.split("=")[1]!;
    const cookie = [own, `millrace-client-session-${new URL(server.server.url).port}=${value}`].join("; ");
    return (await far.ask("GET", "/session", undefined, { cookie, ...asked })).json;
  };
  const csrf_token = far.token;
  for (const origin of ["https://llm.example", "http://llm.example", undefined]) {
    expect(await planted(origin, far.cookie)).toMatchObject({ csrf_token });
    const proto = { "x-forwarded-proto": "https" };
    expect(await planted(origin, far.cookie, proto)).toMatchObject({ csrf_token });
    expect(await planted(origin, "", proto)).toMatchObject({ signed_in: false });
  }
  expect(await planted("https://llm.example", "")).toMatchObject({ signed_in: false });
});

test("wrong keys are refused and slowed, and a server without keys knows nobody", async () => {
  for (let i = 0; i < 10; i++) expect((await page.signIn("guess")).code).toBe("invalid_api_key");
  expect((await page.signIn("guess")).code).toBe("rate_limit_exceeded");
  expect((await page.signIn("k-one")).code).toBeUndefined();
  const keyless = new BrowserSession((await start([], undefined)).server.url);
  expect((await keyless.ask("GET", "/session")).json).toEqual({
    signed_in: false,
    ways: [],
    provider: null,
    takes_feedback: false,
  });
  expect((await keyless.signIn("any")).code).toBe("invalid_api_key");
  expect((await keyless.ask("POST", CHAT, BODY)).status).toBe(200);
});

test("reports are listed for the administrator alone, and a link of the list opens a page", async () => {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "kept.html"), "<p>Kept</p>");
  const own = await startFakeServer({}, { apiKeys: ["k-one"], adminKey: "k-boss", reports: folder });
  open.push(own);
  const { url } = own.server;
  const list = (headers: Readonly<Record<string, string>>) => fetch(`${url}/watch/reports`, { headers });
  expect((await list({})).status).toBe(401);
  expect((await list({ authorization: "Bearer k-one" })).status).toBe(401);
  const { data } = (await (await list({ authorization: "Bearer k-boss" })).json()) as {
    data: readonly { name: string; page: string }[];
  };
  expect(data).toMatchObject([{ name: "kept.html", page: expect.stringMatching(/^watch\/reports\/\w{16}\/page\?/) }]);
  const opened = await fetch(`${url}/${data[0]!.page}`);
  expect([opened.status, await opened.text()]).toEqual([200, "<p>Kept</p>"]);
  expect(opened.headers.get("content-security-policy")).toMatch(/^sandbox; default-src 'none'/);
  expect((await fetch(`${url}/${data[0]!.page.replace(/proof=./, "proof=x")}`)).status).toBe(404);
  // A server without a folder explains how to get one.
  await page.signIn("k-boss");
  expect(await page.ask("GET", "/watch/reports")).toMatchObject({
    status: 404,
    json: { error: { message: expect.stringContaining("--reports") } },
  });
});
