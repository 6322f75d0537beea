/**
 * `sample` chooses exactly the reference's tokens, from the right distribution, and independently of a row's position
 * in the batch (E5).
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  Bench,
  expectClose,
  ISAS,
  integersBelow,
  normals,
  once,
  shuffled,
} from "../../../../test/reference/compare.js";
import type { SampleRowInput } from "../../../../test/reference/recorders.js";
import { chiSquare, countIds, runSample, type Sampled } from "../../../../test/reference/sampled.js";

/** Log-probabilities are summed in double and rounded to f32: about one f32 rounding. */
const LOGPROB_TOLERANCE = { relative: 1e-6, absolute: 1e-7 };

function expectSameSamples(got: Sampled, wanted: Sampled): void {
  expect(got.ids).toEqual(wanted.ids);
  expect(got.ranks).toEqual(wanted.ranks);
  expect(got.topIds).toEqual(wanted.topIds);
  expectClose(got.logprobs, wanted.logprobs, LOGPROB_TOLERANCE);
  expectClose(got.topLogprobs, wanted.topLogprobs, LOGPROB_TOLERANCE);
}

/** The last size spans more than one of the parts into which the kernel splits the vocabulary. */
const VOCAB_SIZES = [1, 2, 7, 64, 1000, 4100];

/**
 * Arbitrary parameters for a vocabulary of `vocabSize`. Half of the rows have logits on a coarse grid, so that ties are
 * common.
 */
function anyRow(vocabSize: number): fc.Arbitrary<SampleRowInput> {
  const id = fc.nat(vocabSize - 1);
  const logits = fc
    .record({ seed: fc.nat(), isCoarse: fc.boolean(), spread: fc.constantFrom(0.1, 3, 30) })
    .map(({ seed, isCoarse, spread }) =>
      normals(vocabSize, seed).map((value) => (isCoarse ? Math.round(value * 2) / 2 : value * spread)),
    );
  return fc.record({
    logits,
    mode: fc.constantFrom(0, 0, 0, 1),
    target: id,
    temperature: fc.constantFrom(0, 0.3, 1, 1.7),
    topK: fc.constantFrom(0, 1, 2, 5, 40, 5000),
    topP: fc.constantFrom(1, 0.95, 0.5, 0.01),
    minP: fc.constantFrom(0, 0.02, 0.4, 1),
    presencePenalty: fc.constantFrom(0, 0.75, -1),
    frequencyPenalty: fc.constantFrom(0, 0.5, -0.25),
    repetitionPenalty: fc.constantFrom(1, 1.25, 0.8),
    // Sums of the kernel and of the reference differ by a rounding: these numbers are no boundary of coarse logits.
    topNSigma: fc.constantFrom(0, 0, 0, 0.71, 2.37),
    typicalP: fc.constantFrom(1, 1, 1, 0.937, 0.313),
    xtcProbability: fc.constantFrom(0, 0, 0, 0.5, 1),
    xtcThreshold: fc.constantFrom(0, 0.0137, 0.0931),
    dynatempRange: fc.constantFrom(0, 0, 0.4, 2),
    dynatempExponent: fc.constantFrom(0, 0.6, 1, 2.5),
    seed: fc.maxSafeNat(),
    position: fc.nat(),
    numTop: fc.integer({ min: 0, max: Math.min(4, vocabSize) }),
    prompt: fc.array(id, { maxLength: 20 }),
    output: fc.array(id, { maxLength: 20 }),
    biases: fc.uniqueArray(fc.tuple(id, fc.constantFrom(-100, -1, 0.5, 100)), { maxLength: 5, selector: ([i]) => i }),
    lateBiases: fc.uniqueArray(fc.tuple(id, fc.constantFrom(-1e30, -2)), { maxLength: 5, selector: ([i]) => i }),
    banned: fc.array(id, { maxLength: 5 }),
    allowed: fc.oneof(fc.constant(undefined), fc.array(id, { maxLength: 40 })),
  });
}

/**
 * Rows over vocabularies of realistic size. The reference, which sorts the whole vocabulary, runs once for all
 * instruction sets.
 */
const LARGE_VOCABULARIES = [
  { vocabSize: 151_936, settings: [{ temperature: 0 }, { temperature: 0.8, topK: 50 }] },
  {
    vocabSize: 20_003,
    settings: [
      { temperature: 1 },
      { temperature: 1, topP: 0.9 },
      { temperature: 1, topP: 0.9, topK: 3000 },
      { temperature: 1.2, minP: 0.01, topP: 0.99, topK: 1000 },
      { temperature: 5, topP: 0.999 },
      { temperature: 1, typicalP: 0.6 },
      { temperature: 1, topNSigma: 1.3, xtcProbability: 1, xtcThreshold: 0.003 },
      { temperature: 1, dynatempRange: 0.5, minP: 0.001 },
      { temperature: 0, typicalP: 0.4, topP: 0.9 },
    ],
  },
].map(({ vocabSize, settings }) => {
  const rows = settings.map((setting, i) => ({
    ...setting,
    logits: normals(vocabSize, i).map((value) => value * 3),
    seed: i,
    position: 100 + i,
  }));
  return { vocabSize, rows, wanted: once(() => runSample(Bench.reference(), rows)) };
});

