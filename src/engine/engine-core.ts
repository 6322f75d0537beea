/** The engine's loop, one turn at a time: schedule → lay out → compute → collect. A step is awaited while the backend computes; `worker.ts` drives it. */

import type { Backend, LoadReport } from "../backend/backend.js";
import { MillraceError } from "../core/errors.js";
import type { OpenModel } from "../model/model.js";
import type { EngineOptions } from "./api/options.js";
import type { EngineOutput, FinishReason, TokenLogprob } from "./api/output.js";
import type { EngineRequest } from "./api/request.js";
import type { EngineInfo, EngineStats } from "./api/stats.js";
import { NO_DISK_TIER, NO_SPECULATION_STATS } from "./api/stats.js";
import type { Constraints, FailedSequence } from "./constraint/constraints.js";
import { buildParts, type EngineParts } from "./engine-parts.js";
import type { DiskTier } from "./memory/disk-tier.js";
import type { KvManager } from "./memory/kv-manager.js";
import { openDiskTier } from "./open-disk-tier.js";
import { measureStepCost, promptLogits } from "./rehearsal.js";
import type { SamplerIo } from "./sampler/sampler-io.js";
import { Scheduler } from "./scheduler.js";
import { createPolicy } from "./scheduling-policy.js";
import { createSpeculator } from "./speculative/create-speculator.js";
import type { Drafter } from "./speculative/drafter.js";
import type { Speculator } from "./speculative/speculator.js";
import { type ScheduledSequence, Sequence } from "./step/sequence.js";
import type { StepCost } from "./step/step-cost.js";
import { layOutStep, type SequenceRows, type StepLayout } from "./step-layout.js";
import { StepMeter } from "./step-meter.js";
import { StepPace } from "./step-pace.js";

/** One request's news of a step. */
export interface StepOutput {
  readonly requestId: number;
  readonly output: EngineOutput;
}

/** A request that ended without a finish reason. */
export interface FailedRequest {
  readonly requestId: number;
  readonly error: MillraceError;
}

/** Less would skip sequences whose masks were just about to be there. */
const LEAST_PATIENCE_MS = 2;

/** What an engine has only where its options ask for it. */
interface OptionalParts {
  readonly disk: DiskTier | undefined;
  readonly cost: StepCost | undefined;
  readonly speculator: Speculator | undefined;
}

