/**
 * Every engine on every path, with two tenants' requests as the instances see them. The documentation has the same
 * table.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, test } from "vitest";
import { answerJson, startFleet, type TestFleet } from "../../../test/helpers/stand-in.js";
import { packageRoot } from "../../core/package-root.js";
import { KNOWN_PATHS, routeOf } from "../../gateway/api/routes.js";
import { ADAPTERS } from "../adapters/index.js";
import { ENGINE_NAMES, type EngineName } from "../upstream/engine.js";
import { cachesPrefixes, promptPathsOf, sharesDrafts } from "./isolation.js";
import { messageTo } from "./message.js";
import type { Authorize } from "./options.js";

/** An unknown path. */
const OTHER = "/v1/something/else";

/** Paths on which an engine computes no keys and values of a prompt. */
const WITHOUT_PROMPT = [
  "/v1/chat/completions/input_tokens",
  "/v1/responses/input_tokens",
  "/v1/messages/count_tokens",
  "/tokenize",
  "/detokenize",
  "/tokenizer_info",
  "/openapi.json",
];

const SALTED = Object.values(ADAPTERS).flatMap(({ cacheScope }) => (cacheScope === "header" ? [] : cacheScope));
const PATHS = [...new Set([...KNOWN_PATHS, ...SALTED, OTHER])].sort(
  (a, b) => Number(WITHOUT_PROMPT.includes(a)) - Number(WITHOUT_PROMPT.includes(b)),
);

const SCOPES: Readonly<Record<string, string>> = { one: "1".repeat(32), two: "2".repeat(32) };
const HEADER = "x-millrace-cache-scope";

let fleet: TestFleet | undefined;
afterEach(async () => {
  await fleet?.stop();
  fleet = undefined;
});

function startWith(engine: EngineName, cachesPrefixes = () => true): Promise<TestFleet> {
  const authorize: Authorize = (headers) => {
    const tenant = String(headers["x-api-key"]);
    return { tenant, cacheScope: SCOPES[tenant] };
  };
  const proxy = { authorize, cachesPrefixes };
  return startFleet([answerJson({})], { upstream: { engine }, proxy, limits: { maxWaitMs: 200 } });
}

/** Asks as one tenant, and tries to pass for another with all means of a client. */
async function ask(path: string, tenant: string, fields: object = { cache_salt: SCOPES.two }) {
  const { standIns, proxy, post } = fleet!;
  const numBefore = standIns[0]!.received.length;
  const headers = { "x-api-key": tenant, [HEADER]: SCOPES.two! };
  const body = { model: "m", input: "hi", prompt: "hi", messages: [{ role: "user", content: "hi" }], ...fields };
  const isGet = routeOf(path)?.method === "GET";
  const answer = isGet ? await fetch(`${proxy.url}${path}?model=m`, { headers }) : await post(path, body, { headers });
  const received = standIns[0]!.received.slice(numBefore).at(-1);
  return { status: answer.status, text: await answer.text(), received };
}

async function isolationSeen(path: string): Promise<string> {
  const [first, again, second] = [await ask(path, "one"), await ask(path, "one"), await ask(path, "two")];
  // The gateway itself answers.
  if (routeOf(path)?.isOpen === true) return "not needed";
  if (first.received === undefined) {
    expect(first.status).toBe(403);
    expect(first.text).toContain("isolation_unsupported");
    expect(second).toMatchObject({ status: 403, received: undefined });
    return "refused";
  }
  const headers = [first, again, second].map(({ received }) => received?.headers[HEADER]);
  const salts = [first, again, second].map(({ received }) => received?.body.cache_salt);
  if (headers[0] !== undefined) {
    expect(headers).toEqual([SCOPES.one, SCOPES.one, SCOPES.two]);
    return "header";
  }
  expect(headers).toEqual([undefined, undefined, undefined]);
  if (WITHOUT_PROMPT.includes(path)) return "not needed";
  // The format that vLLM accepts.
  for (const salt of salts) expect(salt).toMatch(/^[0-9a-f]{64}$/);
  expect(salts[1]).toBe(salts[0]);
  expect(salts[2]).not.toBe(salts[0]);
  const own = await ask(path, "one", { cache_salt: "mine" });
  const none = await ask(path, "one", {});
  expect(new Set([salts[0], own.received?.body.cache_salt, none.received?.body.cache_salt]).size).toBe(3);
  return "cache_salt";
}

test("each path of each engine isolates two tenants or refuses them, as documented", async () => {
  const columns = new Map<EngineName, readonly string[]>();
  for (const engine of ENGINE_NAMES) {
    fleet = await startWith(engine);
    const seen: string[] = [];
    for (const path of PATHS) seen.push(await isolationSeen(path));
    columns.set(engine, seen);
    await fleet.stop();
    fleet = undefined;
  }
  const nameOf = (path: string) => (path === OTHER ? "any other under `/v1/`" : `\`${path}\``);
  const rows = PATHS.map((path, i) => [nameOf(path), ...ENGINE_NAMES.map((engine) => columns.get(engine)![i]!)]);
  const lines = [["Path", ...ENGINE_NAMES], ["---", ...ENGINE_NAMES.map(() => "---")], ...rows];
  const table = lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
  const docs = readFileSync(join(packageRoot(), "docs/reference/engines.md"), "utf8");
  expect(/<!-- isolation -->\n([\s\S]*?)\n<!-- \/isolation -->/.exec(docs)?.[1]).toBe(table);
});

