/** Conversations that a gateway keeps: their owners, which of two pages wins, refusals, and deletion. */
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { BrowserSession, FORGED } from "../../../test/helpers/browser-session.js";
import { IdentityProvider, makeKeyPair } from "../../../test/helpers/identity-provider.js";
import { cases } from "../../../test/helpers/long.js";
import { answerJson, startStandIn } from "../../../test/helpers/stand-in.js";
import { startWholeGateway } from "../../../test/helpers/whole-gateway.js";
import { parseConfig } from "../config/read-config.js";
import type { Fleet } from "../fleet.js";

let engine: Awaited<ReturnType<typeof startStandIn>>;
let folder: string;
let fleet: Fleet;
let page: BrowserSession;

const KEYS = `
admin-key: k-boss
api-keys:
  - { tenant: search, key: sk-one }
  - { tenant: search, key: sk-two }`;
const BOUNDS = "{ per-client: 3, bytes-each: 4KiB, bytes-per-client: 10KiB, max-bytes: 25KiB }";

const start = async (conversations = `conversations: ${BOUNDS}`): Promise<void> => {
  fleet = await startWholeGateway(folder, engine.url, `${KEYS}\n${conversations}`);
  page = new BrowserSession(fleet.url);
};

beforeAll(async () => {
  engine = await startStandIn(answerJson({ id: "c" }));
});
afterAll(() => engine.die());
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "millrace-conversations-"));
  await start();
});
afterEach(async () => {
  await fleet.close();
  rmSync(folder, { recursive: true, force: true });
});

const SETTINGS = {
  system: "",
  temperature: "",
  topP: "",
  seed: "",
  maxTokens: "",
  format: "text",
  schema: "",
  showsTokens: false,
};
const chatOf = (title: string, updatedMs = 1, content = title) => ({
  title,
  updatedMs,
  settings: SETTINGS,
  panes: [{ model: "m", turns: [{ role: "user", content }] }],
});

/** Asks as a program, with a key. */
async function ask(key: string, method: string, path = "", body?: unknown) {
  const text = body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) };
  const headers = { authorization: `Bearer ${key}` };
  const answer = await fetch(`${fleet.url}/v1/chats${path}`, { method, headers, ...text });
  const got = await answer.text();
  const json = got === "" ? {} : JSON.parse(got);
  return { status: answer.status, headers: answer.headers, json, code: json.error?.code as string | undefined };
}

const put = (key: string, id: string, conversation: unknown, revision: unknown = 0) =>
  ask(key, "PUT", `/${id}`, { revision, conversation });
const idsOf = async (key: string): Promise<string[]> =>
  (await ask(key, "GET")).json.data.map(({ id }: { id: string }) => id);

async function admin(method: string, path: string, body?: object) {
  const text = body === undefined ? {} : { body: JSON.stringify(body) };
  const answer = await fetch(`${fleet.url}/admin${path}`, {
    method,
    headers: { authorization: "Bearer k-boss" },
    ...text,
  });
  expect(answer.ok).toBe(true);
  return (await answer.json()) as { readonly id: string; readonly key: string };
}

test("a client finds its conversations again, the newest first, and after a restart", async () => {
  const first = await put("sk-one", "a", chatOf("Old", 5));
  expect(first.status).toBe(200);
  expect(first.json).toMatchObject({ object: "chat", id: "a", title: "Old", updated_ms: 5, removed: [] });
  expect(first.headers.get("cache-control")).toBe("no-store");
  await put("sk-one", "b", chatOf("New", 9));
  await fleet.close();
  await start();
  const { json } = await ask("sk-one", "GET");
  expect(json.object).toBe("list");
  expect(json.data).toMatchObject([{ id: "b" }, { id: "a", title: "Old", revision: first.json.revision }]);
  expect(json.data[0]).not.toHaveProperty("conversation");
  const { object, id, title, updated_ms, revision, bytes } = json.data[1];
  const row = { object, id, title, updated_ms, revision, bytes };
  expect((await ask("sk-one", "GET", "/a")).json).toEqual({ ...row, conversation: chatOf("Old", 5) });
  expect((await ask("sk-one", "DELETE", "/a")).status).toBe(204);
  expect((await ask("sk-one", "GET", "/a")).code).toBe("not_found");
  expect((await ask("sk-one", "DELETE", "/a")).code).toBe("not_found");
});

