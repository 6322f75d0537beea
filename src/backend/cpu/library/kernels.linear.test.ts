/**
 * `linear` equals the reference within rounding for every weight type, with the same bits for any batch and number of
 * threads (E1).
 */
import { describe, it } from "vitest";
import { cases, isLongRun, someOf } from "../../../../test/helpers/long.js";
import {
  Bench,
  expectClose,
  expectSameBits,
  extremes,
  ISAS,
  joined,
  normals,
  once,
  shuffled,
  weightBytes,
  withBench,
} from "../../../../test/reference/compare.js";
import {
  BLOCK_LAYOUT,
  dequantizeRow,
  rowByteLength,
  WEIGHT_TYPES,
  type WeightType,
} from "../../../formats/dequantize.js";
import { NO_BUFFER, type WeightHandle } from "../../handles.js";
import { activationsOf } from "../product-type.js";
import { loadKernels } from "./load.js";
import { activationRowBytes, packedActivations, packedByteLength } from "./packing.js";

interface LinearInput {
  /** Whether the weight is packed. */
  readonly isPacked?: boolean;
  readonly type: WeightType;
  readonly n: number;
  readonly k: number;
  readonly hasBias: boolean;
  readonly isAccumulating: boolean;
}

/** Making a matrix's bytes takes longer than most tests with it. */
const knownBytes = new Map<string, Uint8Array>();

function matrixBytes(type: WeightType, n: number, k: number): Uint8Array {
  const name = `${type} ${n} ${k}`;
  const bytes = knownBytes.get(name) ?? weightBytes(type, n, k, 1);
  knownBytes.set(name, bytes);
  return bytes;
}

/** Returns a function that runs the layer on a batch x [numRows, k] of any size. */
function runRows(bench: Bench, input: LinearInput): (x: Float32Array) => Float32Array {
  const { type, n, k, hasBias, isAccumulating } = input;
  const inRows = bench.weight(type, n, k, matrixBytes(type, n, k));
  const weight = input.isPacked === true ? packed(bench, inRows, type, n, k) : inRows;
  const bias = hasBias ? bench.f32(normals(n, 2)) : NO_BUFFER;
  return (x) => {
    const numRows = x.length / k;
    const out = isAccumulating ? bench.f32(normals(numRows * n, 3)) : bench.unwritten(numRows * n);
    let left = bench.f32(x);
    const format = activationsOf(type, input.isPacked === true);
    if (format !== "f32") {
      const rounded = bench.bytes(new Uint8Array(numRows * activationRowBytes(format, k)));
      bench.program.record("quantize", { out: rounded, x: left, numRows, width: k, format });
      left = rounded;
    }
    bench.program.record("linear", { out, x: left, weight, bias, numRows, accumulate: isAccumulating });
    bench.run();
    return bench.readF32(out);
  };
}

function packed(bench: Bench, weight: WeightHandle, type: WeightType, n: number, k: number): WeightHandle {
  const packedWeight = bench.bytes(new Uint8Array(packedByteLength(type, n, k)!));
  bench.program.record("pack", { out: packedWeight, byteOffset: 0, weight });
  bench.run();
  return bench.device.createWeight(packedWeight, 0, type, n, k, true);
}

/**
 * Error bound for each output: the rounding error of summing K products in f32 lanes, derived from the sum of their
 * magnitudes, plus a few roundings for bias and accumulation.
 */
function roundingBounds({ type, isPacked, n, k }: LinearInput, x: Float32Array): Float64Array {
  const bytes = weightBytes(type, n, k, 1);
  const rowBytes = rowByteLength(type, k)!;
  const rows = Array.from({ length: n }, (_, row) => dequantizeRow(type, bytes.subarray(row * rowBytes), k));
  // Packed weights are multiplied without their offset, which is subtracted from the sums later, so every term may be
  // as large as the largest weight.
  if (isPacked === true) {
    for (const row of rows) row.fill(4 * row.reduce((most, value) => Math.max(most, Math.abs(value)), 0));
  }
  const bounds = new Float64Array((x.length / k) * n);
  return bounds.map((_, at) => {
    const from = Math.floor(at / n) * k;
    const magnitude = rows[at % n]!.reduce((sum, value, i) => sum + Math.abs(value * x[from + i]!), 0);
    return 2 ** -24 * ((k / 8 + 8) * magnitude + 16);
  });
}

/** Columns that a matrix has a multiple of: a stored block's, and a packed cell's. */
const unitCols = (type: WeightType, isPacked: boolean) =>
  Math.max(BLOCK_LAYOUT[type].numValues, isPacked ? loadKernels().packedForm(type)!.cellCols : 1);

