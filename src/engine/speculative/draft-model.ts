/**
 * A small model of the same vocabulary that drafts for a large one, with its own weights, KV memory and batches. It
 * samples with the noise and the filters of the sequence it drafts for, which makes the two agree at any temperature.
 */

import type { Backend } from "../../backend/backend.js";
import type { KvType } from "../../backend/ops.js";
import { MillraceError } from "../../core/errors.js";
import type { ServableModel } from "../../model/description/servable.js";
import { GREEDY_SAMPLING } from "../api/request.js";
import { Transformer } from "../blocks/transformer.js";
import type { ModelWeights } from "../blocks/weights.js";
import { kvGroups } from "../memory/groups.js";
import { KvCaches } from "../memory/kv-caches.js";
import { KvManager } from "../memory/kv-manager.js";
import { SamplerIo } from "../sampler/sampler-io.js";
import { Sequence } from "../step/sequence.js";
import { addRow, StepBatch, writeBlockTables } from "../step/step-batch.js";
import { fastestMs, MAX_MEASURED_ROWS, StepCost } from "../step/step-cost.js";
import { type BatchDrafter, type Draft, type GoesOn, type GrowingDraft, isLast } from "./drafter.js";

interface DraftModelCapacity {
  readonly maxNumSeqs: number;
  readonly maxModelLen: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly kvType: KvType;
}

/** Prompt tokens computed in one engine step, for all sequences together. */
const MAX_ROWS = 512;

/** The draft model's copy of a sequence. */
interface Shadow {
  readonly sequence: Sequence;
  /** Leading tokens that are the sequence's own; the rest are drafted. */
  numCertain: number;
}

export class DraftModel implements BatchDrafter {
  readonly name = "draft_model";
  readonly cost: StepCost;
  readonly maxTokens = Number.POSITIVE_INFINITY;
  readonly #batch: StepBatch;
  readonly #sampler: SamplerIo;
  readonly #transformer: Transformer;
  readonly #kv: KvManager;
  readonly #freeSeats: number[];
  readonly #shadows = new Map<Sequence, Shadow>();
  readonly #numGroups: number;

