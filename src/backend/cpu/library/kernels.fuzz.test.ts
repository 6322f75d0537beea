/**
 * Arbitrary words, in a program or in the buffers it reads, are refused or run. A crash would end this test's process.
 */
import fc from "fast-check";
import { describe, it } from "vitest";
import { wordsOf } from "../../../../test/reference/cases.js";
import { Bench, normals, withBench } from "../../../../test/reference/compare.js";
import { recordAttention, recordSample, storeSequences } from "../../../../test/reference/recorders.js";
import { MillraceError } from "../../../core/errors.js";
import { OP_NAMES } from "../../ops.js";

describe("arbitrary words", () => {
  const word = fc.oneof(
    fc.integer({ min: -2, max: 64 }),
    fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31, 2 ** 32, 2 ** 53, 2 ** 63, -0.5, 1e300),
    fc.double(),
  );

  /** Accepts a run and a refusal; any other error fails the test. */
  function submitOrRefuse(bench: Bench, words: Float64Array): void {
    try {
      bench.device.submit(words, words.length);
    } catch (error) {
      if (!(error instanceof MillraceError) || error.code !== "kernels_argument") throw error;
    }
  }

  it("as a program are refused or run without a crash", () => {
    withBench(Bench.native("portable", 2), (bench) => {
      for (let i = 0; i < 8; i++) bench.f32(normals(256, i));
      bench.weight("F32", 4, 4, new Uint8Array(64));
      fc.assert(
        fc.property(fc.array(word, { maxLength: 40 }), (words) => {
          submitOrRefuse(bench, Float64Array.from(words));
        }),
        { seed: 1, numRuns: 3000 },
      );
    });
  });

  it("in place of words of a valid program are refused or run without a crash", () => {
    withBench(Bench.native("portable", 2), (bench) => {
      const programs = OP_NAMES.map((op) => wordsOf(bench, op));
      fc.assert(
        fc.property(
          fc.nat(programs.length - 1),
          fc.array(fc.tuple(fc.nat(22), word), { minLength: 1, maxLength: 3 }),
          (which, changes) => {
            const words = programs[which]!.slice();
            for (const [at, value] of changes) words[at % words.length] = value;
            submitOrRefuse(bench, words);
          },
        ),
        { seed: 2, numRuns: 5000 },
      );
      // Use fresh buffers: the earlier ones may hold arbitrary values by now.
      for (const words of OP_NAMES.map((op) => wordsOf(bench, op))) bench.device.submit(words, words.length);
    });
  });

  it("in the buffers that an operation reads are refused or run without a crash", () => {
    const shape = { kvType: "f16", numHeads: 2, numKvHeads: 1, headDim: 4, blockSize: 8 } as const;
    withBench(Bench.native("portable", 2), (bench) => {
      const sequences = [{ keys: normals(80, 1), values: normals(80, 2) }];
      const rows = [1, 20].map((kvLength) => ({ sequence: 0, kvLength, q: normals(8, 3) }));
      recordAttention(bench, storeSequences(bench, shape, sequences, 1), rows, { scale: 1, window: 3 });
      recordSample(bench, [
        { logits: normals(9, 1), temperature: 1, prompt: [1], output: [2], banned: [3], allowed: [0, 1, 2, 5] },
      ]);
      const words = bench.program.words.slice(0, bench.program.numWords);
      const buffers = [...new Set(words.filter((value) => Number.isInteger(value) && value > 0))].flatMap((handle) => {
        try {
          return [bench.device.view(handle as never)];
        } catch {
          return [];
        }
      });
      const pristine = buffers.map((buffer) => buffer.slice(0));
      fc.assert(
        fc.property(
          fc.array(fc.tuple(fc.nat(), fc.nat(), fc.oneof(fc.integer(), word)), { maxLength: 4 }),
          (changes) => {
            buffers.forEach((buffer, i) => {
              new Uint8Array(buffer).set(new Uint8Array(pristine[i]!));
            });
            for (const [which, at, value] of changes) {
              const buffer = buffers[which % buffers.length]!;
              const view = new DataView(buffer);
              if (at % 2 === 0 && buffer.byteLength >= 8)
                view.setFloat64(8 * (at % Math.floor(buffer.byteLength / 8)), value, true);
              else if (buffer.byteLength >= 4) view.setInt32(4 * (at % Math.floor(buffer.byteLength / 4)), value, true);
            }
            submitOrRefuse(bench, words);
          },
        ),
        { seed: 3, numRuns: 3000 },
      );
    });
  });
});
