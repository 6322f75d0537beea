/** Kept answers behind routes: a complete gateway from its file, in front of two servers that can fail. */
import { mkdtempSync, rmSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { CHAT, chat, chunks, contentOf } from "../../../test/helpers/cached-fleet.js";
import type { Json } from "../../../test/helpers/json.js";
import { answerJson, type Behaviour, beginStream, startStandIn, until } from "../../../test/helpers/stand-in.js";
import { parseConfig } from "../config/read-config.js";
import { Fleet } from "../fleet.js";

/** A server that answers with its name and number of requests. Tests can make it fail or wait. */
class Server {
  isDown = false;
  readonly held: ServerResponse[] = [];
  holds = false;
  standIn!: Awaited<ReturnType<typeof startStandIn>>;

  constructor(readonly name: string) {}

  readonly behave: Behaviour = ({ path, body }, outgoing) => {
    if (path !== CHAT) return answerJson({ data: [{ index: 0, embedding: [1, 0] }] })({} as never, outgoing);
    if (this.isDown) return answerJson({ error: { message: "down" } }, 503)({} as never, outgoing);
    if (this.holds) return void this.held.push(outgoing);
    this.answer(outgoing, body.stream === true);
  };

  answer(outgoing: ServerResponse, isStream: boolean): void {
    const text = `${this.name} ${this.numAsked}`;
    if (isStream) {
      beginStream(outgoing);
      outgoing.end(chunks(text).join(""));
    } else answerJson(chat(text))({} as never, outgoing);
  }

  get numAsked(): number {
    return this.standIn.received.filter(({ path }) => path === CHAT).length;
  }
}

let folder: string;
let fleet: Fleet;
let a: Server;
let b: Server;
const closing: (() => Promise<unknown>)[] = [];

const ROUTE = "{ name: chat, rules: [{ to: a }], fallback: { unavailable: [b] } }";

/** @param more keys of the file */
async function start(more = `routes: [${ROUTE}]`, cacheOfB = "{ version: one }"): Promise<void> {
  const attached = ({ standIn }: Server) => `engine: openai, attach: [{ url: "${standIn.url}" }]`;
  const text = `
port: 0
data-folder: ${folder}
admin-key: k-boss
api-keys: [{ tenant: t, key: sk-t }]
isolate-api-keys: false
ledger: {}
cache: { store: memory, assume-deterministic: true }
models:
  - { name: a, ${attached(a)}, price: { input: 1, output: 1 }, cache: { version: one }, semantic-cache: { embeddings: b } }
  - { name: b, ${attached(b)}, price: { input: 1000, output: 1000 }, cache: ${cacheOfB} }
${more}
`;
  fleet = await Fleet.start({
    config: parseConfig(text, "millrace.yaml", {}),
    machine: { cores: [[0]], splits: new Map(), millraceSeats: 1 },
    logger: pino({ level: "silent" }),
    logFolder: join(folder, "logs"),
  });
  closing.push(() => fleet.close());
  await fleet.whenStarted();
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "millrace-cached-routes-"));
  [a, b] = [new Server("a"), new Server("b")];
  for (const server of [a, b]) {
    server.standIn = await startStandIn(server.behave);
    closing.push(() => server.standIn.die());
  }
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  rmSync(folder, { recursive: true, force: true });
});

async function ask(model = "chat", fields: object = {}, headers: Record<string, string> = {}) {
  const body = { model, messages: [{ role: "user", content: "How high is Etna?" }], temperature: 0, ...fields };
  const response = await fetch(`${fleet.url}${CHAT}`, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { authorization: "Bearer sk-t", ...headers },
  });
  const text = await response.text();
  const { status, headers: got } = response;
  const said = status === 200 ? contentOf(text) : JSON.parse(text).error.code;
  return { status, text, headers: got, shown: [got.get("x-millrace-cache"), got.get("x-millrace-model"), said] };
}

const shown = async (...of: Parameters<typeof ask>) => (await ask(...of)).shown;

async function admin(path: string): Promise<Json> {
  return (await (
    await fetch(`${fleet.url}/admin${path}`, { headers: { authorization: "Bearer k-boss" } })
  ).json()) as Json;
}

