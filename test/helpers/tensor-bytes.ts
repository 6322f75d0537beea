/**
 * Encodes values as tensor blocks (F32, F16, BF16, Q8_0, Q4_0) and makes random blocks of the other types, for models
 * that tests write.
 */

import { BLOCK_LAYOUT, dequantizeRow, E4M3, type WeightType } from "../../src/formats/dequantize.js";
import type { TensorType } from "../../src/formats/gguf/types.js";

type WritableWeightType = "F32" | "F16" | "BF16" | "Q8_0" | "Q4_0";

/** Values per quantised block. */
const BLOCK_SIZE = 32;

const ENCODERS: Readonly<Record<WritableWeightType, (values: Float32Array) => Uint8Array>> = {
  F32: (values) => new Uint8Array(values.buffer, values.byteOffset, values.byteLength),
  F16: (values) => bytesOfHalves(values, halfBits),
  BF16: (values) => bytesOfHalves(values, truncatedBits),
  Q8_0: encodeQ8,
  Q4_0: encodeQ4,
};

/** By index: `Uint16Array.from` asks an iterator for every value, which takes ten times as long. */
function bytesOfHalves(values: Float32Array, bitsOf: (value: number) => number): Uint8Array {
  const halves = new Uint16Array(values.length);
  for (let index = 0; index < halves.length; index += 1) halves[index] = bitsOf(values[index]!);
  return new Uint8Array(halves.buffer);
}

/** The result may share memory with `values`; a quantised type wants a multiple of 32 values. */
export function encodeValues(type: WritableWeightType, values: Float32Array): Uint8Array {
  return ENCODERS[type](values);
}

export function isWritable(type: TensorType): type is WritableWeightType {
  return Object.hasOwn(ENCODERS, type);
}

/** Where a block of each type keeps its f16 scales; those of MXFP4 and NVFP4 are bytes: an exponent, E4M3. */
export const F16_SCALE_OFFSETS: Readonly<Partial<Record<WeightType, readonly number[]>>> = {
  Q8_0: [0],
  Q8_0_INT8: [0],
  Q4_0: [0],
  Q4_1: [0, 2],
  Q5_0: [0],
  Q5_1: [0, 2],
  Q2_K: [80, 82],
  Q3_K: [108],
  Q4_K: [0, 2],
  Q5_K: [0, 2],
  Q6_K: [208],
  IQ4_NL: [0],
  IQ4_XS: [0],
  MXFP4: [],
  NVFP4: [],
  NVFP4_SCALED: [],
  IQ2_XXS: [0],
  IQ2_XS: [0],
  IQ2_S: [0],
  IQ3_XXS: [0],
  IQ3_S: [0],
  IQ1_S: [0],
  IQ1_M: [48],
  TQ1_0: [52],
  TQ2_0: [64],
};

/** Writes an f16 scale of a block, given by its bits; IQ1_M has it in the upper halves of four bytes from there on. */
export function setF16Scale(type: WeightType, view: DataView, at: number, bits: number): void {
  if (type !== "IQ1_M") view.setUint16(at, bits, true);
  for (let i = 0; type === "IQ1_M" && i < 4; i++) {
    const place = at + 2 * i + 1;
    view.setUint8(place, (view.getUint8(place) & 15) | (((bits >> (4 * i)) & 15) << 4));
  }
}

/**
 * Blocks of a quantised type with random quanta whose values have the given root mean square (MXFP4: within a factor of
 * 1.5, its scales are powers of two; NVFP4: about, its scales are E4M3). `random` gives 32 bits at a time.
 */
export function randomBlocks(type: WeightType, numValues: number, random: () => number, rms: number): Uint8Array {
  const layout = BLOCK_LAYOUT[type];
  const bytes = new Uint8Array((numValues / layout.numValues) * layout.byteLength);
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = random() >>> 24;
  const view = new DataView(bytes.buffer);
  const setScales = (scale: number) => {
    for (let at = 0; at < bytes.length; at += layout.byteLength) {
      // From a bit that is in no type's f16 scales: both signs occur.
      const sign = (bytes[at + 4]! & 1) === 0 ? 1 : -1;
      for (const offset of F16_SCALE_OFFSETS[type] ?? []) {
        setF16Scale(type, view, at + offset, halfBits(sign * scale));
      }
      if (type === "MXFP4") bytes[at] = 127 + Math.round(Math.log2(scale));
      if (type === "NVFP4_SCALED") view.setFloat32(at, 0.5, true);
      if (type === "NVFP4") setE4m3Scales(bytes, at, scale);
      if (type === "NVFP4_SCALED") setE4m3Scales(bytes, at + 4, 2 * scale);
    }
  };
  setScales(1);
  const values = dequantizeRow(type, bytes, numValues);
  const unit = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / numValues);
  setScales(rms / unit);
  return bytes;
}

