/** llama.cpp's samplers in `sample`, each alone by its definition. kernels.sample.test.ts has all of them together. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Bench, ISAS } from "../../../../test/reference/compare.js";
import type { SampleRowInput } from "../../../../test/reference/recorders.js";
import { chiSquare, countIds, runSample } from "../../../../test/reference/sampled.js";

for (const { isa, isMissing } of ISAS) {
  describe.skipIf(isMissing)(`llama.cpp's samplers, ${isa}`, () => {
    it("draws from what llama.cpp's samplers leave, each alone, as its definition says", () => {
      const log = (values: readonly number[]) => values.map((value) => Math.log(value));
      /** Shares of 4000 draws, of tokens with these probabilities. */
      const shares = (probabilities: readonly number[], row: Partial<SampleRowInput>): number[] => {
        const rows = Array.from({ length: 4000 }, (_, position) => ({
          logits: log(probabilities),
          temperature: 1,
          numTop: -1,
          seed: 77,
          ...row,
          position,
        }));
        return countIds(runSample(Bench.native(isa), rows).ids, probabilities.length);
      };
      /** 3 or fewer degrees of freedom, probability 1e-4. */
      const expectShares = (counts: readonly number[], weights: readonly number[]): void => {
        const total = weights.reduce((a, b) => a + b, 0);
        const places = [...weights.keys()].filter((i) => weights[i]! > 0);
        expect(counts.filter((count, i) => count > 0 && weights[i] === 0)).toEqual([]);
        const given = places.map((i) => counts[i]!);
        expect(
          chiSquare(
            given,
            places.map((i) => weights[i]! / total),
          ),
        ).toBeLessThan(21.2);
      };
      // Locally typical: the entropy is 0.168, from which −ln 0.97 is 0.137 away and −ln 0.01 is 4.437.
      expectShares(shares([0.97, 0.01, 0.01, 0.01], { typicalP: 0.5 }), [1, 0, 0, 0]);
      // The entropy is 1.2799: the distances are 0.364, 0.076, 0.329, 1.023. In this order 0.3 + 0.2 is not more than
      // 0.5, and 0.3 + 0.2 + 0.4 is.
      expectShares(shares([0.4, 0.3, 0.2, 0.1], { typicalP: 0.49 }), [0, 0.3, 0.2, 0]);
      expectShares(shares([0.4, 0.3, 0.2, 0.1], { typicalP: 0.51 }), [0.4, 0.3, 0.2, 0]);
      expectShares(shares([0.4, 0.3, 0.2, 0.1], { typicalP: 0.1 }), [0, 1, 0, 0]);
      // XTC: with a threshold of 0.09, all four are top choices, and the least likely one stays.
      const tenths = [0.4, 0.3, 0.2, 0.1];
      expectShares(shares(tenths, { xtcProbability: 1, xtcThreshold: 0.09 }), [0, 0, 0, 1]);
      expectShares(shares(tenths, { xtcProbability: 1, xtcThreshold: 0.19 }), [0, 0, 0.2, 0.1]);
      expectShares(shares(tenths, { xtcProbability: 1, xtcThreshold: 0.29 }), [0, 0.3, 0.2, 0.1]);
      expectShares(shares(tenths, { xtcProbability: 1, xtcThreshold: 0.39 }), tenths);
      // In a quarter of all cases.
      const quarter = tenths.map((share, i) => 0.75 * share + (i === 3 ? 0.25 : 0));
      expectShares(shares(tenths, { xtcProbability: 0.25, xtcThreshold: 0.09 }), quarter);
      // The least likely of equal ones is the last. XTC looks at what the other filters leave.
      expectShares(shares([0.25, 0.25, 0.25, 0.25], { xtcProbability: 1, xtcThreshold: 0.2 }), [0, 0, 0, 1]);
      expectShares(shares(tenths, { topK: 2, xtcProbability: 1, xtcThreshold: 0.19 }), [0, 1, 0, 0]);
      expectShares(shares(tenths, { topK: 1, xtcProbability: 1, xtcThreshold: 0 }), [1, 0, 0, 0]);
      // top-n-sigma: logits 3, 2, 1, 0 have the deviation √1.25 = 1.118.
      const steps = [3, 2, 1, 0].map(Math.exp);
      expectShares(shares(steps, { topNSigma: 0.89 }), [1, 0, 0, 0]);
      expectShares(shares(steps, { topNSigma: 0.9 }), [steps[0]!, steps[1]!, 0, 0]);
      expectShares(shares(steps, { topNSigma: 1.78 }), [steps[0]!, steps[1]!, 0, 0]);
      expectShares(shares(steps, { topNSigma: 1.79 }), [steps[0]!, steps[1]!, steps[2]!, 0]);
      // Of barred tokens, none counts: 3, 2 and 0 have the deviation 1.247.
      expectShares(shares(steps, { topNSigma: 0.81, banned: [2] }), [steps[0]!, steps[1]!, 0, 0]);
      // Dynamic temperature: the entropy of 0.4, 0.3, 0.2, 0.1 is 0.92322 of ln 4, so a range of 0.5 around 1 gives
      // 0.5 + 0.92322² = 1.35234 with the exponent 2, and 0.5 + 1 with 0.
      const tempered = (temperature: number) => tenths.map((share) => share ** (1 / temperature));
      expectShares(shares(tenths, { dynatempRange: 0.5, dynatempExponent: 2 }), tempered(1.35234));
      expectShares(shares(tenths, { dynatempRange: 0.5, dynatempExponent: 0 }), tempered(1.5));
      // From 0 to 1.2 where the range is wider than the temperature.
      expectShares(shares(tenths, { temperature: 0.2, dynatempRange: 1 }), tempered(1.2 * 0.92322));
      expectShares(shares([0.5, 0.5, 0, 0], { temperature: 1, dynatempRange: 0.5, topK: 1 }), [1, 0, 0, 0]);
    });

    it("keeps what comes last of typical sampling, XTC and a dynamic temperature at temperature 0", () => {
      const logits = [0.4, 0.3, 0.2, 0.1].map(Math.log);
      const got = runSample(Bench.native(isa), [
        { logits },
        { logits, typicalP: 0.1 },
        { logits, xtcProbability: 1, xtcThreshold: 0.19 },
        { logits, xtcProbability: 1, xtcThreshold: 0.19, topP: 0.3 },
        { logits, xtcProbability: 0, xtcThreshold: 0.19 },
      ]);
      expect(got.ids).toEqual([0, 1, 2, 0, 0]);
      expect(runSample(Bench.reference(), [{ logits, typicalP: 0.1 }]).ids).toEqual([1]);
    });

    it("draws XTC's number from another stream than the tokens' noise", () => {
      const settings = { logits: new Array<number>(64).fill(0), temperature: 1, numTop: -1 };
      const rows = Array.from({ length: 4000 }, (_, position) => ({ ...settings, position, seed: 3 }));
      const xtc = { xtcProbability: 0.5, xtcThreshold: 0.01 };
      const [without, drawn] = [rows, rows.map((row) => ({ ...row, ...xtc }))].map(
        (each) => runSample(Bench.native(isa), each).ids,
      );
      // Excluding leaves the last of the equal ones; where nothing is excluded, the token is that without XTC.
      const isExcluded = drawn!.map((id, i) => id !== without![i]);
      expect(drawn!.filter((id, i) => isExcluded[i] && id !== 63)).toEqual([]);
      const numExcluded = isExcluded.filter(Boolean).length;
      expect(Math.abs(numExcluded - 2000 * (63 / 64))).toBeLessThan(4 * Math.sqrt(1000));
      // Whether it excludes tells nothing about the token that would have come.
      const low = without!.filter((id, i) => isExcluded[i] && id < 32).length;
      const of = without!.filter((id, i) => isExcluded[i] && id !== 63).length;
      expect(Math.abs(low / of - 32 / 63)).toBeLessThan(4 * Math.sqrt(0.25 / of));
    });

    it("never leaves nothing to choose from", () => {
      const sampler = fc.record({
        logits: fc.array(fc.constantFrom(-1e30, -3, 0, 0.5, 2, 90), { minLength: 1, maxLength: 12 }),
        temperature: fc.constantFrom(0, 1e-4, 1, 2),
        topNSigma: fc.constantFrom(0, 1e-9, 0.5, 3),
        typicalP: fc.constantFrom(0, 1e-9, 0.5, 0.999),
        xtcProbability: fc.constantFrom(0, 1),
        xtcThreshold: fc.constantFrom(0, 1e-12, 0.1, 0.5, 0.51, 1),
        dynatempRange: fc.constantFrom(0, 1, 1000),
        dynatempExponent: fc.constantFrom(0, 1, 1000),
        minP: fc.constantFrom(0, 0.1),
        topP: fc.constantFrom(0.5, 1),
        seed: fc.nat(),
      });
      fc.assert(
        fc.property(sampler, (row) => {
          const { ids } = runSample(Bench.native(isa), [row, { ...row, typicalP: 1, topNSigma: 0, minP: 0, topP: 1 }]);
          for (const id of ids) expect(row.logits[id]).toBeGreaterThan(Number.NEGATIVE_INFINITY);
          // XTC alone leaves the last token that reaches the threshold, and all below.
          if (row.xtcProbability === 0 || row.dynatempRange > 0) return;
          const weights = row.logits.map((logit) => Math.exp(logit - Math.max(...row.logits)));
          const total = weights.reduce((a, b) => a + b, 0);
          const above = weights.filter((weight) => weight >= row.xtcThreshold * total);
          if (above.length > 0) expect(weights[ids[1]!]).toBeLessThanOrEqual(Math.min(...above));
        }),
        { seed: 214, numRuns: 300 },
      );
    });
  });
}

it("adds late biases after the penalties", () => {
  // 4 / 2 − 1.5 = 0.5, and (4 − 1.5) / 2 = 1.25 would be more than the other's 1.
  const row = { logits: [4, 1], prompt: [0], repetitionPenalty: 2 };
  for (const bench of [Bench.reference(), Bench.native("portable")]) {
    const rows = [row, { ...row, lateBiases: [[0, -1.5]] as const }, { ...row, biases: [[0, -1.5]] as const }];
    expect(runSample(bench, rows).ids).toEqual([0, 1, 0]);
  }
});
