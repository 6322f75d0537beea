/** The engine's loop, one turn at a time: schedule → forward → sample → emit. Single-threaded and synchronous; `worker.ts` drives it. */
import { basename } from "node:path";
import { MillraceError } from "../core/errors.js";
import type { Device } from "../kernels/kernels.js";
import { loadKernels } from "../kernels/load.js";
import { KV_OCTET } from "../kernels/program.js";
import type { EngineInfo, EngineOptions, EngineOutput, EngineRequest, EngineStats, TokenLogprob } from "./api.js";
import { kvGroups, planKvBudget } from "./kv/groups.js";
import { KvManager } from "./kv/kv-manager.js";
import type { OpenModel } from "./model/tensor-source.js";
import { Transformer } from "./model/transformer.js";
import { type LoadReport, WeightPacker } from "./model/weight-packer.js";
import { bindWeights } from "./model/weights.js";
import { PackCache } from "./packs/pack-cache.js";
import { SamplerIo } from "./sampler/sampler-io.js";
import type { ScheduledSequence } from "./scheduler.js";
import { Scheduler } from "./scheduler.js";
import { Sequence } from "./sequence.js";
import { StepBatch } from "./step-batch.js";

/** One request's news of a step. */
export interface StepOutput {
  readonly requestId: number;
  readonly output: EngineOutput;
}

/** Memory for the logits of prompt positions in one step, in bytes; decides how many positions a step scores. */
const SCORED_LOGITS_BYTES = 64 * 1024 * 1024;

export class EngineCore {
  readonly info: EngineInfo;
  readonly #scheduler: Scheduler;
  readonly #kv: KvManager;
  readonly #transformer: Transformer;
  readonly #batch: StepBatch;
  readonly #sampler: SamplerIo;
  readonly #sequences = new Map<number, Sequence>();
  readonly #numGroups: number;
  #numPromptTokens = 0;
  #numGenerationTokens = 0;
  #numSteps = 0;
  #kernelMs = 0;
  #stepMs = 0;

