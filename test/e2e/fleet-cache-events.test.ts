/**
 * The gateway knows what our engines' caches hold: through lost connections and restarts, and to the token that the
 * engines themselves report.
 */
import { connect as connectTo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ADAPTERS } from "../../src/fleet/adapters/index.js";
import { DEFAULT_PROXY_LIMITS, DEFAULT_PROXY_TIMEOUTS } from "../../src/fleet/proxy/options.js";
import { startProxy } from "../../src/fleet/proxy/proxy.js";
import { CacheWatch } from "../../src/fleet/routing/cache-watch.js";
import { TextKeySource } from "../../src/fleet/routing/key-source.js";
import { DEFAULT_ROUTING } from "../../src/fleet/routing/router.js";
import { TokenKeySource } from "../../src/fleet/routing/token-keys.js";
import type { RequestObserver } from "../../src/gateway/observer.js";
import { createPromptReader } from "../../src/serve/prompt-reader.js";
import type { CachedBlocks } from "../../src/text/cached-blocks.js";
import { loadTextSide } from "../../src/text/text-side.js";
import { recordingLogger, startFakeServer, until } from "../helpers/fake-server.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { TestPool, upstreamOf } from "../helpers/fleet-pool.js";
import { cacheOf } from "../helpers/kv-cache.js";
import { cases } from "../helpers/long.js";
import { TestRng } from "../helpers/rng.js";
import { post, startTestServer } from "../helpers/server.js";

