import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { uniform } from "../core/random.js";
import {
  dropBounds,
  dropInterval,
  dropOf,
  type Flips,
  flipsOf,
  itemsNeeded,
  mcnemarMidP,
  type Pair,
  powerOf,
  SequentialGate,
  type Verdict,
  verdictOf,
} from "./paired.js";

const flips = (numItems: number, numLost: number, numWon: number): Flips => ({ numItems, numLost, numWon });

/** Pairs of a model that loses and wins these shares of the items. */
function drawPairs(numItems: number, lostShare: number, wonShare: number, seed: number): Pair[] {
  const random = uniform(seed);
  return Array.from({ length: numItems }, () => {
    const u = random();
    if (u < lostShare) return { before: true, after: false };
    if (u < lostShare + wonShare) return { before: false, after: true };
    return { before: true, after: true };
  });
}

test("flips are counted by direction", () => {
  const pairs = [
    { before: true, after: false },
    { before: true, after: true },
    { before: false, after: true },
    { before: true, after: false },
  ];
  expect(flipsOf(pairs)).toEqual(flips(4, 2, 1));
  expect(dropOf(flipsOf(pairs))).toBe(0.25);
  expect(dropOf(flips(0, 0, 0))).toBe(0);
});

describe("McNemar's mid-p", () => {
  test.each([
    // Binomial tails by hand: 2 (P(X < k) + P(X = k) / 2) with X of n halves.
    [0, 0, 1],
    [1, 0, 0.5],
    [5, 0, 2 * (0.5 / 32)],
    [9, 1, 2 * (1 / 1024 + 5 / 1024)],
    [4, 4, 1],
  ])("of %i lost and %i won is %f", (lost, won, p) => {
    expect(mcnemarMidP(flips(100, lost, won))).toBeCloseTo(p, 10);
    expect(mcnemarMidP(flips(100, won, lost))).toBeCloseTo(p, 10);
  });

  test("is a number for thousands of flips", () => {
    expect(mcnemarMidP(flips(100_000, 5000, 5000))).toBeCloseTo(1, 10);
    expect(mcnemarMidP(flips(100_000, 5300, 4700))).toBeLessThan(1e-8);
  });
});

describe("the interval of the drop", () => {
  test("ends where the score of the likeliest probabilities with that drop is ±1.96", () => {
    /** Maximises the likelihood of the flips over the share of items won, for a given drop, by search. */
    const scoreAt = ({ numItems: n, numLost: b, numWon: c }: Flips, drop: number): number => {
      const logLikelihood = (won: number): number =>
        b * Math.log(won + drop) + c * Math.log(won) + (n - b - c) * Math.log(1 - 2 * won - drop);
      let [low, high] = [Math.max(0, -drop), (1 - drop) / 2];
      for (let i = 0; i < 200; i++) {
        const [left, right] = [low + (high - low) / 3, high - (high - low) / 3];
        if (logLikelihood(left) < logLikelihood(right)) low = left;
        else high = right;
      }
      return (b - c - n * drop) / Math.sqrt(n * (2 * low + drop - drop ** 2));
    };
    for (const given of [flips(44, 9, 3), flips(100, 2, 8), flips(1000, 31, 30)]) {
      const [low, high] = dropInterval(given);
      expect(scoreAt(given, low)).toBeCloseTo(1.96, 3);
      expect(scoreAt(given, high)).toBeCloseTo(-1.96, 3);
    }
  });

  test("has a width where nothing flips: z² ÷ (n + z²)", () => {
    const [low, high] = dropInterval(flips(300, 0, 0));
    expect(high).toBeCloseTo(3.8415 / 303.8415, 4);
    expect(low).toBeCloseTo(-high, 8);
  });

  test("contains the drop, is mirrored when the models are exchanged, and the one-sided bounds lie within it", () => {
    const arbitrary = fc
      .tuple(fc.nat(200), fc.nat(200), fc.nat(500))
      .map(([lost, won, rest]) => flips(lost + won + rest + 1, lost, won));
    fc.assert(
      fc.property(arbitrary, (given) => {
        const [low, high] = dropInterval(given);
        const [otherLow, otherHigh] = dropInterval(flips(given.numItems, given.numWon, given.numLost));
        const [lower, upper] = dropBounds(given);
        expect(low).toBeLessThanOrEqual(dropOf(given) + 1e-9);
        expect(high).toBeGreaterThanOrEqual(dropOf(given) - 1e-9);
        expect(otherLow).toBeCloseTo(-high, 8);
        expect(otherHigh).toBeCloseTo(-low, 8);
        expect(lower).toBeGreaterThanOrEqual(low - 1e-9);
        expect(upper).toBeLessThanOrEqual(high + 1e-9);
      }),
    );
  });

  test("covers the true drop in 95 % of simulated runs", () => {
    let numCovered = 0;
    for (let seed = 0; seed < 2000; seed++) {
      const [low, high] = dropInterval(flipsOf(drawPairs(400, 0.05, 0.03, seed)));
      numCovered += Number(low <= 0.02 && 0.02 <= high);
    }
    expect(numCovered / 2000).toBeGreaterThan(0.935);
    expect(numCovered / 2000).toBeLessThan(0.968);
  });
});

