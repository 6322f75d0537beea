/** One turn of the engine's loop: schedule → lay out → compute → collect. `worker.ts` turns it. */

import type { Backend, LoadReport } from "../backend/backend.js";
import { MillraceError } from "../core/errors.js";
import type { OpenModel } from "../model/open-model.js";
import type { Closed } from "./api/engine.js";
import type { EngineOptions } from "./api/options.js";
import type { EngineOutput } from "./api/output.js";
import type { EngineRequest } from "./api/request.js";
import type { EngineInfo, EngineStats } from "./api/stats.js";
import { NO_DISK_TIER, NO_SPECULATION_STATS } from "./api/stats.js";
import { BackgroundPace } from "./background-pace.js";
import { BackgroundRest } from "./background-rest.js";
import { optionsFor } from "./check-options.js";
import { Collector } from "./collector.js";
import type { Constraints, FailedSequence } from "./constraint/constraints.js";
import { buildParts, type EngineParts } from "./engine-parts.js";
import type { DiskTier } from "./memory/disk-tier.js";
import type { KvManager } from "./memory/kv-manager.js";
import { openDiskTier } from "./open-disk-tier.js";
import { measureStepCost, textLogits } from "./rehearsal.js";
import type { SamplerIo } from "./sampler/sampler-io.js";
import { Scheduler } from "./scheduler.js";
import { createPolicy } from "./scheduling-policy.js";
import { createSpeculator } from "./speculative/create-speculator.js";
import type { Drafter } from "./speculative/drafter.js";
import type { Speculator } from "./speculative/speculator.js";
import { type ScheduledSequence, Sequence } from "./step/sequence.js";
import type { StepCost } from "./step/step-cost.js";
import { layOutStep, type StepLayout } from "./step-layout.js";
import { StepMeter } from "./step-meter.js";
import { StepPace } from "./step-pace.js";

/** One request's news of a step. */
export interface StepOutput {
  readonly requestId: number;
  readonly output: EngineOutput;
}

/** A request that ended with an error in place of a finish reason. */
export interface FailedRequest {
  readonly requestId: number;
  readonly error: MillraceError;
}

/**
 * Lower bound of the wait for masks: with less, sequences would miss steps for masks that arrive within a fraction of
 * the step.
 */
const LEAST_PATIENCE_MS = 2;

/** Parts that exist only where options ask for them. */
interface OptionalParts {
  readonly disk: DiskTier | undefined;
  readonly cost: StepCost | undefined;
  readonly speculator: Speculator | undefined;
}

/** Call `add`, `abort` and `close` between steps only, never while a step is under way. */
export class EngineCore {
  readonly info: EngineInfo;
  readonly #scheduler: Scheduler;
  readonly #parts: EngineParts;
  readonly #kv: KvManager;
  readonly #sampler: SamplerIo;
  readonly #constraints: Constraints;
  readonly #sequences = new Map<number, Sequence>();
  readonly #cost: StepCost | undefined;
  readonly #speculator: Speculator | undefined;
  readonly #pace: StepPace | undefined;
  readonly #meter: StepMeter;
  readonly #collector: Collector;
  readonly #disk: DiskTier | undefined;
  readonly #rest = new BackgroundRest();
  #failures: FailedRequest[] = [];

  /**
   * Loads the model's weights and measures how long its steps take.
   * @param drafter replaces the one that options.speculative names
   */
  static async create(
    model: OpenModel,
    asked: EngineOptions,
    backend: Backend,
    report: LoadReport = { progress: () => {}, note: () => {} },
    drafter?: Drafter,
  ): Promise<EngineCore> {
    const options = optionsFor(model.config, asked);
    const parts = await buildParts(model, options, backend, report);
    const disk = await openDiskTier(parts, options, model.files, report.note);
    parts.kv.store = disk;
    const cost = await measureStepCost(parts, options, backend);
    const { weights, transformer, batch, kv, info, mtp } = parts;
    const target = { config: model.config, weights, transformer, batch, kv };
    const { maxModelLen } = info;
    const speculator = await createSpeculator(cost, { target, mtp, maxModelLen, options, backend, report, drafter });
    return new EngineCore(options, backend, parts, { disk, cost, speculator });
  }