describe("a route's answers", () => {
  test("are kept under the model that it chose, which shares them with its own requests, whole and streamed", async () => {
    await start();
    for (const stream of [false, true]) {
      const made = `a ${stream ? 2 : 1}`;
      expect(await shown("chat", { stream })).toEqual(["miss", "a", made]);
      expect(await shown("chat", { stream })).toEqual(["hit", "a", made]);
      expect(await shown("a", { stream })).toEqual(["hit", null, made]);
    }
    expect([a.numAsked, b.numAsked]).toEqual([2, 0]);
  });

  test("of a fallback are the fallback's: never the first model's, and found again while that is down", async () => {
    await start();
    a.isDown = true;
    const first = await ask();
    expect(first.shown).toEqual(["miss", "b", "b 1"]);
    expect(first.headers.get("x-millrace-route")).toMatch(/^chat: a unavailable \(.*\), b$/);
    expect(await shown()).toEqual(["hit", "b", "b 1"]);
    expect(await shown("b")).toEqual(["hit", null, "b 1"]);
    expect(b.numAsked).toBe(1);
    a.isDown = false;
    expect((await ask("a", {}, { "cache-control": "only-if-cached" })).shown[2]).toBe("not_cached");
    expect(await shown()).toMatchObject(["miss", "a", expect.stringMatching(/^a /)]);
    const [, , kept] = await shown();
    a.isDown = true;
    expect(await shown()).toEqual(["hit", "a", kept]);
    expect(b.numAsked).toBe(1);
  });

  test("are not kept where the model that answers has no cache, and then say nothing of one", async () => {
    await start(undefined, "{ enabled: false }");
    a.isDown = true;
    expect(await shown()).toEqual([null, "b", "b 1"]);
    expect(await shown()).toEqual([null, "b", "b 2"]);
    const { data } = await admin("/ledger/requests");
    expect(data.map(({ notes, saved_by }: { notes: object; saved_by: string }) => [notes, saved_by])).toEqual(
      Array(2).fill([{ route: expect.stringContaining("a unavailable") }, ""]),
    );
  });

  test("that only a cache may give are asked of the chosen model's, and no fallback follows", async () => {
    await start();
    await ask("b");
    const only = { "cache-control": "only-if-cached" };
    expect(await shown("chat", {}, only)).toEqual([null, null, "not_cached"]);
    await ask();
    expect(await shown("chat", {}, only)).toEqual(["hit", "a", "a 1"]);
    expect([a.numAsked, b.numAsked]).toEqual([1, 1]);
  });

  test("keep the shares of weights exact: hits count as requests of their model", async () => {
    const weighted = "{ name: chat, rules: [{ to: [{ model: a, weight: 3 }, { model: b, weight: 1 }] }] }";
    await start(`routes: [${weighted}]`);
    const models: (string | null | undefined)[] = [];
    for (let i = 0; i < 12; i++) models.push((await shown())[1]);
    expect(models.filter((model) => model === "a")).toHaveLength(9);
    expect([a.numAsked, b.numAsked]).toEqual([1, 1]);
    const inSession: (string | null | undefined)[] = [];
    for (let i = 0; i < 6; i++) inSession.push((await shown("chat", { user: "somebody" }))[1]);
    expect(new Set(inSession).size).toBe(1);
  });

  test("under way are shared, also those of a fallback", async () => {
    await start();
    for (const server of [a, b]) server.holds = true;
    const asked = Array.from({ length: 3 }, () => ask("chat", { stream: true }));
    await until(() => a.held.length === 1);
    a.isDown = true;
    answerJson({ error: {} }, 503)({} as never, a.held[0]!);
    await until(() => b.held.length === 1);
    b.answer(b.held[0]!, true);
    const answers = await Promise.all(asked);
    expect(answers.map(({ shown: [, model, text] }) => [model, text])).toEqual(Array(3).fill(["b", "b 1"]));
    expect(answers.map(({ shown: [cache] }) => cache).sort()).toEqual(["hit", "hit", "miss"]);
    expect(b.numAsked).toBe(1);
  });

  test("are in the ledger under the model that made them, with what it would have cost", async () => {
    await start();
    a.isDown = true;
    await ask();
    await ask();
    const { data } = await admin("/ledger/requests");
    expect(data).toMatchObject([
      { model: "chat", served: "b", saved: "0.007000000", saved_by: "cache:exact", notes: { cache: "hit:exact" } },
      { model: "chat", served: "b", saved: "0.000000000", saved_by: "", notes: { cache: "miss" } },
    ]);
    a.isDown = false;
    await ask();
    const hit = await ask();
    expect(JSON.parse(hit.text).usage.cost).toBe(0);
    const [last] = (await admin("/ledger/requests")).data;
    expect(last).toMatchObject({ served: "a", attempts: [], saved: "0.000007000", saved_by: "cache:exact" });
  });

  test("are learned from by the semantic cache of the chosen model", async () => {
    await start();
    await ask("chat", { temperature: 1 });
    await until(() => b.standIn.received.some(({ path }) => path === "/v1/embeddings"));
    for (;;) {
      const { data } = await admin("/semantic-cache");
      if (data[0]?.counts.stored === 1) break;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await admin("/semantic-cache")).data).toMatchObject([{ model: "a", entries: 1 }]);
  });
});

test("a cascade passes the caches by, and so does a route to it", async () => {
  const cascade = "cascades: [{ name: smart, small: a, large: b, min-logprob: -1 }]";
  await start(`${cascade}\nroutes: [{ name: chat, rules: [{ to: smart }] }]`);
  await ask("a");
  await ask("b");
  const before = a.numAsked;
  for (const model of ["smart", "smart", "chat"]) expect((await shown(model))[0]).toBeNull();
  expect(a.numAsked).toBe(before + 3);
});