test("pictures and words on answers are kept; a picture that is an address elsewhere is none", async () => {
  const chatWith = (image: string) => ({
    ...chatOf("Colours"),
    panes: [
      {
        model: "m",
        turns: [
          { role: "user", content: "Which?", files: [{ name: "a.png", text: "", image }] },
          { role: "assistant", content: "Red", feedback: { requestId: "r", rating: "down", correction: "Blue" } },
        ],
      },
    ],
  });
  const kept = chatWith("data:image/png;base64,AAAA");
  expect((await put("sk-one", "a", kept)).status).toBe(200);
  expect((await ask("sk-one", "GET", "/a")).json.conversation).toEqual(kept);
  const refused = await put("sk-one", "b", chatWith("https://example.com/a.png"));
  expect([refused.status, refused.json.error.param]).toEqual([400, "conversation.panes[0].turns[0].files[0].image"]);
});

test("nobody sees, changes or deletes another's: keys of one tenant, operators, and those without a key", async () => {
  const { json } = await put("sk-one", "a", chatOf("Mine"));
  await admin("POST", "/orgs", { id: "acme" });
  const { key } = await admin("POST", "/keys", { org: "acme", name: "laptop" });
  for (const other of ["sk-two", key]) {
    expect(await idsOf(other)).toEqual([]);
    expect((await ask(other, "GET", "/a")).code).toBe("not_found");
    expect((await ask(other, "DELETE", "/a")).code).toBe("not_found");
    expect((await put(other, "a", chatOf("Theirs"), json.revision)).code).toBe("conversation_changed");
    expect((await put(other, "a", chatOf("Theirs"))).status).toBe(200);
  }
  for (const nobody of ["k-boss", "guess"]) expect((await ask(nobody, "GET")).status).toBe(401);
  expect((await ask("sk-one", "GET", "/a")).json.conversation.title).toBe("Mine");
});

test("of two pages that write at the same time one is told, and a deleted one does not come back unseen", async () => {
  const { revision } = (await put("sk-one", "a", chatOf("Base"))).json;
  const both = await Promise.all(["x", "y"].map((title) => put("sk-one", "a", chatOf(title), revision)));
  expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
  const winner = both.find(({ status }) => status === 200)!.json;
  expect((await ask("sk-one", "GET", "/a")).json.conversation.title).toBe(winner.title);
  expect((await put("sk-one", "a", chatOf("Another"))).code).toBe("conversation_changed");
  expect((await ask("sk-one", "DELETE", `/a?revision=${revision}`)).code).toBe("conversation_changed");
  expect((await ask("sk-one", "DELETE", "/a?revision=x")).code).toBe("invalid_parameter");
  expect((await ask("sk-one", "DELETE", `/a?revision=${winner.revision}`)).status).toBe(204);
  expect((await put("sk-one", "a", chatOf("Late"), winner.revision)).code).toBe("conversation_changed");
  await new Promise((resolve) => setTimeout(resolve, 2));
  const again = (await put("sk-one", "a", chatOf("Again"))).json;
  await put("sk-one", "a", chatOf("Again, changed"), again.revision);
  expect((await put("sk-one", "a", chatOf("Late"), winner.revision)).code).toBe("conversation_changed");
});

test("older ones of the same client make room, by number and by bytes; newer ones and others' do not", async () => {
  for (const at of [1, 2, 3]) await put("sk-one", `c${at}`, chatOf("x", at));
  expect((await put("sk-one", "c4", chatOf("x", 4))).json.removed).toEqual(["c1"]);
  expect((await put("sk-one", "c0", chatOf("x", 1))).code).toBe("storage_quota");
  expect(await idsOf("sk-one")).toEqual(["c4", "c3", "c2"]);
  const large = (at: number) => chatOf("x", at, "x".repeat(3500));
  expect((await put("sk-two", "l1", large(1))).json.removed).toEqual([]);
  expect((await put("sk-two", "l2", large(2))).json.removed).toEqual([]);
  expect((await put("sk-two", "l3", large(3))).json.removed).toEqual(["l1"]);
  expect((await put("sk-two", "l4", chatOf("x", 4, "x".repeat(5000)))).code).toBe("body_too_large");
  const keys = [(await admin("POST", "/keys", { name: "a" })).key, (await admin("POST", "/keys", { name: "b" })).key];
  for (const at of [1, 2]) expect((await put(keys[0]!, `l${at}`, large(at))).status).toBe(200);
  expect((await put(keys[1]!, "l1", large(1))).status).toBe(200);
  // At the disk's limit, growing conversations are refused and none are lost.
  expect((await put(keys[1]!, "l2", large(2))).code).toBe("storage_quota");
  expect((await put("sk-one", "l9", large(9))).code).toBe("storage_quota");
  expect(await idsOf("sk-one")).toEqual(["c4", "c3", "c2"]);
  expect(await idsOf("sk-two")).toEqual(["l3", "l2"]);
  const { revision } = (await ask("sk-two", "GET", "/l3")).json;
  expect((await put("sk-two", "l3", chatOf("shorter", 9), revision)).status).toBe(200);
});