  /** @param freeBytes memory the KV cache may be planned against */
  constructor(
    model: OpenModel,
    options: EngineOptions,
    private readonly device: Device,
    freeBytes: number,
    report: LoadReport = { progress: () => {}, note: () => {} },
  ) {
    const { config } = model;
    const { blockSize, maxNumSeqs, kvCacheDtype: kvType } = options;
    const maxModelLen = resolveMaxModelLen(options.maxModelLen, config.contextLength);
    const source = model.tensorsFor(device);
    const packer = new WeightPacker(device, source, {
      activationDtype: options.activationDtype,
      modelName: basename(options.modelPath).replace(/\.gguf$/, ""),
      files: model.files,
      weightBytes: model.summary.weightBytes,
      cache: options.packCache && new PackCache(options.packCache, loadKernels().packedLayoutVersion()),
      report,
    });
    const weights = bindWeights(source, config, device, packer);
    const budget = planKvBudget(
      config,
      kvType,
      blockSize,
      { maxNumSeqs, maxModelLen },
      freeBytes - packer.numBytes,
      options.kvCacheMemoryBytes,
    );
    checkOptions(options, maxModelLen, budget.numBlocks);
    const groups = kvGroups(config);
    this.#numGroups = groups.length;
    const maxScoredRows = Math.min(512, Math.max(16, Math.floor(SCORED_LOGITS_BYTES / (4 * config.vocabSize))));
    const maxLogitRows = maxNumSeqs + maxScoredRows;
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
        maxScoredRows,
        isChunkedPrefillEnabled: options.enableChunkedPrefill,
        isBatchingStatic: options.batching === "static",
      },
      this.#kv,
    );
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
    this.#scheduler.add(sequence);
  }

  /** Unknown ids (already finished) are fine. */
  abort(requestId: number): void {
    const sequence = this.#sequences.get(requestId);
    if (sequence === undefined) return;
    this.#sequences.delete(requestId);
    this.#scheduler.remove(sequence);
  }

  step(): StepOutput[] {
    const startMs = performance.now();
    const scheduled = this.#scheduler.schedule();
    if (scheduled.length === 0) {
      throw new MillraceError(
        "engine_failed",
        `nothing could be scheduled though ${this.#sequences.size} requests wait`,
      );
    }
    this.#fillBatch(scheduled, startMs);
    const submitMs = performance.now();
    this.#transformer.forward(this.#batch, this.#sampler.buffers);
    this.#kernelMs += performance.now() - submitMs;
    const outputs = this.#collect(scheduled);
    this.#numSteps++;
    this.#stepMs += performance.now() - startMs;
    return outputs;
  }

  stats(): EngineStats {
    const { read, unshared } = this.device.kvBytes();
    return {
      numRunning: this.#scheduler.running.length,
      numWaiting: this.#scheduler.waiting.length,
      numUsedKvBlocks: this.#kv.numUsedBlocks,
      prefixCacheQueriedTokens: this.#kv.queriedTokens,
      prefixCacheHitTokens: this.#kv.hitTokens,
      numPreemptions: this.#scheduler.numPreemptions,
      numPromptTokens: this.#numPromptTokens,
      numGenerationTokens: this.#numGenerationTokens,
      numSteps: this.#numSteps,
      kvBytesRead: read,
      kvBytesUnshared: unshared,
      kernelMs: this.#kernelMs,
      stepMs: this.#stepMs,
    };
  }

  #fillBatch(scheduled: readonly ScheduledSequence[], nowMs: number): void {
    this.#batch.clear();
    this.#sampler.clear();
    for (const { sequence, numNewTokens } of scheduled) {
      sequence.queueMs ??= nowMs - sequence.arrivedAtMs;
      this.#writeBlockTables(sequence);
      const end = sequence.numComputedTokens + numNewTokens;
      for (let position = sequence.numComputedTokens; position < end; position++) this.#addRow(sequence, position);
    }
  }

  /** The seat's rows of the block tables get the entries they lack. */
  #writeBlockTables(sequence: Sequence): void {
    const start = sequence.seat * this.#batch.capacity.tableStride;
    sequence.blockTables.forEach((table, group) => {
      const { values } = this.#batch.blockTables[group]!;
      for (let i = sequence.numTableEntriesWritten; i < table.length; i++) values[start + i] = table[i]!;
    });
    sequence.numTableEntriesWritten = sequence.blockTables[0]!.length;
  }

  #addRow(sequence: Sequence, position: number): void {
    const batch = this.#batch;
    const { blockSize } = this.#kv;
    const row = batch.numRows++;
    batch.tokenIds.values[row] = sequence.tokens[position]!;
    batch.positions.values[row] = position;
    batch.kvLengths.values[row] = position + 1;
    batch.seats.values[row] = sequence.seat;
    const block = Math.floor(position / blockSize);
    const offset = position % blockSize;
    for (let group = 0; group < this.#numGroups; group++) {
      batch.kvSlots[group]!.values[row] = sequence.blockTables[group]![block]! * blockSize + offset;
    }
    if (sequence.pooler?.wants(position)) batch.pooledRows.values[batch.numPooledRows++] = row;
    if (needsScore(sequence, position)) {
      batch.logitRows.values[batch.numLogitRows++] = row;
      this.#sampler.addScoreRow(sequence.tokens[position + 1]!, sequence.sampling.numPromptLogprobs ?? 0);
    } else if (needsSample(sequence, position)) {
      batch.logitRows.values[batch.numLogitRows++] = row;
      this.#sampler.addSampleRow(sequence);
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
      sequence.numComputedTokens = end;
      this.#kv.publishFull(sequence);
      if (end < sequence.numTokens) continue;
      outputs.push({ requestId: sequence.id, output: this.#advance(sequence, isSampled ? logitRow++ : undefined) });
    }
    return outputs;
  }

  /** All tokens of the sequence are computed: take the sampled one in, and see whether it is the last. */
  #advance(sequence: Sequence, sampledRow: number | undefined): EngineOutput {
    const { sampling } = sequence;
    const isFirst = sequence.numOutputTokens === 0;
    if (isFirst) this.#numPromptTokens += sequence.numPromptTokens;
    const tokenIds: number[] = [];
    const logprobs: TokenLogprob[] = [];
    let stopTokenId: number | undefined;
    if (sampledRow !== undefined) {
      const tokenId = this.#sampler.tokenId(sampledRow);
      sequence.append(tokenId);
      this.#numGenerationTokens++;
      tokenIds.push(tokenId);
      if (sampling.numLogprobs !== undefined) {
        logprobs.push(this.#sampler.logprob(sampledRow, tokenId, sampling.numLogprobs));
      }
      if (sampling.stopTokenIds.includes(tokenId)) stopTokenId = tokenId;
    }
    const isFull = sequence.numOutputTokens >= sampling.maxTokens || sequence.numTokens >= this.info.maxModelLen;
    const finishReason = stopTokenId !== undefined ? "stop" : isFull ? "length" : undefined;
    if (finishReason !== undefined) this.abort(sequence.id);
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

/** The prompt token after `position` still lacks its log-probability. */
function needsScore(sequence: Sequence, position: number): boolean {
  if (sequence.promptLogprobs === undefined) return false;
  return position < sequence.numPromptTokens - 1 && position >= sequence.promptLogprobs.length - 1;
}

function needsSample(sequence: Sequence, position: number): boolean {
  return position === sequence.numTokens - 1 && sequence.sampling.maxTokens > 0;
}

function resolveMaxModelLen(asked: number | undefined, contextLength: number): number {
  if (asked === undefined) return contextLength;
  if (asked <= contextLength) return asked;
  throw new MillraceError(
    "invalid_option",
    `expected --max-model-len of at most the model's context of ${contextLength} tokens, got ${asked}`,
  );
}

function checkOptions(options: EngineOptions, maxModelLen: number, numKvBlocks: number): void {
  if (options.blockSize % KV_OCTET !== 0) {
    throw new MillraceError(
      "invalid_option",
      `expected --block-size to be a multiple of ${KV_OCTET}, got ${options.blockSize}`,
    );
  }
  if (!options.enableChunkedPrefill && options.maxNumBatchedTokens < maxModelLen) {
    throw new MillraceError(
      "invalid_option",
      `expected --max-num-batched-tokens of at least --max-model-len (${maxModelLen}) without chunked prefill, got ${options.maxNumBatchedTokens}`,
    );
  }
  if (options.maxNumBatchedTokens < options.maxNumSeqs) {
    throw new MillraceError(
      "invalid_option",
      `expected --max-num-batched-tokens of at least --max-num-seqs (${options.maxNumSeqs}), got ${options.maxNumBatchedTokens}`,
    );
  }
  const reservedBlocks = Math.ceil(maxModelLen / options.blockSize);
  if (options.kvLayout === "contiguous" && numKvBlocks < reservedBlocks) {
    throw new MillraceError(
      "invalid_option",
      `expected KV memory for one sequence of ${maxModelLen} tokens (${reservedBlocks} blocks), got ${numKvBlocks} blocks`,
      { hint: "Raise --kv-cache-memory-bytes, lower --max-model-len, or use --kv-layout paged." },
    );
  }
}