/** Scales of the four sixteens of a block of NVFP4, which differ from one another by a few steps. */
function setE4m3Scales(bytes: Uint8Array, at: number, scale: number): void {
  const nearest = E4M3.subarray(0, 123).findIndex((value) => value >= scale);
  for (let s = 0; s < 4; s++) bytes[at + s] = Math.max(1, nearest) + (bytes[at + 4 + 8 * s]! & 3);
}

const floatScratch = new Float32Array(1);
const bitsScratch = new Uint32Array(floatScratch.buffer);

/** Bits of the IEEE 754 half nearest to a float, ties to even. */
export function halfBits(value: number): number {
  floatScratch[0] = value;
  const bits = bitsScratch[0]!;
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fff_ffff;
  if (magnitude > 0x7f80_0000) return sign | 0x7e00;
  if (magnitude >= 0x4780_0000) return sign | 0x7c00;
  if (magnitude < 0x3880_0000) return sign | roundTiesToEven(Math.abs(floatScratch[0]!) * 2 ** 24);
  const rounded = magnitude + 0xfff + ((magnitude >>> 13) & 1);
  return sign | ((rounded - 0x3800_0000) >>> 13);
}

/** Bits of the bfloat16 next to a float towards zero. */
function truncatedBits(value: number): number {
  floatScratch[0] = value;
  return bitsScratch[0]! >>> 16;
}

function roundTiesToEven(value: number): number {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 === 1 ? rounded - 1 : rounded;
}

/** Per block: half scale, then 32 signed bytes. */
function encodeQ8(values: Float32Array): Uint8Array {
  const blockBytes = 2 + BLOCK_SIZE;
  const numBlocks = values.length / BLOCK_SIZE;
  const bytes = new Uint8Array(numBlocks * blockBytes);
  const view = new DataView(bytes.buffer);
  for (let block = 0; block < numBlocks; block += 1) {
    const first = block * BLOCK_SIZE;
    const at = block * blockBytes;
    const scale = Math.abs(extremeOf(values, first)) / 127;
    const stepsPerUnit = scale === 0 ? 0 : 1 / scale;
    view.setUint16(at, halfBits(scale), true);
    for (let index = 0; index < BLOCK_SIZE; index += 1) {
      // Modulo 256: two's complement.
      bytes[at + 2 + index] = Math.floor(values[first + index]! * stepsPerUnit + 0.5);
    }
  }
  return bytes;
}

/**
 * Per block: half scale, then 16 bytes; byte i holds value i in its low and value i + 16 in its high four bits, each
 * offset by 8.
 */
function encodeQ4(values: Float32Array): Uint8Array {
  const half = BLOCK_SIZE / 2;
  const blockBytes = 2 + half;
  const numBlocks = values.length / BLOCK_SIZE;
  const bytes = new Uint8Array(numBlocks * blockBytes);
  const view = new DataView(bytes.buffer);
  for (let block = 0; block < numBlocks; block += 1) {
    const first = block * BLOCK_SIZE;
    const at = block * blockBytes;
    // The extreme value becomes -8, which uses the whole range of the four bits.
    const scale = extremeOf(values, first) / -8;
    view.setUint16(at, halfBits(scale), true);
    const quantise = (value: number) => (scale === 0 ? 8 : Math.min(15, Math.max(0, Math.floor(value / scale + 8.5))));
    for (let index = 0; index < half; index += 1) {
      const low = quantise(values[first + index]!);
      const high = quantise(values[first + half + index]!);
      bytes[at + 2 + index] = low | (high << 4);
    }
  }
  return bytes;
}

/** The value of largest magnitude in a block, with its sign. */
function extremeOf(values: Float32Array, first: number): number {
  let extreme = 0;
  for (let index = first; index < first + BLOCK_SIZE; index += 1) {
    if (Math.abs(values[index]!) > Math.abs(extreme)) extreme = values[index]!;
  }
  return extreme;
}