describe("items needed", () => {
  const shareOf = (verdict: Verdict, items: number, share: number, drop: number): number => {
    let count = 0;
    for (let seed = 0; seed < 1000; seed++) {
      const pairs = drawPairs(items, (share + drop) / 2, (share - drop) / 2, seed);
      count += Number(verdictOf(flipsOf(pairs), 0.02) === verdict);
    }
    return count / 1000;
  };

  test.each([
    // By hand from Tango's variance at the margin. The simpler formula without it has 773, 1546, 3092 and 248, and less
    // power than it says.
    [0.05, 0.02, 837],
    [0.1, 0.02, 1578],
    [0.2, 0.02, 3104],
    [0.1, 0.05, 274],
  ])("with %f flips and a margin of %f are %i", (share, margin, items) => {
    expect(itemsNeeded(share, margin)).toBe(items);
  });

  test.each([0.01, 0.02, 0.06, 0.1])("give a gate its power, with %f flips", (share) => {
    const items = itemsNeeded(share, 0.02)!;
    expect(powerOf(items, share, 0.02, 0)).toBeCloseTo(0.8, 2);
    const passed = shareOf("passes", items, share, 0);
    expect(passed).toBeGreaterThan(0.76);
    expect(passed).toBeLessThan(0.84);
  });

  test.each([
    [0.06, 0.03],
    [0.08, 0.05],
    [0.12, 0.1],
  ])("and the share of models that it fails, with %f flips and a drop of %f", (share, drop) => {
    for (const items of [298, 837]) {
      const expected = powerOf(items, share, -0.02, -drop);
      expect(Math.abs(shareOf("fails", items, share, drop) - expected)).toBeLessThan(0.04);
    }
  });

  test("are none for a drop that reaches the margin", () => {
    expect(itemsNeeded(0.05, 0.02, 0.02)).toBeUndefined();
  });
});

describe("the sequential gate", () => {
  const run = (pairs: readonly Pair[], margin: number) => {
    const gate = new SequentialGate(margin, pairs.length);
    let numItems = 0;
    for (const pair of pairs) {
      numItems++;
      if (gate.add(pair) !== "undecided") break;
    }
    return { verdict: gate.verdict, numItems };
  };

  test("passes equal answers early", () => {
    const { verdict, numItems } = run(drawPairs(3000, 0, 0, 1), 0.02);
    expect(verdict).toBe("passes");
    expect(numItems).toBeLessThan(1000);
  });

  test("is wrong in at most 5 % of runs, although it looks after every item", () => {
    let numWronglyPassed = 0;
    let numWronglyFailed = 0;
    for (let seed = 0; seed < 500; seed++) {
      numWronglyPassed += Number(run(drawPairs(2000, 0.05, 0.03, seed), 0.02).verdict === "passes");
      numWronglyFailed += Number(run(drawPairs(2000, 0.05, 0.03, seed + 10_000), 0.02).verdict === "fails");
    }
    expect(numWronglyPassed / 500).toBeLessThan(0.07);
    expect(numWronglyFailed / 500).toBeLessThan(0.07);
  });

  test("stops a model that loses 10 points long before the last item", () => {
    let numItems = 0;
    for (let seed = 0; seed < 100; seed++) {
      const result = run(drawPairs(1500, 0.12, 0.02, seed), 0.02);
      expect(result.verdict).toBe("fails");
      numItems += result.numItems;
    }
    expect(numItems / 100).toBeLessThan(500);
  });
});
