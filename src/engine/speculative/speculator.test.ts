import { expect, test } from "vitest";
import { GREEDY_SAMPLING } from "../api/request.js";
import { DEFAULT_SPECULATIVE_CONFIG } from "../api/speculative-config.js";
import { Sequence } from "../step/sequence.js";
import { StepCost } from "../step/step-cost.js";
import type { Drafter, GoesOn } from "./drafter.js";
import { Speculator } from "./speculator.js";

const config = { ...DEFAULT_SPECULATIVE_CONFIG, numSpeculativeTokens: 8 };
/** Rows are free, or each costs as much as the first. */
const FREE = () => new StepCost(() => 10, 32);
const DEAR = () => new StepCost((rows) => 10 * rows, 32);

function sequenceOf(maxTokens = 100): Sequence {
  const sequence = new Sequence(
    1,
    { promptIds: Int32Array.of(1, 2), sampling: { ...GREEDY_SAMPLING, maxTokens } },
    1,
    0,
  );
  sequence.append(3);
  return sequence;
}

/** Looking for drafts takes no time. */
const speculatorOf = (drafter: Drafter, cost: StepCost) => new Speculator(drafter, cost, config, undefined, () => 0);

const drafterOf = (chance: number): Drafter => ({
  name: "fixed",
  propose: (_, maxTokens) => ({
    tokens: Array.from({ length: maxTokens }, (_, i) => i),
    chances: new Array<number>(maxTokens).fill(chance),
  }),
  forget: () => {},
});

async function propose(speculator: Speculator, sequences: readonly Sequence[], maxRows = 100): Promise<number[]> {
  for (const sequence of sequences) sequence.numDraftTokens = 0;
  await speculator.propose(sequences, sequences.length, maxRows);
  return sequences.map(({ numDraftTokens }) => numDraftTokens);
}

test("drafts as much as it may where rows are free, and nothing where each costs a whole step", async () => {
  expect(await propose(speculatorOf(drafterOf(0.9), FREE()), [sequenceOf()])).toEqual([8]);
  expect(await propose(speculatorOf(drafterOf(0.9), DEAR()), [sequenceOf()])).toEqual([0]);
});

test("never drafts past the last token that may come, nor more rows than are left", async () => {
  const speculator = speculatorOf(drafterOf(1), FREE());
  // One of four output tokens exists, and the step's own token is one more.
  expect(await propose(speculator, [sequenceOf(4)])).toEqual([2]);
  expect(await propose(speculator, [sequenceOf(2)])).toEqual([0]);
  const shared = await propose(speculator, [sequenceOf(), sequenceOf(), sequenceOf()], 5);
  expect(shared.reduce((sum, count) => sum + count, 0)).toBe(5);
});

test("stops drafting what keeps being wrong, and tries again after a while", async () => {
  const cost = new StepCost((rows) => 10 + rows, 32);
  const speculator = speculatorOf(drafterOf(1), cost);
  const sequence = sequenceOf();
  const counts: number[] = [];
  for (let step = 0; step < 600; step++) {
    const [count] = await propose(speculator, [sequence]);
    speculator.observe(sequence, count!, 0);
    counts.push(count!);
  }
  expect(counts[0]).toBeGreaterThan(3);
  const drafted = counts.slice(50).reduce((sum, count) => sum + count, 0);
  expect(drafted).toBeLessThan(60);
  expect(drafted).toBeGreaterThan(0);
});

test("counts what became of drafts", async () => {
  const speculator = speculatorOf(drafterOf(0.9), FREE());
  const sequence = sequenceOf();
  await propose(speculator, [sequence]);
  const before = speculator.stats();
  speculator.observe(sequence, 4, 3);
  const after = speculator.stats();
  expect(after.numDraftTokens - before.numDraftTokens).toBe(4);
  expect(after.numAcceptedTokens - before.numAcceptedTokens).toBe(3);
  const gained = after.numAcceptedTokensPerPosition.map((n, i) => n - before.numAcceptedTokensPerPosition[i]!);
  expect(gained.slice(0, 4)).toEqual([1, 1, 1, 0]);
});

test("looks for drafts less often where looking takes longer than they save", async () => {
  let nowMs = 0;
  let numAsked = 0;
  const slow: Drafter = {
    ...drafterOf(0.9),
    propose: () => {
      nowMs += 1;
      numAsked++;
      return undefined;
    },
  };
  const speculator = new Speculator(slow, FREE(), config, undefined, () => nowMs);
  for (let step = 0; step < 1000; step++) await propose(speculator, [sequenceOf()]);
  // A hundredth of 1,000 steps of 10 ms.
  expect(numAsked).toBeGreaterThan(90);
  expect(numAsked).toBeLessThan(110);
});

