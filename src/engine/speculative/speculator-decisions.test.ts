/** What single decisions of the speculator are: which drafts are kept, who is asked, what is counted. Costs are exact, time stands still. */
import { describe, expect, test, vi } from "vitest";
import { GREEDY_SAMPLING } from "../api/request.js";
import { DEFAULT_SPECULATIVE_CONFIG } from "../api/speculative-config.js";
import { Sequence } from "../step/sequence.js";
import { StepCost } from "../step/step-cost.js";
import type { BatchDrafter, Drafter, GoesOn } from "./drafter.js";
import { Speculator } from "./speculator.js";

const ADAPTIVE = { ...DEFAULT_SPECULATIVE_CONFIG, numSpeculativeTokens: 8 };
/** Everything that is found is checked, as far as there are rows. */
const KEEPS_ALL = { ...ADAPTIVE, isAdaptive: false };

/** Known for each number of rows up to 64. */
const costOf = (msOf: (numRows: number) => number): StepCost =>
  new StepCost(
    msOf,
    64,
    Array.from({ length: 64 }, (_, i) => i + 1),
  );
const FREE = costOf(() => 10);
/** Of 1, 2, 3 … rows; the last number for all beyond. */
const steps = (...ms: readonly number[]) => costOf((numRows) => ms[numRows - 1] ?? ms.at(-1)!);

function sequenceOf(maxTokens = 10_000, isBackground = false): Sequence {
  const sampling = { ...GREEDY_SAMPLING, maxTokens };
  const sequence = new Sequence(1, { promptIds: Int32Array.of(1, 2), sampling, isBackground }, 1, 0);
  sequence.append(3);
  return sequence;
}

