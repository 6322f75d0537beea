/**
 * A server in virtual time: the real scheduler, KV memory, speculator and metrics, with a cost model in place of the
 * kernels and a client that reads one arrival after another. A run's figures are made of its records and of the
 * metrics' text by the code that measures real servers.
 */
import { vi } from "vitest";
import { parseMetrics, serverMetrics } from "../../src/bench/measure/prometheus.js";
import { measureRun } from "../../src/bench/measure/run-metrics.js";
import type { BenchRun } from "../../src/bench/results/schema.js";
import { arrivalTimes } from "../../src/bench/workload/load.js";
import { parseSpeculativeConfig } from "../../src/cli/flags/speculative-config.js";
import { DEFAULT_MAX_NUM_SEQS, defaultBatchedTokens } from "../../src/core/batched-tokens.js";
import { uniform } from "../../src/core/random.js";
import { NO_SPECULATION_STATS } from "../../src/engine/api/stats.js";
import { BackgroundPace } from "../../src/engine/background-pace.js";
import { KvManager } from "../../src/engine/memory/kv-manager.js";
import { Scheduler } from "../../src/engine/scheduler.js";
import { createPolicy } from "../../src/engine/scheduling-policy.js";
import type { Drafter } from "../../src/engine/speculative/drafter.js";
import { Speculator } from "../../src/engine/speculative/speculator.js";
import { Sequence } from "../../src/engine/step/sequence.js";
import { StepCost } from "../../src/engine/step/step-cost.js";
import { StepMeter } from "../../src/engine/step-meter.js";
import { StepPace } from "../../src/engine/step-pace.js";
import { type Configuration, numberOf } from "../../src/lab/tune/configuration.js";
import { createMetrics, type RequestTimer } from "../../src/serve/generation/metrics.js";
import { request } from "./engine-requests.js";
import { FakeEngine } from "./fake-engine.js";
import { type Prompt, promptsOf, type Traffic } from "./simulated-traffic.js";

/** Milliseconds are of one thread where threads share the work. */
export interface Machine {
  readonly cores: number;
  /** To read the weights, once a step; threads beyond `readers` gain nothing. */
  readonly readMs: number;
  readonly readers: number;
  /** To compute one row. */
  readonly rowMs: number;
  /** To attend to a thousand tokens from one row. */
  readonly attentionMs: number;
  /** Outside the kernels. */
  readonly hostStepMs: number;
  readonly hostRowMs: number;
  /** To read one arrival in the client, which reads one at a time. */
  readonly clientMs: number;
  readonly weightBytes: number;
  readonly kvBytesPerToken: number;
  /** Of a server that is told nothing else. */
  readonly kvBytes: number;
  readonly maxModelLen: number;
  /** Probability that a drafted token is right. */
  readonly draftAccuracy: number;
}

/**
 * About a 1.1B model in 8 bits on four cores: 44 ms for one sequence's step, 89 ms for sixteen, 300 prompt tokens a
 * second.
 */
export const MACHINE: Machine = {
  cores: 4,
  readMs: 100,
  readers: 2.5,
  rowMs: 12,
  attentionMs: 4,
  hostStepMs: 1,
  hostRowMs: 0.02,
  clientMs: 0.05,
  weightBytes: 1.2e9,
  kvBytesPerToken: 22_528,
  kvBytes: 1e9,
  maxModelLen: 4096,
  draftAccuracy: 0.2,
};

const BLOCK_SIZE = 16;
/** A real run's are 250 ms apart; a run of minutes needs no thousand of them. */
const SAMPLE_MS = 1000;
/** Bytes of an entry in `--kv-cache-dtype`, relative to f16. */
const KV_SHARES: Readonly<Record<string, number>> = { f16: 1, int8: 0.53, fp4: 0.29 };

/** @returns the problem where the server does not start or refuses the load */
export async function simulate(
  machine: Machine,
  traffic: Traffic,
  configuration: Configuration,
): Promise<BenchRun | string> {
  const now = vi.spyOn(performance, "now");
  try {
    return await new Simulation(machine, traffic, configuration, (ms) => now.mockReturnValue(ms)).run();
  } catch (thrown) {
    if (thrown instanceof Refusal) return thrown.message;
    throw thrown;
  } finally {
    now.mockRestore();
  }
}

const NOTHING_YET = new FakeEngine().stats();

class Refusal extends Error {}

