/** encodeRows: how close its blocks come to the values, on every instruction set of this CPU. */
import { afterAll, expect, test } from "vitest";
import { normals } from "../../../../test/reference/compare.js";
import { E2M1, E4M3 } from "../../../../test/reference/weights.js";
import { dequantizeRow, rowByteLength } from "../../../formats/dequantize.js";
import { type BufferHandle, NO_BUFFER } from "../../handles.js";
import { BLOCK_TYPES, type BlockType, CODES, type OperandsOf, type ScaledType } from "../../ops.js";
import { Program } from "../../program.js";
import type { Isa, KernelDevice } from "./kernels.js";
import { loadKernels } from "./load.js";

const { avx2, avx512, avx512vnni, avx512bf16, amx, neon, dotprod } = loadKernels().cpuFeatures();
const present: readonly (readonly [Isa, boolean])[] = [
  ["portable", true],
  ["avx2", avx2],
  ["avx512", avx512],
  ["avx512vnni", avx512vnni],
  ["avx512bf16", avx512bf16],
  ["amx", amx],
  ["neon", neon],
  ["neondot", dotprod],
];
const SCALED_TYPES: readonly ScaledType[] = CODES.ScaledType;
const devices = present.flatMap(([isa, has]) => (has ? [loadKernels().createDevice({ numThreads: 2, isa })] : []));
afterAll(() => {
  for (const device of devices) device.destroy();
});
const device = devices.at(-1)!;

function encode(
  on: KernelDevice,
  type: BlockType,
  x: Float32Array,
  width: number,
  importance?: Float32Array,
  factor?: Float32Array,
): Uint8Array {
  const bytes = new Uint8Array((x.length / width) * rowByteLength(type, width)!);
  return filled(on, bytes, [x, importance, factor], (out, [values, weights, fed]) => ({
    op: "encodeRows",
    operands: { out, x: values!, importance: weights!, factor: fed!, numRows: x.length / width, width, type },
  }));
}

interface Rounded {
  readonly type: ScaledType;
  readonly weights: Float32Array;
  readonly width: number;
  readonly group: number;
  readonly scales: Float32Array;
  readonly factor: Float32Array | undefined;
  readonly order?: Int32Array;
}

function round(on: KernelDevice, { type, weights, width, group, scales, factor, order }: Rounded): Uint8Array {
  return filled(
    on,
    new Uint8Array(weights.length),
    [weights, scales, factor, order],
    (out, [x, steps, fed, places]) => ({
      op: "roundToScales",
      operands: {
        out,
        x: x!,
        scales: steps!,
        factor: fed!,
        order: places!,
        numRows: weights.length / width,
        width,
        group,
        type,
      },
    }),
  );
}

type Recorded = {
  [Name in "encodeRows" | "roundToScales"]: { readonly op: Name; readonly operands: OperandsOf<Name> };
}["encodeRows" | "roundToScales"];