/** Finds drafts of these chances, by sequence; remembers how it was asked. */
class FixedDrafter implements Drafter {
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
class FixedModel implements BatchDrafter {
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

const speculatorOf = (drafter: Drafter | undefined, cost: StepCost, config = ADAPTIVE, model?: BatchDrafter) =>
  new Speculator(drafter, cost, config, model, () => 0);

/** One step's drafts: their lengths. */
async function propose(
  speculator: Speculator,
  sequences: readonly Sequence[],
  maxRows = 100,
  numRows = sequences.length,
): Promise<number[]> {
  for (const sequence of sequences) sequence.numDraftTokens = 0;
  await speculator.propose(sequences, numRows, maxRows);
  return sequences.map(({ numDraftTokens }) => numDraftTokens);
}

describe("of what is found", () => {
  test.each<[string, number[], number[], number, number[]]>([
    ["a likely draft goes before an unlikely one", [0.5, 0.5], [0.9, 0.9], 2, [0, 2]],
    ["what is left goes to the unlikely one", [0.5, 0.5], [0.9, 0.9], 3, [1, 2]],
    ["a token is as likely as all before it together", [0.9, 0.5, 0.9], [0.6], 2, [1, 1]],
    ["everything is kept where there are rows for it", [0.5, 0.5], [0.9], 9, [2, 1]],
    ["nothing is kept without a row", [0.9], [0.9], 0, [0, 0]],
  ])("%s", async (_, first, second, maxRows, lengths) => {
    const sequences = [sequenceOf(), sequenceOf()];
    const drafter = new FixedDrafter((sequence) => (sequence === sequences[0] ? first : second));
    expect(await propose(speculatorOf(drafter, FREE, KEEPS_ALL), sequences, maxRows)).toEqual(lengths);
    for (const { tokens, numTokens, numDraftTokens } of sequences) {
      const draft = tokens.subarray(numTokens, numTokens + numDraftTokens);
      expect([...draft]).toEqual([100, 101, 102].slice(0, numDraftTokens));
    }
  });

  test.each<[string, number, number[], number[], number]>([
    ["a gain of less than six per cent is none", 1, [0.05], [10], 0],
    ["a gain of more is one", 1, [0.07], [10], 1],
    ["a row must win what it costs", 1, [0.47], [10, 14], 0],
    ["a row that does is kept", 1, [0.5], [10, 14], 1],
    ["drafts end where a further row costs more than it wins", 1, [0.9, 0.9, 0.9], [10, 11, 11, 30], 2],
    ["a dear row is worth it for what comes after it", 1, [0.9, 0.9, 0.9, 0.9], [10, 20, 20, 20, 20], 4],
    ["of two lengths that are as fast, the shorter one is taken", 1, [0.5, 0.5], [11, 12, 14], 1],
    ["several sequences' tokens are weighed against all of their rows", 2, [0.2], [10, 10, 10, 30], 1],
  ])("%s", async (_, numSequences, chances, ms, numDrafted) => {
    const sequences = Array.from({ length: numSequences }, () => sequenceOf());
    const drafter = new FixedDrafter((sequence) => (sequence === sequences[0] ? chances : undefined));
    const lengths = await propose(speculatorOf(drafter, steps(...ms)), sequences);
    expect(lengths[0]).toBe(numDrafted);
  });

  test("everything is kept without adapting, however dear rows are", async () => {
    const drafter = new FixedDrafter(() => [0.1, 0.1]);
    expect(await propose(speculatorOf(drafter, steps(10, 100, 1000), KEEPS_ALL), [sequenceOf()])).toEqual([2]);
  });

  test("no more is kept than rows whose cost is known", async () => {
    const drafter = new FixedDrafter(() => [1, 1, 1, 1]);
    const speculator = speculatorOf(drafter, FREE);
    expect(await propose(speculator, [sequenceOf()], 100, 60)).toEqual([4]);
    expect(await propose(speculator, [sequenceOf()], 100, 62)).toEqual([2]);
    expect(await propose(speculator, [sequenceOf()], 100, 64)).toEqual([0]);
    expect(await propose(speculator, [sequenceOf()], 100, 80)).toEqual([0]);
  });
});

describe("a drafter", () => {
  test("is asked for no more than may come after the step's own token, and not at all where that is the last", async () => {
    const drafter = new FixedDrafter(() => [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    const speculator = speculatorOf(drafter, FREE, KEEPS_ALL);
    // One of the output's tokens is there already.
    const lengths = await propose(speculator, [sequenceOf(2), sequenceOf(3), sequenceOf(4), sequenceOf(100)]);
    expect([drafter.asked, lengths]).toEqual([
      [1, 2, 8],
      [0, 1, 2, 8],
    ]);
  });

  test("is asked once a step, whether it adapts or not", async () => {
    const drafter = new FixedDrafter(() => undefined);
    await propose(speculatorOf(drafter, FREE, KEEPS_ALL), [sequenceOf()]);
    expect(drafter.asked).toHaveLength(1);
    await propose(speculatorOf(drafter, FREE), [sequenceOf()]);
    expect(drafter.asked).toHaveLength(2);
  });

  test("hears once that a sequence begins, and that it has ended", async () => {
    const drafter = new FixedDrafter(() => [0.9]);
    const speculator = speculatorOf(drafter, FREE);
    const [first, second] = [sequenceOf(), sequenceOf()];
    await propose(speculator, [first]);
    await propose(speculator, [first, second]);
    await propose(speculator, [first, second]);
    expect(drafter.begun).toEqual([first, second]);
    speculator.forget(first);
    expect(drafter.forgotten).toEqual([first]);
    await propose(speculator, [first]);
    expect(drafter.begun).toEqual([first, second, first]);
    const ending = sequenceOf(2);
    for (let step = 0; step < 3; step++) await propose(speculator, [ending]);
    expect(drafter.begun.slice(3)).toEqual([ending]);
  });

  test("is not charged for reading a prompt", async () => {
    let nowMs = 0;
    const drafter = new FixedDrafter(() => [0.9]);
    drafter.begin = () => {
      nowMs += 1000;
    };
    const speculator = new Speculator(drafter, FREE, ADAPTIVE, undefined, () => nowMs);
    const sequence = sequenceOf();
    const lengths: number[] = [];
    for (let step = 0; step < 3; step++) lengths.push(...(await propose(speculator, [sequence])));
    expect(lengths).toEqual([1, 1, 1]);
  });

  test("leaves one step in thirty-two plain; steps without sequences are none", async () => {
    const speculator = speculatorOf(new FixedDrafter(() => [0.9]), FREE);
    const plain: number[] = [];
    for (let step = 1; step <= 96; step++) {
      await propose(speculator, []);
      const [length] = await propose(speculator, [sequenceOf()]);
      if (length === 0) plain.push(step);
    }
    expect(plain).toEqual([32, 64, 96]);
  });

  test("that takes longer than its tokens save is left alone: of four sequences, a token saves a quarter of a step", async () => {
    let nowMs = 0;
    const drafter = new FixedDrafter(() => {
      nowMs += 1.5;
      return [0.9];
    });
    const speculator = new Speculator(drafter, FREE, ADAPTIVE, undefined, () => nowMs);
    const sequences = [sequenceOf(), sequenceOf(), sequenceOf(), sequenceOf()];
    for (let step = 0; step < 200; step++) {
      const lengths = await propose(speculator, sequences);
      // One of the four comes true: 6 ms for 2.5 ms.
      sequences.forEach((sequence, i) => {
        speculator.observe(sequence, lengths[i]!, i === 0 ? lengths[i]! : 0);
      });
    }
    expect(drafter.asked.length / 4).toBeLessThan(40);
  });

  test("that was wrong about a text is tried again when it has not been for long", async () => {
    const drafter = new FixedDrafter(() => [0.9]);
    const speculator = speculatorOf(drafter, steps(10, 14));
    const sequence = sequenceOf();
    for (let step = 0; step < 60; step++) {
      const [length] = await propose(speculator, [sequence]);
      speculator.observe(sequence, length!, 0);
    }
    const next = async () => (await propose(speculator, [sequence]))[0]! + (await propose(speculator, [sequence]))[0]!;
    expect(await next()).toBe(0);
    for (let step = 0; step < 2000; step++) await propose(speculator, [sequence], 0);
    expect(await next()).toBeGreaterThan(0);
  });

  test("is timed by the machine's clock where no other is given", async () => {
    let nowMs = 0;
    const clock = vi.spyOn(performance, "now").mockImplementation(() => nowMs);
    const isDrafted = async (draftMs: number): Promise<boolean> => {
      const drafter = new FixedDrafter(() => {
        nowMs += draftMs;
        return [0.9];
      });
      const speculator = new Speculator(drafter, FREE, ADAPTIVE);
      await propose(speculator, [sequenceOf()]);
      return (await propose(speculator, [sequenceOf()]))[0] === 1;
    };
    expect([await isDrafted(0), await isDrafted(1000)]).toEqual([true, false]);
    clock.mockRestore();
  });
});

describe("counters", () => {
  const NOTHING = { numDrafts: 0, numDraftTokens: 0, numAcceptedTokens: 0, numAcceptedTokensPerPosition: [0, 0, 0] };
  const config = { ...ADAPTIVE, numSpeculativeTokens: 3 };
  const create = () => speculatorOf(new FixedDrafter(() => [0.9, 0.9, 0.9]), FREE, config);

  test("begin with nothing, and count each checked draft once", async () => {
    const speculator = create();
    expect(speculator.stats()).toEqual(NOTHING);
    const sequence = sequenceOf();
    await propose(speculator, [sequence]);
    speculator.observe(sequence, 3, 2);
    const once = { numDrafts: 1, numDraftTokens: 3, numAcceptedTokens: 2, numAcceptedTokensPerPosition: [1, 1, 0] };
    expect(speculator.stats()).toEqual(once);
    speculator.observe(sequence, 3, 2);
    expect(speculator.stats()).toEqual(once);
    await propose(speculator, [sequence]);
    // A grammar cut it to one token.
    speculator.observe(sequence, 1, 1);
    expect(speculator.stats()).toEqual({
      numDrafts: 2,
      numDraftTokens: 4,
      numAcceptedTokens: 3,
      numAcceptedTokensPerPosition: [2, 1, 0],
    });
  });

  test("leave out drafts that were never made, lost all their tokens, or whose sequence is over", async () => {
    const speculator = create();
    const [unknown, cut, over] = [sequenceOf(), sequenceOf(), sequenceOf()];
    await propose(speculator, [cut, over]);
    speculator.forget(over);
    speculator.observe(unknown, 3, 2);
    speculator.observe(cut, 0, 0);
    speculator.observe(over, 3, 2);
    expect(speculator.stats()).toEqual(NOTHING);
  });
});

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

describe("of background sequences", () => {
  /** 200 steps of which no draft comes true. */
  async function fail(speculator: Speculator, isBackground: boolean): Promise<void> {
    for (let step = 0; step < 200; step++) {
      const sequence = sequenceOf(undefined, isBackground);
      const [length] = await propose(speculator, [sequence]);
      speculator.observe(sequence, length!, 0);
      speculator.forget(sequence);
    }
  }

  test("what becomes of drafts changes neither the account nor the rates of others", async () => {
    const model = new FixedModel(0.9);
    for (const drafter of [undefined, new FixedDrafter(() => [0.9])]) {
      const speculator = speculatorOf(drafter, steps(10, 14), ADAPTIVE, drafter === undefined ? model : undefined);
      const sequence = sequenceOf();
      const fresh = await propose(speculator, [sequence]);
      expect(fresh[0]).toBeGreaterThan(0);
      speculator.observe(sequence, fresh[0]!, fresh[0]!);
      await fail(speculator, true);
      expect(await propose(speculator, [sequenceOf(undefined, true)])).toEqual([0]);
      expect(await propose(speculator, [sequenceOf()])).toEqual(fresh);
      await fail(speculator, false);
      expect(await propose(speculator, [sequenceOf()])).toEqual([0]);
    }
  });

  test("the time of a step is charged to their account", async () => {
    const speculator = speculatorOf(new FixedDrafter(() => [0.9]), FREE);
    await propose(speculator, [sequenceOf(undefined, true)]);
    speculator.charge(1000);
    expect(await propose(speculator, [sequenceOf(undefined, true)])).toEqual([0]);
    expect(await propose(speculator, [sequenceOf()])).toEqual([1]);
  });
});

describe("of alternatives to a draft's first token", () => {
  const drafter: Drafter = {
    name: "fixed",
    propose: () => ({ tokens: [100], chances: [0.6], alternatives: { tokens: [7, 8], chances: [0.3, 0.05] } }),
    forget: () => {},
  };

  test.each<[string, readonly number[], readonly number[]]>([
    ["all are kept that cost nothing", [10], [7, 8]],
    ["one that wins more than its row costs", [10, 11, 12, 20], [7]],
    ["none where rows are dear", [10, 11, 20], []],
  ])("%s", async (_, ms, alternatives) => {
    const sequence = sequenceOf();
    expect(await propose(speculatorOf(drafter, steps(...ms)), [sequence])).toEqual([1]);
    expect(sequence.alternatives).toEqual(alternatives);
  });

  test("rows bound them, and the draft goes first", async () => {
    for (const [maxRows, alternatives] of [
      [1, []],
      [2, [7]],
      [3, [7, 8]],
    ] as const) {
      const sequence = sequenceOf();
      expect(await propose(speculatorOf(drafter, FREE, KEEPS_ALL), [sequence], maxRows)).toEqual([1]);
      expect(sequence.alternatives).toEqual(alternatives);
    }
  });

  test("those that never come true are left out, those that do stay, and the draft's own rate does not mind them", async () => {
    for (const [right, alternatives] of [
      [undefined, []],
      [0, [7]],
    ] as const) {
      const sequence = sequenceOf();
      const speculator = speculatorOf(drafter, steps(10, 11, 12, 20));
      // The draft itself comes true in three of five steps.
      for (let i = 0; i < 200; i++) {
        await propose(speculator, [sequence]);
        const numVerified = sequence.alternatives.length;
        const isRight = i % 5 < 3;
        speculator.observe(sequence, 1, isRight || right === 0 ? 1 : 0, {
          numVerified,
          right: isRight ? undefined : right,
        });
      }
      let kept: readonly number[] = [];
      for (let i = 0; i < 2; i++) {
        await propose(speculator, [sequence]);
        if (sequence.numDraftTokens > 0) kept = sequence.alternatives;
      }
      expect(kept).toEqual(alternatives);
    }
  });

  test("a request whose choices read the text before has none", async () => {
    const sampling = { ...GREEDY_SAMPLING, maxTokens: 100, repetitionPenalty: 1.1 };
    const sequence = new Sequence(1, { promptIds: Int32Array.of(1, 2), sampling }, 1, 0);
    sequence.append(3);
    expect(await propose(speculatorOf(drafter, FREE, KEEPS_ALL), [sequence])).toEqual([1]);
    expect(sequence.alternatives).toEqual([]);
  });
});
