/**
 * A benchmark's saved results: enough to recompute and judge every figure. Times of requests are milliseconds after
 * their run's start. Files of another version are refused; a new optional field does not need a new version.
 */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";

export const REPORT_VERSION = 1;

/**
 * broken: the stream ended early or with an error; length: a different number of tokens than requested; usage: no count
 * of tokens.
 */
const FAILURE_KINDS = ["connect", "status", "broken", "timeout", "cancelled", "length", "usage"] as const;

export type FailureKind = (typeof FAILURE_KINDS)[number];

/** The workload. Entries are counted and hashed but not saved, because they are the user's own data. */
const workload = z.looseObject({ kind: z.string() });

/** The load, with its number of clients or its rate. */
const load = z.looseObject({
  kind: z.enum(["closed", "open", "replay"]),
  concurrency: z.number().optional(),
  ratePerS: z.number().optional(),
});

const cell = z.object({
  name: z.string(),
  workloadName: z.string(),
  workload,
  load,
  numSessions: z.number().optional(),
  durationMs: z.number().optional(),
  /** Number of initial sessions that do not count in any figure. */
  numUncounted: z.number().optional(),
  /** Names of the targets measured under the cell; absent: all. */
  targets: z.array(z.string()).optional(),
  /** Share of the output tokens that was requested; the rest pads a batch. Undefined: all. */
  usefulShare: z.number().optional(),
});

/** The layers of `bench ablate`, from which the targets' names follow (ablation/variants.ts). */
const ablation = z.object({
  /** Absent in older files: millrace. */
  engine: z.string().optional(),
  foundation: z.array(z.string()),
  optimisations: z.array(z.string()),
  alternatives: z.array(z.string()),
  numThreads: z.number(),
});

/** Limits that a good request meets. */
const slo = z.object({
  name: z.string(),
  ttftMs: z.number().optional(),
  tpotMs: z.number().optional(),
  e2eMs: z.number().optional(),
});

const plan = z.object({
  scenario: z.string(),
  cells: z.array(cell),
  rounds: z.number(),
  seed: z.number(),
  /** Factor for all lengths; the names of shapes have the lengths without it. Absent: 1. */
  scale: z.number().optional(),
  slo: slo.optional(),
  pricePerHour: z.number().optional(),
  /** The least cosine of the servers' vectors with which they are compared. */
  minCosine: z.number().optional(),
  /** Whether cells after the first without a gain are left out. */
  stopsWhenSaturated: z.boolean(),
  ablation: ablation.optional(),
});

const macs = z.record(z.string(), z.number());

/** The least work per token: multiply-adds by instruction mix (kernels/probes.ts). */
const modelWork = z.object({
  /** Bytes of weights that a step reads, with any number of rows. */
  weightBytes: z.number(),
  kvBytesPerToken: z.number(),
  layerMacs: macs,
  /** Multiply-adds of the output matrix. */
  outputMacs: macs,
  /** Multiply-adds of attention, per token attended to. */
  attentionMacs: z.number(),
  /** Share of the layers with a sliding window, by window size. Absent: none. */
  windows: z.array(z.object({ tokens: z.number(), layerShare: z.number() })).optional(),
});

/** Measured memory and arithmetic speed of all cores on the idle machine. */
const ceilings = z.object({
  numThreads: z.number(),
  readings: z.array(z.object({ bytesPerS: z.number(), macsPerS: macs })),
});

const target = z.object({
  name: z.string(),
  model: z.string(),
  version: z.string().optional(),
  maxModelLen: z.number().optional(),
  promptsAs: z.enum(["ids", "text", "chat"]),
  /** Whether answers of random workloads have exactly the requested length. */
  ignoresEos: z.boolean(),
  tokensPerWord: z.number(),
  /** For servers of vectors: the least cosine with the first server's vectors of the same texts. */
  leastCosine: z.number().optional(),
  /**
   * Command of a started server, without paths. If servers are restarted for each run, this is the command for the
   * first cell, and each run has its own.
   */
  command: z.string().optional(),
  /** The work of a model whose file is on this machine. */
  work: modelWork.optional(),
});

const distribution = z.object({
  count: z.number(),
  mean: z.number(),
  min: z.number(),
  max: z.number(),
  /** Absent with too few samples. */
  percentiles: z.object({
    p50: z.number().optional(),
    p90: z.number().optional(),
    p95: z.number().optional(),
    p99: z.number().optional(),
    p999: z.number().optional(),
  }),
});

const plateau = z.object({
  startMs: z.number(),
  durationMs: z.number(),
  numDone: z.number(),
  outputTokensPerS: z.number(),
  totalTokensPerS: z.number(),
  /**
   * Throughput of the second half ÷ the first half − 1: far from 0 if the server was not warm. Absent with few answers.
   */
  drift: z.number().optional(),
});