/** A wire that can be cut, between events and inside them. */
async function startWire() {
  const sockets = new Set<Socket>();
  const wire = { port: 0, isCutInside: false };
  const server = createServer((client) => {
    const upstream = connectTo(wire.port, "127.0.0.1");
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.pipe(upstream);
    upstream.on("data", (chunk) => {
      if (!wire.isCutInside) return void client.write(chunk);
      wire.isCutInside = false;
      client.end(chunk.subarray(0, chunk.length / 2), () => client.destroy());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  const close = () => {
    cut();
    return new Promise((resolve) => server.close(resolve));
  };
  return { wire, cut, close, url: `http://127.0.0.1:${(server.address() as { port: number }).port}` };
}

/** An engine's HTTP side, before a real cache. */
async function startEngine() {
  const { server, engine } = await startFakeServer();
  const cache = cacheOf([0]);
  const compute = (path: readonly number[]) => {
    cache.compute(path);
    const changes = cache.kv.takeChanges();
    if (changes.length > 0) engine.changeCache(changes);
  };
  return { server, engine, cache, compute };
}

const entries = (blocks: CachedBlocks): string[] => {
  const flat = blocks.snapshot();
  return flat.flatMap((key, i) => (i % 2 === 0 ? [`${key}:${flat[i + 1]}`] : [])).sort();
};

test("after any history of prompts, evictions, lost connections and restarts the gateway's index equals the engine's cache", async () => {
  const prompt = fc.array(fc.nat(1), { minLength: 1, maxLength: 5 });
  const step = fc.oneof(
    { weight: 8, arbitrary: fc.record({ what: fc.constant("compute"), prompt }) },
    { weight: 2, arbitrary: fc.record({ what: fc.constantFrom("cut", "cut inside", "restart", "settle"), prompt }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const { wire, cut, close, url } = await startWire();
      let running = await startEngine();
      wire.port = running.server.port;
      const pool = new TestPool([upstreamOf("a", { url, engine: "millrace" })]);
      const watch = new CacheWatch(pool, () => ADAPTERS.millrace.followCache);
      const current = () => watch.blocksOf(pool.upstreams("m")[0]!);
      const settle = async () => {
        const { engine, cache } = running;
        await until(() => current()?.revision === engine.cachedBlocks.revision, "the index to follow");
        expect(entries(current()!)).toEqual(entries(engine.cachedBlocks));
        for (const each of steps) {
          expect(current()!.numUsable(keysOf(each.prompt), () => false)).toBe(cache.numCached(each.prompt));
        }
      };
      const keysOf = (path: readonly number[]) => running.cache.keysOf(path);
      for (const { what, prompt } of steps) {
        if (what === "compute") running.compute(prompt);
        else if (what === "cut") cut();
        else if (what === "cut inside") wire.isCutInside = true;
        else if (what === "settle") await settle();
        else {
          await running.server.close();
          running = await startEngine();
          wire.port = running.server.port;
          pool.change("a", { starts: pool.upstreams("m")[0]!.starts + 1 });
          expect(current()).toBeUndefined();
        }
      }
      await settle();
      pool.change("a", { state: "failed" });
      expect(current()).toBeUndefined();
      watch.close();
      await running.server.close();
      await close();
    }),
    { numRuns: cases(25, 100) },
  );
}, 120_000);

const KV_TOKENS = 1024;
const KV_BYTES_PER_TOKEN = 6144;
const NUM_GROUPS = 10;
const NUM_REQUESTS = 70;
const WORDS = ["mill", "river", "stone", "wheel", "grain", "miller", "water", "house", "fox", "bread", "night", "road"];

interface Answer {
  readonly usage: { prompt_tokens: number; prompt_tokens_details?: { cached_tokens: number } };
}

test("routing predicts exactly the blocks that the engines find, with caches too small for the prompts", async () => {
  const modelPath = join(repositoryRoot(), "models/mill-base.gguf");
  const args = [
    "--model",
    modelPath,
    "--threads",
    "1",
    "--kv-cache-memory-bytes",
    String(KV_TOKENS * KV_BYTES_PER_TOKEN),
  ];
  await using first = await startTestServer(args);
  await using second = await startTestServer(args);
  const capacity = { seats: 8, kvTokens: KV_TOKENS, blockSize: 16 };
  const pool = new TestPool(
    [first, second].map(({ url }, i) => upstreamOf(`mill-${i}`, { url, model: "m", engine: "millrace", capacity })),
  );
  const keys = new TokenKeySource(createPromptReader(await loadTextSide(modelPath)), 16, new TextKeySource());
  let matchedFraction = 0;
  const observed: RequestObserver = {
    routed: (_, fraction) => {
      matchedFraction = fraction;
    },
    retried() {},
    firstByte() {},
    ended() {},
  };
  const proxy = await startProxy({
    pool,
    logger: recordingLogger().logger,
    host: "127.0.0.1",
    port: 0,
    routing: () => DEFAULT_ROUTING,
    keySource: () => keys,
    authorize: () => ({ tenant: "" }),
    limits: DEFAULT_PROXY_LIMITS,
    timeouts: DEFAULT_PROXY_TIMEOUTS,
    observer: { started: () => observed, refused() {} },
  });
  const rng = new TestRng(5);
  const sentence = (numWords: number) => Array.from({ length: numWords }, () => rng.pick(WORDS)).join(" ");
  const groups = Array.from({ length: NUM_GROUPS }, () => sentence(150));
  const seen = new Set<string>();
  let [numHits, numForgotten] = [0, 0];
  for (let i = 0; i < NUM_REQUESTS; i++) {
    const group = rng.pick(groups);
    const question = `${group}. ${sentence(6)}`;
    const isChat = rng.next() < 0.5;
    const salt = rng.next() < 0.2 ? { cache_salt: "somebody" } : {};
    const fields = { max_tokens: 1 + Math.floor(rng.next() * 12), ignore_eos: true, ...salt };
    const messages = [
      { role: "system", content: group },
      { role: "user", content: question },
    ];
    const [path, body] = isChat ? ["chat/completions", { messages }] : ["completions", { prompt: question }];
    const { usage } = await post<Answer>(`${proxy.url}/v1/${path}`, { ...body, ...fields });
    expect(matchedFraction * usage.prompt_tokens).toBeCloseTo(usage.prompt_tokens_details?.cached_tokens ?? 0);
    const kind = JSON.stringify([group, isChat, salt]);
    if (matchedFraction > 0.5) numHits++;
    else if (seen.has(kind)) numForgotten++;
    seen.add(kind);
  }
  await proxy.close();
  console.log(
    `${numHits} of ${NUM_REQUESTS} found most of their prompt, ${numForgotten} came after theirs had been evicted`,
  );
  expect(numHits).toBeGreaterThan(5);
  expect(numForgotten).toBeGreaterThan(5);
}, 120_000);
