/**
 * Mixed requests against the real server with little KV memory, a third of them cancelled at random moments: every
 * other answer is right, no block is leaked, memory does not grow after warm-up. MILLRACE_SOAK_REQUESTS sets the number
 * (10000 for the long run).
 */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { fixture } from "../helpers/fixtures.js";
import { cases } from "../helpers/long.js";
import { TestRng } from "../helpers/rng.js";
import type { TestServer } from "../helpers/server.js";
import { post, startTestServer } from "../helpers/server.js";

const numRequests = Number(process.env.MILLRACE_SOAK_REQUESTS ?? cases(250, 600));
const CONCURRENCY = 48;
const NUM_KINDS = 60;
/**
 * The JavaScript heaps are kept small, so that what they merely have not collected yet does not hide what they hold on
 * to.
 */
const NODE_OPTIONS = "--max-old-space-size=48 --max-semi-space-size=2";
/** Allowed growth of resident memory between warm-up and end, in MiB: the garbage collectors' play in both threads. */
const MAX_GROWTH_MIB = 16;

interface Answer {
  readonly choices: readonly { readonly text: string; readonly finish_reason: string }[];
}

test(
  `${numRequests} mixed requests, a third cancelled`,
  async () => {
    // 40 blocks hold one full-length sequence and little more: pre-emption is certain.
    const kvBytes = 40 * 16 * 5 * 2 * 4 * 8 * 2;
    await using server = await startTestServer(
      [
        "--model",
        fixture("models/stories260k.gguf"),
        "--kv-cache-memory-bytes",
        String(kvBytes),
        "--max-num-seqs",
        "32",
      ],
      { NODE_OPTIONS },
    );
    const url = `${server.url}/v1/completions`;
    const rng = new TestRng(99);
    const kinds = Array.from({ length: NUM_KINDS }, () => randomBody(rng));
    const expected = new Map<object, Answer["choices"]>();
    for (const body of kinds) expected.set(body, (await post<Answer>(url, body)).choices);

    const warmUp = Math.floor(numRequests / 4);
    const counts = { right: 0, cancelled: 0, started: 0 };
    let warmRssMib = 0;
    const rssTrackMib: number[] = [];
    const client = async () => {
      while (counts.started < numRequests) {
        if (counts.started++ === warmUp) warmRssMib = rssMib(server);
        if (counts.started % Math.ceil(numRequests / 10) === 0) rssTrackMib.push(rssMib(server));
        const body = rng.pick(kinds);
        const isCancelled = rng.chance(1 / 3);
        const signal = isCancelled ? AbortSignal.timeout(rng.int(0, 60)) : undefined;
        try {
          const answer = await post<Answer>(url, body, signal);
          expect(answer.choices).toEqual(expected.get(body));
          counts.right++;
        } catch (error) {
          if (!isCancelled || !(error instanceof Error) || error.name !== "TimeoutError") throw error;
          counts.cancelled++;
        }
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, client));

    await expect.poll(() => metric(server, "num_requests_running"), { timeout: 5000 }).toBe(0);
    expect(await metric(server, "kv_cache_usage_perc")).toBe(0);
    expect(await metric(server, "num_requests_waiting")).toBe(0);
    const preemptions = await metric(server, "num_preemptions_total");
    const growthMib = rssMib(server) - warmRssMib;
    console.log(`soak: ${JSON.stringify({ ...counts, preemptions, warmRssMib, growthMib, rssTrackMib })}`);
    expect(preemptions).toBeGreaterThan(0);
    expect(counts.cancelled).toBeGreaterThan(numRequests / 10);
    expect(growthMib).toBeLessThan(MAX_GROWTH_MIB);
  },
  60_000 + numRequests * 60,
);

function randomBody(rng: TestRng): object {
  const start = rng.pick([
    "Once upon a time",
    "Lily and Tom",
    "The big red ball",
    "One day a small dog went to the park and",
  ]);
  return {
    prompt: start + " and then".repeat(rng.int(0, 20)),
    max_tokens: rng.int(1, 90),
    temperature: rng.pick([0, 0.7, 1.2]),
    top_p: rng.pick([1, 0.9]),
    top_k: rng.pick([0, 20]),
    frequency_penalty: rng.pick([0, 0.5]),
    seed: rng.int(0, 1e9),
    n: rng.pick([1, 1, 1, 2]),
    ...(rng.chance(0.3) ? { logprobs: 3 } : {}),
    ...(rng.chance(0.3) ? { stop: ["the", "."] } : {}),
    ...(rng.chance(0.2) ? { echo: true, logprobs: 1 } : {}),
  };
}

function rssMib(server: TestServer): number {
  const status = readFileSync(`/proc/${server.process.pid}/status`, "utf8");
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024);
}

async function metric(server: TestServer, name: string): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`)).text();
  const line = text.split("\n").find((candidate) => candidate.startsWith(`millrace:${name}`));
  return Number(line?.split(" ").at(-1));
}
