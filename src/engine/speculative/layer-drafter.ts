/**
 * A drafter of one layer with keys and values of its own: an EAGLE-3 head (arXiv 2503.01840), or the layer for
 * multi-token prediction that a model's file has. It reads states of the model at a position, with the token after it,
 * and drafts the token after that; from then on it reads its own states. Its keys and values are in blocks beside the
 * model's: a prefix that the cache has is the layer's too. Blocks from disk lack its part, so that fewer drafts come
 * true after them.
 */

import type { Backend, HostBuffer } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { KvType } from "../../backend/ops.js";
import { attentionMixers, type ServableModel } from "../../model/description/servable.js";
import { GREEDY_SAMPLING } from "../api/request.js";
import { Transformer } from "../blocks/transformer.js";
import { KvCaches } from "../memory/kv-caches.js";
import { SamplerIo } from "../sampler/sampler-io.js";
import { type ScheduledSequence, Sequence } from "../step/sequence.js";
import { StepBatch, writeBlockTables } from "../step/step-batch.js";
import { fastestMs, MAX_MEASURED_ROWS, StepCost } from "../step/step-cost.js";
import type { BatchDrafter, Draft, GoesOn } from "./drafter.js";
import type { DraftingLayer } from "./drafting-layer.js";
import { type Guessed, guessInTurn } from "./guessing.js";
import type { HeadsTarget } from "./head-network.js";

interface LayerCapacity {
  readonly maxModelLen: number;
  readonly maxNumSeqs: number;
  readonly kvType: KvType;
  /** Other tokens than the likeliest for a draft's first place. */
  readonly alternatives: number;
}

/** Sources of the states that the layer reads: variants of its input. */
const FROM_MODEL = 0;
const FROM_OWN = 1;

/** Where drafts do not pay, the layer still follows one sequence in this many, so that a change is noticed. */
const SERVED_OF = 64;

/** Rows of the model's latest step, from `firstRow` on, computed positions `first` to `last` of the sequence. */
interface Computed {
  readonly sequence: Sequence;
  readonly admission: number;
  readonly first: number;
  readonly last: number;
  readonly firstRow: number;
  /** Where an alternative to the first drafted token came true: its position, and the row that replaces the draft's. */
  readonly alternative?: { readonly position: number; readonly row: number };
}

/** `Computed` as planned, before the step has run. */
interface Tapped extends Computed {
  readonly drafted: {
    readonly position: number;
    readonly token: number | undefined;
    readonly alternatives: readonly number[];
  };
}

/** Rows of a drafter's batch: those of the model's steps, or one for each sequence. */
export const maxHeadRows = ({ batch }: Pick<HeadsTarget, "batch">, maxNumSeqs: number): number =>
  Math.max(batch.capacity.maxRows, maxNumSeqs);

export class LayerDrafter implements BatchDrafter {
  readonly name: string;
  readonly cost: StepCost;
  readonly maxTokens = Number.POSITIVE_INFINITY;
  readonly batch: StepBatch;
  readonly sampler: SamplerIo;
  readonly numRanked: number;
  readonly #transformer: Transformer;
  /** By input layer: its inputs at the rows of the model's latest step. */
  readonly #captured: readonly BufferHandle[];
  /** [maxRows]: for each row the row of its state, in the model's latest step or in the head's own last one. */
  readonly #sourceRows: HostBuffer<"i32">;
  readonly picksProbes = true;
  /** Whether the head follows the sequence. One that was left behind has no keys and values of its last tokens. */
  readonly #isServed = new Map<Sequence, boolean>();
  #numNotServed = 0;
  /** Tapped rows of the step under way. */
  #tapped: readonly Tapped[] = [];
  /** Rows whose keys and values the head has yet to store; their states are at hand until the model's next step. */
  #pending: readonly Computed[] = [];