  private constructor(
    options: EngineOptions,
    private readonly backend: Backend,
    parts: EngineParts,
    { disk, cost, speculator }: OptionalParts,
  ) {
    this.#parts = parts;
    this.#kv = parts.kv;
    this.#sampler = parts.sampler;
    this.#constraints = parts.constraints;
    this.info = parts.info;
    this.#disk = disk;
    this.#cost = cost;
    this.#speculator = speculator;
    if (cost !== undefined && options.maxStepMs !== 0) this.#pace = new StepPace(cost, options.maxStepMs);
    const background = new BackgroundPace();
    this.#meter = new StepMeter(cost, this.#pace, background);
    this.#collector = new Collector(parts, speculator);
    this.#scheduler = new Scheduler(
      {
        maxNumSeqs: parts.info.maxNumSeqs,
        maxNumBatchedTokens: options.maxNumBatchedTokens,
        maxExtraLogitRows: parts.maxExtraLogitRows,
        numForks: parts.numForks,
        isChunkedPrefillEnabled: options.enableChunkedPrefill,
        isBatchingStatic: options.batching === "static",
      },
      parts.kv,
      createPolicy(options.schedulingPolicy),
      {
        promptTokensBeside: (numDecoding, most) => this.#pace?.promptTokensBeside(numDecoding, most) ?? most,
        backgroundTokens: (most) => background.tokens(most),
      },
    );
  }

  get hasWork(): boolean {
    return this.#sequences.size > 0;
  }

  /** Queues a request, which must fit the model and the KV memory: admission.ts has checked that. */
  add(requestId: number, request: EngineRequest): void {
    if (this.#sequences.size === 0) this.#meter.wake();
    const sequence = new Sequence(requestId, request, this.#parts.numGroups, performance.now());
    this.#sequences.set(requestId, sequence);
    if (request.constraint === undefined) this.#scheduler.add(sequence);
    else this.#constraints.add(sequence, request.constraint.recipe);
  }

  /** Ends a request and frees its seat and blocks. Ignores ids of requests that have ended. */
  abort(requestId: number): void {
    const sequence = this.#sequences.get(requestId);
    if (sequence === undefined) return;
    this.#sequences.delete(requestId);
    if (!this.#constraints.isCompiling(sequence)) this.#scheduler.remove(sequence);
    this.#constraints.remove(sequence);
    this.#speculator?.forget(sequence);
  }

  /** Calls `read` with the logits after each id, for measurements while there are no requests (rehearsal.ts). */
  textLogits(ids: readonly number[], read: (logits: Float32Array) => void, numDecoded = 0): Promise<void> {
    return textLogits(this.#parts, ids, read, numDecoded);
  }

  /** Does a piece of background work, such as writing cached blocks to disk. @returns whether more is left */
  tidy(): boolean {
    return this.#disk?.work() ?? false;
  }

  /** Resolves when the blocks that outlive this process are on disk, or the disk does not answer. */
  async close(): Promise<Closed> {
    this.#constraints.close();
    return (await this.#disk?.close()) ?? "ended";
  }

  /** Computes one step. @returns the outputs of its sequences; none while grammars are compiled or masks are late */
  async step(): Promise<StepOutput[]> {
    const startMs = performance.now();
    const isBackground = this.#isAllBackground();
    if (!isBackground) this.#rest.sawOthers(startMs);
    const scheduled = await this.#schedule();
    if (scheduled.length === 0) return [];
    const layout = await this.#layOut(scheduled);
    await this.#compute();
    const outputs = await this.#collect(layout);
    if (isBackground) this.#rest.worked(performance.now() - startMs);
    return outputs;
  }

  /** Milliseconds to leave free before the next step; 0 unless all sequences are background ones. */
  restMs(): number {
    return this.#sequences.size > 0 && this.#isAllBackground() ? this.#rest.restMs(performance.now()) : 0;
  }

  /** Reports that the pause before the next background step took `ms`. */
  rested(ms: number): void {
    this.#rest.rested(ms);
  }

  #isAllBackground(): boolean {
    for (const { isBackground } of this.#sequences.values()) if (!isBackground) return false;
    return true;
  }

  async #schedule(): Promise<readonly ScheduledSequence[]> {
    this.#meter.enter();
    const { opened, failed } = this.#constraints.poll();
    for (const sequence of opened) this.#scheduler.add(sequence);
    this.#fail(failed);
    const { decoding, numRows, maxDraftRows } = this.#scheduler.planDecoding();
    if (maxDraftRows > 0) await this.#speculator?.propose(decoding, numRows, maxDraftRows);
    const planned = this.#scheduler.planDraftsAndPrompts();
    if (planned.length > 0) return this.#withMasks(planned);
    if (this.#constraints.numCompiling > 0) this.#constraints.waitForGrammars();
    else if (this.#sequences.size > 0) {
      const numWaiting = this.#sequences.size;
      throw new MillraceError(
        "engine_failed",
        `expected a step for one of ${numWaiting} waiting requests, got none that fits its budget`,
      );
    }
    return [];
  }

  async #layOut(scheduled: readonly ScheduledSequence[]): Promise<StepLayout> {
    const layout = layOutStep(this.#parts, scheduled, this.#meter.start());
    await this.#speculator?.tapHidden(scheduled);
    return layout;
  }

  async #compute(): Promise<void> {
    const { transformer, batch, forks } = this.#parts;
    const startMs = performance.now();
    if (await forks.fill()) this.#speculator?.charge(performance.now() - startMs);
    await this.#meter.kernels(() => transformer.forward(this.#sampler.buffers));
    if (batch.numHiddenTaps > 0) await transformer.readTapped();
  }

  /** Reads each sequence's results, then updates the step meter, the drafters and the disk cache. */
  async #collect(layout: StepLayout): Promise<StepOutput[]> {
    const outputs: StepOutput[] = [];
    for (const rows of layout.sequences) {
      const { sequence } = rows;
      const taken = this.#collector.take(rows);
      if (taken instanceof MillraceError) this.#fail([{ sequence, error: taken }]);
      else {
        if (taken?.finishReason !== undefined) this.abort(sequence.id);
        else if (taken !== undefined) this.#constraints.advance(sequence);
        await this.#parts.evictor?.evictIfDue(sequence);
        if (taken !== undefined) outputs.push({ requestId: sequence.id, output: taken });
      }
    }
    await this.#parts.forks.copyKeptBack();
    this.#meter.learn(layout);
    this.#speculator?.takeHidden();
    this.#meter.end();
    this.#disk?.work();
    this.#meter.leave();
    return outputs;
  }

  /** Requests that failed since the last call. */
  takeFailures(): readonly FailedRequest[] {
    const failures = this.#failures;
    this.#failures = [];
    return failures;
  }

  #fail(failed: readonly FailedSequence[]): void {
    for (const { sequence, error } of failed) {
      this.#failures.push({ requestId: sequence.id, error });
      this.abort(sequence.id);
    }
  }

  /** Leaves out sequences whose masks are late, and fails sequences to which their grammar leaves no token. */
  #withMasks(planned: readonly ScheduledSequence[]): readonly ScheduledSequence[] {
    const numRows = planned.reduce((sum, { sequence, numNewTokens }) => sum + numNewTokens + sequence.numDraftRows, 0);
    // Waiting for late masks may at most double the step for the other sequences.
    const ready = this.#constraints.ready(planned, this.#cost && Math.max(LEAST_PATIENCE_MS, this.#cost.ms(numRows)));
    const stranded = this.#constraints.stranded(ready);
    if (stranded.length === 0) return ready;
    this.#fail(stranded);
    return ready.filter(({ sequence }) => this.#sequences.has(sequence.id));
  }

  /** Predicted milliseconds of a decoding step of `numRows` rows; 0 where step costs are not measured. */
  stepMs(numRows: number): number {
    return this.#cost?.ms(numRows) ?? 0;
  }

  /** Predicted milliseconds of the largest step; undefined where step costs are not measured. */
  get longestStepMs(): number | undefined {
    return this.#cost?.ms(this.#parts.batch.capacity.maxRows);
  }

  /** Blocks that the prefix cache gained and lost since the last call, encoded as CachedBlocks reads them. */
  takeCacheChanges(): Float64Array {
    return this.#kv.takeChanges();
  }

  stats(): EngineStats {
    const { read, unshared } = this.backend.kvBytes();
    return {
      numRunning: this.#scheduler.running.length,
      numWaiting: this.#scheduler.waiting.length + this.#constraints.numCompiling,
      numUsedKvBlocks: this.#kv.numUsedBlocks,
      numEvictedTokens: this.#parts.evictor?.numEvictedTokens ?? 0,
      prefixCacheQueriedTokens: this.#kv.queriedTokens,
      prefixCacheHitTokens: this.#kv.hitTokens,
      numPreemptions: this.#scheduler.numPreemptions,
      numPromptTokens: this.#collector.numPromptTokens,
      numGenerationTokens: this.#collector.numGenerationTokens,
      numSteps: this.#meter.numSteps,
      kvBytesRead: read,
      kvBytesUnshared: unshared,
      speculation: this.#speculator?.stats() ?? NO_SPECULATION_STATS,
      constraints: this.#constraints.stats,
      prefixCacheDisk: this.#disk?.stats ?? NO_DISK_TIER,
      kernelMs: this.#meter.kernelMs,
      stepMs: this.#meter.stepMs,
      promptMs: this.#meter.promptMs,
    };
  }
}