function shapesOf(
  type: WeightType,
  isPacked: boolean,
): readonly { readonly m: number; readonly n: number; readonly k: number }[] {
  const block = unitCols(type, isPacked);
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

/** One case with its reference result, computed once for all instruction sets. */
interface LinearCase {
  readonly label: string;
  readonly x: Float32Array;
  readonly input: LinearInput;
  readonly wanted: () => { readonly values: Float32Array; readonly bounds: Float64Array };
}

function linearCase(label: string, input: LinearInput, x: Float32Array): LinearCase {
  const wanted = once(() => ({
    values: withBench(Bench.reference(), (bench) => runRows(bench, input)(x)),
    bounds: roundingBounds(input, x),
  }));
  return { label, x, input, wanted };
}

/** Every type in its stored form and, if it has one, in its packed form. */
const FORMS = WEIGHT_TYPES.flatMap((type) =>
  packedActivations(type) === undefined
    ? [{ type, isPacked: false, name: type }]
    : [
        { type, isPacked: false, name: type },
        { type, isPacked: true, name: `packed ${type}` },
      ],
);

const CASES: readonly LinearCase[] = FORMS.flatMap(({ type, isPacked, name }) => {
  const extremeK = Math.max(64, BLOCK_LAYOUT[type].numValues);
  const plain = { type, isPacked, hasBias: false, isAccumulating: false };
  return [
    ...shapesOf(type, isPacked).flatMap(({ m, n, k }) => {
      const label = `${name} [${n}, ${k}] × ${m} rows`;
      const x = normals(m * k, 4);
      const all = linearCase(
        `${label}, bias, accumulating`,
        { ...plain, n, k, hasBias: true, isAccumulating: true },
        x,
      );
      // Extreme activations are without a bias, and batches do not accumulate.
      if (!isLongRun) return [all];
      return [
        linearCase(label, { ...plain, n, k }, x),
        linearCase(`${label}, bias`, { ...plain, n, k, hasBias: true }, x),
        all,
      ];
    }),
    linearCase(`${name} with extreme activations`, { ...plain, n: 5, k: extremeK }, extremes(4 * extremeK, 5)),
  ];
});

const BATCH_ROWS = 19;
const batches = new Map<number, readonly Float32Array[]>();

/** Rows of the tests of batches, by their width. */
function batchOf(k: number): readonly Float32Array[] {
  const rows = batches.get(k) ?? Array.from({ length: BATCH_ROWS }, (_, m) => normals(k, 100 + m));
  batches.set(k, rows);
  return rows;
}

for (const { isa, isMissing } of ISAS) {
  describe.skipIf(isMissing)(`linear, ${isa}`, () => {
    for (const { label, x, input, wanted } of CASES) {
      it(`equals the reference for ${label}`, () => {
        const got = withBench(Bench.native(isa, 2), (bench) => runRows(bench, input)(x));
        expectClose(got, wanted().values, { relative: 1e-6, absolute: wanted().bounds });
      });
    }

    for (const { type, isPacked, name } of FORMS) {
      it(`gives ${name} rows the same bits alone, together, reordered and on 1, 2 or 3 threads`, () => {
        // Sizes that cross every block of columns and rows a kernel may use.
        const block = unitCols(type, isPacked);
        const k = Math.ceil((isPacked && block === 2 ? 4099 : 1027) / block) * block;
        const n = 37;
        const rows = batchOf(k);
        const inOrder = rows.map((_, m) => m);
        const orders = [
          inOrder,
          ...someOf(inOrder, 4).map((m) => [m]),
          ...[2, 3, 4, 5, 8, 19].map((count) => shuffled(BATCH_ROWS, count).slice(0, count)),
          shuffled(cases(130, 530), 1).map((i) => i % BATCH_ROWS),
        ];
        const wanted = new Map<number, Float32Array>();
        for (const numThreads of [1, 2, 3]) {
          withBench(Bench.native(isa, numThreads), (bench) => {
            const run = runRows(bench, { type, isPacked, n, k, hasBias: true, isAccumulating: false });
            for (const order of orders) {
              const got = run(joined(order.map((m) => rows[m]!)));
              order.forEach((m, i) => {
                const row = got.subarray(i * n, (i + 1) * n);
                if (wanted.has(m)) expectSameBits(row, wanted.get(m)!);
                else wanted.set(m, row);
              });
            }
          });
        }
      });
    }
  });
}
