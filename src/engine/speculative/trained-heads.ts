/**
 * A drafter of heads trained on the model's own hidden states. Each step of the model hands over the hidden state of
 * each sequence's last accepted token, from which the heads draft. Beyond that they read only the KV that the model has
 * stored: prompts cost them nothing, and a prefix from the cache or from disk serves as well as a computed one. Like a
 * draft model, heads sample with the noise and the filters of the sequence they draft for.
 */
import type { Backend, HostBuffer } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import { GREEDY_SAMPLING } from "../api/request.js";
import { Transformer } from "../blocks/transformer.js";
import { KvCaches, type KvLayout } from "../memory/kv-caches.js";
import { SamplerIo } from "../sampler/sampler-io.js";
import type { ScheduledSequence } from "../step/sequence.js";
import { Sequence } from "../step/sequence.js";
import { StepBatch } from "../step/step-batch.js";
import { fastestMs, MAX_MEASURED_ROWS, StepCost } from "../step/step-cost.js";
import type { BatchDrafter, Draft, GoesOn } from "./drafter.js";
import { type Guessed, guessInTurn } from "./guessing.js";
import type { HeadNetwork, HeadsTarget } from "./head-network.js";

/** Heads store nothing of their own. */
const NO_KV: KvLayout = { kvType: "f32", blockSize: 16, numBlocks: [], groups: [] };

/** The hidden state at hand is that of `position`, computed during the sequence's admission number `admission`. */
interface Seen {
  readonly admission: number;
  readonly position: number;
}

export class TrainedHeads implements BatchDrafter {
  readonly name: string;
  readonly cost: StepCost;
  readonly maxTokens: number;
  readonly batch: StepBatch;
  readonly sampler: SamplerIo;
  readonly #transformer: Transformer;
  readonly #seen = new Map<Sequence, Seen>();
  /** [maxNumSeqs, model's width]: by seat, the latest hidden state. */
  readonly #states: BufferHandle;
  /**
   * [maxNumSeqs]: for each row of the batch, the row of its state: among the latest hidden states, or in the network's
   * own output of the step before.
   */
  readonly #sourceRows: HostBuffer<"i32">;
  /** Rows tapped in the present step, from the model's tap `#firstTap` on. */
  #tapped: { readonly sequence: Sequence; readonly position: number }[] = [];
  #firstTap = 0;

  /** @param model the model that `network` was made for */
  static async create(
    network: HeadNetwork,
    model: Pick<HeadsTarget, "transformer" | "batch">,
    maxNumSeqs: number,
    backend: Backend,
  ): Promise<TrainedHeads> {
    const heads = new TrainedHeads(network, model, maxNumSeqs, backend);
    await heads.cost.measure((numRows) => heads.#measure(numRows));
    return heads;
  }

  private constructor(
    private readonly network: HeadNetwork,
    private readonly model: Pick<HeadsTarget, "transformer" | "batch">,
    maxNumSeqs: number,
    private readonly backend: Backend,
  ) {
    const { config, weights, outputs } = network;
    this.name = network.name;
    this.maxTokens = network.maxTokens;
    const capacity = { maxRows: maxNumSeqs, maxLogitRows: maxNumSeqs, maxSeats: 0, tableStride: 0, numGroups: 0 };
    this.batch = new StepBatch(capacity, backend);
    this.sampler = new SamplerIo(backend, { maxLogitRows: maxNumSeqs, maxNumSeqs, vocabSize: config.vocabSize });
    const modelWidth = model.transformer.width;
    const kept = backend.allocate(maxNumSeqs * modelWidth * 4);
    this.#states = kept;
    this.#sourceRows = backend.input("i32", maxNumSeqs);
    const states = backend.allocate(maxNumSeqs * modelWidth * 4);
    this.#transformer = new Transformer({
      config,
      weights,
      backend,
      caches: new KvCaches(config, NO_KV, backend),
      batch: this.batch,
      maxModelLen: 0,
      ...(outputs && { outputs }),
      recordInput: (program, hidden, batch, depth) => {
        const areOwn = this.#readsOwn(depth);
        const [source, width] = areOwn ? [this.#transformer.tapped, config.width] : [kept, modelWidth];
        const rows = this.#sourceRows.buffer;
        program.record("gatherRows", { out: states, x: source, rows, numRows: batch.numRows, width });
        network.recordInput(program, hidden, { buffer: states, areOwn }, batch, depth);
      },
    });
    this.cost = new StepCost(() => 0, Math.min(MAX_MEASURED_ROWS, maxNumSeqs), backend.stepCostRows);
  }

