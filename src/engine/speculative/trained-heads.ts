/**
 * Heads trained on the model's own hidden states, as a drafter. Every step of the model leaves them the hidden states of the rows it computed, as
 * far as their tokens came true. They are kept until a guess is made or PENDING of them have gathered: then a layer that has a past computes its
 * keys and values for all of them at once.
 *
 * That past begins where the sequence's computation began at its present admission: positions found in the prefix cache or on disk were not
 * computed, so the layer does not see them, nor more than its window. Their absence makes guesses worse, never a result.
 * Like a draft model, heads sample with the noise and the filters of the sequence they guess for.
 */
import type { BufferHandle, Device } from "../../kernels/kernels.js";
import type { KvType } from "../../kernels/program.js";
import { GREEDY_SAMPLING } from "../api.js";
import { Transformer } from "../model/transformer.js";
import { SamplerIo } from "../sampler/sampler-io.js";
import type { ScheduledSequence } from "../scheduler.js";
import { Sequence } from "../sequence.js";
import { allocateInts, type HostInts, StepBatch } from "../step-batch.js";
import { StepCost } from "../step-cost.js";
import { type BatchDrafter, type Draft, type GoesOn, type GrowingDraft, isLast } from "./drafter.js";
import type { HeadNetwork } from "./head-network.js";

/** Of the model that the heads belong to. */
export interface HeadsSource {
  readonly transformer: Transformer;
  readonly batch: StepBatch;
}

export interface HeadsCapacity {
  readonly maxNumSeqs: number;
  readonly maxModelLen: number;
  readonly maxDraftTokens: number;
  readonly kvType: KvType;
}

/** Hidden states kept for each sequence. */
const PENDING = 32;
/** More new ones of a sequence, a prompt's, are read where the model left them. */
const FEW = 16;
/** Of the layer's own KV memory. */
const BLOCK_SIZE = 16;
const MEASURED_STEPS = 2;
/** In place of a depth: a layer's past is computed from the model's taps, without a guess. */
const FROM_MODEL = -1;
/** Guessed where a head overflows: it is checked like any other. */
const ANY_TOKEN = 0;

/** The positions from `start` to `end` of a sequence were seen since its admission number `admission`; those from `computed` on are pending. */
interface Seen {
  readonly admission: number;
  readonly start: number;
  computed: number;
  end: number;
}

/** Rows that the network may have to compute at once. */
export const headsMaxRows = (maxNumSeqs: number): number => maxNumSeqs * PENDING;

export class TrainedHeads implements BatchDrafter {
  readonly name: string;
  readonly cost: StepCost;
  readonly maxTokens: number;
  readonly #batch: StepBatch;
  readonly #sampler: SamplerIo;
  readonly #transformer: Transformer;
  readonly #seen = new Map<Sequence, Seen>();
  /** Blocks of a seat, used in a circle. */
  readonly #blocksPerSeat: number;
  /** [maxNumSeqs, PENDING, model's width]: by seat and position mod PENDING, the hidden states seen last. */
  readonly #pending: { readonly buffer: BufferHandle; readonly values: Float32Array };
  /** [maxRows]: for each row of the batch, the row with its hidden state: of what is pending, of the model's taps, or of what a layer made in the step before. */
  readonly #sourceRows: HostInts;
  /** What was tapped in the present step, from the batch's tap `#firstTap` on. */
  #tapped: { readonly sequence: Sequence; readonly position: number }[] = [];
  #firstTap = 0;

