/** `linear` for every weight type: within rounding of the reference, and the same bits whatever the batch and the threads (E1). */
import { describe, it } from "vitest";
import type { TensorType } from "../formats/gguf/types.js";
import { BLOCK_LAYOUT, dequantizeRow, rowByteLength, TENSOR_TYPES } from "./dequantize.js";
import { NO_BUFFER } from "./kernels.js";
import {
  Bench,
  expectClose,
  expectSameBits,
  extremes,
  ISAS,
  normals,
  shuffled,
  weightBytes,
  withBench,
} from "./test-helpers.js";

interface LinearInput {
  readonly type: TensorType;
  readonly n: number;
  readonly k: number;
  /** [M, K] */
  readonly x: Float32Array;
  readonly hasBias: boolean;
  readonly isAccumulating: boolean;
}

/** out[M, N]; what it held before accumulating is normal values too. */
function runLinear(bench: Bench, { type, n, k, x, hasBias, isAccumulating }: LinearInput): Float32Array {
  return withBench(bench, () => {
    const numRows = x.length / k;
    const out = isAccumulating ? bench.f32(normals(numRows * n, 3)) : bench.room(numRows * n);
    const weight = bench.weight(type, n, k, weightBytes(type, n, k, 1));
    const bias = hasBias ? bench.f32(normals(n, 2)) : NO_BUFFER;
    bench.program.linear(out, bench.f32(x), weight, bias, numRows, { accumulate: isAccumulating });
    bench.run();
    return bench.readF32(out);
  });
}

/** Per output: K roundings of the sum of magnitudes, the most that summing in any order can err; a few for bias and accumulation. */
function roundingBounds({ type, n, k, x }: LinearInput): Float64Array {
  const bytes = weightBytes(type, n, k, 1);
  const rowBytes = rowByteLength(type, k)!;
  const rows = Array.from({ length: n }, (_, row) => dequantizeRow(type, bytes.subarray(row * rowBytes), k));
  const bounds = new Float64Array((x.length / k) * n);
  return bounds.map((_, at) => {
    const from = Math.floor(at / n) * k;
    const magnitude = rows[at % n]!.reduce((sum, value, i) => sum + Math.abs(value * x[from + i]!), 0);
    return 2 ** -24 * ((k / 8 + 8) * magnitude + 16);
  });
}

function shapesOf(type: TensorType): readonly { readonly m: number; readonly n: number; readonly k: number }[] {
  const block = BLOCK_LAYOUT[type].numValues;
  if (block === 1) {
    return [
      { m: 1, n: 1, k: 1 },
      { m: 2, n: 3, k: 7 },
      { m: 5, n: 17, k: 33 },
      { m: 9, n: 34, k: 130 },
      { m: 4, n: 8, k: 1027 },
    ];
  }
  return [
    { m: 1, n: 1, k: block },
    { m: 3, n: 7, k: 3 * block },
    { m: 9, n: 33, k: 2 * block },
  ];
}

for (const { isa, isMissing } of ISAS) {
  describe.skipIf(isMissing)(`linear, ${isa}`, () => {
    for (const type of TENSOR_TYPES) {
      for (const { m, n, k } of shapesOf(type)) {
        it(`equals the reference for ${type} [${n}, ${k}] × ${m} rows`, () => {
          for (const [hasBias, isAccumulating] of [
            [false, false],
            [true, false],
            [true, true],
          ] as const) {
            const input = { type, n, k, x: normals(m * k, 4), hasBias, isAccumulating };
            const wanted = runLinear(Bench.reference(), input);
            expectClose(runLinear(Bench.native(isa, 2), input), wanted, {
              relative: 1e-6,
              absolute: roundingBounds(input),
            });
          }
        });
      }

      it(`equals the reference for ${type} with extreme activations`, () => {
        const k = Math.max(64, BLOCK_LAYOUT[type].numValues);
        const input = { type, n: 5, k, x: extremes(4 * k, 5), hasBias: false, isAccumulating: false };
        const wanted = runLinear(Bench.reference(), input);
        expectClose(runLinear(Bench.native(isa), input), wanted, { relative: 1e-6, absolute: roundingBounds(input) });
      });

      it(`gives ${type} rows the same bits alone, together, reordered and on 1, 2 or 3 threads`, () => {
        const k = BLOCK_LAYOUT[type].numValues === 1 ? 75 : 2 * BLOCK_LAYOUT[type].numValues;
        const [numRows, n] = [19, 37];
        const rows = Array.from({ length: numRows }, (_, m) => normals(k, 100 + m));
        const together = (order: readonly number[], numThreads: number): Float32Array =>
          runLinear(Bench.native(isa, numThreads), {
            ...{ type, n, k, hasBias: true, isAccumulating: false },
            x: Float32Array.from(order.flatMap((m) => [...rows[m]!])),
          });
        const inOrder = rows.map((_, m) => m);
        const wanted = together(inOrder, 1);
        const wantedRow = (m: number): Float32Array => wanted.subarray(m * n, (m + 1) * n);
        for (const m of inOrder) expectSameBits(together([m], 1 + (m % 3)), wantedRow(m));
        for (const numThreads of [2, 3]) {
          for (const numTogether of [2, 3, 4, 5, 8, 19]) {
            const order = shuffled(numRows, numTogether).slice(0, numTogether);
            const got = together(order, numThreads);
            order.forEach((m, i) => {
              expectSameBits(got.subarray(i * n, (i + 1) * n), wantedRow(m));
            });
          }
        }
      });
    }
  });
}