test("a write whose key is revoked while its body comes keeps nothing", async () => {
  const { id, key } = await admin("POST", "/keys", { name: "laptop" });
  const body = JSON.stringify({ revision: 0, conversation: chatOf("Late") });
  const headers = { authorization: `Bearer ${key}`, "content-length": Buffer.byteLength(body) };
  const outgoing = request(`${fleet.url}/v1/chats/a`, { method: "PUT", headers });
  const answered = new Promise<number | undefined>((resolve, reject) => {
    outgoing.once("response", (incoming) => resolve(incoming.resume().statusCode)).once("error", reject);
  });
  outgoing.write(body.slice(0, 10));
  // Wait for another request, so that the gateway has read the first one's head.
  expect(await idsOf("sk-one")).toEqual([]);
  await admin("DELETE", `/keys/${id}`);
  outgoing.end(body.slice(10));
  expect(await answered).toBe(401);
  await fleet.close();
  const { openDatabase } = await import("../../gateway/store/database.js");
  const database = openDatabase(folder);
  const rows = database.prepare("SELECT title FROM conversations").all([]);
  database.close();
  expect(rows).toEqual([]);
  await start();
});

test("what a revoked key has kept goes with it, of a deleted team too; a rotated key keeps it", async () => {
  const { id, key } = await admin("POST", "/keys", { name: "laptop" });
  await put(key, "a", chatOf("Mine"));
  const rotated = await admin("POST", `/keys/${id}/rotate`, {});
  expect(await idsOf(rotated.key)).toEqual(["a"]);
  await admin("POST", "/orgs", { id: "acme" });
  await admin("POST", "/teams", { org: "acme", id: "web" });
  const ofTeam = await admin("POST", "/keys", { team: "acme/web", name: "x" });
  expect((await put(ofTeam.key, "a", chatOf("Theirs"))).status).toBe(200);
  await put("sk-one", "a", chatOf("File's"));
  await admin("DELETE", `/keys/${id}`);
  await admin("DELETE", "/teams/acme/web");
  await fleet.close();
  const { openDatabase } = await import("../../gateway/store/database.js");
  const database = openDatabase(folder);
  const rows = database.prepare("SELECT title FROM conversations").all([]);
  const [sum] = database.prepare("SELECT bytes FROM conversation_bytes").all([]) as { bytes: number }[];
  const [own] = database.prepare("SELECT bytes FROM conversations").all([]) as { bytes: number }[];
  database.close();
  expect(rows).toEqual([{ title: "File's" }]);
  expect(sum!.bytes).toBe(own!.bytes);
  await start();
});

test("of an identity provider's tokens, each person has their own, and one who is not named has none", async () => {
  const provider = await IdentityProvider.start(await makeKeyPair());
  await fleet.close();
  const { issuer } = provider;
  await start(
    `conversations: {}\noidc: { issuer: "${issuer}", audience: millrace, tenant-claim: org, team-claim: team }`,
  );
  await admin("POST", "/teams", { org: "default", id: "web" });
  const token = (claims: object) => provider.signed({ org: "default", ...claims });
  await put(await token({ sub: "ann" }), "a", chatOf("Ann's"));
  // A new token of the same person, now in another team.
  expect(await idsOf(await token({ sub: "ann", team: "web" }))).toEqual(["a"]);
  expect(await idsOf(await token({ sub: "bob" }))).toEqual([]);
  expect((await ask(await token({ sub: undefined }), "GET")).code).toBe("forbidden");
  provider.close();
});

