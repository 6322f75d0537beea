/**
 * Three real engines whose caches together hold what one alone does not: routing by prefix finds it there, turn by turn
 * does not; the answers are the same.
 */
import { join } from "node:path";
import { expect, test } from "vitest";
import { DEFAULT_PROXY_LIMITS, DEFAULT_PROXY_TIMEOUTS } from "../../src/fleet/proxy/options.js";
import { startProxy } from "../../src/fleet/proxy/proxy.js";
import type { RoutingPolicyName } from "../../src/fleet/routing/policies.js";
import { DEFAULT_ROUTING } from "../../src/fleet/routing/router.js";
import { recordingLogger } from "../helpers/fake-server.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { TestPool, upstreamOf } from "../helpers/fleet-pool.js";
import { cases } from "../helpers/long.js";
import { TestRng } from "../helpers/rng.js";
import { post, startTestServer, type TestServer } from "../helpers/server.js";

const NUM_GROUPS = 24;
const NUM_REQUESTS = cases(200, 360);
const NUM_CLIENTS = 6;
const KV_TOKENS = 3072;
const KV_BYTES_PER_TOKEN = 6144;

const WORDS = ["mill", "river", "stone", "wheel", "grain", "miller", "water", "house", "fox", "bread", "night", "road"];

function sentence(rng: TestRng, numWords: number): string {
  return Array.from({ length: numWords }, () => rng.pick(WORDS)).join(" ");
}

/** Long beginnings that many requests share, and an end of each one's own. */
function promptsOf(seed: number): string[] {
  const rng = new TestRng(seed);
  const groups = Array.from({ length: NUM_GROUPS }, () => sentence(rng, 260));
  return Array.from({ length: NUM_REQUESTS }, () => `${rng.pick(groups)}. ${sentence(rng, 6)}`);
}

async function counter(server: TestServer, name: string): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  return Number(new RegExp(`^millrace:${name}(?:{.*})? (\\S+)$`, "m").exec(text)?.[1]);
}

async function run(policy: RoutingPolicyName, seed: number) {
  const args = ["--model", join(repositoryRoot(), "models/mill-base.gguf"), "--threads", "1"];
  args.push("--kv-cache-memory-bytes", String(KV_TOKENS * KV_BYTES_PER_TOKEN));
  await using first = await startTestServer(args);
  await using second = await startTestServer(args);
  await using third = await startTestServer(args);
  const servers = [first, second, third];
  const capacity = { seats: 8, kvTokens: KV_TOKENS, blockSize: 16 };
  const pool = new TestPool(
    servers.map(({ url }, i) => upstreamOf(`mill-${i}`, { url, model: "mill-base", engine: "millrace", capacity })),
  );
  const proxy = await startProxy({
    pool,
    logger: recordingLogger().logger,
    host: "127.0.0.1",
    port: 0,
    routing: () => ({ ...DEFAULT_ROUTING, policy }),
    authorize: () => ({ tenant: "" }),
    limits: DEFAULT_PROXY_LIMITS,
    timeouts: DEFAULT_PROXY_TIMEOUTS,
  });
  const prompts = promptsOf(seed);
  const answers: string[] = [];
  let next = 0;
  const client = async () => {
    for (let i = next++; i < prompts.length; i = next++) {
      const body = { model: "mill-base", prompt: prompts[i], max_tokens: 8, ignore_eos: true, temperature: 0 };
      const answer = await post<{ choices: { text: string }[] }>(`${proxy.url}/v1/completions`, body);
      answers[i] = answer.choices[0]!.text;
    }
  };
  await Promise.all(Array.from({ length: NUM_CLIENTS }, client));
  await proxy.close();
  const total = async (name: string) =>
    (await Promise.all(servers.map((server) => counter(server, name)))).reduce((sum, count) => sum + count, 0);
  const hitRate = (await total("prefix_cache_hits_total")) / (await total("prefix_cache_queries_total"));
  const prompted = await Promise.all(servers.map((server) => counter(server, "prefix_cache_queries_total")));
  return { answers, hitRate, imbalance: (3 * Math.max(...prompted)) / prompted.reduce((sum, each) => sum + each, 0) };
}

test("prefix routing beats round-robin by the engines' own counters and changes no answer", {
  timeout: 120_000,
}, async () => {
  const prefix = await run("prefix", 1);
  const turns = await run("round-robin", 1);
  console.log(`hit rates: prefix ${prefix.hitRate.toFixed(3)}, round-robin ${turns.hitRate.toFixed(3)}`);
  // How often a prefix spills over depends on how busy the machine is.
  expect(prefix.hitRate).toBeGreaterThan(1.5 * turns.hitRate);
  expect(prefix.imbalance).toBeLessThan(1.5);
  expect(prefix.answers).toEqual(turns.answers);
});
