/** encodeRows: how close its blocks come to the values, on every instruction set of this CPU. */
import { afterAll, expect, test } from "vitest";
import { normals } from "../../../../test/reference/compare.js";
import { dequantizeRow, rowByteLength } from "../../../formats/dequantize.js";
import { NO_BUFFER } from "../../handles.js";
import { BLOCK_TYPES, type BlockType } from "../../ops.js";
import { Program } from "../../program.js";
import type { Isa, KernelDevice } from "./kernels.js";
import { loadKernels } from "./load.js";

const { avx2, avx512, avx512vnni, avx512bf16, neon, dotprod } = loadKernels().cpuFeatures();
const present: readonly (readonly [Isa, boolean])[] = [
  ["portable", true],
  ["avx2", avx2],
  ["avx512", avx512],
  ["avx512vnni", avx512vnni],
  ["avx512bf16", avx512bf16],
  ["neon", neon],
  ["neondot", dotprod],
];
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
): Uint8Array {
  const bytes = new Uint8Array((x.length / width) * rowByteLength(type, width)!);
  const buffers = [bytes, x, ...(importance === undefined ? [] : [importance])].map((values) => {
    const handle = on.allocate(Math.max(1, values.byteLength));
    on.write(handle, 0, new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    return handle;
  });
  const program = new Program();
  const [out, values, weights = NO_BUFFER] = buffers;
  program.record("encodeRows", { out: out!, x: values!, importance: weights, numRows: x.length / width, width, type });
  on.submit(program.words, program.numWords);
  on.read(out!, 0, bytes);
  for (const buffer of buffers) on.release(buffer);
  return bytes;
}

const decoded = (type: BlockType, bytes: Uint8Array, count: number): Float32Array => dequantizeRow(type, bytes, count);

const errorOf = (x: Float32Array, y: Float32Array, weight: (index: number) => number = () => 1): number =>
  x.reduce((sum, value, index) => sum + weight(index) * (value - y[index]!) ** 2, 0);

/** Σ error² ÷ Σ x² of normal values. GGML's own encoders lose 1.05 to 1.3 times as much (llama.cpp of node-llama-cpp 3.22.1, without importance). */
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

test("rows of no whole number of blocks are refused", () => {
  const buffer = device.allocate(4096);
  const program = new Program();
  program.record("encodeRows", { out: buffer, x: device.allocate(4096), numRows: 1, width: 288, type: "Q4_K" });
  expect(() => device.submit(program.words, program.numWords)).toThrow(
    /encodeRows: expected width to be a multiple of 256, got 288/,
  );
});