  /** Throws invalid_option when the draft model cannot stand in for `target`. */
  static async create(
    config: ServableModel,
    weights: ModelWeights,
    target: ServableModel,
    capacity: DraftModelCapacity,
    backend: Backend,
  ): Promise<DraftModel> {
    checkDraftModel(config, target, capacity.maxModelLen);
    const model = new DraftModel(config, weights, capacity, backend);
    await model.cost.measure((numRows) => model.#measure(numRows));
    return model;
  }

  private constructor(
    config: ServableModel,
    weights: ModelWeights,
    private readonly capacity: DraftModelCapacity,
    backend: Backend,
  ) {
    const { maxNumSeqs, maxModelLen, blockSize, numBlocks, kvType } = capacity;
    // Rejected drafts roll back, and a window would then see blocks again that it had given up: so all blocks are kept.
    const groups = kvGroups(config, 0);
    this.#numGroups = groups.length;
    this.#batch = new StepBatch(
      {
        maxRows: Math.max(MAX_ROWS, 2 * maxNumSeqs),
        maxLogitRows: maxNumSeqs,
        maxSeats: maxNumSeqs,
        tableStride: Math.ceil(maxModelLen / blockSize),
        numGroups: groups.length,
      },
      backend,
    );
    this.#sampler = new SamplerIo(backend, { maxLogitRows: maxNumSeqs, maxNumSeqs, vocabSize: config.vocabSize });
    const caches = new KvCaches(config, { kvType, blockSize, numBlocks: [numBlocks], groups }, backend);
    this.#transformer = new Transformer({ config, weights, backend, caches, batch: this.#batch, maxModelLen });
    this.#kv = new KvManager({
      windows: groups.map(({ window }) => window),
      numBlocks: [numBlocks],
      blockSize,
      maxStepTokens: MAX_ROWS,
      isPrefixCachingEnabled: true,
      reservedTokens: 0,
    });
    this.#freeSeats = Array.from({ length: maxNumSeqs }, (_, i) => maxNumSeqs - 1 - i);
    const maxMeasured = Math.min(MAX_MEASURED_ROWS, maxNumSeqs, maxModelLen, numBlocks * blockSize);
    this.cost = new StepCost(() => 0, maxMeasured, backend.stepCostRows);
  }

  /** Computes missing tokens of the sequences, up to MAX_ROWS. @returns the sequences that are ready for a draft */
  async ready(sequences: readonly Sequence[]): Promise<readonly Sequence[]> {
    const caughtUp: Sequence[] = [];
    const certain: Sequence[] = [];
    let numRowsLeft = MAX_ROWS;
    this.#forgetPreempted();
    this.#batch.clear();
    this.#sampler.clear();
    for (const target of sequences) {
      const shadow = this.#shadowOf(target);
      if (shadow === undefined) continue;
      const { sequence } = shadow;
      certain.push(sequence);
      // The last token is computed with the first drafted one.
      const numRows = Math.min(numRowsLeft, sequence.numTokens - 1 - sequence.numComputedTokens);
      if (!this.#kv.ensureCapacity(sequence, sequence.numComputedTokens + numRows)) continue;
      if (numRows > 1) {
        this.#addRows(sequence, sequence.numComputedTokens + numRows);
        numRowsLeft -= numRows;
      }
      if (sequence.numTokens - sequence.numComputedTokens <= 2) caughtUp.push(target);
    }
    if (this.#batch.numRows > 0) await this.#transformer.forward(this.#sampler.buffers);
    // Never blocks with drafted tokens: published blocks must not change.
    for (const sequence of certain) this.#kv.publishAndTrim(sequence);
    return caughtUp;
  }

  /** Drafts are shorter for sequences near their end or short of memory. */
  async propose(targets: readonly Sequence[], numTokens: number, goesOn: GoesOn): Promise<readonly Draft[]> {
    const drafts = targets.map((): GrowingDraft => ({ tokens: [], chances: [] }));
    let active = targets.map((target, index) => ({ index, target, sequence: this.#shadows.get(target)!.sequence }));
    for (let i = 0; i < numTokens; i++) {
      const startMs = performance.now();
      this.#batch.clear();
      this.#sampler.clear();
      // The last token of an answer is not drafted: the context may end after it.
      active = active.filter(
        ({ target, sequence }) => i < target.numTokensLeft - 1 && this.#kv.ensureCapacity(sequence, sequence.numTokens),
      );
      if (active.length === 0) break;
      for (const { sequence } of active) {
        this.#addRows(sequence, sequence.numTokens);
        this.#batch.logitRows.values[this.#batch.numLogitRows++] = this.#batch.numRows - 1;
        this.#sampler.addGuessRow(sequence, sequence.numTokens);
      }
      const { numRows } = this.#batch;
      const numGuesses = active.length;
      await this.#transformer.forward(this.#sampler.buffers);
      active = active.filter(({ index, target, sequence }, row) => {
        const token = this.#sampler.tokenId(row);
        // Logits that overflow end the draft; the sequence itself goes on.
        if (token === undefined) return false;
        const chance = this.#sampler.probability(row);
        drafts[index]!.tokens.push(token);
        drafts[index]!.chances.push(chance);
        sequence.append(token);
        return goesOn(index, chance, numGuesses) && !isLast(target, token);
      });
      if (i > 0) this.cost.observe(numRows, performance.now() - startMs);
    }
    return drafts;
  }

  forget(target: Sequence): void {
    const shadow = this.#shadows.get(target);
    if (shadow === undefined) return;
    this.#shadows.delete(target);
    this.#kv.release(shadow.sequence);
    this.#freeSeats.push(shadow.sequence.seat);
  }

  /** Sequences that took the places of pre-empted ones need the seats and the memory of those ones' copies. */
  #forgetPreempted(): void {
    for (const target of this.#shadows.keys()) if (target.seat < 0) this.forget(target);
  }

  /** Brings the copy up to date with the sequence: rejected tokens roll back. */
  #shadowOf(target: Sequence): Shadow | undefined {
    const shadow = this.#shadows.get(target) ?? this.#cast(target);
    if (shadow === undefined) return undefined;
    const { sequence } = shadow;
    let numSame = shadow.numCertain;
    const most = Math.min(sequence.numTokens, target.numTokens);
    while (numSame < most && sequence.tokens[numSame] === target.tokens[numSame]) numSame++;
    sequence.numTokens = numSame;
    while (sequence.numTokens < target.numTokens) sequence.append(target.tokens[sequence.numTokens]!);
    // A last token that was drafted is computed again, since the logits after it are needed.
    sequence.numComputedTokens = Math.min(sequence.numComputedTokens, numSame, sequence.numTokens - 1);
    shadow.numCertain = target.numTokens;
    return shadow;
  }

  #cast(target: Sequence): Shadow | undefined {
    const seat = this.#freeSeats.pop();
    if (seat === undefined) return undefined;
    const promptIds = target.tokens.slice(0, target.numPromptTokens);
    const sampling = { ...target.sampling, numLogprobs: undefined, numPromptLogprobs: undefined };
    const { cacheSalt } = target;
    const sequence = new Sequence(target.id, { promptIds, sampling, cacheSalt }, this.#numGroups, 0);
    sequence.seat = seat;
    this.#kv.attachPrefix(sequence);
    const shadow = { sequence, numCertain: target.numPromptTokens };
    this.#shadows.set(target, shadow);
    return shadow;
  }

  /** Lays out rows for the tokens from numComputedTokens to `end`, and counts them as computed. */
  #addRows(sequence: Sequence, end: number): void {
    writeBlockTables(this.#batch, sequence);
    for (let position = sequence.numComputedTokens; position < end; position++) {
      addRow(this.#batch, sequence, position, { blockSize: this.capacity.blockSize, isCausal: true, numTokenTypes: 0 });
    }
    sequence.numComputedTokens = end;
  }

  /** Milliseconds of a step of `numRows` rows, measured before there are sequences. */
  async #measure(numRows: number): Promise<number> {
    const sampling = { ...GREEDY_SAMPLING, maxTokens: 1 };
    const sequence = new Sequence(-1, { promptIds: new Int32Array(numRows), sampling }, this.#numGroups, 0);
    sequence.seat = 0;
    this.#kv.ensureCapacity(sequence, numRows);
    this.#batch.clear();
    this.#sampler.clear();
    this.#addRows(sequence, numRows);
    for (let row = 0; row < numRows; row++) {
      this.#batch.logitRows.values[this.#batch.numLogitRows++] = row;
      this.#sampler.addGuessRow(sequence, row + 1);
    }
    const fastest = await fastestMs(() => this.#transformer.forward(this.#sampler.buffers));
    this.#kv.release(sequence);
    return fastest;
  }
}

function checkDraftModel(config: ServableModel, target: ServableModel, maxModelLen: number): void {
  if (config.vocabSize !== target.vocabSize) {
    throw new MillraceError(
      "invalid_option",
      `expected a draft model with the model's vocabulary of ${target.vocabSize} tokens, got one of ${config.vocabSize}`,
      { hint: "Draft models come from the same family, with the same tokenizer." },
    );
  }
  if (config.contextLength < maxModelLen) {
    throw new MillraceError(
      "invalid_option",
      `expected a draft model with a context of ${maxModelLen} tokens, got ${config.contextLength}`,
      { hint: "Lower --max-model-len, or take a draft model with a longer context." },
    );
  }
}
