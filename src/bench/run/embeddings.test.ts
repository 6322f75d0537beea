/** `bench embeddings` from targets to report, with the real load generator and servers of vectors of known speed. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { markdownOf } from "../report/markdown.js";
import { runBench } from "./bench.js";
import { embeddingServers, embeddingsJob } from "./embeddings.js";
import type { ServerUnderTest } from "./target.js";

let servers: Server[] = [];
afterEach(() => {
  for (const server of servers) server.close();
  servers = [];
});

interface Habits {
  readonly delayMs?: number;
  /** Tokens that the server adds to a text. */
  readonly overhead?: number;
  /** A word of two tokens. */
  readonly longWord?: string;
  /** Shifts the vectors by this much. */
  readonly drift?: number;
  readonly sizes?: Set<number>;
}

/** A vector has the text's length and its number of words. */
async function serverOf(name: string, habits: Habits = {}): Promise<ServerUnderTest> {
  const { delayMs = 0, overhead = 2, longWord = "", drift = 0, sizes } = habits;
  const tokensOf = (text: string) => text.split(" ").reduce((sum, word) => sum + (word === longWord ? 2 : 1), overhead);
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    if (request.url === "/v1/models") return response.end('{"data":[{"id":"m"}]}');
    if (request.url !== "/v1/embeddings") return response.writeHead(404).end("{}");
    const { input } = JSON.parse(body) as { readonly input: readonly string[] };
    if (input.length > 1) await sleep(delayMs);
    for (const text of input) sizes?.add(tokensOf(text));
    const data = input.map((text) => ({ embedding: [text.length, text.split(" ").length + drift * text.length] }));
    const usage = { prompt_tokens: input.reduce((sum, text) => sum + tokensOf(text), 0) };
    response.end(JSON.stringify({ data, usage }));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { name, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, timeoutMs: 5000 };
}

const nothing = (): void => {};
const EVENTS = { onOpening: nothing, onTargets: nothing, onReport: nothing, onRunStart: nothing, onProgress: nothing };
const OPTIONS = { tokens: [12], texts: [3], concurrency: [2], durationS: 0.4, rounds: 3, seed: 1, minCosine: 0.999 };

function bench(targets: readonly ServerUnderTest[], minCosine = OPTIONS.minCosine) {
  const rest = { numWorkers: 1, isPolling: false, restarts: "never", numThreads: 1 } as const;
  const job = { ...embeddingsJob(targets, { ...OPTIONS, minCosine }), ...rest, signal: new AbortController().signal };
  return runBench(job, { ...EVENTS, onRun: nothing });
}

test("texts a second are vectors a second, every text has the tokens that were asked for, and the ratio is that of the speeds", async () => {
  const sizes = new Set<number>();
  const fast = await serverOf("fast", { delayMs: 10, sizes });
  const slow = await serverOf("slow", { delayMs: 40, longWord: "the" });
  const report = (await bench([fast, slow]))!;
  expect(report).toMatchObject({ isComplete: true, plan: { minCosine: 0.999 } });
  expect(report.runs).toHaveLength(6);
  for (const { metrics, requests } of report.runs) {
    expect(metrics.failures).toEqual([]);
    expect(metrics.outputTokens).toBe(3 * requests.length);
    // "the" is one token of the first server only, so texts omit it.
    expect(metrics.promptTokens).toBe(12 * metrics.outputTokens);
  }
  expect(report.targets.map(({ leastCosine }) => leastCosine)).toEqual([expect.closeTo(1), expect.closeTo(1)]);
  const text = markdownOf(report);
  expect(text).toContain("| cell | server | texts/s | tokens/s | tokens/text | latency p50 | p99 |");
  expect(text).toContain("| fast ÷ slow | texts/s | latency (less is better) |");
  expect(text).toContain("Vectors of slow and fast: a cosine of at least 1.000000 over all compared texts.");
  const [, ratio] = /^\| 3 × 12 tokens, 2 at once[^|]*\| ([\d.]+) ×/m.exec(text)!;
  expect(Number(ratio)).toBeGreaterThan(1.2);
  expect(text).not.toMatch(/NaN|undefined/);
}, 30_000);

test("servers of other vectors are refused with their cosine, and compared when the bound allows it", async () => {
  const [one, other] = [await serverOf("one"), await serverOf("other", { drift: 0.2 })];
  await expect(bench([one, other])).rejects.toThrow(/vectors of other with a cosine of at least 0.999 .* got 0\.9\d+/);
  const report = await bench([one, other], 0.5);
  expect(report!.targets[1]!.leastCosine).toBeLessThan(0.999);
});

test("a server without vectors is refused", async () => {
  const chat = createServer((request, response) =>
    response.writeHead(request.url === "/v1/models" ? 200 : 404).end('{"data":[{"id":"m"}]}'),
  );
  servers.push(chat);
  await new Promise<void>((resolve) => chat.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(chat.address() as AddressInfo).port}`;
  await expect(bench([{ name: "chat", url, timeoutMs: 5000 }])).rejects.toThrow(/\/v1\/embeddings: 404/);
});

test("started servers get the same file and threads", () => {
  const launches = embeddingServers({ modelPath: "m", threads: 2, extra: ["--x"], llamaServer: "/bin/llama" });
  const [own, peer] = launches.map(({ command }) => command(7, undefined).join(" "));
  expect(own).toMatch(/engine --model m --port 7 --threads 2 --x$/);
  expect(peer).toMatch(/^\/bin\/llama -m m --port 7 --embeddings .* -t 2$/);
});
