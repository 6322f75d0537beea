/**
 * Packed weights and quantised activations in plain TypeScript. What is packed here keeps its rows: only the arithmetic
 * is the same.
 */

import { activationRowBytes, packedByteLength } from "../../src/backend/cpu/library/packing.js";
import { activationsOf } from "../../src/backend/cpu/product-type.js";
import type { ActivationFormat } from "../../src/backend/ops.js";
import type { Operands } from "./operands.js";
import type { ReadActivations, Work } from "./ops.js";

type Rounded = Exclude<ActivationFormat, "f32">;
type Quantized = Exclude<Rounded, "bf16">;

/** f32 scale, i16 sums16[16], sums32[8], offsets16[32]: see native/cpu/kernels/packed.h. */
const BLOCK256_BYTES = 116;
const CACHE_LINE = 64;
const alignUp = (bytes: number) => Math.ceil(bytes / CACHE_LINE) * CACHE_LINE;

/** Bytes of a row before its integers: scales and sums. */
function activationHeaderBytes(format: Quantized, cols: number): number {
  if (format in SUM_FACTORS) return alignUp((cols / BLOCK_OF[format]) * 8);
  if (format === "blocks256") return alignUp((cols / 256) * BLOCK256_BYTES);
  return CACHE_LINE;
}

/** Below this a block counts as zeros: the reciprocal of its step would overflow. */
const SMALLEST_MAXIMUM = Math.fround(1e-30);

const BLOCK_OF: Readonly<Record<Rounded, number>> = {
  blocks16: 16,
  blocks32: 32,
  centred32: 32,
  blocks256: 256,
  row16: 32,
  bf16: 1,
};

/** Of the sum beside each block's step d. */
const SUM_FACTORS: Readonly<Record<"blocks16" | "blocks32" | "centred32", (d: number) => number>> = {
  blocks16: () => 12,
  blocks32: (d) => Math.fround(8 * d),
  centred32: () => 128,
};

export function quantize(operands: Operands<"quantize">): Work {
  const numRows = operands.integer("numRows");
  const width = operands.integer("width", 1);
  const format = operands.code("format");
  const block = BLOCK_OF[format];
  if (width % block !== 0) operands.refuse("width", `a multiple of ${block}`, width);
  const rowBytes = activationRowBytes(format, width);
  const out = operands.bytes("out", 0, numRows * rowBytes);
  const x = operands.f32("x", numRows * width);
  return () => {
    for (let m = 0; m < numRows; m++) {
      quantizeRow(x.subarray(m * width, (m + 1) * width), out.subarray(m * rowBytes, (m + 1) * rowBytes), format);
    }
  };
}

export function quantizeRow(x: Float32Array, out: Uint8Array, format: Rounded): void {
  const row = new DataView(out.buffer, out.byteOffset, out.byteLength);
  if (format === "bf16") {
    x.forEach((value, k) => {
      row.setUint16(2 * k, numberToBf16(value), true);
    });
    return;
  }
  WRITERS[format](x, row, activationHeaderBytes(format, x.length));
}

/** Returns the step d and the integers of one block. */
function roundBlock(x: Float32Array, largest: number): { readonly d: number; readonly q: readonly number[] } {
  const maximum = x.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  if (!Number.isFinite(maximum)) return { d: Number.NaN, q: Array.from(x, () => 0) };
  if (maximum < SMALLEST_MAXIMUM) return { d: 0, q: Array.from(x, () => 0) };
  const inverse = Math.fround(largest / maximum);
  return { d: Math.fround(maximum / largest), q: Array.from(x, (value) => roundToEven(Math.fround(value * inverse))) };
}