  constructor(
    private readonly network: HeadNetwork,
    private readonly model: HeadsSource,
    { maxNumSeqs, maxModelLen, maxDraftTokens, kvType }: HeadsCapacity,
    device: Device,
  ) {
    const { config, weights, window } = network;
    this.name = network.name;
    this.maxTokens = network.maxTokens;
    const maxRows = headsMaxRows(maxNumSeqs);
    const tableStride = Math.ceil((maxModelLen + maxDraftTokens) / BLOCK_SIZE);
    // What the window sees, the guesses, and the block that is begun.
    this.#blocksPerSeat = Math.min(tableStride, Math.ceil((window + maxDraftTokens) / BLOCK_SIZE) + 1);
    const capacity = { maxRows, maxLogitRows: maxNumSeqs, maxSeats: maxNumSeqs, tableStride, numGroups: 1 };
    this.#batch = new StepBatch(capacity, device);
    const tables = this.#batch.blockTables[0]!.values;
    for (let i = 0; i < tables.length; i++) tables[i] = this.#block(Math.floor(i / tableStride), i % tableStride);
    this.#sampler = new SamplerIo(device, { maxLogitRows: maxNumSeqs, maxNumSeqs });
    const modelWidth = model.transformer.width;
    const pending = device.allocate(maxRows * modelWidth * 4);
    this.#pending = { buffer: pending, values: new Float32Array(device.view(pending)) };
    this.#sourceRows = allocateInts(device, maxRows);
    const states = device.allocate(maxRows * modelWidth * 4);
    const layers = config.layers.map((_, index) => index);
    this.#transformer = new Transformer(
      config,
      weights,
      device,
      {
        kvType,
        blockSize: BLOCK_SIZE,
        numBlocks: [maxNumSeqs * this.#blocksPerSeat],
        groups: [{ window, layers }],
        maxModelLen,
      },
      this.#batch,
      (program, hidden, batch, depth) => {
        const areOwn = this.#readsOwn(depth);
        const ofModel = depth === FROM_MODEL ? model.transformer.tapped : pending;
        const [source, width] = areOwn ? [this.#transformer.tapped, config.width] : [ofModel, modelWidth];
        program.gatherRows(states, source, this.#sourceRows.buffer, batch.numRows, width);
        network.recordInput(program, hidden, { buffer: states, areOwn }, batch, Math.max(0, depth));
      },
    );
    this.cost = new StepCost((numRows) => this.#measure(numRows), Math.min(32, maxNumSeqs));
  }

  /** Those whose last hidden state is there, which it is after every step that they were part of. */
  ready(sequences: readonly Sequence[]): readonly Sequence[] {
    return sequences.filter((sequence) => {
      const seen = this.#seen.get(sequence);
      return seen?.admission === sequence.numAdmissions && seen.end === sequence.numTokens - 1;
    });
  }

  propose(sequences: readonly Sequence[], numTokens: number, goesOn: GoesOn): readonly Draft[] {
    const drafts = sequences.map((): GrowingDraft => ({ tokens: [], chances: [] }));
    /** `row`: of the step before. */
    let active = sequences.map((sequence, index) => ({ index, sequence, row: index }));
    for (let i = 0; i < Math.min(numTokens, this.maxTokens) && active.length > 0; i++) {
      const isOwn = this.#readsOwn(i);
      const startMs = performance.now();
      this.#clear();
      for (const { index, sequence, row } of active) {
        const seen = this.#seen.get(sequence)!;
        const { tokens } = drafts[index]!;
        if (isOwn) this.#addRow(sequence.seat, seen.start, sequence.numTokens - 2 + i, tokens[i - 1]!, row);
        else this.#addPending(sequence, seen);
        this.#addGuess(sequence, tokens);
      }
      const numGuesses = active.length;
      this.#forward(i);
      active = active
        .map(({ index, sequence }, row) => ({ index, sequence, row }))
        .filter(({ index, sequence, row }) => {
          const token = this.#sampler.tokenId(row);
          const chance = token === undefined ? 0 : this.#sampler.probability(row);
          drafts[index]!.tokens.push(token ?? ANY_TOKEN);
          drafts[index]!.chances.push(chance);
          return goesOn(index, chance, numGuesses) && !isLast(sequence, token);
        });
      this.cost.observe(numGuesses, performance.now() - startMs);
    }
    for (const sequence of sequences) sequence.numDraftTokens = 0;
    return drafts;
  }

  forget(sequence: Sequence): void {
    this.#seen.delete(sequence);
  }

  /** Takes the rows that a guess could rest on: the last ones of each sequence that may be drafted for. */
  tapHidden(scheduled: readonly ScheduledSequence[]): void {
    const { batch } = this.model;
    this.#firstTap = batch.numHiddenTaps;
    this.#tapped = [];
    let firstRow = 0;
    for (const { sequence, numNewTokens } of scheduled) {
      const { numComputedTokens, numTokens, numDraftTokens } = sequence;
      const numRows = numNewTokens + numDraftTokens;
      const isDrafted = sequence.numTokensLeft > 1;
      const first = Math.max(numComputedTokens, numTokens - 1 - this.network.window);
      for (let position = first; isDrafted && position < numComputedTokens + numRows; position++) {
        batch.hiddenTaps.values[batch.numHiddenTaps++] = firstRow + position - numComputedTokens;
        this.#tapped.push({ sequence, position });
      }
      firstRow += numRows;
    }
  }

  takeHidden(): void {
    for (let i = 0; i < this.#tapped.length; ) {
      const { sequence, position: first } = this.#tapped[i]!;
      const start = i;
      while (this.#tapped[i]?.sequence === sequence) i++;
      // It has ended, or the tokens from there on were guesses that did not come true.
      const end = sequence.seat < 0 ? first : Math.min(first + i - start, sequence.numComputedTokens);
      if (this.#hasLayer && end - first > FEW) this.#takeMany(sequence, first, end, start);
      else
        for (let position = first; position < end; position++) this.#take(sequence, position, position - first + start);
    }
  }

  /** Keeps the hidden state of tap `index` (from `#firstTap` on). */
  #take(sequence: Sequence, position: number, index: number): void {
    const { transformer } = this.model;
    const seen = this.#seenUpTo(sequence, position);
    if (position - seen.computed === PENDING) this.#computePending(sequence, seen);
    const hidden = transformer.tappedHidden(this.#firstTap + index);
    this.#pending.values.set(hidden, pendingRow(sequence.seat, position) * transformer.width);
    seen.end = position + 1;
    if (!this.#hasLayer) seen.computed = position;
  }

  /** Computes the layer's keys and values for positions `first` to `end`, of which tap `index` is the first, and keeps the last, from which a guess will be made. */
  #takeMany(sequence: Sequence, first: number, end: number, index: number): void {
    const seen = this.#seenUpTo(sequence, first);
    if (seen.computed < first) this.#computePending(sequence, seen);
    const { maxRows } = this.#batch.capacity;
    while (seen.computed < end - 1) {
      this.#clear();
      for (; seen.computed < end - 1 && this.#batch.numRows < maxRows; seen.computed++) {
        const source = this.#firstTap + index + seen.computed - first;
        this.#addRow(sequence.seat, seen.start, seen.computed, sequence.tokens[seen.computed + 1]!, source);
      }
      this.#forward(FROM_MODEL);
    }
    seen.end = end - 1;
    this.#take(sequence, end - 1, index + end - 1 - first);
  }

  #computePending(sequence: Sequence, seen: Seen): void {
    this.#clear();
    this.#addPending(sequence, seen);
    this.#forward(0);
  }

  get #hasLayer(): boolean {
    return this.network.config.numLayers > 0;
  }

  #seenUpTo(sequence: Sequence, position: number): Seen {
    let seen = this.#seen.get(sequence);
    if (seen?.admission !== sequence.numAdmissions || seen.end !== position) {
      seen = { admission: sequence.numAdmissions, start: position, computed: position, end: position };
      this.#seen.set(sequence, seen);
    }
    return seen;
  }

  #clear(): void {
    this.#batch.clear();
    this.#sampler.clear();
  }

  /** The row of the hidden state at `position`, which is row `source` of what the step reads; `token` comes after it. */
  #addRow(seat: number, start: number, position: number, token: number, source: number): void {
    const batch = this.#batch;
    const row = batch.numRows++;
    const entry = position - start;
    batch.tokenIds.values[row] = token;
    batch.positions.values[row] = position;
    batch.kvLengths.values[row] = entry + 1;
    batch.seats.values[row] = seat;
    batch.kvSlots[0]!.values[row] =
      this.#block(seat, Math.floor(entry / BLOCK_SIZE)) * BLOCK_SIZE + (entry % BLOCK_SIZE);
    this.#sourceRows.values[row] = source;
  }

