/**
 * One measured round: a batch of prompts is submitted to a running engine at once and timed through its public
 * interface.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { MillraceError } from "../../core/errors.js";
import type { Engine, EngineHandle } from "../../engine/api/engine.js";
import type { EngineOutput } from "../../engine/api/output.js";
import { GREEDY_SAMPLING } from "../../engine/api/request.js";
import type { EngineInfo } from "../../engine/api/stats.js";

interface RoundSpec {
  /** One prompt per sequence of the batch. */
  readonly prompts: readonly Int32Array[];
  /** Tokens that each sequence generates while all sequences decode, its first token included; at least 2. */
  readonly genTokens: number;
}

export interface RoundSample {
  /** From the first submission to the first token of the last sequence. */
  readonly prefillMs: number;
  /** Time of the genTokens − 1 steps in which every sequence gets a token. */
  readonly decodeMs: number;
  /** The parts of both times that were spent in kernels. */
  readonly prefillKernelMs: number;
  readonly decodeKernelMs: number;
  /** Prompt tokens served from the prefix cache. */
  readonly numCachedTokens: number;
}

/**
 * Tokens to request per sequence: the first sequences continue to generate until the last prompt is computed. So every
 * sequence requests as many tokens as model and memory hold, and is aborted when the round is over.
 */
export function tokensToAsk({ maxModelLen, numKvBlocks, blockSize }: EngineInfo, spec: RoundSpec): number {
  const longest = Math.max(...spec.prompts.map((prompt) => prompt.length));
  const kvTokens = Math.floor(numKvBlocks / spec.prompts.length) * blockSize;
  return Math.max(spec.genTokens, Math.min(maxModelLen, kvTokens) - longest);
}

/**
 * Throws errors of `submit`, and kv_capacity_exceeded when a sequence was preempted: such a round measures memory, not
 * speed. The engine is idle again when this resolves.
 */
export async function runRound(engine: Engine, spec: RoundSpec): Promise<RoundSample> {
  const { prompts, genTokens } = spec;
  const sampling = { ...GREEDY_SAMPLING, maxTokens: tokensToAsk(engine.info, spec) };
  const handles: EngineHandle[] = [];
  try {
    return await new Promise<RoundSample>((resolve, reject) => {
      const watch = new RoundWatch(engine, prompts.length, genTokens, resolve);
      engine.failure.catch(reject);
      prompts.forEach((promptIds, index) => {
        const listener = {
          onOutput: (output: EngineOutput) => {
            try {
              watch.onOutput(index, output);
            } catch (thrown) {
              reject(thrown);
            }
          },
          onError: reject,
        };
        handles.push(engine.submit({ promptIds, sampling }, listener));
      });
    });
  } finally {
    for (const handle of handles) handle.abort();
    await untilIdle(engine);
  }
}

/** The step in progress at the last abort must not overlap the next round. */
async function untilIdle(engine: Engine): Promise<void> {
  const giveUp = { hasFailed: false };
  engine.failure.catch(() => {
    giveUp.hasFailed = true;
  });
  for (
    let stats = engine.stats();
    stats.numRunning + stats.numWaiting > 0 && !giveUp.hasFailed;
    stats = engine.stats()
  ) {
    await sleep(1);
  }
}

/** Follows a round step by step: first the prompts, then the steps in which all sequences decode. */
class RoundWatch {
  readonly #startMs = performance.now();
  readonly #before;
  readonly #hasStarted: boolean[];
  #numStarted = 0;
  #numCachedTokens = 0;
  #prefill: { readonly endMs: number; readonly kernelMs: number; readonly numSteps: number } | undefined;
  readonly #numDecoded: number[];

  constructor(
    private readonly engine: Engine,
    private readonly batch: number,
    private readonly genTokens: number,
    private readonly onDone: (sample: RoundSample) => void,
  ) {
    this.#before = engine.stats();
    this.#hasStarted = Array.from({ length: batch }, () => false);
    this.#numDecoded = Array.from({ length: batch }, () => 0);
  }

  onOutput(index: number, { tokenIds, numCachedTokens, finishReason }: EngineOutput): void {
    const nowMs = performance.now();
    const stats = this.engine.stats();
    if (stats.numPreemptions > this.#before.numPreemptions) throw this.#tooLittleMemory("a sequence was preempted");
    if (!this.#hasStarted[index]) {
      this.#hasStarted[index] = true;
      this.#numStarted++;
      this.#numCachedTokens += numCachedTokens;
      if (this.#numStarted < this.batch) return;
      this.#prefill = { endMs: nowMs, kernelMs: stats.kernelMs, numSteps: stats.numSteps };
    } else if (this.#prefill !== undefined && stats.numSteps > this.#prefill.numSteps) {
      this.#numDecoded[index]! += tokenIds.length;
      const numDecoded = this.#numDecoded.reduce((sum, count) => sum + count, 0);
      if (numDecoded >= this.batch * (this.genTokens - 1)) this.#finish(this.#prefill, nowMs);
    }
    if (finishReason !== undefined && this.#numDecoded[index]! < this.genTokens - 1)
      throw this.#tooLittleMemory("a sequence ended before the others had decoded");
  }

  #tooLittleMemory(got: string): MillraceError {
    const message = `expected KV memory for all ${this.batch} sequences at once, got too little: ${got}`;
    return new MillraceError("kv_capacity_exceeded", message, {
      hint: "start with more --kv-cache-memory-bytes, or measure fewer sequences or shorter prompts",
    });
  }

  #finish(
    prefill: { readonly endMs: number; readonly kernelMs: number; readonly numSteps: number },
    endMs: number,
  ): void {
    const stats = this.engine.stats();
    const numSteps = stats.numSteps - prefill.numSteps;
    if (numSteps !== this.genTokens - 1) {
      throw new MillraceError(
        "engine_failed",
        `expected ${this.genTokens - 1} steps of ${this.batch} sequences each, got ${numSteps}`,
        { hint: "raise --max-num-batched-tokens: a step must compute at least one token per sequence" },
      );
    }
    this.onDone({
      prefillMs: prefill.endMs - this.#startMs,
      decodeMs: endMs - prefill.endMs,
      prefillKernelMs: prefill.kernelMs - this.#before.kernelMs,
      decodeKernelMs: stats.kernelMs - prefill.kernelMs,
      numCachedTokens: this.#numCachedTokens,
    });
  }
}