  /** The sequences whose latest hidden state is at hand: those that took part in the last step. */
  async ready(sequences: readonly Sequence[]): Promise<readonly Sequence[]> {
    return sequences.filter((sequence) => {
      const seen = this.#seen.get(sequence);
      return seen?.admission === sequence.numAdmissions && seen.position === sequence.numTokens - 2;
    });
  }

  propose(sequences: readonly Sequence[], numTokens: number, goesOn: GoesOn): Promise<readonly Draft[]> {
    return guessInTurn(this, sequences, Math.min(numTokens, this.maxTokens), goesOn);
  }

  layOut(round: readonly Guessed[], depth: number): void {
    for (const { sequence, draft, place } of round) {
      this.#addRow(sequence, draft, this.#readsOwn(depth) ? place : sequence.seat);
    }
  }

  forget(sequence: Sequence): void {
    this.#seen.delete(sequence);
  }

  /**
   * Taps the rows that a draft could start from: for each sequence that may be drafted for, its last token and its
   * draft.
   */
  tapHidden(scheduled: readonly ScheduledSequence[]): void {
    const { batch } = this.model;
    this.#firstTap = batch.numHiddenTaps;
    this.#tapped = [];
    let firstRow = 0;
    for (const { sequence, numNewTokens } of scheduled) {
      const { numComputedTokens, numTokens, numDraftTokens } = sequence;
      const numRows = numNewTokens + numDraftTokens;
      const isDrafted = sequence.numTokensLeft > 1;
      for (let position = numTokens - 1; isDrafted && position < numComputedTokens + numRows; position++) {
        batch.hiddenTaps.values[batch.numHiddenTaps++] = firstRow + position - numComputedTokens;
        this.#tapped.push({ sequence, position });
      }
      firstRow += numRows;
    }
  }

  takeHidden(): void {
    const { transformer } = this.model;
    this.#tapped.forEach(({ sequence, position }, index) => {
      // The sequence has ended, or another token is the last accepted one.
      if (sequence.seat < 0 || position !== sequence.numComputedTokens - 1) return;
      const byteOffset = sequence.seat * transformer.width * 4;
      this.backend.write(this.#states, byteOffset, transformer.tappedHidden(this.#firstTap + index));
      this.#seen.set(sequence, { admission: sequence.numAdmissions, position });
    });
  }

  #clear(): void {
    this.batch.clear();
    this.sampler.clear();
  }

  /**
   * Lays out the row of the last token of `draft`, or of the text where nothing is drafted yet: it drafts the next
   * token.
   */
  #addRow(sequence: Sequence, draft: readonly number[], source: number): void {
    const batch = this.batch;
    const { numTokens, tokens, seat } = sequence;
    const row = batch.numRows++;
    batch.tokenIds.values[row] = draft.at(-1) ?? tokens[numTokens - 1]!;
    batch.positions.values[row] = numTokens - 1 + draft.length;
    // The model has stored K and V of every computed token: all but the last.
    batch.kvLengths[0]!.values[row] = numTokens - 1;
    // The seat in the model's block tables.
    batch.sequenceIndex.values[row] = seat;
    batch.logitRows.values[batch.numLogitRows++] = row;
    if (this.network.readsOwn) batch.hiddenTaps.values[batch.numHiddenTaps++] = row;
    this.#sourceRows.values[row] = source;
    // Penalties count the tokens drafted so far.
    sequence.setDraft(draft);
    this.sampler.addGuessRow(sequence, numTokens + draft.length);
  }

  /** All steps of a layer after the first share one program. */
  forward(depth: number): Promise<void> {
    return this.#transformer.forward(this.sampler.buffers, this.network.readsOwn ? Math.min(1, depth) : depth);
  }

  /** A layer's first state is the model's; each later one is its own output. */
  #readsOwn(depth: number): boolean {
    return this.network.readsOwn && depth > 0;
  }

  /** Milliseconds of one drafted token for each of `numRows` sequences, measured before there are sequences. */
  async #measure(numRows: number): Promise<number> {
    this.#clear();
    for (let seat = 0; seat < numRows; seat++) {
      const request = { promptIds: Int32Array.of(0), sampling: { ...GREEDY_SAMPLING, maxTokens: 1 } };
      this.#addRow(Object.assign(new Sequence(-1, request, 1, 0), { seat }), [], seat);
    }
    return fastestMs(() => this.forward(0));
  }
}