test("every known path either runs a prompt or is listed as one that does not", () => {
  const withoutPrompt = KNOWN_PATHS.filter((path) => routeOf(path)?.runsPrompt !== true);
  expect(withoutPrompt.sort()).toEqual([...WITHOUT_PROMPT].sort());
});

describe("a refusal", () => {
  it("names the paths that isolate tenants, and the option to share", async () => {
    fleet = await startWith("tensorrt-llm");
    const { status, text } = await ask("/v1/completions", "one");
    expect(status).toBe(403);
    const { error } = JSON.parse(text);
    expect(error.code).toBe("isolation_unsupported");
    expect(error.message).toMatch(
      /tensorrt-llm .* \/v1\/completions.*\/v1\/chat\/completions.*isolate-api-keys: false .*--no-isolate-api-keys/s,
    );
  });

  it("does not wait for a seat", async () => {
    fleet = await startWith("tgi");
    fleet.pool.change("a", { state: "starting", isComing: true, target: undefined });
    expect((await ask("/v1/chat/completions", "one")).status).toBe(403);
  });

  it("also applies when a message to an instance is built", () => {
    const lease = { upstream: { engine: "tgi" }, target: {} } as never;
    const path = "/v1/completions";
    const caller = { tenant: "one" };
    const request = { headers: {}, route: routeOf(path), path, bytes: Buffer.from("{}"), body: {}, caller };
    const sendable = { request, cacheScope: () => SCOPES.one } as never;
    expect(() => messageTo(lease, sendable, undefined, undefined)).toThrow(
      expect.objectContaining({ code: "isolation_unsupported" }),
    );
  });

  it("does not happen without isolation or without caching", async () => {
    fleet = await startWith("tgi");
    expect((await ask("/v1/completions", "somebody")).received?.body).toMatchObject({ cache_salt: SCOPES.two });
    await fleet.stop();
    fleet = await startWith("tgi", () => false);
    expect((await ask("/v1/completions", "one")).status).toBe(200);
  });

  it("also applies to a request that waits while caching is turned on", async () => {
    let caches = false;
    fleet = await startWith("vllm", () => caches);
    const { target } = fleet.pool.upstreams("m")[0]!;
    fleet.pool.change("a", { state: "starting", isComing: true, target: undefined });
    const asked = ask("/v1/chat/completions", "one", {});
    await new Promise((resolve) => setTimeout(resolve, 50));
    caches = true;
    fleet.pool.change("a", { state: "ready", isComing: false, target });
    expect((await asked).received?.body.cache_salt).toMatch(/^[0-9a-f]{64}$/);
  });
});

test("paths are listed by whether they can isolate tenants", () => {
  expect(promptPathsOf("sglang")).toEqual({
    isolated: ["/v1/chat/completions", "/v1/completions", "/v1/responses"],
    refused: [
      "/v1/messages",
      "/v1/embeddings",
      "/v2/embed",
      "/v1/rerank",
      "/v2/rerank",
      "/rerank",
      "/v1/score",
      "/score",
    ],
  });
  expect(promptPathsOf("millrace").refused).toEqual([]);
  expect(promptPathsOf("ollama").isolated).toEqual([]);
});

describe("a model", () => {
  const options = { model: "x" };
  const off = { ...options, enablePrefixCaching: false };
  const attach = [{ url: "http://127.0.0.1:9", apiKey: undefined, modelName: undefined }];

  it.each([
    ["vllm", false],
    ["sglang", false],
    ["tensorrt-llm", false],
    ["tgi", false],
    // A request can turn the cache on again.
    ["llama-server", true],
    ["ollama", true],
  ] as const)("of %s without a prefix cache may keep prefixes: %s", (engine, mayKeep) => {
    expect(cachesPrefixes({ engine, options: off })).toBe(mayKeep);
    expect(cachesPrefixes({ engine, options })).toBe(true);
    expect(cachesPrefixes({ engine, options: off, attach })).toBe(true);
  });

  it.each([
    ["vllm", { method: "suffix" }, true],
    ["vllm", { method: "suffix", suffix_decoding_max_cached_requests: 0 }, false],
    ["vllm", { method: "ngram" }, false],
    ["sglang", { method: "ngram" }, true],
    ["sglang", { method: "eagle3" }, false],
    ["millrace", { method: "ngram" }, false],
  ] as const)("of %s with %j drafts from all tenants' requests: %s", (engine, speculativeConfig, isShared) => {
    expect(sharesDrafts({ engine, options: { ...options, speculativeConfig } })).toBe(isShared);
    expect(sharesDrafts({ engine, options })).toBe(false);
  });
});