function roundToEven(value: number): number {
  const down = Math.floor(value);
  const rest = value - down;
  if (rest !== 0.5) return rest < 0.5 ? down : down + 1;
  return down % 2 === 0 ? down : down + 1;
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

type RowWriter = (x: Float32Array, row: DataView, headerBytes: number) => void;

function smallBlocks(format: keyof typeof SUM_FACTORS): RowWriter {
  const block = BLOCK_OF[format];
  return (x, row, headerBytes) => {
    for (let k = 0; k < x.length; k += block) {
      const { d, q } = roundBlock(x.subarray(k, k + block), 127);
      row.setFloat32((k / block) * 8, d, true);
      row.setFloat32((k / block) * 8 + 4, SUM_FACTORS[format](d) * sum(q), true);
      q.forEach((value, i) => {
        row.setInt8(headerBytes + k + i, value);
      });
    }
  };
}

const WRITERS: Readonly<Record<Quantized, RowWriter>> = {
  blocks16: smallBlocks("blocks16"),
  blocks32: smallBlocks("blocks32"),
  centred32: smallBlocks("centred32"),
  blocks256(x, row, headerBytes) {
    for (let k = 0; k < x.length; k += 256) {
      const { d, q } = roundBlock(x.subarray(k, k + 256), 127);
      const at = (k / 256) * BLOCK256_BYTES;
      row.setFloat32(at, d, true);
      for (let s = 0; s < 16; s++) {
        const part = q.slice(16 * s, 16 * s + 16);
        row.setInt16(at + 4 + 2 * s, sum(part), true);
        for (const half of [0, 1]) {
          const columns = part.filter((_, i) => Math.floor(i / 2) % 2 === half);
          row.setInt16(at + 52 + 4 * s + 2 * half, -32 * sum(columns), true);
        }
      }
      for (let s = 0; s < 8; s++) row.setInt16(at + 36 + 2 * s, sum(q.slice(32 * s, 32 * s + 32)), true);
      q.forEach((value, i) => {
        row.setInt8(headerBytes + k + i, value);
      });
    }
  },
  row16(x, row, headerBytes) {
    const { d, q } = roundBlock(x, 32767);
    row.setFloat32(0, d, true);
    q.forEach((value, i) => {
      row.setInt16(headerBytes + 2 * i, value, true);
    });
  },
};

/** Where the step of column k is. */
const STEP_OFFSETS: Readonly<Record<Quantized, (k: number) => number>> = {
  blocks16: (k) => Math.floor(k / 16) * 8,
  blocks32: (k) => Math.floor(k / 32) * 8,
  centred32: (k) => Math.floor(k / 32) * 8,
  blocks256: (k) => Math.floor(k / 256) * BLOCK256_BYTES,
  row16: () => 0,
};

/** Rounds to nearest even. */
function numberToBf16(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0]!;
  if (Number.isNaN(value)) return 0x7fc0;
  const [low, rest] = [bits >>> 16, bits & 0xffff];
  return rest > 0x8000 || (rest === 0x8000 && low % 2 === 1) ? low + 1 : low;
}

const bfloatAt = (row: DataView, k: number): number =>
  new Float32Array(Uint32Array.of(row.getUint16(2 * k, true) << 16).buffer)[0]!;

/** d · q of column k. */
const quantizedAt =
  (format: Quantized, headerBytes: number) =>
  (row: DataView, k: number): number => {
    const q = format === "row16" ? row.getInt16(headerBytes + 2 * k, true) : row.getInt8(headerBytes + k);
    return row.getFloat32(STEP_OFFSETS[format](k), true) * q;
  };

/** The numbers that the rows stand for. */
export const readActivations: ReadActivations = (operands, x, weight, numRows) => {
  const format = activationsOf(weight.type, weight.isPacked) as Rounded;
  const rowBytes = activationRowBytes(format, weight.cols);
  const bytes = operands.bytes(x, 0, numRows * rowBytes);
  const columnOf = format === "bf16" ? bfloatAt : quantizedAt(format, activationHeaderBytes(format, weight.cols));
  return () => {
    const values = new Float64Array(numRows * weight.cols);
    for (let m = 0; m < numRows; m++) {
      const row = new DataView(bytes.buffer, bytes.byteOffset + m * rowBytes, rowBytes);
      for (let k = 0; k < weight.cols; k++) values[m * weight.cols + k] = columnOf(row, k);
    }
    return values;
  };
};

export function pack(operands: Operands<"pack">): Work {
  const weight = operands.rowWeight("weight");
  const numBytes = packedByteLength(weight.type, weight.rows, weight.cols);
  if (numBytes === undefined) return operands.refuse("weight", "of a type with a packed form", weight.type);
  const out = operands.bytes("out", operands.integer("byteOffset", 0, Number.MAX_SAFE_INTEGER), numBytes);
  return () => out.fill(0).set(weight.bytes);
}