/** Guesses with these chances, again and again; a guess takes a tenth of a step. */
function modelOf(chances: readonly number[]) {
  const model = {
    name: "fixed",
    cost: new StepCost(() => 1, 1),
    maxTokens: 100,
    numGuesses: 0,
    ready: async (sequences: readonly Sequence[]) => sequences,
    propose: async (sequences: readonly Sequence[], numTokens: number, goesOn: GoesOn) =>
      sequences.map((_, index) => {
        const draft = { tokens: [] as number[], chances: [] as number[] };
        while (draft.tokens.length < numTokens) {
          const chance = chances[draft.tokens.length % chances.length]!;
          draft.tokens.push(7);
          draft.chances.push(chance);
          model.numGuesses++;
          if (!goesOn(index, chance, sequences.length)) break;
        }
        return draft;
      }),
    forget: () => {},
  };
  return model;
}

/** A row costs a twentieth of the first. */
const CHEAP = () => new StepCost((rows) => 9.5 + rows / 2, 32);

test("a draft model guesses on as long as it is sure, and what it doubts is not checked", async () => {
  const doubtful = modelOf([0.99, 0.99, 0.99, 0.02]);
  const speculator = new Speculator(undefined, CHEAP(), config, doubtful, () => 0);
  expect(await propose(speculator, [sequenceOf()])).toEqual([3]);
  expect(doubtful.numGuesses).toBe(4);
  const sure = modelOf([0.99]);
  expect(await propose(new Speculator(undefined, CHEAP(), config, sure, () => 0), [sequenceOf()])).toEqual([8]);
});

test("without adapting, a draft model guesses as much as it may", async () => {
  const speculator = new Speculator(undefined, DEAR(), { ...config, isAdaptive: false }, modelOf([0.01]), () => 0);
  expect(await propose(speculator, [sequenceOf(), sequenceOf()], 9)).toEqual([4, 4]);
  // The step's own token is the last but one of what may come.
  expect(await propose(speculator, [sequenceOf(3)])).toEqual([1]);
});

test("of two requests whose guesses seem equally sure, the one whose guesses fail is guessed for no further", async () => {
  const speculator = new Speculator(undefined, CHEAP(), config, modelOf([0.9]), () => 0);
  const [right, wrong] = [sequenceOf(2000), sequenceOf(2000)];
  let counts: readonly number[] = [];
  for (let step = 0; step < 30; step++) {
    counts = await propose(speculator, [right, wrong]);
    speculator.observe(right, counts[0]!, counts[0]!);
    speculator.observe(wrong, counts[1]!, 0);
  }
  expect(counts[0]).toBeGreaterThan(5);
  expect(counts[1]).toBe(0);
});

test("guesses that others have found wrong are not checked, whatever chance they claim", async () => {
  const model = modelOf([0.55]);
  const speculator = new Speculator(undefined, CHEAP(), config, model, () => 0);
  for (let request = 0; request < 40; request++) {
    const sequence = sequenceOf(2000);
    for (let step = 0; step < 3; step++) {
      const [count] = await propose(speculator, [sequence]);
      speculator.observe(sequence, count!, 0);
    }
  }
  const before = model.numGuesses;
  for (let step = 0; step < 100; step++) await propose(speculator, [sequenceOf(2000)]);
  expect(model.numGuesses - before).toBeLessThan(25);
});

test.each([
  ["sure of itself but wrong", 0.99],
  ["never sure", 0.05],
])("a draft model that is %s is soon hardly asked", async (_, chance) => {
  const model = modelOf([chance]);
  const speculator = new Speculator(undefined, CHEAP(), config, model, () => 0);
  const sequence = sequenceOf(2000);
  const guessesOf = async (numSteps: number): Promise<number> => {
    const before = model.numGuesses;
    for (let step = 0; step < numSteps; step++) {
      const [count] = await propose(speculator, [sequence]);
      speculator.observe(sequence, count!, 0);
    }
    return model.numGuesses - before;
  };
  await guessesOf(100);
  expect(await guessesOf(500)).toBeLessThan(100);
});

test.each([
  ["a text that has become predictable", 3, 200],
  ["a drafter that nobody expected to be worth its price", 6.5, 0],
])("guesses are tried now and then, so that %s is noticed", async (_, guessMs, numWrongSteps) => {
  const model = { ...modelOf([0.97]), cost: new StepCost(() => guessMs, 1) };
  const speculator = new Speculator(undefined, CHEAP(), config, model, () => 0);
  /** How often something was drafted. */
  const answer = async (numSteps: number, isRight: boolean): Promise<number> => {
    const sequence = sequenceOf(4000);
    let numDrafted = 0;
    for (let step = 0; step < numSteps; step++) {
      const [count = 0] = await propose(speculator, [sequence]);
      speculator.observe(sequence, count, isRight ? count : 0);
      if (count > 0) numDrafted++;
    }
    speculator.forget(sequence);
    return numDrafted;
  };
  await answer(numWrongSteps, false);
  await answer(1500, true);
  expect(await answer(64, true)).toBeGreaterThan(50);
});
