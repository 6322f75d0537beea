/** Bounds that hold as often as promised, and the trust that follows from them. */
import { describe, expect, test } from "vitest";
import { TestRng } from "../../../../test/helpers/rng.js";
import { AcceptanceCurve, type Sample } from "./acceptance-curve.js";
import { lowerBound, upperBound } from "./clopper-pearson.js";
import { type Judgement, Trust } from "./trust.js";

describe("Clopper and Pearson's bounds", () => {
  test("equal the closed forms and the published values", () => {
    expect(upperBound(0, 300)).toBeCloseTo(1 - 0.05 ** (1 / 300), 10);
    expect(lowerBound(10, 10)).toBeCloseTo(0.05 ** (1 / 10), 10);
    // 5 of 10, two-sided 95 %.
    expect(lowerBound(5, 10, 0.975)).toBeCloseTo(0.187086, 5);
    expect(upperBound(5, 10, 0.975)).toBeCloseTo(0.812914, 5);
    expect([lowerBound(0, 0), upperBound(0, 0)]).toEqual([0, 1]);
  });

  test("hold for 5000 judgements too", () => {
    expect(upperBound(50, 5000)).toBeGreaterThan(0.01);
    expect(upperBound(50, 5000)).toBeLessThan(0.014);
  });
});

/** Right with the probability of a logistic curve around `threshold`. */
function drawn(num: number, seed: number, threshold = 0.8, steepness = 40): Sample[] {
  const random = new TestRng(seed);
  return Array.from({ length: num }, () => {
    const similarity = 0.7 + 0.3 * random.next();
    return { similarity, isSame: random.next() < 1 / (1 + Math.exp(-steepness * (similarity - threshold))) };
  });
}

describe("the acceptance curve", () => {
  test("is at or above the true error in nineteen of twenty draws", () => {
    for (const similarity of [0.85, 0.9, 0.95]) {
      const truth = 1 - 1 / (1 + Math.exp(-40 * (similarity - 0.8)));
      let numHeld = 0;
      for (let seed = 0; seed < 200; seed++) {
        if (new AcceptanceCurve(drawn(400, seed)).worstCase(similarity) >= truth) numHeld++;
      }
      expect(numHeld).toBeGreaterThanOrEqual(180);
    }
  });

  test("falls with the similarity, and with the number of samples", () => {
    const curve = new AcceptanceCurve(drawn(2000, 1));
    expect(curve.worstCase(0.98)).toBeLessThan(0.01);
    expect(curve.worstCase(0.8)).toBeGreaterThan(0.4);
    expect(new AcceptanceCurve(drawn(100, 1)).worstCase(0.95)).toBeGreaterThan(curve.worstCase(0.95));
  });

  test("stays finite where right and wrong do not overlap, and is the exact bound where nothing was wrong", () => {
    const apart = [0.7, 0.71, 0.9, 0.91, 0.92].map((similarity) => ({ similarity, isSame: similarity > 0.8 }));
    const bound = new AcceptanceCurve(apart).worstCase(0.92);
    expect(bound > 0 && bound < 1).toBe(true);
    const right = Array.from({ length: 300 }, () => ({ similarity: 0.9, isSame: true }));
    expect(new AcceptanceCurve(right).worstCase(0.5)).toBeCloseTo(0.00994, 4);
    expect(new AcceptanceCurve([]).worstCase(1)).toBe(1);
    const equal = Array.from({ length: 100 }, (_, i) => ({ similarity: 0.9, isSame: i % 2 === 0 }));
    expect(new AcceptanceCurve(equal).worstCase(0.9)).toBeGreaterThan(0.5);
  });
});

describe("trust", () => {
  const rules = { maxError: 0.01, minJudged: 300 };
  const judged = (isSame: boolean, fields: Partial<Judgement> = {}): Judgement => ({
    promptClass: "WHAT en",
    similarity: 0.9,
    isSame,
    judgedIn: "shadow",
    ...fields,
  });

  test("is earned by 300 right hits, and by no fewer", () => {
    const trust = new Trust(rules);
    for (let i = 0; i < 299; i++) trust.add(judged(true));
    expect(trust.allows("WHAT en", 0.9)).toBe(false);
    trust.add(judged(true));
    expect(trust.allows("WHAT en", 0.9)).toBe(true);
  });

  test("takes more where some were wrong", () => {
    const trust = new Trust(rules);
    for (let i = 0; i < 300; i++) trust.add(judged(i > 0));
    expect(trust.summary()).toMatchObject({ judged: 300, wrong: 1, isEarned: false });
    for (let i = 0; i < 200; i++) trust.add(judged(true));
    expect(trust.summary().isEarned).toBe(true);
  });

  test("a class with errors of its own is held back where the others are not", () => {
    const trust = new Trust(rules);
    for (let i = 0; i < 3000; i++) trust.add(judged(true));
    for (let i = 0; i < 120; i++) trust.add(judged(i % 10 > 0, { promptClass: "WHO en" }));
    expect(trust.summary().isEarned).toBe(true);
    expect([trust.allows("WHO en", 0.9), trust.allows("HOWTO en", 0.9)]).toEqual([false, true]);
  });

  test("ends when audits contradict the bound, at once and for good", () => {
    const trust = new Trust(rules);
    for (let i = 0; i < 3000; i++) trust.add(judged(true));
    for (let i = 0; i < 100; i++) trust.add(judged(true, { judgedIn: "audit" }));
    const ended = Array.from({ length: 6 }, () => trust.add(judged(false, { judgedIn: "audit" })));
    // 3 wrong of 103 audits have a lower bound of 0.8 %, 4 of 104 one of 1.3 %.
    expect(ended).toEqual([false, false, false, true, false, false]);
    expect(trust.allows("WHAT en", 1)).toBe(false);
    expect(trust.summary().isDisabled).toBe(true);
  });
});