const metrics = z.object({
  numRequests: z.number(),
  failures: z.array(z.object({ kind: z.enum(FAILURE_KINDS), count: z.number(), example: z.string() })),
  promptTokens: z.number(),
  cachedTokens: z.number(),
  outputTokens: z.number(),
  /** Time from the first sending to the last token. */
  durationMs: z.number(),
  outputTokensPerS: z.number(),
  totalTokensPerS: z.number(),
  /** Sum of E2E ÷ duration. */
  concurrency: z.number(),
  plateau: plateau.optional(),
  ttftMs: distribution.optional(),
  /** TTFT measured from t0. */
  intendedTtftMs: distribution.optional(),
  /** Time to the first token after the reasoning; absent when it equals TTFT. */
  answerMs: distribution.optional(),
  tpotMs: distribution.optional(),
  itlMs: distribution.optional(),
  /** Gaps that ended while another request waited for its first token. */
  itlBesidePromptsMs: distribution.optional(),
  /** The other gaps. */
  itlUndisturbedMs: distribution.optional(),
  e2eMs: distribution.optional(),
  /** t1 − t0: how long requests waited in the client. */
  sendDelayMs: distribution.optional(),
  tokensPerChunk: z.number(),
  slo: z.object({ goodRequestsPerS: z.number(), attainment: z.number() }).optional(),
});

/** Figures from the server's own metrics. */
const server = z.object({
  /** Mean time of a request in the server's queue. */
  queueMs: z.number().optional(),
  /**
   * Share of the steps' time that prompts took. For servers that do not report it: the share of the requests' time in
   * the batch until their first token.
   */
  prefillShare: z.number().optional(),
  /** Share of the steps' time spent inside the kernels. */
  kernelShare: z.number().optional(),
  /** Accepted ÷ draft tokens; and tokens per draft, including the bonus token. */
  acceptance: z.number().optional(),
  /** Drafted tokens that were wrong. */
  rejected: z.number().optional(),
  acceptedLength: z.number().optional(),
  cacheHitShare: z.number().optional(),
  preemptions: z.number().optional(),
  /** Share of the KV memory in use, 0 to 1. */
  medianKvUsage: z.number().optional(),
  maxKvUsage: z.number().optional(),
  /** Most requests seen in the batch at once. */
  maxRunning: z.number().optional(),
});

/** CPU time ÷ wall time, and peak memory, including pages of mapped files. */
const usage = z.object({ cpuCores: z.number(), peakMemoryBytes: z.number() });

const request = z.object({
  session: z.number(),
  turn: z.number(),
  intendedMs: z.number(),
  sentMs: z.number(),
  firstMs: z.number().optional(),
  lastMs: z.number(),
  chunks: z.number(),
  prompt: z.number(),
  cached: z.number(),
  output: z.number(),
  finish: z.string().optional(),
  failure: z.enum(FAILURE_KINDS).optional(),
});

const run = z.object({
  target: z.string(),
  cell: z.string(),
  round: z.number(),
  startedAt: z.string(),
  /** Command of the server started for this run, without paths. */
  command: z.string().optional(),
  metrics,
  /** Reasons why the run is void; empty if it counts. */
  voidReasons: z.array(z.string()),
  client: z.object({
    numChunks: z.number(),
    meanMs: z.number(),
    maxMs: z.number(),
    cpuWaitMs: z.number(),
    /** Sum of lag and CPU wait, median over short intervals; voids the run if too long. Absent in older files. */
    typicalMs: z.number().optional(),
    utilization: z.number(),
    numWorkers: z.number(),
  }),
  server: server.optional(),
  process: usage.optional(),
  requests: z.array(request),
});

const report = z.object({
  format: z.literal("millrace-bench"),
  version: z.literal(REPORT_VERSION),
  createdAt: z.string(),
  /** False: stopped, killed, or a server died before the plan was complete. */
  isComplete: z.boolean(),
  machine: z.object({ cpu: z.string(), numCpus: z.number(), memoryBytes: z.number(), platform: z.string() }),
  versions: z.object({ millrace: z.string(), node: z.string() }),
  plan,
  /** Read before and after the runs; absent if the probes were not built. */
  ceilings: ceilings.optional(),
  /** Notes that are shown with the figures. */
  notes: z.array(z.string()),
  targets: z.array(target),
  runs: z.array(run),
});

export type Slo = z.infer<typeof slo>;
export type Distribution = z.infer<typeof distribution>;
export type RunMetrics = z.infer<typeof metrics>;
export type ServerMetrics = z.infer<typeof server>;
export type ProcessUsage = z.infer<typeof usage>;
export type BenchReport = z.infer<typeof report>;
export type BenchPlan = z.infer<typeof plan>;
export type ModelWork = z.infer<typeof modelWork>;
export type Ceilings = z.infer<typeof ceilings>;
export type BenchTarget = z.infer<typeof target>;
export type BenchRun = z.infer<typeof run>;
export type BenchRequest = z.infer<typeof request>;
export type PlannedCell = z.infer<typeof cell>;

/** Throws file_unreadable. */
export function readReport(path: string): BenchReport {
  try {
    return report.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (cause) {
    const got = cause instanceof z.ZodError ? z.prettifyError(cause) : String(cause);
    throw new MillraceError("file_unreadable", `expected results of millrace bench run in ${path}, got ${got}`, {
      cause,
    });
  }
}

/** Writes the whole file or nothing: a kill while writing leaves the previous file. */
export function writeReport(path: string, results: BenchReport): void {
  writeFileSync(`${path}.partial`, `${JSON.stringify(results)}\n`);
  renameSync(`${path}.partial`, path);
}
