/**
 * Which slot holds which recurrent state: one for each sequence that has computed tokens, one for each drafted token of
 * the step under way, and behind these the slots of `StateSnapshots`. A step's rows name the slots that they continue
 * and leave. After it, a sequence goes on from the slot of its last right row, and the others are free.
 */
import type { KvSequence } from "./kv-sequence.js";
import type { PrefixNode } from "./prefix-index.js";
import { StateSnapshots } from "./state-snapshots.js";

export interface StateCounts {
  readonly numSequences: number;
  /** Drafted tokens of one step. */
  readonly numDrafts: number;
  readonly numSnapshots: number;
}

/** The state slots that a sequence holds. */
interface HeldSlots {
  /** Of the state after its computed tokens, and after the last row of a step. */
  own: number | undefined;
  /** Of a cached prefix, from which the next row goes on. */
  source: number | undefined;
  /** Where the step under way leaves the states before its drafted tokens, the first one after `numTokensLeft`. */
  readonly drafted: number[];
  numTokensLeft: number;
  /** Leading blocks after which the prompt is to leave a state for other sequences. */
  readonly wanted: Set<number>;
  /** Of these, the ones that the step under way leaves. */
  readonly leaving: { readonly numBlocks: number; readonly slot: number }[];
}

/** Of a batch. */
type StateInputs = Readonly<
  Record<"stateSources" | "stateTargets" | "stateSnapshots", { readonly values: Int32Array }>
>;

/** A sequence's rows of a step: its new tokens, then its draft. */
interface SequenceStep {
  readonly firstRow: number;
  readonly numNewTokens: number;
  readonly numDraftTokens: number;
}

export class StateSlots {
  readonly snapshots: StateSnapshots;
  readonly #free: number[];
  readonly #held = new Map<KvSequence, HeldSlots>();

  constructor(
    private readonly counts: StateCounts,
    private readonly blockSize: number,
  ) {
    const numOwn = counts.numSequences + counts.numDrafts;
    this.#free = Array.from({ length: numOwn }, (_, i) => numOwn - 1 - i);
    this.snapshots = new StateSnapshots(numOwn, counts.numSnapshots);
  }

  /** Drafted tokens that all sequences of a step may have together. */
  get maxDraftTokens(): number {
    return this.counts.numDrafts;
  }

  get numFree(): number {
    return this.#free.length;
  }

  /**
   * The sequence begins behind `numHits` cached blocks. Its prompt is to leave a state after its last full block and
   * where it parts from another: at the end of `found`, if a text went on there.
   * @param found cached blocks of its tokens, with and without states
   */
  attach(sequence: KvSequence, found: readonly PrefixNode[], numHits: number): void {
    const held = this.#of(sequence);
    if (numHits > 0) held.source = this.snapshots.pin(found[numHits - 1]!);
    const numOfPrompt = Math.floor((sequence.numPromptTokens - 1) / this.blockSize);
    const last = found.at(-1);
    const numShared = last !== undefined && last.numChildren > 0 ? found.length : 0;
    for (const count of [numOfPrompt, Math.min(numShared, numOfPrompt)]) if (count > numHits) held.wanted.add(count);
  }

  /** Another sequence waits for the state after these blocks, which the sequence has not computed. */
  want(sequence: KvSequence, numBlocks: number): void {
    this.#of(sequence).wanted.add(numBlocks);
  }

  /** Names the slots of the sequence's rows; all other inputs are there already. */
  layOut(batch: StateInputs, sequence: KvSequence, { firstRow, numNewTokens, numDraftTokens }: SequenceStep): void {
    const held = this.#of(sequence);
    const begin = sequence.numComputedTokens;
    held.own ??= this.#free.pop()!;
    if (begin > 0) batch.stateSources.values[firstRow] = held.source ?? held.own;
    held.numTokensLeft = begin + numNewTokens;
    const firstLeft = firstRow + numNewTokens - 1;
    // Rehearsals draft more tokens than there are free slots. Nothing reads the states of the others.
    const numLeft = Math.min(numDraftTokens, this.#free.length);
    for (let i = 0; i < numLeft; i++) {
      held.drafted.push(this.#free.pop()!);
      batch.stateTargets.values[firstLeft + i] = held.drafted[i]!;
    }
    batch.stateTargets.values[firstLeft + numDraftTokens] = held.own;
    if (!sequence.isPublishing) return;
    for (const numBlocks of held.wanted) {
      const row = firstRow + numBlocks * this.blockSize - 1 - begin;
      if (row < firstRow || row > firstLeft) continue;
      held.wanted.delete(numBlocks);
      const slot = this.snapshots.take();
      if (slot === undefined) continue;
      batch.stateSnapshots.values[row] = slot;
      held.leaving.push({ numBlocks, slot });
    }
  }

  /** The step is computed and its blocks are published: the sequence goes on after its computed tokens. */
  settle(sequence: KvSequence): void {
    const held = this.#held.get(sequence);
    if (held === undefined) return;
    const numRight = sequence.numComputedTokens - held.numTokensLeft;
    const right = held.drafted[numRight];
    if (right !== undefined) {
      held.drafted[numRight] = held.own!;
      held.own = right;
    }
    this.#free.push(...held.drafted.splice(0));
    this.#unpin(held);
    for (const { numBlocks, slot } of held.leaving.splice(0)) {
      const node = sequence.nodes[numBlocks - 1];
      if (node === undefined) this.snapshots.giveBack(slot);
      else this.snapshots.keep(node, slot);
    }
  }

  /** Takes all slots back. */
  release(sequence: KvSequence): void {
    const held = this.#held.get(sequence);
    if (held === undefined) return;
    this.#held.delete(sequence);
    this.#free.push(...held.drafted);
    if (held.own !== undefined) this.#free.push(held.own);
    this.#unpin(held);
    for (const { slot } of held.leaving) this.snapshots.giveBack(slot);
  }

  #unpin(held: HeldSlots): void {
    if (held.source !== undefined) this.snapshots.unpin(held.source);
    held.source = undefined;
  }

  #of(sequence: KvSequence): HeldSlots {
    let held = this.#held.get(sequence);
    if (held === undefined) {
      held = { own: undefined, source: undefined, drafted: [], numTokensLeft: 0, wanted: new Set(), leaving: [] };
      this.#held.set(sequence, held);
    }
    return held;
  }
}