  /** The rows of what is pending, at least that of the last position. */
  #addPending({ seat, tokens }: Sequence, seen: Seen): void {
    for (let position = Math.min(seen.computed, seen.end - 1); position < seen.end; position++) {
      this.#addRow(seat, seen.start, position, tokens[position + 1]!, pendingRow(seat, position));
    }
    seen.computed = seen.end;
  }

  /** The latest row guesses what comes after `draft`. */
  #addGuess(sequence: Sequence, draft: readonly number[]): void {
    const batch = this.#batch;
    batch.logitRows.values[batch.numLogitRows++] = batch.numRows - 1;
    if (this.#hasLayer) batch.hiddenTaps.values[batch.numHiddenTaps++] = batch.numRows - 1;
    // Penalties count what has been guessed so far.
    sequence.setDraft(draft);
    this.#sampler.addGuessRow(sequence, sequence.numTokens + draft.length);
  }

  /** Its guesses after the first are all one program. */
  #forward(depth: number): void {
    this.#transformer.forward(this.#batch, this.#sampler.buffers, this.#hasLayer ? Math.min(1, depth) : depth);
  }

  /** A layer's first state is the model's, every later one its own. */
  #readsOwn(depth: number): boolean {
    return this.#hasLayer && depth > 0;
  }

  #block(seat: number, index: number): number {
    return seat * this.#blocksPerSeat + (index % this.#blocksPerSeat);
  }

  /** Milliseconds of one guess for each of `numRows` sequences; before any sequence has come. */
  #measure(numRows: number): number {
    const sequence = new Sequence(
      -1,
      { promptIds: Int32Array.of(0), sampling: { ...GREEDY_SAMPLING, maxTokens: 1 } },
      1,
      0,
    );
    this.#clear();
    for (let seat = 0; seat < numRows; seat++) {
      this.#addRow(seat, 0, 0, 0, pendingRow(seat, 0));
      this.#addGuess(sequence, []);
    }
    let fastest = Number.POSITIVE_INFINITY;
    for (let round = 0; round < MEASURED_STEPS; round++) {
      const startMs = performance.now();
      this.#forward(0);
      fastest = Math.min(fastest, performance.now() - startMs);
    }
    return fastest;
  }
}

const pendingRow = (seat: number, position: number): number => seat * PENDING + (position % PENDING);