/** Runs one operation that fills `bytes`. @param inputs undefined: none */
function filled(
  on: KernelDevice,
  bytes: Uint8Array,
  inputs: readonly (Float32Array | Int32Array | undefined)[],
  record: (out: BufferHandle, inputs: readonly BufferHandle[]) => Recorded,
): Uint8Array {
  const out = on.allocate(bytes.byteLength);
  const handles = inputs.map((values) => {
    if (values === undefined) return NO_BUFFER;
    const handle = on.allocate(values.byteLength);
    on.write(handle, 0, new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    return handle;
  });
  const program = new Program();
  const recorded = record(out, handles);
  if (recorded.op === "encodeRows") program.record(recorded.op, recorded.operands);
  else program.record(recorded.op, recorded.operands);
  on.submit(program.words, program.numWords);
  on.read(out, 0, bytes);
  for (const buffer of [out, ...handles]) if (buffer !== NO_BUFFER) on.release(buffer);
  return bytes;
}

const decoded = (type: BlockType, bytes: Uint8Array, count: number): Float32Array => dequantizeRow(type, bytes, count);

const errorOf = (x: Float32Array, y: Float32Array, weight: (index: number) => number = () => 1): number =>
  x.reduce((sum, value, index) => sum + weight(index) * (value - y[index]!) ** 2, 0);

/**
 * Σ error² ÷ Σ x² of normal values. GGML's own encoders lose 1.05 to 1.3 times as much (llama.cpp of node-llama-cpp
 * 3.22.1, without importance).
 */
const REACHED: Readonly<Record<BlockType, number>> = {
  Q8_0: 2.5e-5,
  Q6_K: 2.9e-4,
  Q5_K: 1.24e-3,
  Q5_1: 1.2e-3,
  Q5_0: 1.7e-3,
  Q4_K: 5.05e-3,
  Q4_1: 5.0e-3,
  Q4_0: 6.9e-3,
  IQ4_NL: 5.65e-3,
  IQ4_XS: 5.75e-3,
  MXFP4: 1.27e-2,
  Q3_K: 2.15e-2,
  Q2_K: 7.1e-2,
};

test.each(BLOCK_TYPES)("%s loses no more of normal values than a search should", (type) => {
  const x = normals(16 * 512, 1).map((value) => 0.02 * value);
  const error = errorOf(x, decoded(type, encode(device, type, x, 512), x.length));
  const share = error / errorOf(x, new Float32Array(x.length));
  expect(share).toBeLessThan(REACHED[type]);
  expect(share).toBeGreaterThan(REACHED[type] / 2);
});

test.each(BLOCK_TYPES)("%s: the bytes are the same on every instruction set, and in rows of any number", (type) => {
  const x = normals(6 * 512, 2).map((value, index) => (index % 97 === 0 ? 40 * value : value));
  const importance = normals(512, 3).map((value) => value * value + 1e-3);
  const expected = encode(device, type, x, 512, importance);
  for (const other of devices) expect(encode(other, type, x, 512, importance)).toEqual(expected);
  const row = rowByteLength(type, 512)!;
  expect(encode(device, type, x.slice(512, 1024), 512, importance)).toEqual(expected.slice(row, 2 * row));
});

test.each(BLOCK_TYPES)("%s: columns of importance lose less, others more", (type) => {
  const x = normals(8 * 512, 4);
  const importance = Float32Array.from({ length: 512 }, (_, c) => (c % 8 === 0 ? 50 : 1));
  const weight = (index: number): number => importance[index % 512]!;
  const [plain, weighted] = [encode(device, type, x, 512), encode(device, type, x, 512, importance)].map((bytes) =>
    errorOf(x, decoded(type, bytes, x.length), weight),
  );
  // Levels of Q8_0 are too fine to be shifted by much, and MXFP4 has few scales to choose from.
  expect(weighted! / plain!).toBeLessThan(type === "Q8_0" || type === "MXFP4" ? 1 : 0.97);
});

test.each(BLOCK_TYPES)("%s: zeros, single values, tiny, large and constant rows come back", (type) => {
  const width = 256;
  const rows = {
    zeros: new Float32Array(width),
    one: Float32Array.from({ length: width }, (_, c) => (c === 100 ? -3 : 0)),
    tiny: normals(width, 5).map((value) => 1e-30 * value),
    large: normals(width, 6).map((value) => 1e4 * value),
    constant: new Float32Array(width).fill(0.7),
    negative: normals(width, 7).map((value) => -Math.abs(value) - 1),
    positive: normals(width, 8).map((value) => Math.abs(value) + 1),
  };
  const loss = REACHED[type];
  for (const [name, x] of Object.entries(rows)) {
    const y = decoded(type, encode(device, type, x, width), width);
    expect({ name, finite: y.every(Number.isFinite) }).toEqual({ name, finite: true });
    const share = errorOf(x, y) / Math.max(1e-20, errorOf(x, new Float32Array(width)));
    if (name === "zeros" || name === "tiny") expect(Math.max(...y.map(Math.abs))).toBeLessThan(1e-20);
    else expect({ name, within: share < 3 * loss + 1e-6 }).toEqual({ name, within: true });
  }
});

/** Inputs whose neighbouring columns vary together, as those of trained models do. */
function inputs(numRows: number, width: number): Float32Array {
  const own = normals(numRows * width, 11);
  return own.map((value, at) => value + (at % width === 0 ? 0 : 1.5 * own[at - 1]!));
}

/** The factor of the inputs' Gram matrix, and a measure of the error of products with them. */
function factorOf(on: KernelDevice, x: Float32Array, width: number): Float32Array {
  const [rows, gram] = [on.allocate(x.byteLength), on.allocate(4 * width * width)];
  on.write(rows, 0, new Uint8Array(x.buffer));
  const program = new Program();
  program.record("addGram", { gram, x: rows, numRows: x.length / width, width });
  program.record("factorise", { gram, width, damping: 0.01 });
  on.submit(program.words, program.numWords);
  const factor = new Float32Array(width * width);
  on.read(gram, 0, new Uint8Array(factor.buffer));
  for (const buffer of [rows, gram]) on.release(buffer);
  return factor;
}

/** Mean square of the products of inputs with the weights' errors. */
function productError(x: Float32Array, weights: Float32Array, stored: Float32Array, width: number): number {
  let sum = 0;
  for (let row = 0; row < weights.length; row += width) {
    for (let input = 0; input < x.length; input += width) {
      let product = 0;
      for (let c = 0; c < width; c++) product += x[input + c]! * (weights[row + c]! - stored[row + c]!);
      sum += product ** 2;
    }
  }
  return sum;
}

test.each(BLOCK_TYPES)("%s: with feedback products err less, and without any the bytes are the nearest's", (type) => {
  const width = 512;
  const [weights, x] = [normals(19 * width, 12), inputs(600, width)];
  const nearest = encode(device, type, weights, width);
  expect(encode(device, type, weights, width, undefined, new Float32Array(width * width))).toEqual(nearest);
  const factor = factorOf(device, x, width);
  const fed = encode(device, type, weights, width, undefined, factor);
  const errorWith = (bytes: Uint8Array) => productError(x, weights, decoded(type, bytes, weights.length), width);
  // The scales of Q2_K are so coarse that they take part of the gain away.
  expect(errorWith(fed) / errorWith(nearest)).toBeLessThan(type === "Q2_K" ? 0.8 : 0.6);
  // Rows do not depend on others of their tile.
  const row = rowByteLength(type, width)!;
  const some = encode(device, type, weights.slice(3 * width, 5 * width), width, undefined, factor);
  expect(some).toEqual(fed.slice(3 * row, 5 * row));
});

const LEVELS: Readonly<Record<ScaledType, (code: number) => number>> = {
  int4: (code) => code - 8,
  int8: (code) => (code << 24) >> 24,
  e4m3: (code) => (code < 128 ? 1 : -1) * E4M3[code & 127]!,
  e2m1: (code) => (code < 8 ? 1 : -1) * E2M1[code & 7]!,
};

test.each(SCALED_TYPES)("%s over scales: with feedback products err less on every instruction set", (type) => {
  const [width, group] = [200, 40];
  const [weights, x] = [normals(21 * width, 13), inputs(300, width)];
  const scales = new Float32Array(weights.length / group).fill({ int4: 0.4, int8: 0.03, e4m3: 0.01, e2m1: 0.5 }[type]);
  for (const on of devices) {
    const factor = factorOf(on, x, width);
    const [fed, nearest, zero] = [factor, undefined, new Float32Array(width * width)].map((each) =>
      round(on, { type, weights, width, group, scales, factor: each }),
    );
    expect(zero).toEqual(nearest);
    const errorWith = (codes: Uint8Array) =>
      productError(
        x,
        weights,
        Float32Array.from(codes, (code) => scales[0]! * LEVELS[type](code)),
        width,
      );
    expect(errorWith(fed!) / errorWith(nearest!)).toBeLessThan(0.6);
    // In another order of columns the same values come in the same places.
    const order = Int32Array.from({ length: width }, (_, place) => (place * 7) % width);
    const moved = <Values extends Float32Array | Uint8Array>(values: Values, to: Values): Values => {
      for (const at of values.keys()) to[at] = values[at - (at % width) + order[at % width]!]!;
      return to;
    };
    const inputsMoved = moved(x, new Float32Array(x.length));
    const factorMoved = factorOf(on, inputsMoved, width);
    const all = { type, width, factor: factorMoved };
    const ordered = round(on, { ...all, weights, group, scales, order });
    const weightsMoved = moved(weights, new Float32Array(weights.length));
    const evenScales = new Float32Array(weights.length).fill(scales[0]!);
    const plain = round(on, { ...all, weights: weightsMoved, group: 1, scales: evenScales });
    expect(moved(ordered, new Uint8Array(ordered.length))).toEqual(plain);
  }
});

test("rows of no whole number of blocks are refused", () => {
  const buffer = device.allocate(4096);
  const program = new Program();
  program.record("encodeRows", { out: buffer, x: device.allocate(4096), numRows: 1, width: 288, type: "Q4_K" });
  expect(() => device.submit(program.words, program.numWords)).toThrow(
    /encodeRows: expected width to be a multiple of 256, got 288/,
  );
});
