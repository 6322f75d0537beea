/** Drafters whose guesses are known, and a speculator for which time stands still. */
import { GREEDY_SAMPLING } from "../../src/engine/api/request.js";
import { DEFAULT_SPECULATIVE_CONFIG } from "../../src/engine/api/speculative-config.js";
import type { BatchDrafter, Drafter, GoesOn } from "../../src/engine/speculative/drafter.js";
import { Speculator } from "../../src/engine/speculative/speculator.js";
import { Sequence } from "../../src/engine/step/sequence.js";
import { StepCost } from "../../src/engine/step/step-cost.js";

export const ADAPTIVE = { ...DEFAULT_SPECULATIVE_CONFIG, numSpeculativeTokens: 8 };
/** Everything that is found is checked, as far as there are rows. */
export const KEEPS_ALL = { ...ADAPTIVE, isAdaptive: false };

/** Known for each number of rows up to 64. */
export const costOf = (msOf: (numRows: number) => number): StepCost =>
  new StepCost(
    msOf,
    64,
    Array.from({ length: 64 }, (_, i) => i + 1),
  );
export const FREE = costOf(() => 10);
/** Of 1, 2, 3 … rows; the last number for all beyond. */
export const steps = (...ms: readonly number[]) => costOf((numRows) => ms[numRows - 1] ?? ms.at(-1)!);

export function sequenceOf(maxTokens = 10_000, isBackground = false): Sequence {
  const sampling = { ...GREEDY_SAMPLING, maxTokens };
  const sequence = new Sequence(1, { promptIds: Int32Array.of(1, 2), sampling, isBackground }, 1, 0);
  sequence.append(3);
  return sequence;
}

/** Finds drafts of these chances, by sequence; remembers how it was asked. */
export class FixedDrafter implements Drafter {
  readonly name = "fixed";
  readonly begun: Sequence[] = [];
  readonly forgotten: Sequence[] = [];
  readonly asked: number[] = [];

  constructor(readonly chancesOf: (sequence: Sequence) => readonly number[] | undefined) {}

  begin(sequence: Sequence): void {
    this.begun.push(sequence);
  }

  propose(sequence: Sequence, maxTokens: number) {
    this.asked.push(maxTokens);
    const chances = this.chancesOf(sequence)?.slice(0, maxTokens);
    return chances && { tokens: chances.map((_, i) => 100 + i), chances };
  }

  forget(sequence: Sequence): void {
    this.forgotten.push(sequence);
  }
}

/** Guesses as long as it is let, each time with this chance. */
export class FixedModel implements BatchDrafter {
  readonly name = "fixed";
  readonly cost: StepCost;
  readonly asked: (readonly Sequence[])[] = [];
  readonly proposed: { sequences: readonly Sequence[]; numTokens: number }[] = [];
  readonly calls: string[] = [];
  isReady = true;

  constructor(
    readonly chance = 0.9,
    guessMs = 1,
    readonly maxTokens = 100,
  ) {
    this.cost = costOf(() => guessMs);
  }

  async ready(sequences: readonly Sequence[]) {
    this.asked.push(sequences);
    return this.isReady ? sequences : [];
  }

  async propose(sequences: readonly Sequence[], numTokens: number, goesOn: GoesOn) {
    this.proposed.push({ sequences, numTokens });
    return sequences.map((_, index) => {
      const draft = { tokens: [] as number[], chances: [] as number[] };
      while (draft.tokens.length < numTokens) {
        draft.tokens.push(200 + draft.tokens.length);
        draft.chances.push(this.chance);
        if (!goesOn(index, this.chance, sequences.length)) break;
      }
      return draft;
    });
  }

  forget(): void {
    this.calls.push("forget");
  }

  readonly worths: boolean[] = [];

  tapHidden(_: unknown, isWorthIt: boolean): void {
    this.worths.push(isWorthIt);
    this.calls.push("tapHidden");
  }

  takeHidden(): void {
    this.calls.push("takeHidden");
  }
}

export const speculatorOf = (drafter: Drafter | undefined, cost: StepCost, config = ADAPTIVE, model?: BatchDrafter) =>
  new Speculator(drafter, cost, config, model, () => 0);

/** One step's drafts: their lengths. */
export async function propose(
  speculator: Speculator,
  sequences: readonly Sequence[],
  maxRows = 100,
  numRows = sequences.length,
): Promise<number[]> {
  for (const sequence of sequences) sequence.numDraftTokens = 0;
  await speculator.propose(sequences, numRows, maxRows);
  return sequences.map(({ numDraftTokens }) => numDraftTokens);
}