function softmax(logits: readonly number[], temperature: number): number[] {
  const weights = logits.map((logit) => Math.exp(logit / temperature));
  const total = weights.reduce((a, b) => a + b, 0);
  return weights.map((weight) => weight / total);
}

for (const { isa, isMissing } of ISAS) {
  describe.skipIf(isMissing)(`sample, ${isa}`, () => {
    for (const vocabSize of VOCAB_SIZES) {
      it(`chooses and scores as the reference does over ${vocabSize} entries`, () => {
        fc.assert(
          fc.property(fc.array(anyRow(vocabSize), { minLength: 1, maxLength: 12 }), (rows) => {
            expectSameSamples(runSample(Bench.native(isa, 2), rows), runSample(Bench.reference(), rows));
          }),
          { seed: 2026, numRuns: Math.ceil(Math.min(100, 20_000 / vocabSize)) },
        );
      });
    }

    for (const { vocabSize, rows, wanted } of LARGE_VOCABULARIES) {
      it(`chooses as the reference does over ${vocabSize} entries`, () => {
        expectSameSamples(runSample(Bench.native(isa, 2), rows), wanted());
      });
    }

    it("draws from the softmax over positions and over seeds", () => {
      const logits = [0, 1, -1, 2, 0.5, -2, 1.5, 0];
      const numDraws = 6000;
      // 7 degrees of freedom: a correct sampler exceeds 29.9 with probability 1e-4. The draws are deterministic.
      const limit = 29.9;
      for (const temperature of [1, 0.6]) {
        const draw = (pick: (i: number) => Partial<SampleRowInput>): number[] =>
          runSample(
            Bench.native(isa),
            Array.from({ length: numDraws }, (_, i) => ({ logits, temperature, numTop: -1, ...pick(i) })),
          ).ids;
        const shares = softmax(logits, temperature);
        for (const ids of [draw((i) => ({ seed: 12345, position: i })), draw((i) => ({ seed: i, position: 7 }))]) {
          expect(chiSquare(countIds(ids, 8), shares)).toBeLessThan(limit);
        }
      }
    });

    it("draws neighbouring positions independently", () => {
      const logits = [0, 0, 0, 0];
      const rows = Array.from({ length: 8001 }, (_, position) => ({
        logits,
        temperature: 1,
        numTop: -1,
        seed: 5,
        position,
      }));
      const { ids } = runSample(Bench.native(isa), rows);
      const pairs = ids.slice(1).map((id, i) => ids[i]! * 4 + id);
      // 15 degrees of freedom, probability 1e-4.
      expect(chiSquare(countIds(pairs, 16), new Array<number>(16).fill(1 / 16))).toBeLessThan(44.3);
    });

    it("draws only tokens that pass the filters, in proportion to their probabilities", () => {
      const logits = [3, 2, 1, 0, -1, -2];
      const draws = (filter: Partial<SampleRowInput>): number[] => {
        const rows = Array.from({ length: 4000 }, (_, position) => ({
          logits,
          temperature: 1,
          numTop: -1,
          ...filter,
          position,
        }));
        return countIds(runSample(Bench.native(isa), rows).ids, 6);
      };
      const shares = softmax([3, 2, 1], 1);
      // Cumulative probabilities are 0.633, 0.866 and 0.952, so three entries reach 0.9. The third has exp(-2) = 0.135
      // of the best's probability.
      for (const filter of [{ topK: 3 }, { topP: 0.9 }, { minP: 0.13 }]) {
        const counts = draws({ ...filter, seed: 9 });
        expect(counts.slice(3)).toEqual([0, 0, 0]);
        // 2 degrees of freedom, probability 1e-4.
        expect(chiSquare(counts.slice(0, 3), shares)).toBeLessThan(18.4);
      }
    });

    it("gives a row the same token at any index, in any batch and on any number of threads", () => {
      const rows = Array.from({ length: 24 }, (_, i) => ({
        logits: normals(9001, i),
        temperature: (i % 4) / 2,
        topP: i % 2 === 0 ? 1 : 0.8,
        topK: i % 5 === 0 ? 30 : 0,
        minP: i % 7 === 0 ? 0.05 : 0,
        seed: 1000 + (i % 5),
        position: i % 7,
        prompt: integersBelow(9001, i, i),
        repetitionPenalty: i % 3 === 0 ? 1.2 : 1,
      }));
      const wanted = runSample(Bench.native(isa), rows);
      for (const numThreads of [1, 2, 3]) {
        const order = shuffled(rows.length, numThreads);
        const got = runSample(
          Bench.native(isa, numThreads),
          order.map((r) => rows[r]!),
        );
        expect(got.ids).toEqual(order.map((r) => wanted.ids[r]));
        expect(got.ranks).toEqual(order.map((r) => wanted.ranks[r]));
        expect([...got.logprobs]).toEqual(order.map((r) => wanted.logprobs[r]));
        expect([...got.topLogprobs]).toEqual(order.flatMap((r) => [...wanted.topLogprobs.slice(4 * r, 4 * r + 4)]));
      }
      rows.forEach((row, r) => {
        const alone = runSample(Bench.native(isa, 2), [row]);
        expect(alone.ids).toEqual([wanted.ids[r]]);
        expect(alone.logprobs[0]).toBe(wanted.logprobs[r]);
      });
    });

    it("breaks ties by the lowest id", () => {
      const logits = [1, 5, 3, 5, 5];
      const got = runSample(
        Bench.native(isa),
        [{ logits }, { logits, mode: 1, target: 3 }, { logits, banned: [1] }],
        5,
      );
      expect(got.ids).toEqual([1, 3, 3]);
      expect(got.ranks).toEqual([1, 2, 2]);
      expect(got.topIds.slice(0, 5)).toEqual([1, 3, 4, 2, 0]);
    });

    it("ranks NaN below every number, and returns -1 when no token has a finite logit", () => {
      const nan = Number.NaN;
      const lowest = Number.NEGATIVE_INFINITY;
      const bad = [
        [nan, 1, nan, 0],
        [nan, nan, nan, nan],
        [lowest, lowest, lowest, lowest],
        [nan, lowest, 2, nan],
        [nan, lowest, lowest, nan],
      ];
      const rows = bad.flatMap((logits) => [
        { logits },
        { logits, temperature: 1 },
        { logits, temperature: 1, topP: 0.5, topK: 2, minP: 0.1 },
        { logits, temperature: 1, banned: [0, 1, 2, 3] },
        { logits, banned: [1, 2] },
      ]);
      const got = runSample(Bench.native(isa), rows);
      expect(got.ids).toEqual(runSample(Bench.reference(), rows).ids);
      expect(got.ids.slice(0, 3)).toEqual([1, 1, 1]);
      expect(got.ids.slice(5, 15)).toEqual(Array(10).fill(-1));
      expect(got.ids.filter((_, r) => r % 5 === 3)).toEqual(Array(5).fill(-1));
    });

    it("handles whole vocabulary parts of NaN, infinite or huge logits as the reference does", () => {
      const last = normals(4, 3);
      const rows = [Number.NaN, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY, -1e30, 1e30].flatMap((fill) => {
        const logits = [...new Float32Array(4096).fill(fill), ...last];
        return [
          { logits },
          { logits, temperature: 1 },
          { logits, temperature: 1, topP: 0.9 },
          { logits, mode: 1, target: 4097 },
        ];
      });
      expectSameSamples(runSample(Bench.native(isa, 2), rows), runSample(Bench.reference(), rows));
    });

    it("returns a valid id when logits are infinite or huge", () => {
      const huge = [Number.POSITIVE_INFINITY, 1e38, -1e38, 3e38, 0];
      const rows = [0, 1].map((temperature) => ({ logits: huge, temperature, topP: 0.9, minP: 0.1 }));
      expect(runSample(Bench.native(isa), rows).ids).toEqual([0, 0]);
    });
  });
}

it("applies penalties as vLLM does", () => {
  const row = { logits: [2, -2, 1, 0.5], prompt: [0, 1], output: [2, 2] };
  const adjusted = [
    // Repetition counts the prompt and the output: a positive logit is divided by the penalty, a negative one
    // multiplied.
    { ...row, repetitionPenalty: 4, want: 0 },
    { ...row, repetitionPenalty: 5, want: 3 },
    // Token 2 occurs twice in the output: frequency counts both, presence counts one. Neither counts the prompt.
    { ...row, logits: [0, 0, 2, 1], frequencyPenalty: 0.4, want: 2 },
    { ...row, logits: [0, 0, 2, 1], frequencyPenalty: 0.6, want: 3 },
    { ...row, logits: [0, 0, 2, 1], presencePenalty: 0.9, want: 2 },
    { ...row, logits: [0, 0, 2, 1], presencePenalty: 1.1, want: 3 },
    { ...row, logits: [2, 0, 0, 1], presencePenalty: 5, want: 0 },
  ];
  for (const bench of [Bench.reference(), Bench.native("portable")]) {
    expect(runSample(bench, adjusted).ids).toEqual(adjusted.map(({ want }) => want));
  }
});