test("by cookie a page reads and writes; nothing is changed for pages of others", async () => {
  expect((await page.signIn("sk-one")).json).toMatchObject({ is_client: true, keeps_chats: true });
  const body = { revision: 0, conversation: chatOf("Mine") };
  const { status, json } = await page.ask("PUT", "/v1/chats/a", body);
  expect(status).toBe(200);
  for (const [, headers] of FORGED) {
    expect((await page.ask("PUT", "/v1/chats/b", body, headers)).code).toBe("forbidden");
    expect((await page.ask("DELETE", "/v1/chats/a", undefined, headers)).code).toBe("forbidden");
  }
  for (const path of ["/v1/chats", "/v1/chats/a"]) {
    expect((await page.ask("GET", path, undefined, { origin: "http://evil.example" })).code).toBe("forbidden");
  }
  expect((await page.ask("GET", "/v1/chats")).json.data).toMatchObject([{ id: "a", revision: json.revision }]);
});

test("what is no conversation is refused, with the field at fault", async () => {
  const good = chatOf("x");
  const [pane] = good.panes;
  const wrong: [unknown, string][] = [
    [{ ...good, title: 5 }, "conversation.title"],
    [{ ...good, more: 1 }, "conversation.more"],
    [{ ...good, panes: [] }, "conversation.panes"],
    [{ ...good, panes: [pane, pane, pane] }, "conversation.panes"],
    [
      { ...good, panes: [{ model: "m", turns: [{ role: "system", content: "" }] }] },
      "conversation.panes[0].turns[0].role",
    ],
    [{ ...good, settings: { ...SETTINGS, format: "xml" } }, "conversation.settings.format"],
    [{ ...good, updatedMs: -1 }, "conversation.updatedMs"],
    [{ ...good, updatedMs: 0.5 }, "conversation.updatedMs"],
  ];
  for (const [conversation, param] of wrong) {
    const { status, json } = await put("sk-one", "a", conversation);
    expect([status, json.error.code, json.error.param]).toEqual([400, "invalid_parameter", param]);
  }
  expect((await put("sk-one", "a", good, -1)).json.error.param).toBe("revision");
  for (const id of ["a".repeat(65), "..%2f", "a/b", "%00", "é"]) {
    expect([id, (await put("sk-one", id, good)).code]).toEqual([id, "not_found"]);
  }
  const raw = ["", "[]", "{", "[".repeat(1000), '{"revision":0,"revision":0}', `{"__proto__":${JSON.stringify(good)}}`];
  for (const body of raw) expect((await ask("sk-one", "PUT", "/a", body)).status).toBe(400);
  expect((await ask("sk-one", "POST")).code).toBe("method_not_allowed");
  expect((await ask("sk-one", "POST", "/a", "{}")).code).toBe("method_not_allowed");
  expect(await idsOf("sk-one")).toEqual([]);
});

test("no upload of any form breaks the gateway, and what is kept is what was sent", async () => {
  const text = fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("<script>", "\0", "\ud800", "'; DROP TABLE"));
  const turn = fc.record({ role: fc.constantFrom("user", "assistant"), content: text });
  const upload = fc.record({ title: text, turns: fc.array(turn, { maxLength: 4 }), other: fc.json() });
  await fc.assert(
    fc.asyncProperty(upload, async ({ title, turns, other }) => {
      expect((await put("sk-one", "bad", JSON.parse(other))).status).toBe(400);
      const sent = { ...chatOf(title, 7), panes: [{ model: "m", turns }] };
      const { status, json } = await put("sk-one", "good", sent);
      expect(status).toBe(200);
      const got = (await ask("sk-one", "GET", "/good")).json.conversation;
      expect(got).toEqual(JSON.parse(Buffer.from(JSON.stringify(sent)).toString()));
      expect((await ask("sk-one", "DELETE", `/good?revision=${json.revision}`)).status).toBe(204);
    }),
    { numRuns: cases(20, 200) },
  );
});

test("where nobody asked for it there is none, and without keys the file is refused", async () => {
  await fleet.close();
  await start("");
  expect((await ask("sk-one", "GET")).code).toBe("not_found");
  expect((await page.signIn("sk-one")).json).toMatchObject({ keeps_chats: false });
  const text = "conversations: {}\nmodels: [{ name: m, engine: openai, attach: [{ url: 'http://127.0.0.1:1' }] }]\n";
  expect(() => parseConfig(text, "millrace.yaml", {})).toThrow(/api-keys, managed-keys or oidc beside conversations/);
});