/** `add`, `abort` and `close` are called between steps, never while one is under way. */
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
  readonly #disk: DiskTier | undefined;
  #failures: FailedRequest[] = [];
  #numPromptTokens = 0;
  #numGenerationTokens = 0;

  /**
   * Loads the model's weights and learns how long its steps take.
   * @param drafter instead of the one that options.speculative names
   */
  static async create(
    model: OpenModel,
    options: EngineOptions,
    backend: Backend,
    report: LoadReport = { progress: () => {}, note: () => {} },
    drafter?: Drafter,
  ): Promise<EngineCore> {
    const parts = await buildParts(model, options, backend, report);
    const disk = await openDiskTier(parts, options, model.files, report.note);
    parts.kv.store = disk;
    const cost = await measureStepCost(parts, options);
    const { weights, transformer, batch, info } = parts;
    const target = { config: model.config, weights, transformer, batch };
    const kv = { maxModelLen: info.maxModelLen, numBlocks: parts.kv.numBlocks };
    const speculator = await createSpeculator(cost, { target, kv, options, backend, report, drafter });
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
    this.#meter = new StepMeter(cost, this.#pace);
    this.#scheduler = new Scheduler(
      {
        maxNumSeqs: options.maxNumSeqs,
        maxNumBatchedTokens: options.maxNumBatchedTokens,
        maxExtraLogitRows: parts.maxExtraLogitRows,
        isChunkedPrefillEnabled: options.enableChunkedPrefill,
        isBatchingStatic: options.batching === "static",
      },
      parts.kv,
      createPolicy(options.schedulingPolicy),
      { promptTokensBeside: (numDecoding, most) => this.#pace?.promptTokensBeside(numDecoding, most) ?? most },
    );
  }

  get hasWork(): boolean {
    return this.#sequences.size > 0;
  }

  /** The request must fit the model and the KV memory (checked by whoever accepts requests; see admission.ts). */
  add(requestId: number, request: EngineRequest): void {
    if (this.#sequences.size === 0) this.#meter.wake();
    const sequence = new Sequence(requestId, request, this.#parts.numGroups, performance.now());
    this.#sequences.set(requestId, sequence);
    if (request.constraint === undefined) this.#scheduler.add(sequence);
    else this.#constraints.add(sequence, request.constraint.recipe);
  }

  /** Unknown ids (already finished) are fine. */
  abort(requestId: number): void {
    const sequence = this.#sequences.get(requestId);
    if (sequence === undefined) return;
    this.#sequences.delete(requestId);
    if (!this.#constraints.isCompiling(sequence)) this.#scheduler.remove(sequence);
    this.#constraints.remove(sequence);
    this.#speculator?.forget(sequence);
  }

  /** See rehearsal.ts. */
  promptLogits(promptIds: readonly number[], read: (logits: Float32Array) => void): Promise<void> {
    return promptLogits(this.#parts, promptIds, read);
  }

  /** Work that can wait until no request does; true when there is more of it. */
  tidy(): boolean {
    return this.#disk?.work() ?? false;
  }

  /** Resolves when what is to outlive this process is on disk. */
  async close(): Promise<void> {
    this.#constraints.close();
    await this.#disk?.close();
  }

  /** Computes the next tokens of all sequences that can go on. @returns their news; none while grammars or masks are awaited */
  async step(): Promise<StepOutput[]> {
    const scheduled = await this.#schedule();
    if (scheduled.length === 0) return [];
    const layout = this.#layOut(scheduled);
    await this.#compute();
    return this.#collect(layout);
  }

  async #schedule(): Promise<readonly ScheduledSequence[]> {
    this.#meter.enter();
    const { opened, failed } = this.#constraints.look();
    for (const sequence of opened) this.#scheduler.add(sequence);
    this.#fail(failed);
    const { decoding, numRows, maxDraftRows } = this.#scheduler.planDecoding();
    if (maxDraftRows > 0) await this.#speculator?.propose(decoding, numRows, maxDraftRows);
    const planned = this.#scheduler.planRest();
    if (planned.length > 0) return this.#withMasks(planned);
    if (this.#constraints.numCompiling > 0) this.#constraints.waitForGrammars();
    else if (this.#sequences.size > 0) {
      const numWaiting = this.#sequences.size;
      throw new MillraceError("engine_failed", `nothing could be scheduled though ${numWaiting} requests wait`);
    }
    return [];
  }

  #layOut(scheduled: readonly ScheduledSequence[]): StepLayout {
    const layout = layOutStep(this.#parts, scheduled, this.#meter.start());
    this.#speculator?.tapHidden(scheduled);
    return layout;
  }

  async #compute(): Promise<void> {
    const { transformer, batch } = this.#parts;
    await this.#meter.kernels(() => transformer.forward(this.#sampler.buffers));
    if (batch.numHiddenTaps > 0) await transformer.readTapped();
  }

  /** Moves every sequence forward by what its rows gave. */
  #collect(layout: StepLayout): StepOutput[] {
    const outputs: StepOutput[] = [];
    for (const rows of layout.sequences) {
      const output = this.#take(rows);
      if (output !== undefined) outputs.push({ requestId: rows.sequence.id, output });
    }
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

  #failWithoutNumbers(sequence: Sequence, place: string): undefined {
    const problem = `expected numbers in ${place}, got NaN or infinities: the weights are damaged or overflow`;
    this.#fail([{ sequence, error: new MillraceError("not_a_number", problem) }]);
  }

  /** Without sequences whose masks are not there yet, and those that have come to a dead end. */
  #withMasks(planned: readonly ScheduledSequence[]): readonly ScheduledSequence[] {
    const numRows = planned.reduce(
      (sum, { sequence, numNewTokens }) => sum + numNewTokens + sequence.numDraftTokens,
      0,
    );
    // Late masks may at most double what the step takes for the others.
    const ready = this.#constraints.ready(planned, this.#cost && Math.max(LEAST_PATIENCE_MS, this.#cost.ms(numRows)));
    const stranded = this.#constraints.stranded(ready);
    if (stranded.length === 0) return ready;
    this.#fail(stranded);
    return ready.filter(({ sequence }) => this.#sequences.has(sequence.id));
  }

  /** How long a decoding step of so many rows takes at present, if that is followed; 0 otherwise. */
  stepMs(numRows: number): number {
    return this.#cost?.ms(numRows) ?? 0;
  }

  /** What a step with as many rows as there can be would take, as far as that is followed. */
  get longestStepMs(): number | undefined {
    return this.#cost?.ms(this.#parts.batch.capacity.maxRows);
  }

  /** What the prefix cache got and lost since the last call, as CachedBlocks takes it. */
  takeCacheChanges(): Float64Array {
    return this.#kv.takeChanges();
  }

  stats(): EngineStats {
    const { read, unshared } = this.backend.kvBytes();
    return {
      numRunning: this.#scheduler.running.length,
      numWaiting: this.#scheduler.waiting.length + this.#constraints.numCompiling,
      numUsedKvBlocks: this.#kv.numUsedBlocks,
      prefixCacheQueriedTokens: this.#kv.queriedTokens,
      prefixCacheHitTokens: this.#kv.hitTokens,
      numPreemptions: this.#scheduler.numPreemptions,
      numPromptTokens: this.#numPromptTokens,
      numGenerationTokens: this.#numGenerationTokens,
      numSteps: this.#meter.numSteps,
      kvBytesRead: read,
      kvBytesUnshared: unshared,
      speculation: this.#speculator?.stats() ?? NO_SPECULATION_STATS,
      constraints: this.#constraints.stats,
      prefixCacheDisk: this.#disk?.stats ?? NO_DISK_TIER,
      kernelMs: this.#meter.kernelMs,
      stepMs: this.#meter.stepMs,
    };
  }

  /** @returns undefined while tokens of the prompt are left to compute, and of a sequence that has failed */
  #take({ sequence, numNewTokens, firstTap, numTaps, firstScore, numScores, firstSample }: SequenceRows) {
    const { transformer } = this.#parts;
    for (let i = 0; i < numTaps; i++) sequence.pooler!.add(transformer.tappedHidden(firstTap + i));
    for (let i = 0; i < numScores; i++) {
      const scores = sequence.promptLogprobs!;
      const numTop = sequence.sampling.numPromptLogprobs ?? 0;
      scores.push(this.#sampler.logprob(firstScore + i, sequence.tokens[scores.length]!, numTop));
    }
    sequence.numComputedTokens += numNewTokens;
    if (sequence.numComputedTokens >= sequence.numTokens) return this.#advance(sequence, firstSample);
    this.#kv.settle(sequence);
    return undefined;
  }

  /**
   * All tokens of the sequence are computed: takes the sampled ones in, the first and, as long as the draft foresaw them, those after it, and
   * sees whether the last one ends the sequence.
   * @param firstRow the logit row of its last token, which those of its draft follow; undefined: nothing is sampled
   * @returns undefined where the model gave no numbers: the sequence has failed
   */
  #advance(sequence: Sequence, firstRow: number | undefined): EngineOutput | undefined {
    const { sampling, numDraftTokens } = sequence;
    const isFirst = sequence.numOutputTokens === 0;
    if (isFirst) this.#numPromptTokens += sequence.numPromptTokens;
    const tokenIds: number[] = [];
    const logprobs: TokenLogprob[] = [];
    let stopTokenId: number | undefined;
    let finishReason: FinishReason | undefined = sampling.maxTokens === 0 ? "length" : undefined;
    sequence.numDraftTokens = 0;
    for (let i = 0; firstRow !== undefined && finishReason === undefined; i++) {
      const foreseen = i < numDraftTokens ? sequence.tokens[sequence.numTokens] : undefined;
      const tokenId = this.#sampler.tokenId(firstRow + i);
      if (tokenId === undefined) return this.#failWithoutNumbers(sequence, `the logits of token ${sequence.numTokens}`);
      sequence.append(tokenId);
      tokenIds.push(tokenId);
      if (sampling.numLogprobs !== undefined) {
        logprobs.push(this.#sampler.logprob(firstRow + i, tokenId, sampling.numLogprobs));
      }
      if (sampling.stopTokenIds.includes(tokenId)) stopTokenId = tokenId;
      const isFull = sequence.numOutputTokens >= sampling.maxTokens || sequence.numTokens >= this.info.maxModelLen;
      finishReason = stopTokenId !== undefined ? "stop" : isFull ? "length" : undefined;
      if (tokenId !== foreseen) break;
      // The draft's K and V are the real ones.
      sequence.numComputedTokens++;
    }
    const pooled = sequence.pooler?.result();
    if (pooled?.every(Number.isFinite) === false) return this.#failWithoutNumbers(sequence, "every hidden state");
    this.#numGenerationTokens += tokenIds.length;
    this.#kv.settle(sequence);
    // Drafts after the final token were never verified.
    this.#speculator?.observe(
      sequence,
      finishReason === undefined ? numDraftTokens : Math.min(numDraftTokens, tokenIds.length),
      sequence.numComputedTokens - (sequence.numTokens - tokenIds.length),
    );
    if (finishReason !== undefined) this.abort(sequence.id);
    else this.#constraints.advance(sequence);
    return {
      tokenIds,
      numCachedTokens: sequence.numCachedTokens,
      queueMs: sequence.queueMs ?? 0,
      ...(sampling.numLogprobs === undefined ? {} : { logprobs }),
      ...(isFirst && sequence.promptLogprobs !== undefined ? { promptLogprobs: sequence.promptLogprobs } : {}),
      ...(pooled === undefined ? {} : { pooled }),
      ...(finishReason === undefined ? {} : { finishReason }),
      ...(stopTokenId === undefined ? {} : { stopTokenId }),
    };
  }
}
