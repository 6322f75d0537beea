/**
 * Measures a gateway: the time that it adds to the first token of many streams, its small requests per second, and its
 * memory.
 */
import { join } from "node:path";
import { Pool } from "undici";
import { MillraceError } from "../../core/errors.js";
import { packageRoot } from "../../core/package-root.js";
import type { LoadGenerator } from "../load/generator.js";
import { percentile } from "../measure/percentiles.js";
import { snapshotOf } from "../measure/process-usage.js";
import { MOCK_FACTS } from "../mock/self-test.js";
import { forkServer, type LaunchedServer, launchServer } from "../run/launch.js";

/** The compiled module, because a separate process runs compiled code. */
const PROXY_PROCESS = "dist/src/bench/gateway/proxy-process.js";
/**
 * Forty tokens per second, the rate for each client of a busy GPU. Tokens may be a millisecond late, with and without a
 * gateway: an exact mock keeps its event loop busy and would take one of two cores from the measured program.
 */
export const STREAM_TIMINGS = { ttftMs: 20, tpotMs: 25, tokensPerChunk: 1, spinMs: 0 };
const OUTPUT_TOKENS = 32;
const MEMORY_SAMPLES = 20;
const SMALL_REQUEST = JSON.stringify({ model: MOCK_FACTS.model, prompt: "Say a word.", max_tokens: 1, stream: false });

export interface RunningGateway extends LaunchedServer {
  readonly name: string;
}

export async function startGateway(upstreamUrl: string): Promise<RunningGateway> {
  const server = await forkServer(join(packageRoot(), PROXY_PROCESS), [upstreamUrl, MOCK_FACTS.model]);
  return { name: "millrace", ...server };
}

/** @param commandLine with {port} and {upstream} as placeholders */
export async function startPeerGateway(commandLine: string, upstreamUrl: string): Promise<RunningGateway> {
  const words = commandLine.trim().split(/\s+/);
  const name = words[0]!.split("/").at(-1)!;
  const fill = (port: number) => (word: string) =>
    word.replaceAll("{port}", String(port)).replaceAll("{upstream}", upstreamUrl);
  const launched = await launchServer({ name, command: (port) => words.map(fill(port)), isReady: answersSmallRequest });
  return { name, ...launched };
}

async function answersSmallRequest(url: string): Promise<boolean> {
  const pool = new Pool(url);
  try {
    await send(pool, SMALL_REQUEST);
    return true;
  } catch {
    return false;
  } finally {
    await pool.destroy();
  }
}

export interface FirstByte {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly numRequests: number;
}

/** Time from handing a request to the socket to its first token, over `numRequests` streams on open connections. */
export async function firstByte(
  generator: LoadGenerator,
  url: string,
  concurrency: number,
  numRequests: number,
  seed = 1,
): Promise<FirstByte> {
  const { ttftMs, tpotMs } = STREAM_TIMINGS;
  const lengths = { promptTokens: 128, sharedTokens: 0, outputTokens: OUTPUT_TOKENS };
  const { records } = await generator.run({
    url,
    headers: {},
    timeoutMs: 30_000,
    durationMs: Number.POSITIVE_INFINITY,
    traffic: { workload: { kind: "random", ...lengths }, server: MOCK_FACTS, seed },
    load: { kind: "closed", concurrency, rampMs: ttftMs + OUTPUT_TOKENS * tpotMs },
    numSessions: numRequests + concurrency,
  });
  const failed = records.find(({ failure }) => failure !== undefined);
  if (failed !== undefined) {
    throw new MillraceError("peer_failed", `expected every stream to be answered, got ${failed.failure?.detail}`);
  }
  // The first request of each client opens connections that later ones reuse.
  const times = records
    .slice(concurrency)
    .map(({ chunkAtMs, sentMs }) => chunkAtMs[0]! - sentMs)
    .sort((a, b) => a - b);
  return { p50Ms: percentile(times, 0.5)!, p99Ms: percentile(times, 0.99)!, numRequests: times.length };
}

export interface Throughput {
  readonly requestsPerSecond: number;
  /** CPU time of the process over the run; undefined without /proc. */
  readonly cpuMicrosPerRequest: number | undefined;
  /** Resident memory of the process, sampled evenly. */
  readonly memoryBytes: readonly number[];
}

/**
 * Small requests without streaming: each of `concurrency` clients sends its next request after the answer.
 *
 * @param bodyOf the JSON of each request, by its number; absent: all are the same
 */
export async function throughput(
  url: string,
  pid: number,
  concurrency: number,
  numRequests: number,
  bodyOf: (index: number) => string = () => SMALL_REQUEST,
): Promise<Throughput> {
  const pool = new Pool(url, { connections: concurrency, pipelining: 1 });
  const memoryBytes: number[] = [];
  const every = Math.ceil(numRequests / MEMORY_SAMPLES);
  let numSent = 0;
  const client = async () => {
    while (numSent < numRequests) {
      const index = numSent++;
      if (index % every === 0) memoryBytes.push(snapshotOf(pid)?.memoryBytes ?? 0);
      await send(pool, bodyOf(index));
    }
  };
  const before = snapshotOf(pid);
  const startMs = performance.now();
  await Promise.all(Array.from({ length: concurrency }, client));
  const seconds = (performance.now() - startMs) / 1000;
  const after = snapshotOf(pid);
  await pool.close();
  const cpuSeconds = before === undefined || after === undefined ? undefined : after.cpuSeconds - before.cpuSeconds;
  return {
    requestsPerSecond: numRequests / seconds,
    cpuMicrosPerRequest: cpuSeconds === undefined ? undefined : (1e6 * cpuSeconds) / numRequests,
    memoryBytes,
  };
}

function send(pool: Pool, body: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let status = 0;
    pool.dispatch(
      { path: "/v1/completions", method: "POST", headers: { "content-type": "application/json" }, body },
      {
        onRequestStart() {},
        onResponseStart: (_, statusCode) => {
          status = statusCode;
        },
        onResponseData() {},
        onResponseEnd: () =>
          status === 200
            ? resolve()
            : reject(new MillraceError("peer_failed", `expected status 200 from the gateway, got ${status}`)),
        onResponseError: (_, error) => reject(error),
      },
    );
  });
}
