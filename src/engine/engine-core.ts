/** The engine's loop, one turn at a time: schedule → forward → sample → emit. Single-threaded and synchronous; `worker.ts` drives it. */
import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { MillraceError } from "../core/errors.js";
import type { Device } from "../kernels/kernels.js";
import type {
  EngineInfo,
  EngineOptions,
  EngineOutput,
  EngineRequest,
  EngineStats,
  FinishReason,
  TokenLogprob,
} from "./api.js";
import { GREEDY_SAMPLING } from "./api.js";
import { checkOptions, resolveMaxModelLen } from "./check-options.js";
import { Constraints, type FailedSequence } from "./constraint/constraints.js";
import { GrammarService } from "./constraint/grammar-service.js";
import { DiskTier, NO_DISK_TIER } from "./kv/disk-tier.js";
import { kvGroups, planKvBudget } from "./kv/groups.js";
import { KvManager } from "./kv/kv-manager.js";
import { loadWeights } from "./model/load-weights.js";
import type { OpenModel } from "./model/tensor-source.js";
import { Transformer } from "./model/transformer.js";
import type { LoadReport } from "./model/weight-packer.js";
import { SamplerIo } from "./sampler/sampler-io.js";
import type { ScheduledSequence } from "./scheduler.js";
import { Scheduler } from "./scheduler.js";
import { createPolicy } from "./scheduling-policy.js";
import { Sequence } from "./sequence.js";
import type { Drafter } from "./speculative/drafter.js";
import { loadDraftModel } from "./speculative/load-draft-model.js";
import { draftersOf, Speculator } from "./speculative/speculator.js";
import { NO_SPECULATION_STATS } from "./speculative/stats.js";
import { StepBatch } from "./step-batch.js";
import { StepCost } from "./step-cost.js";
import { StepPace } from "./step-pace.js";
import { addRow, countRows, needsSample, needsScore, type StepRows, writeBlockTables } from "./step-rows.js";

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

/** Memory for the logits of scored prompt positions and drafted tokens in one step, in bytes; decides how many a step computes. */
const EXTRA_LOGITS_BYTES = 64 * 1024 * 1024;

/** The longest that a grammar, or one step's masks of a sequence, may take to compute. */
const GRAMMAR_TIMEOUT_MS = 10_000;

/** How often a step is measured for the cost of drafts; the fastest counts. */
const MEASURED_STEPS = 2;

export class EngineCore {
  readonly info: EngineInfo;
  readonly #scheduler: Scheduler;
  readonly #kv: KvManager;
  readonly #transformer: Transformer;
  readonly #batch: StepBatch;
  readonly #sampler: SamplerIo;
  readonly #sequences = new Map<number, Sequence>();
  readonly #numGroups: number;
  readonly #vocabSize: number;
  readonly #cost: StepCost | undefined;
  readonly #speculator: Speculator | undefined;
  readonly #pace: StepPace | undefined;
  readonly #disk: DiskTier | undefined;
  readonly #constraints: Constraints;
  #failures: FailedRequest[] = [];
  #numPromptTokens = 0;
  #numGenerationTokens = 0;
  #numSteps = 0;
  #kernelMs = 0;
  #stepMs = 0;

