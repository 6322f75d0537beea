/**
 * Slots of recurrent states under random prompts, drafts, pre-emptions and aborts: a memory in which each slot knows
 * the tokens whose state it holds.
 */
import { expect, test } from "vitest";
import { request } from "../../../test/helpers/engine-requests.js";
import { cases } from "../../../test/helpers/long.js";
import { TestRng } from "../../../test/helpers/rng.js";
import { Sequence } from "../step/sequence.js";
import { KvManager } from "./kv-manager.js";
import { StateSlots } from "./state-slots.js";

const BLOCK_SIZE = 4;
const MAX_ROWS = 24;
const EMPTY_STATE = -1;
const STATE_OF_ROW_BEFORE = -2;
const COUNTS = { numSequences: 3, numDrafts: 5, numSnapshots: 3 };

class Simulation {
  readonly states = new StateSlots(COUNTS, BLOCK_SIZE);
  readonly kv = new KvManager({
    windows: [0],
    numBlocks: [40],
    blockSize: BLOCK_SIZE,
    maxStepTokens: MAX_ROWS,
    isPrefixCachingEnabled: true,
    reservedTokens: 0,
    states: this.states,
  });
  readonly running = new Set<Sequence>();
  readonly totals = { hits: 0, right: 0, wrong: 0, preempted: 0 };
  /** By slot: the tokens whose state it holds. */
  readonly #memory: string[] = [];
  #nextId = 1;

  constructor(readonly rng: TestRng) {}

  arrive(): void {
    // A few tokens, so that prompts share beginnings of all lengths.
    const prompt = Array.from({ length: this.rng.int(1, 20) }, (_, i) => (i < 12 ? this.rng.int(0, 9) && 1 : i));
    const sequence = new Sequence(this.#nextId++, request(prompt), 1, 0);
    if (this.kv.shouldWaitForLeader(sequence)) return;
    this.#admit(sequence);
  }

  #admit(sequence: Sequence): void {
    this.kv.attachPrefix(sequence);
    this.totals.hits += sequence.numComputedTokens;
    if (this.kv.hasRoomFor(sequence, this.kv.promisedTo([...this.running]))) this.running.add(sequence);
    else this.kv.release(sequence);
  }

  leave(sequence: Sequence): void {
    this.running.delete(sequence);
    this.kv.release(sequence);
    if (this.rng.chance(0.5)) return;
    this.totals.preempted++;
    this.#admit(sequence);
  }

  step(): void {
    const inputs = () => ({ values: new Int32Array(COUNTS.numSequences * MAX_ROWS) });
    const batch = { stateSources: inputs(), stateTargets: inputs(), stateSnapshots: inputs() };
    const written = new Set<number>();
    let numDraftsLeft = COUNTS.numDrafts;
    let firstRow = 0;
    const all = [...this.running].filter(() => this.rng.chance(0.9));
    const steps = all.map((sequence) => {
      const numMissing = sequence.numTokens - sequence.numComputedTokens;
      const numNewTokens = Math.min(numMissing, this.rng.int(1, 12));
      const drafts =
        numMissing === 1 ? Array.from({ length: this.rng.int(0, numDraftsLeft) }, () => this.rng.int(0, 1)) : [];
      numDraftsLeft -= drafts.length;
      sequence.setDraft(drafts);
      expect(this.kv.ensureCapacity(sequence, sequence.numTokens + drafts.length)).toBe(true);
      const rows = { firstRow, numNewTokens, numDraftTokens: drafts.length };
      const numRows = numNewTokens + drafts.length;
      for (let row = firstRow; row < firstRow + numRows; row++) {
        const isStart = row === firstRow && sequence.numComputedTokens === 0;
        batch.stateSources.values[row] = isStart ? EMPTY_STATE : STATE_OF_ROW_BEFORE;
        batch.stateTargets.values[row] = -1;
        batch.stateSnapshots.values[row] = -1;
      }
      this.states.layOut(batch, sequence, rows);
      firstRow += numRows;
      return { sequence, ...rows, numRows };
    });
    for (const { sequence, firstRow: first, numRows } of steps) {
      const begin = sequence.numComputedTokens;
      const source = batch.stateSources.values[first]!;
      let state = source === EMPTY_STATE ? "" : this.#memory[source]!;
      expect(state).toBe([...sequence.tokens.subarray(0, begin)].join());
      for (let i = 0; i < numRows; i++) {
        state = [...sequence.tokens.subarray(0, begin + i + 1)].join();
        for (const slots of [batch.stateTargets, batch.stateSnapshots]) {
          const slot = slots.values[first + i]!;
          if (slot < 0) continue;
          expect(written).not.toContain(slot);
          written.add(slot);
          this.#memory[slot] = state;
        }
      }
    }
    for (const { sequence, numNewTokens, numDraftTokens } of steps) {
      // As where its logits are no numbers.
      if (this.rng.chance(0.05)) {
        sequence.numDraftTokens = 0;
        this.leave(sequence);
        continue;
      }
      sequence.numComputedTokens += numNewTokens;
      sequence.numDraftTokens = 0;
      if (sequence.numComputedTokens === sequence.numTokens) this.#sample(sequence, numDraftTokens);
      this.kv.publishAndTrim(sequence);
      if (sequence.numTokens > 40) this.leave(sequence);
    }
    expect(this.states.numFree).toBeGreaterThanOrEqual(COUNTS.numDrafts);
  }

  /** Some of the drafted tokens are right, and another one follows. */
  #sample(sequence: Sequence, numDraftTokens: number): void {
    const numRight = this.rng.int(0, numDraftTokens);
    this.totals.right += numRight;
    this.totals.wrong += numDraftTokens - numRight;
    for (let i = 0; i < numRight; i++) sequence.append(sequence.tokens[sequence.numTokens]!);
    sequence.numComputedTokens += numRight;
    sequence.append(numRight < numDraftTokens ? 5 : this.rng.int(0, 1));
  }
}

test("each row continues its sequence's state, and no slot is lost or given twice", () => {
  const totals = { hits: 0, right: 0, wrong: 0, preempted: 0 };
  for (let seed = 1; seed <= cases(60, 600); seed++) {
    const simulation = new Simulation(new TestRng(seed));
    const { rng, running, states } = simulation;
    for (let i = 0; i < 80; i++) {
      if (running.size < COUNTS.numSequences && rng.chance(0.5)) simulation.arrive();
      if (running.size > 0 && rng.chance(0.1)) simulation.leave(rng.pick([...running]));
      simulation.step();
    }
    for (const sequence of running) simulation.kv.release(sequence);
    expect(states.numFree).toBe(COUNTS.numSequences + COUNTS.numDrafts);
    const taken = Array.from({ length: COUNTS.numSnapshots + 1 }, () => states.snapshots.take());
    expect(new Set(taken)).toEqual(new Set([8, 9, 10, undefined]));
    for (const name of ["hits", "right", "wrong", "preempted"] as const) totals[name] += simulation.totals[name];
  }
  for (const count of Object.values(totals)) expect(count).toBeGreaterThan(cases(60, 600));
});