interface Live {
  readonly timer: RequestTimer;
  readonly chunkAtMs: number[];
  readonly session: number;
  readonly sentMs: number;
  readonly sequence: Sequence;
}

class Simulation {
  readonly #threads: number;
  readonly #kv: KvManager;
  readonly #cost: StepCost;
  readonly #pace: StepPace | undefined;
  readonly #meter: StepMeter;
  readonly #speculator: Speculator | undefined;
  readonly #scheduler: Scheduler;
  readonly #live = new Map<number, Live>();
  readonly #prompts: readonly Prompt[];
  /** Requests on their way, in order of time. */
  readonly #arrivals: { readonly atMs: number; readonly session: number }[] = [];
  #numSent = 0;
  #ms = 0;
  /** When the client has read what has arrived. */
  #clientMs = 0;
  #clientBusyMs = 0;
  #numOutputTokens = 0;

  constructor(
    private readonly machine: Machine,
    private readonly traffic: Traffic,
    configuration: Configuration,
    private readonly setClock: (ms: number) => void,
  ) {
    const has = (flag: string): boolean => configuration[flag] !== undefined;
    const maxNumSeqs = numberOf(configuration, "max-num-seqs") ?? DEFAULT_MAX_NUM_SEQS;
    const maxNumBatchedTokens = numberOf(configuration, "max-num-batched-tokens") ?? defaultBatchedTokens(maxNumSeqs);
    if (maxNumBatchedTokens < maxNumSeqs) throw new Refusal("expected a step with a token for every seat");
    this.#threads = Math.min(machine.cores, numberOf(configuration, "threads") ?? machine.cores);
    this.#prompts = promptsOf(traffic);
    const share = KV_SHARES[configuration["kv-cache-dtype"] ?? "f16"]!;
    const kvBytes = numberOf(configuration, "kv-cache-memory-bytes") ?? machine.kvBytes;
    const numBlocks = Math.floor(kvBytes / (share * machine.kvBytesPerToken * BLOCK_SIZE));
    const longest = Math.max(...this.#prompts.map(({ ids, numOutputTokens }) => ids.length + numOutputTokens));
    if (numBlocks * BLOCK_SIZE < longest) throw new Refusal("expected requests that fit into the KV memory");
    this.#kv = new KvManager({
      windows: [0],
      numBlocks: [numBlocks],
      blockSize: BLOCK_SIZE,
      maxStepTokens: maxNumBatchedTokens,
      isPrefixCachingEnabled: !has("no-enable-prefix-caching"),
      reservedTokens: configuration["kv-layout"] === "contiguous" ? machine.maxModelLen : 0,
    });
    this.#cost = new StepCost((numRows) => this.#kernelsMs(numRows, 0) + this.#hostMs(numRows), maxNumBatchedTokens);
    const maxStepMs = configuration["max-step-ms"];
    if (maxStepMs !== undefined) {
      this.#pace = new StepPace(this.#cost, maxStepMs === "auto" ? maxStepMs : Number(maxStepMs));
    }
    this.#meter = new StepMeter(this.#cost, this.#pace, new BackgroundPace());
    const speculative = parseSpeculativeConfig(configuration["speculative-config"] ?? "{}");
    if (speculative.method !== "none") {
      this.#speculator = new Speculator(
        guessing(machine.draftAccuracy),
        this.#cost,
        speculative,
        undefined,
        () => this.#ms,
      );
    }
    this.#scheduler = new Scheduler(
      {
        maxNumSeqs,
        maxNumBatchedTokens,
        maxExtraLogitRows: 512,
        numForks: 0,
        isChunkedPrefillEnabled: !has("no-enable-chunked-prefill"),
        isBatchingStatic: configuration.batching === "static",
      },
      this.#kv,
      createPolicy("fcfs"),
      {
        promptTokensBeside: (numDecoding, most) => this.#pace?.promptTokensBeside(numDecoding, most) ?? most,
        backgroundTokens: (most) => most,
      },
    );
  }

  #kernelsMs(numRows: number, numContextTokens: number): number {
    const { readMs, readers, rowMs, attentionMs } = this.machine;
    const compute = rowMs * numRows + (attentionMs * numContextTokens) / 1000;
    return readMs / Math.min(this.#threads, readers) + compute / this.#threads;
  }

  #hostMs(numRows: number): number {
    return this.machine.hostStepMs + this.machine.hostRowMs * numRows;
  }

  async run(): Promise<BenchRun> {
    const { load, numRequests } = this.traffic;
    const atMs =
      load.kind === "closed"
        ? new Array<number>(Math.min(load.concurrency, numRequests)).fill(0)
        : arrivalTimes(load, { numSessions: numRequests, durationMs: Number.POSITIVE_INFINITY }, 1);
    for (const each of atMs) this.#arrivals.push({ atMs: each, session: this.#numSent++ });
    const engine = Object.assign(new FakeEngine({ info: { numKvBlocks: this.#kv.numBlocks } }), {
      stats: () => this.#stats(),
    });
    this.#tick(0);
    const metrics = createMetrics(engine, "simulated");
    const before = parseMetrics(await metrics.render());
    const samples: (typeof before)[] = [];
    const records: Parameters<typeof measureRun>[0][number][] = [];
    let sampledMs = 0;
    while (this.#arrivals.length > 0 || this.#live.size > 0) {
      if (this.#live.size === 0) this.#tick(Math.max(this.#ms, this.#arrivals[0]!.atMs));
      while (this.#arrivals.length > 0 && this.#arrivals[0]!.atMs <= this.#ms) {
        const { atMs: sentMs, session } = this.#arrivals.shift()!;
        this.#submit(session, sentMs, metrics.startRequest.bind(metrics));
      }
      for (const live of await this.#step()) records.push(this.#finish(live));
      if (this.#ms < sampledMs + SAMPLE_MS) continue;
      sampledMs = this.#ms;
      samples.push(parseMetrics(await metrics.render()));
    }
    const after = parseMetrics(await metrics.render());
    const { cores, weightBytes, kvBytesPerToken } = this.machine;
    const { kernelMs, stepMs } = this.#meter;
    const endMs = Math.max(this.#ms, this.#clientMs);
    const busyMs = this.#threads * kernelMs + stepMs - kernelMs;
    return {
      target: "simulated",
      cell: "simulated",
      round: 0,
      startedAt: "",
      metrics: measureRun(records, load, undefined),
      voidReasons: [],
      client: {
        numChunks: 0,
        meanMs: 0,
        maxMs: 0,
        cpuWaitMs: 0,
        utilization: this.#clientBusyMs / endMs,
        numWorkers: 1,
      },
      server: serverMetrics(before, after, samples),
      process: {
        cpuCores: Math.min(cores, busyMs / endMs),
        peakMemoryBytes: weightBytes + this.#kv.numBlocks * BLOCK_SIZE * kvBytesPerToken,
      },
      requests: [],
    };
  }

  #tick(ms: number): void {
    this.#ms = ms;
    this.setClock(ms);
  }

  #submit(session: number, sentMs: number, startRequest: ReturnType<typeof createMetrics>["startRequest"]): void {
    const { ids, numOutputTokens } = this.#prompts[session]!;
    const engineRequest = request(ids, { maxTokens: numOutputTokens });
    // The server takes the request at once; the engine sees it between two steps.
    this.setClock(sentMs);
    const timer = startRequest(engineRequest, sentMs);
    this.setClock(this.#ms);
    const sequence = new Sequence(session, engineRequest, 1, this.#ms);
    this.#live.set(session, { timer, chunkAtMs: [], session, sentMs, sequence });
    this.#scheduler.add(sequence);
  }

  /** As the engine's turn: plan, draft, plan the rest, compute, collect. @returns the requests that ended */
  async #step(): Promise<Live[]> {
    const { decoding, numRows: numPlanned, maxDraftRows } = this.#scheduler.planDecoding();
    if (maxDraftRows > 0) await this.#speculator?.propose(decoding, numPlanned, maxDraftRows);
    const scheduled = this.#scheduler.planDraftsAndPrompts();
    let [numRows, numContextTokens, numPromptRows, numDecodingRows] = [0, 0, 0, 0];
    for (const { sequence, numNewTokens } of scheduled) {
      sequence.queueMs ??= this.#ms - sequence.arrivedAtMs;
      const rows = numNewTokens + sequence.numDraftTokens;
      numRows += rows;
      numContextTokens += rows * (sequence.numComputedTokens + rows / 2);
      if (sequence.numOutputTokens > 0 && numNewTokens === 1) numDecodingRows += rows;
      else numPromptRows += rows;
    }
    this.#meter.start();
    await this.#meter.kernels(async () => this.#tick(this.#ms + this.#kernelsMs(numRows, numContextTokens)));
    this.#tick(this.#ms + this.#hostMs(numRows));
    this.#meter.learn({ numDecodingRows, numPromptRows });
    this.#meter.end();
    const ended: Live[] = [];
    for (const { sequence, numNewTokens } of scheduled)
      if (this.#take(sequence, numNewTokens)) ended.push(this.#live.get(sequence.id)!);
    return ended;
  }

  /** @returns whether the sequence ends */
  #take(sequence: Sequence, numNewTokens: number): boolean {
    sequence.numComputedTokens += numNewTokens;
    if (sequence.numComputedTokens < sequence.numTokens) {
      this.#kv.publishAndTrim(sequence);
      return false;
    }
    const { numDraftTokens, sampling } = sequence;
    const numBefore = sequence.numTokens;
    const first = sequence.numOutputTokens;
    const drafted = sequence.tokens.slice(numBefore, numBefore + numDraftTokens);
    sequence.numDraftTokens = 0;
    let numAccepted = 0;
    while (sequence.numOutputTokens < sampling.maxTokens) {
      const isRight = drafted[numAccepted] === tokenAt(sequence.id, sequence.numOutputTokens);
      sequence.append(tokenAt(sequence.id, sequence.numOutputTokens));
      if (!isRight) break;
      sequence.numComputedTokens++;
      numAccepted++;
    }
    this.#kv.publishAndTrim(sequence);
    const numNew = sequence.numOutputTokens - first;
    this.#numOutputTokens += numNew;
    const isOver = sequence.numOutputTokens === sampling.maxTokens;
    // Drafts after the final token were never verified.
    this.#speculator?.observe(sequence, isOver ? Math.min(numDraftTokens, numNew) : numDraftTokens, numAccepted);
    const live = this.#live.get(sequence.id)!;
    live.timer.onTokens({
      numNewTokens: numNew,
      numCachedTokens: sequence.numCachedTokens,
      queueMs: sequence.queueMs!,
    });
    this.#clientMs = Math.max(this.#clientMs, this.#ms) + this.machine.clientMs;
    this.#clientBusyMs += this.machine.clientMs;
    live.chunkAtMs.push(this.#clientMs);
    return isOver;
  }

  #finish({ sequence, timer, chunkAtMs, session, sentMs }: Live): Parameters<typeof measureRun>[0][number] {
    timer.onEnd("length");
    this.#scheduler.remove(sequence);
    this.#speculator?.forget(sequence);
    this.#live.delete(sequence.id);
    const lastMs = chunkAtMs.at(-1)!;
    if (this.traffic.load.kind === "closed" && this.#numSent < this.#prompts.length) {
      this.#arrivals.push({ atMs: lastMs, session: this.#numSent++ });
      this.#arrivals.sort((a, b) => a.atMs - b.atMs);
    }
    return {
      session,
      turn: 0,
      intendedMs: sentMs,
      sentMs,
      chunkAtMs,
      answerAtMs: chunkAtMs[0],
      lastMs,
      numPromptTokens: sequence.numPromptTokens,
      numCachedTokens: sequence.numCachedTokens,
      numOutputTokens: sequence.numOutputTokens,
      finishReason: "length",
      failure: undefined,
    };
  }

  #stats() {
    return {
      ...NOTHING_YET,
      numRunning: this.#scheduler.running.length,
      numWaiting: this.#scheduler.waiting.length,
      numUsedKvBlocks: this.#kv.numUsedBlocks,
      prefixCacheQueriedTokens: this.#kv.queriedTokens,
      prefixCacheHitTokens: this.#kv.hitTokens,
      numPreemptions: this.#scheduler.numPreemptions,
      numGenerationTokens: this.#numOutputTokens,
      numSteps: this.#meter.numSteps,
      speculation: this.#speculator?.stats() ?? NO_SPECULATION_STATS,
      kernelMs: this.#meter.kernelMs,
      stepMs: this.#meter.stepMs,
      promptMs: this.#meter.promptMs,
    };
  }
}

/** Any fixed function of sequence and place will do; prompts have other tokens. */
const tokenAt = (sequenceId: number, place: number): number => 1_000_000 + ((sequenceId * 977 + place) % 1000);

function guessing(accuracy: number): Drafter {
  const random = uniform(7);
  return {
    name: "guessing",
    propose: ({ id, numOutputTokens }, maxTokens) => ({
      tokens: Array.from({ length: maxTokens }, (_, i) => (random() < accuracy ? tokenAt(id, numOutputTokens + i) : 0)),
      chances: new Array<number>(maxTokens).fill(accuracy),
    }),
    forget: () => {},
  };
}