  /**
   * @param freeBytes memory the KV cache may be planned against
   * @param drafters instead of those that options.speculative names
   */
  constructor(
    model: OpenModel,
    options: EngineOptions,
    private readonly device: Device,
    freeBytes: number,
    report: LoadReport = { progress: () => {}, note: () => {} },
    drafters?: readonly Drafter[],
  ) {
    const { config } = model;
    const { blockSize, maxNumSeqs, kvCacheDtype: kvType } = options;
    const maxModelLen = resolveMaxModelLen(options.maxModelLen, config.contextLength);
    const { weights, numBytes } = loadWeights(model, options.modelPath, options, device, report);
    const budget = planKvBudget(
      config,
      kvType,
      blockSize,
      { maxNumSeqs, maxModelLen },
      freeBytes - numBytes,
      options.kvCacheMemoryBytes,
    );
    checkOptions(options, maxModelLen, budget.numBlocks);
    const groups = kvGroups(config);
    this.#numGroups = groups.length;
    this.#vocabSize = config.vocabSize;
    const maxExtraLogitRows = Math.min(512, Math.max(16, Math.floor(EXTRA_LOGITS_BYTES / (4 * config.vocabSize))));
    const maxLogitRows = maxNumSeqs + maxExtraLogitRows;
    this.#batch = new StepBatch(
      {
        maxRows: options.maxNumBatchedTokens,
        maxLogitRows,
        maxSeats: maxNumSeqs,
        tableStride: Math.ceil(maxModelLen / blockSize),
        numGroups: groups.length,
      },
      device,
    );
    const masksPerSlot = 1 + options.speculative.numSpeculativeTokens;
    const maskShape = { numSlots: maxNumSeqs, masksPerSlot, vocabSize: config.vocabSize };
    this.#constraints = new Constraints(new GrammarService(options.modelPath, maskShape, GRAMMAR_TIMEOUT_MS));
    this.#sampler = new SamplerIo(device, { maxLogitRows, maxNumSeqs });
    const layout = { kvType, blockSize, numBlocks: budget.numBlocks, groups, maxModelLen };
    this.#transformer = new Transformer(config, weights, device, layout, this.#batch);
    this.#kv = new KvManager({
      numGroups: groups.length,
      numBlocks: budget.numBlocks,
      blockSize,
      isPrefixCachingEnabled: options.enablePrefixCaching && options.kvLayout === "paged",
      reservedTokens: options.kvLayout === "contiguous" ? maxModelLen : 0,
    });
    this.#scheduler = new Scheduler(
      {
        maxNumSeqs,
        maxNumBatchedTokens: options.maxNumBatchedTokens,
        maxExtraLogitRows,
        isChunkedPrefillEnabled: options.enableChunkedPrefill,
        isBatchingStatic: options.batching === "static",
      },
      this.#kv,
      createPolicy(options.schedulingPolicy),
      {
        promptTokensBeside: (numDecoding, most) => this.#pace?.promptTokensBeside(numDecoding, most) ?? most,
        draft: (decoding, numRows, maxRows) => this.#speculator?.propose(decoding, numRows, maxRows),
      },
    );
    if (options.prefixCacheDisk !== undefined && options.enablePrefixCaching && options.kvLayout === "paged") {
      const fingerprint = createHash("sha256")
        .update(
          JSON.stringify([fileFacts(model.files), kvType, blockSize, maxModelLen, device.isa, options.activationDtype]),
        )
        .update(this.#knownAnswer())
        .digest("hex");
      this.#disk = new DiskTier(options.prefixCacheDisk, fingerprint, this.#transformer, report.note);
      this.#kv.store = this.#disk;
    }
    this.#cost = this.#measureCost(options);
    if (this.#cost !== undefined) {
      if (options.speculative.method !== "none") {
        const { draftModelPath } = options.speculative;
        const draftModel =
          draftModelPath === undefined
            ? undefined
            : loadDraftModel(
                draftModelPath,
                config,
                options,
                { maxModelLen, numBlocks: budget.numBlocks },
                device,
                report,
              );
        const sources = drafters ?? draftersOf(options.speculative);
        this.#speculator = new Speculator(sources, this.#cost, options.speculative, draftModel);
      }
      if (options.maxStepMs !== 0) this.#pace = new StepPace(this.#cost, options.maxStepMs);
    }
    const { weightType, numParameters, weightBytes } = model.summary;
    this.info = {
      architecture: config.architecture,
      weightType,
      numParameters,
      weightBytes,
      vocabSize: config.vocabSize,
      maxModelLen,
      embeddingWidth: config.width,
      pooling: options.pooling === "auto" ? (config.pooling ?? "last") : options.pooling,
      blockSize,
      numKvBlocks: budget.numBlocks,
      kvBytes: budget.kvBytes,
      kvCacheDtype: kvType,
      numThreads: device.numThreads,
      isa: device.isa,
    };
  }

  get hasWork(): boolean {
    return this.#sequences.size > 0;
  }

  /** The request must fit the model and the KV memory (checked by whoever accepts requests; see admission.ts). */
  add(requestId: number, request: EngineRequest): void {
    const sequence = new Sequence(requestId, request, this.#numGroups, performance.now());
    this.#sequences.set(requestId, sequence);
    if (request.constraint === undefined) this.#scheduler.add(sequence);
    else this.#constraints.add(sequence, request.constraint.grammar);
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

  /** Work that can wait until no request does; true when there is more of it. */
  tidy(): boolean {
    return this.#disk?.work() ?? false;
  }

  /** Resolves when what is to outlive this process is on disk. */
  async close(): Promise<void> {
    this.#constraints.close();
    await this.#disk?.close();
  }

  step(): StepOutput[] {
    const { opened, failed } = this.#constraints.look();
    for (const sequence of opened) this.#scheduler.add(sequence);
    this.#fail(failed);
    const planned = this.#scheduler.schedule();
    if (planned.length === 0) {
      if (this.#sequences.size === 0) return [];
      if (this.#constraints.numCompiling > 0) {
        this.#constraints.waitForGrammars();
        return [];
      }
      throw new MillraceError(
        "engine_failed",
        `nothing could be scheduled though ${this.#sequences.size} requests wait`,
      );
    }
    const scheduled = this.#withMasks(planned);
    if (scheduled.length === 0) return [];
    const startMs = performance.now();
    this.#fillBatch(scheduled, startMs);
    const submitMs = performance.now();
    this.#transformer.forward(this.#batch, this.#sampler.buffers);
    this.#kernelMs += performance.now() - submitMs;
    const rows = countRows(scheduled);
    const outputs = this.#collect(scheduled);
    this.#numSteps++;
    const stepMs = performance.now() - startMs;
    this.#stepMs += stepMs;
    this.#learn(rows, stepMs);
    this.#disk?.work();
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

  /** Without sequences whose masks are not there yet, and those that have come to a dead end. */
  #withMasks(planned: readonly ScheduledSequence[]): readonly ScheduledSequence[] {
    const ready = this.#constraints.ready(planned);
    const stranded = this.#constraints.stranded(ready);
    if (stranded.length === 0) return ready;
    this.#fail(stranded);
    return ready.filter(({ sequence }) => this.#sequences.has(sequence.id));
  }

  /** How long a decoding step of so many rows takes at present, if that is followed; 0 otherwise. */
  stepMs(numRows: number): number {
    return this.#cost?.ms(numRows) ?? 0;
  }

  stats(): EngineStats {
    const { read, unshared } = this.device.kvBytes();
    return {
      numRunning: this.#scheduler.running.length,
      numWaiting: this.#scheduler.waiting.length + this.#constraints.numCompiling,
      numUsedKvBlocks: this.#kv.numUsedBlocks,
      prefixCacheQueriedTokens: this.#kv.queriedTokens,
      prefixCacheHitTokens: this.#kv.hitTokens,
      numPreemptions: this.#scheduler.numPreemptions,
      numPromptTokens: this.#numPromptTokens,
      numGenerationTokens: this.#numGenerationTokens,
      numSteps: this.#numSteps,
      kvBytesRead: read,
      kvBytesUnshared: unshared,
      speculation: this.#speculator?.stats() ?? NO_SPECULATION_STATS,
      constraints: this.#constraints.stats,
      prefixCacheDisk: this.#disk?.stats ?? NO_DISK_TIER,
      kernelMs: this.#kernelMs,
      stepMs: this.#stepMs,
    };
  }

  /** Measured when something depends on it: it takes as long as a hundred tokens do. */
  #measureCost({ speculative, maxStepMs, blockSize }: EngineOptions): StepCost | undefined {
    if (speculative.method === "none" && maxStepMs === 0) return undefined;
    const { maxRows, maxLogitRows, tableStride } = this.#batch.capacity;
    const maxMeasured = Math.min(32, maxRows, maxLogitRows, tableStride * blockSize, this.#kv.numBlocks * blockSize);
    return new StepCost((numRows) => this.#measureStep(numRows), maxMeasured);
  }

  /** What a step took teaches the next ones. */
  #learn({ numDecoding, numPrompt }: StepRows, ms: number): void {
    if (numPrompt === 0) this.#cost?.observe(numDecoding, ms);
    else if (numDecoding > 0) this.#pace?.observe(numDecoding, numPrompt, ms);
  }

  /** Milliseconds of a step that checks a draft so long that it has `numRows` rows; before any request has come. */
  #measureStep(numRows: number): number {
    let fastest = Number.POSITIVE_INFINITY;
    this.#tryOut([0], numRows - 1, () => {
      for (let round = 0; round < MEASURED_STEPS; round++) {
        const startMs = performance.now();
        this.#transformer.forward(this.#batch, this.#sampler.buffers);
        fastest = Math.min(fastest, performance.now() - startMs);
      }
    });
    return fastest;
  }

  /** What this build of this model on this machine computes for a fixed text: its keys and values, and the likeliest next token. */
  #knownAnswer(): Uint8Array {
    const numTokens = Math.min(this.#kv.blockSize, this.#batch.capacity.maxRows);
    const ids = Array.from({ length: numTokens }, (_, i) => (i * 7919 + 11) % this.#vocabSize);
    const answer = new Uint8Array(this.#transformer.blockBytes + 4);
    this.#tryOut(ids, 0, (blocks) => {
      this.#transformer.forward(this.#batch, this.#sampler.buffers);
      this.#transformer.copyOut(blocks, answer);
      new DataView(answer.buffer).setInt32(this.#transformer.blockBytes, this.#sampler.tokenId(0));
    });
    return answer;
  }

  /** Lays out a step of a sequence that is none, with a draft of zeros, for `run` to compute; its first blocks are given to it. */
  #tryOut(promptIds: readonly number[], numDraftTokens: number, run: (blocks: readonly number[]) => void): void {
    const numTokens = promptIds.length + numDraftTokens;
    const request = { promptIds: Int32Array.from(promptIds), sampling: { ...GREEDY_SAMPLING, maxTokens: numTokens } };
    const sequence = new Sequence(-1, request, this.#numGroups, 0);
    sequence.seat = 0;
    sequence.setDraft(new Array<number>(numDraftTokens).fill(0));
    this.#kv.ensureCapacity(sequence, numTokens);
    this.#fillBatch([{ sequence, numNewTokens: promptIds.length }], 0);
    run(sequence.blockTables.map((table) => table[0]!));
    this.#kv.release(sequence);
  }

  #fillBatch(scheduled: readonly ScheduledSequence[], nowMs: number): void {
    this.#batch.clear();
    this.#sampler.clear();
    for (const { sequence, numNewTokens } of scheduled) {
      sequence.queueMs ??= nowMs - sequence.arrivedAtMs;
      writeBlockTables(this.#batch, sequence);
      const end = sequence.numComputedTokens + numNewTokens + sequence.numDraftTokens;
      for (let position = sequence.numComputedTokens; position < end; position++) this.#addRow(sequence, position);
    }
  }

  #addRow(sequence: Sequence, position: number): void {
    const batch = this.#batch;
    const row = batch.numRows;
    addRow(batch, sequence, position, this.#kv.blockSize);
    if (sequence.pooler?.wants(position)) batch.pooledRows.values[batch.numPooledRows++] = row;
    if (needsScore(sequence, position)) {
      batch.logitRows.values[batch.numLogitRows++] = row;
      this.#sampler.addScoreRow(sequence.tokens[position + 1]!, sequence.sampling.numPromptLogprobs ?? 0);
    } else if (needsSample(sequence, position)) {
      batch.logitRows.values[batch.numLogitRows++] = row;
      const mask = this.#constraints.maskOf(sequence, position + 1 - sequence.numTokens);
      this.#sampler.addSampleRow(sequence, position + 1, mask);
    }
  }

  /** Walks the rows in the order #fillBatch laid them out and moves every sequence forward. */
  #collect(scheduled: readonly ScheduledSequence[]): StepOutput[] {
    const outputs: StepOutput[] = [];
    let logitRow = 0;
    let pooledRow = 0;
    for (const { sequence, numNewTokens } of scheduled) {
      const end = sequence.numComputedTokens + numNewTokens;
      for (let position = sequence.numComputedTokens; position < end; position++) {
        if (sequence.pooler?.wants(position)) sequence.pooler.add(this.#transformer.pooledRow(pooledRow++));
        if (!needsScore(sequence, position)) continue;
        const numTop = sequence.sampling.numPromptLogprobs ?? 0;
        sequence.promptLogprobs!.push(this.#sampler.logprob(logitRow++, sequence.tokens[position + 1]!, numTop));
      }
      const isSampled = needsSample(sequence, end - 1);
      const { numDraftTokens } = sequence;
      sequence.numComputedTokens = end;
      if (end < sequence.numTokens) this.#kv.publishFull(sequence);
      else outputs.push({ requestId: sequence.id, output: this.#advance(sequence, isSampled ? logitRow : undefined) });
      if (isSampled) logitRow += 1 + numDraftTokens;
    }
    return outputs;
  }

  /**
   * All tokens of the sequence are computed: takes the sampled ones in, the first and, as long as the draft foresaw them, those after it, and
   * sees whether the last one ends the sequence.
   * @param firstRow the logit row of its last token, which those of its draft follow; undefined: nothing is sampled
   */
  #advance(sequence: Sequence, firstRow: number | undefined): EngineOutput {
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
    this.#numGenerationTokens += tokenIds.length;
    this.#kv.publishFull(sequence);
    this.#speculator?.observe(
      sequence,
      numDraftTokens,
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
      ...(sequence.pooler === undefined ? {} : { pooled: sequence.pooler.result() }),
      ...(finishReason === undefined ? {} : { finishReason }),
      ...(stopTokenId === undefined ? {} : { stopTokenId }),
    };
  }
}

/** Sizes and dates: of the embedding table the known answer uses but a few rows. */
function fileFacts(files: readonly string[]): readonly (readonly number[])[] {
  return files.map((file) => {
    const { size, mtimeMs } = statSync(file);
    return [size, mtimeMs];
  });
}
