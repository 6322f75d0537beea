/** Which alternatives to a draft's first token the speculator keeps. Costs are exact, time stands still. */
import { describe, expect, test } from "vitest";
import { FREE, KEEPS_ALL, propose, sequenceOf, speculatorOf, steps } from "../../../test/helpers/fixed-drafters.js";
import { GREEDY_SAMPLING, type SamplingParams } from "../api/request.js";
import { Sequence } from "../step/sequence.js";
import type { Drafter } from "./drafter.js";

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

  test.each<Partial<SamplingParams>>([
    { repetitionPenalty: 1.1 },
    { dry: { multiplier: 1, base: 1.75, allowedLength: 2, breakers: [] } },
  ])("a request whose choices read the text before has none: %j", async (reading) => {
    const sampling = { ...GREEDY_SAMPLING, maxTokens: 100, ...reading };
    const sequence = new Sequence(1, { promptIds: Int32Array.of(1, 2), sampling }, 1, 0);
    sequence.append(3);
    expect(await propose(speculatorOf(drafter, FREE, KEEPS_ALL), [sequence])).toEqual([1]);
    expect(sequence.alternatives).toEqual([]);
  });
});
