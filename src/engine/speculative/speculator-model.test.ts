/**
 * When the speculator asks a draft model, for how many sequences and tokens, and how it weighs the model's time. Costs
 * are exact, time stands still.
 */
import { describe, expect, test } from "vitest";
import {
  ADAPTIVE,
  costOf,
  FixedDrafter,
  FixedModel,
  FREE,
  KEEPS_ALL,
  propose,
  sequenceOf,
  speculatorOf,
  steps,
} from "../../../test/helpers/fixed-drafters.js";
import { Speculator } from "./speculator.js";

describe("a draft model", () => {
  test("is asked for sequences that nothing was found for and that have more than a token to come, in the rows that are left", async () => {
    const [found, lacking, ending] = [sequenceOf(), sequenceOf(), sequenceOf(2)];
    const drafter = new FixedDrafter((sequence) => (sequence === found ? [0.9, 0.9] : undefined));
    const model = new FixedModel();
    const speculator = speculatorOf(drafter, FREE, KEEPS_ALL, model);
    expect(await propose(speculator, [found, lacking, ending], 5)).toEqual([2, 3, 0]);
    expect(model.asked).toEqual([[lacking]]);
    expect(model.proposed).toEqual([{ sequences: [lacking], numTokens: 3 }]);
  });

  test("is not asked where what was found takes all rows, nor to guess where it is not ready", async () => {
    const found = sequenceOf();
    const drafter = new FixedDrafter((sequence) => (sequence === found ? [0.9, 0.9] : undefined));
    const model = new FixedModel();
    const speculator = speculatorOf(drafter, FREE, KEEPS_ALL, model);
    expect(await propose(speculator, [found, sequenceOf()], 2)).toEqual([2, 0]);
    expect(model.asked).toEqual([]);
    model.isReady = false;
    expect(await propose(speculator, [found, sequenceOf()], 4)).toEqual([2, 0]);
    expect([model.asked.length, model.proposed.length]).toEqual([1, 0]);
  });

  test.each([
    ["what is left for each, rounded down", 100, 9, 4],
    ["its own longest guess", 3, 90, 3],
    ["the longest draft", 100, 90, 8],
  ])("guesses at most %s", async (_, maxTokens, maxRows, numTokens) => {
    const model = new FixedModel(0.9, 1, maxTokens);
    const speculator = speculatorOf(undefined, FREE, KEEPS_ALL, model);
    expect(await propose(speculator, [sequenceOf(), sequenceOf()], maxRows)).toEqual([numTokens, numTokens]);
    expect(model.proposed[0]!.numTokens).toBe(numTokens);
  });

  test("that is not ready costs nothing", async () => {
    const model = new FixedModel();
    const speculator = speculatorOf(undefined, steps(10, 50), ADAPTIVE, model);
    model.isReady = false;
    await propose(speculator, [sequenceOf()]);
    model.isReady = true;
    // Beside three rows a fourth is free.
    expect(await propose(speculator, [sequenceOf()], 100, 3)).toEqual([8]);
  });

  test("that is not ready earns nothing either: a drafter that takes too long is asked less all the same", async () => {
    let nowMs = 0;
    const drafter = new FixedDrafter(() => {
      nowMs += 1;
      return undefined;
    });
    const model = new FixedModel();
    model.isReady = false;
    const speculator = new Speculator(
      drafter,
      costOf((rows) => 10 * rows),
      ADAPTIVE,
      model,
      () => nowMs,
    );
    for (let step = 0; step < 400; step++) await propose(speculator, [sequenceOf()]);
    expect(drafter.asked.length).toBeLessThan(60);
  });

  test("whose guess proves unlikely has it unchecked, at whatever time of day", async () => {
    const model = new FixedModel(0.3, 0.1);
    const speculator = new Speculator(undefined, steps(10, 14), ADAPTIVE, model, () => 1e9);
    expect(await propose(speculator, [sequenceOf()], 1)).toEqual([0]);
    expect(model.proposed).toHaveLength(1);
  });

  test("is weighed beside the rows of what was found", async () => {
    const found = sequenceOf();
    const drafter = new FixedDrafter((sequence) => (sequence === found ? [1, 1] : undefined));
    const model = new FixedModel(0.9, 1);
    await propose(speculatorOf(drafter, steps(10, 10, 10, 10, 90), ADAPTIVE, model), [found, sequenceOf()]);
    expect([model.asked.length, model.proposed.length]).toEqual([1, 0]);
  });

  test("is not asked for a gain of less than six per cent", async () => {
    const model = new FixedModel(0.9, 7);
    await propose(speculatorOf(undefined, FREE, ADAPTIVE, model), [sequenceOf()]);
    expect(model.proposed).toEqual([]);
  });

  test("is asked for a single guess where there is a row for it, at whatever time of day", async () => {
    const model = new FixedModel(0.9, 1);
    const speculator = new Speculator(undefined, FREE, ADAPTIVE, model, () => 1e9);
    expect(await propose(speculator, [sequenceOf()], 1)).toEqual([1]);
  });

  test("guesses for no token after the last that may come", async () => {
    const speculator = speculatorOf(undefined, FREE, KEEPS_ALL, new FixedModel());
    expect(await propose(speculator, [sequenceOf(3), sequenceOf(4), sequenceOf(2)])).toEqual([1, 2, 0]);
  });

  test("stops where its guesses together are no longer likely, though each is", async () => {
    const speculator = speculatorOf(
      undefined,
      costOf((rows) => 10 + 1.5 * rows),
      ADAPTIVE,
      new FixedModel(0.8, 1),
    );
    const [length] = await propose(speculator, [sequenceOf()]);
    expect(length).toBeGreaterThan(0);
    expect(length).toBeLessThan(5);
    const sure = speculatorOf(
      undefined,
      costOf((rows) => 10 + 1.5 * rows),
      ADAPTIVE,
      new FixedModel(1, 1),
    );
    expect(await propose(sure, [sequenceOf()])).toEqual([8]);
  });

  test("that is too dear is asked for one guess every sixty-fourth time, and that is checked whatever it costs", async () => {
    const model = new FixedModel(0.1, 100);
    const speculator = speculatorOf(undefined, steps(10, 12), ADAPTIVE, model);
    const drafted: number[] = [];
    // The steps that are plain anyway are not counted.
    for (let asked = 1, step = 1; asked <= 128; step++) {
      const [length] = await propose(speculator, [sequenceOf()]);
      if (length! > 0) drafted.push(asked, length!);
      if (step % 32 !== 0) asked++;
    }
    expect(drafted).toEqual([64, 1, 128, 1]);
    expect(model.proposed.map(({ numTokens }) => numTokens)).toEqual([1, 1]);
  });

  test("never guesses for more sequences than there are rows", async () => {
    const model = new FixedModel(0.9, 1);
    const speculator = speculatorOf(undefined, FREE, ADAPTIVE, model);
    for (let step = 0; step < 140; step++) {
      const lengths = await propose(speculator, [sequenceOf(), sequenceOf(), sequenceOf()], 2);
      expect(lengths).toEqual([0, 0, 0]);
    }
    expect(model.proposed.filter(({ numTokens }) => numTokens > 0)).toEqual([]);
  });

  test("hears of each step's rows, of their end, and of sequences that are over", () => {
    const model = new FixedModel();
    const speculator = speculatorOf(undefined, FREE, ADAPTIVE, model);
    speculator.tapHidden([]);
    speculator.takeHidden();
    speculator.forget(sequenceOf());
    expect(model.calls).toEqual(["tapHidden", "takeHidden", "forget"]);
  });

  test("is charged for its time: guesses that fail end soon, however cheap they were thought", async () => {
    let nowMs = 0;
    const model = new FixedModel(0.9, 0.1);
    const propose_ = model.propose.bind(model);
    model.propose = async (...args) => {
      nowMs += 20;
      return await propose_(...args);
    };
    const speculator = new Speculator(undefined, FREE, ADAPTIVE, model, () => nowMs);
    const sequence = sequenceOf();
    for (let step = 0; step < 100; step++) {
      const [length] = await propose(speculator, [sequence]);
      speculator.observe(sequence, length!, 0);
    }
    expect(model.proposed.length).toBeLessThan(10);
  });
});

test("a model is told whether its drafts pay, and tries at once where it picks what to try", async () => {
  for (const [cost, isWorthIt] of [
    [FREE, true],
    [steps(10, 100), false],
  ] as const) {
    const model = Object.assign(new FixedModel(), { picksProbes: true as const });
    const speculator = speculatorOf(undefined, cost, ADAPTIVE, model);
    for (let i = 0; i < 3; i++) {
      await propose(speculator, [sequenceOf()]);
      await speculator.tapHidden([]);
    }
    expect(model.worths).toEqual([isWorthIt, isWorthIt, isWorthIt]);
    // The first try costs more than the account allows.
    expect(model.proposed).toHaveLength(isWorthIt ? 3 : 1);
    expect(model.proposed.at(-1)!.numTokens === 1).toBe(!isWorthIt);
  }
});
