/**
 * What single decisions of the speculator are: which found drafts are kept, when a drafter is asked, the counters, and
 * the account of background sequences. Costs are exact, time stands still.
 */
import { describe, expect, test, vi } from "vitest";
import {
  ADAPTIVE,
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