  static async create(
    head: DraftingLayer,
    target: HeadsTarget,
    capacity: LayerCapacity,
    backend: Backend,
  ): Promise<LayerDrafter> {
    const heads = new LayerDrafter(head, target, capacity, backend);
    await heads.cost.measure((numRows) => heads.#measure(numRows));
    return heads;
  }

  private constructor(
    head: DraftingLayer,
    private readonly target: HeadsTarget,
    { maxModelLen, maxNumSeqs, kvType, alternatives }: LayerCapacity,
    backend: Backend,
  ) {
    const { kv, transformer } = target;
    this.name = head.name;
    this.numRanked = alternatives === 0 ? 0 : alternatives + 1;
    const { tableStride } = target.batch.capacity;
    const maxRows = maxHeadRows(target, maxNumSeqs);
    const { group, window } = kv.main;
    // A query of the model counts its own entry in the window, which is one behind the head's.
    const config = withWindow(head.config, Math.max(0, window - 1));
    const capacity = { maxRows, maxLogitRows: maxNumSeqs, maxSeats: maxNumSeqs, tableStride, numGroups: 1 };
    this.batch = new StepBatch(capacity, backend, [target.batch.blockTables[group]!]);
    this.sampler = new SamplerIo(backend, { maxLogitRows: maxNumSeqs, maxNumSeqs, vocabSize: config.vocabSize });
    this.#captured = transformer.captureInputs(head.inputLayers);
    this.#sourceRows = backend.input("i32", maxRows);
    const layout = { kvType, blockSize: kv.blockSize, numBlocks: [kv.numBlocks] };
    this.#transformer = new Transformer({
      config,
      weights: head.weights,
      backend,
      caches: new KvCaches(
        config,
        { ...layout, groups: [{ window: attentionMixers(config)[0]!.window, layers: [0], pool: 0 }] },
        backend,
      ),
      batch: this.batch,
      maxModelLen,
      recordInput: (program, hidden, batch, variant) => {
        const areOwn = variant === FROM_OWN;
        const buffers = areOwn ? [this.#transformer.tapped] : this.#captured;
        head.recordInput(program, hidden, { buffers, areOwn, rows: this.#sourceRows.buffer }, batch);
      },
      tapsBeforeNorm: head.readsUnnormed,
      maxReadRows: maxNumSeqs,
    });
    this.cost = new StepCost(() => 0, Math.min(MAX_MEASURED_ROWS, maxNumSeqs), backend.stepCostRows);
  }

  /** The sequences that took part in the model's last step, whose last computed position is at hand. */
  async ready(sequences: readonly Sequence[]): Promise<readonly Sequence[]> {
    const atHand = new Set(
      this.#pending
        .filter(isAdmitted)
        .flatMap(({ sequence, last }) => (last === sequence.numTokens - 2 ? sequence : [])),
    );
    return sequences.filter((sequence) => atHand.has(sequence));
  }

  propose(sequences: readonly Sequence[], numTokens: number, goesOn: GoesOn): Promise<readonly Draft[]> {
    return guessInTurn(this, sequences, numTokens, goesOn);
  }

  /** A guess stores the keys and values of the token before it. */
  hasRoom(sequence: Sequence, numDrafted: number): boolean {
    // The last token of an answer is not drafted: the context may end after it.
    return (
      numDrafted < sequence.numTokensLeft - 1 &&
      this.target.kv.ensureCapacity(sequence, sequence.numTokens - 1 + numDrafted)
    );
  }

  layOut(round: readonly Guessed[], depth: number): void {
    if (depth > 0) {
      for (const { sequence, draft, place } of round) {
        writeBlockTables(this.target.batch, sequence);
        this.#addRow(sequence, draft.at(-1)!, sequence.numTokens - 2 + depth, place);
        this.#addGuess(sequence, draft);
      }
      return;
    }
    const pending = this.#takePending();
    const computedOf = new Map(pending.map((computed) => [computed.sequence, computed]));
    for (const { sequence, draft } of round) {
      this.#catchUp(computedOf.get(sequence)!);
      computedOf.delete(sequence);
      this.#addGuess(sequence, draft);
    }
    for (const computed of computedOf.values()) this.#catchUp(computed);
  }

  /** All rounds after the first share one program. */
  forward(depth: number): Promise<void> {
    return this.#transformer.forward(this.sampler.buffers, depth === 0 ? FROM_MODEL : FROM_OWN);
  }

  forget(sequence: Sequence): void {
    this.#isServed.delete(sequence);
  }

  /**
   * Stores the keys and values that no draft has stored, before the model's step replaces its states; where drafts do
   * not pay, only prompts of sequences to try.
   */
  async tapHidden(scheduled: readonly ScheduledSequence[], isWorthIt: boolean): Promise<void> {
    const pending = this.#takePending().filter(({ sequence, first, last }) => {
      const isLeft = !isWorthIt && first === last;
      if (isLeft) this.#isServed.set(sequence, false);
      return !isLeft;
    });
    if (pending.length > 0) {
      this.batch.clear();
      this.sampler.clear();
      for (const computed of pending) this.#catchUp(computed);
      await this.forward(0);
    }
    let firstRow = 0;
    this.#tapped = scheduled.flatMap(({ sequence, numNewTokens }) => {
      const { numComputedTokens: first, numDraftTokens, numAdmissions: admission, alternatives, numTokens } = sequence;
      const numRows = numNewTokens + numDraftTokens;
      const drafted = { position: numTokens, token: sequence.tokens[numTokens], alternatives };
      const computed = { sequence, admission, first, last: first + numRows - 1, firstRow, drafted };
      firstRow += numRows + alternatives.length;
      return this.#serves(sequence, isWorthIt) ? computed : [];
    });
    this.target.transformer.isCapturing = this.#tapped.length > 0;
  }

  #serves(sequence: Sequence, isWorthIt: boolean): boolean {
    let isServed = this.#isServed.get(sequence);
    if (isServed === undefined) {
      isServed = isWorthIt || ++this.#numNotServed % SERVED_OF === 0;
      this.#isServed.set(sequence, isServed);
    }
    return isServed;
  }

  takeHidden(): void {
    this.#pending = this.#tapped.filter(isAdmitted).map((computed) => {
      const { sequence, first, firstRow, last: lastLaidOut, drafted } = computed;
      // Drafted positions count only as far as they came true.
      const last = Math.min(lastLaidOut, sequence.numComputedTokens - 1);
      const { position, token, alternatives } = drafted;
      if (last < position || sequence.tokens[position] === token) return { ...computed, last };
      const row = firstRow + lastLaidOut - first + 1 + alternatives.indexOf(sequence.tokens[position]!);
      return { ...computed, last, alternative: { position, row } };
    });
    this.#tapped = [];
  }

  #takePending(): readonly Computed[] {
    const pending = this.#pending.filter(isAdmitted);
    this.#pending = [];
    return pending;
  }

  /** Lays out the rows of the positions, each with the token after it, which is known. */
  #catchUp({ sequence, first, last, firstRow, alternative }: Computed): void {
    for (let position = first; position <= last; position++) {
      const row = alternative?.position === position ? alternative.row : firstRow + position - first;
      this.#addRow(sequence, sequence.tokens[position + 1]!, position, row);
    }
  }

  #addRow(sequence: Sequence, token: number, position: number, source: number): void {
    const { batch } = this;
    const { group } = this.target.kv.main;
    const { blockSize } = this.target.kv;
    const row = batch.numRows++;
    batch.tokenIds.values[row] = token;
    batch.positions.values[row] = position;
    batch.kvLengths[0]!.values[row] = position + 1;
    batch.sequenceIndex.values[row] = sequence.seat;
    // Blocks that a window has left behind are given back.
    const block = sequence.blockTables[group]![Math.floor(position / blockSize)] ?? -1;
    batch.kvSlots[0]!.values[row] = block < 0 ? -1 : block * blockSize + (position % blockSize);
    this.#sourceRows.values[row] = source;
  }

  /** The last row drafts a token, and keeps its state for the next round. */
  #addGuess(sequence: Sequence, draft: readonly number[]): void {
    const { batch } = this;
    const row = batch.numRows - 1;
    batch.logitRows.values[batch.numLogitRows++] = row;
    batch.hiddenTaps.values[batch.numHiddenTaps++] = row;
    // Penalties count the tokens drafted so far.
    sequence.setDraft(draft);
    const numRanked = draft.length === 0 && sequence.mayHaveAlternatives ? this.numRanked : 0;
    this.sampler.addGuessRow(sequence, sequence.numTokens + draft.length, numRanked);
  }

  /** Milliseconds of a round for `numRows` sequences, measured before there are sequences. */
  async #measure(numRows: number): Promise<number> {
    this.batch.clear();
    this.sampler.clear();
    for (let seat = 0; seat < numRows; seat++) {
      const request = { promptIds: Int32Array.of(0), sampling: { ...GREEDY_SAMPLING, maxTokens: 1 } };
      const sequence = Object.assign(new Sequence(-1, request, this.target.kv.main.group + 1, 0), { seat });
      this.#addRow(sequence, 0, 0, seat);
      this.batch.kvLengths[0]!.values[seat] = 0;
      this.#addGuess(sequence, []);
    }
    return fastestMs(() => this.forward(1));
  }
}

/** Has the sequence kept its seat since then? */
const isAdmitted = ({ sequence, admission }: Computed): boolean =>
  sequence.seat >= 0 && sequence.numAdmissions === admission;

function withWindow(config: ServableModel, window: number): ServableModel {
  const layers = config.layers.map((layer) => ({ ...layer, mixer: { ...layer.mixer, window } }));
  return { ...config, layers };
}
