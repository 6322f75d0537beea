/**
 * GGML's types of one to three bits (ggml-common.h): blocks of 256 values that are few multiples of a scale, most of
 * them chosen eight or four at a time from a codebook. A value is d · unit · multiple, where multiple is a small whole
 * number and d an f16; f32 holds each of these products, so their order rounds nothing.
 */
import { type GridName, gridDigits } from "./grids.js";

export type GridType = "IQ2_XXS" | "IQ2_XS" | "IQ2_S" | "IQ3_XXS" | "IQ3_S" | "IQ1_S" | "IQ1_M" | "TQ1_0" | "TQ2_0";

interface GridBlock {
  /** Of a block. */
  readonly byteLength: number;
  /**
   * Bytes of a block in the packed form: native/cpu/kernels/packed.h has a code for each value in place of the
   * codebook's indices.
   */
  readonly packedBytes: number;
  readonly unit: number;
  /** The bits of d, an f16, of the block at `at`. */
  readonly scaleBits: (bytes: DataView, at: number) => number;
  /** Writes the multiples of the block at `at` to `out[to]` and on. */
  readonly multiples: (bytes: DataView, at: number, out: Float32Array, to: number) => void;
}

const halfAt = (offset: number) => (bytes: DataView, at: number) => bytes.getUint16(at + offset, true);
const first = halfAt(0);

export const GRID_BLOCKS: Readonly<Record<GridType, GridBlock>> = {
  IQ2_XXS: { byteLength: 66, packedBytes: 102, unit: 1 / 8, scaleBits: first, multiples: iq2xxs },
  IQ2_XS: { byteLength: 74, packedBytes: 106, unit: 1 / 8, scaleBits: first, multiples: iq2xs },
  IQ2_S: { byteLength: 82, packedBytes: 106, unit: 1 / 8, scaleBits: first, multiples: iq2s },
  IQ3_XXS: { byteLength: 98, packedBytes: 134, unit: 1 / 4, scaleBits: first, multiples: iq3xxs },
  IQ3_S: { byteLength: 110, packedBytes: 134, unit: 1, scaleBits: first, multiples: iq3s },
  IQ1_S: { byteLength: 50, packedBytes: 70, unit: 1 / 8, scaleBits: first, multiples: iq1s },
  IQ1_M: { byteLength: 56, packedBytes: 106, unit: 1 / 8, scaleBits: iq1mScale, multiples: iq1m },
  TQ1_0: { byteLength: 54, packedBytes: 66, unit: 1, scaleBits: halfAt(52), multiples: tq1 },
  TQ2_0: { byteLength: 66, packedBytes: 66, unit: 1, scaleBits: halfAt(64), multiples: tq2 },
};

const IQ2_VALUES = [8, 25, 43] as const;
const IQ3_XXS_VALUES = [4, 12, 20, 28, 36, 44, 52, 62] as const;
const IQ3_S_VALUES = [1, 3, 5, 7, 9, 11, 13, 15] as const;
/** Eight times −1, 0 and 1: one more or one less is an eighth. */
const IQ1_EIGHTHS = [-8, 0, 8] as const;

const nibble = (bytes: DataView, at: number, i: number): number =>
  (bytes.getUint8(at + (i >> 1)) >> (4 * (i & 1))) & 15;

/** Eight signs, of which seven are stored: an even number of them is negative. */
function eightSigns(stored: number): number {
  let parity = 0;
  for (let rest = stored & 127; rest !== 0; rest >>= 1) parity ^= rest & 1;
  return (stored & 127) | (parity << 7);
}

/**
 * Eight values of a point of the codebook, or four of each of two.
 * @param signs bit i is set where value i is negative
 */
function writePoints(
  { grid, values }: { readonly grid: GridName; readonly values: readonly number[] },
  indices: readonly number[],
  { signs, step }: { readonly signs: number; readonly step: number },
  out: Float32Array,
  to: number,
): void {
  const digits = gridDigits(grid);
  const width = 8 / indices.length;
  for (let i = 0; i < 8; i++) {
    const value = values[digits[width * indices[Math.floor(i / width)]! + (i % width)]!]!;
    out[to + i] = ((signs >> i) & 1) === 0 ? step * value : -step * value;
  }
}

const IQ2_XXS_POINTS = { grid: "IQ2_XXS", values: IQ2_VALUES } as const;
const IQ2_XS_POINTS = { grid: "IQ2_XS", values: IQ2_VALUES } as const;
const IQ2_S_POINTS = { grid: "IQ2_S", values: IQ2_VALUES } as const;
const IQ3_XXS_POINTS = { grid: "IQ3_XXS", values: IQ3_XXS_VALUES } as const;
const IQ3_S_POINTS = { grid: "IQ3_S", values: IQ3_S_VALUES } as const;

/** f16 d; per 32 values four indices, then four times seven signs and a scale of four bits. */
function iq2xxs(bytes: DataView, at: number, out: Float32Array, to: number): void {
  for (let i = 0; i < 32; i++) {
    const group = at + 2 + 8 * (i >> 2);
    const word = bytes.getUint32(group + 4, true);
    const scaled = { signs: eightSigns(word >>> (7 * (i & 3))), step: 2 * (word >>> 28) + 1 };
    writePoints(IQ2_XXS_POINTS, [bytes.getUint8(group + (i & 3))], scaled, out, to + 8 * i);
  }
}

/** f16 d; u16[32]: an index of nine bits, seven signs; 16 scales of four bits. */
function iq2xs(bytes: DataView, at: number, out: Float32Array, to: number): void {
  for (let i = 0; i < 32; i++) {
    const word = bytes.getUint16(at + 2 + 2 * i, true);
    const scaled = { signs: eightSigns(word >> 9), step: 2 * nibble(bytes, at + 66, i >> 1) + 1 };
    writePoints(IQ2_XS_POINTS, [word & 511], scaled, out, to + 8 * i);
  }
}

/** f16 d; 32 bytes of indices; 32 bytes of signs; the indices' upper two bits; 16 scales of four bits. */
function iq2s(bytes: DataView, at: number, out: Float32Array, to: number): void {
  for (let i = 0; i < 32; i++) {
    const upper = (bytes.getUint8(at + 66 + (i >> 2)) >> (2 * (i & 3))) & 3;
    const scaled = { signs: bytes.getUint8(at + 34 + i), step: 2 * nibble(bytes, at + 74, i >> 1) + 1 };
    writePoints(IQ2_S_POINTS, [bytes.getUint8(at + 2 + i) | (upper << 8)], scaled, out, to + 8 * i);
  }
}

/** f16 d; 64 indices; per 32 values four times seven signs and a scale of four bits. */
function iq3xxs(bytes: DataView, at: number, out: Float32Array, to: number): void {
  for (let i = 0; i < 32; i++) {
    const word = bytes.getUint32(at + 66 + 4 * (i >> 2), true);
    const indices = [bytes.getUint8(at + 2 + 2 * i), bytes.getUint8(at + 3 + 2 * i)];
    const scaled = { signs: eightSigns(word >>> (7 * (i & 3))), step: 2 * (word >>> 28) + 1 };
    writePoints(IQ3_XXS_POINTS, indices, scaled, out, to + 8 * i);
  }
}

/** f16 d; 64 bytes of indices; their ninth bits; 32 bytes of signs; eight scales of four bits. */
function iq3s(bytes: DataView, at: number, out: Float32Array, to: number): void {
  const index = (i: number) =>
    bytes.getUint8(at + 2 + i) | (((bytes.getUint8(at + 66 + (i >> 3)) >> (i & 7)) & 1) << 8);
  for (let i = 0; i < 32; i++) {
    const scaled = { signs: bytes.getUint8(at + 74 + i), step: 2 * nibble(bytes, at + 106, i >> 2) + 1 };
    writePoints(IQ3_S_POINTS, [index(2 * i), index(2 * i + 1)], scaled, out, to + 8 * i);
  }
}

/** Eight values of a point, each an eighth less or more. */
function writeEighths(index: number, isLess: boolean, step: number, out: Float32Array, to: number): void {
  const digits = gridDigits("IQ1_S");
  for (let i = 0; i < 8; i++) out[to + i] = step * (IQ1_EIGHTHS[digits[8 * index + i]!]! + (isLess ? -1 : 1));
}

/**
 * f16 d; 32 bytes of indices; u16[8], one for 32 values: the upper three bits of four indices, a scale of three bits,
 * and the sign of the eighth.
 */
function iq1s(bytes: DataView, at: number, out: Float32Array, to: number): void {
  for (let i = 0; i < 32; i++) {
    const word = bytes.getUint16(at + 34 + 2 * (i >> 2), true);
    const index = bytes.getUint8(at + 2 + i) | (((word >> (3 * (i & 3))) & 7) << 8);
    writeEighths(index, word >> 15 !== 0, 2 * ((word >> 12) & 7) + 1, out, to + 8 * i);
  }
}

/** d is in the upper four bits of the four u16 that hold the scales. */
function iq1mScale(bytes: DataView, at: number): number {
  const upper = (i: number) => (bytes.getUint16(at + 48 + 2 * i, true) >> 12) << (4 * i);
  return upper(0) | upper(1) | upper(2) | upper(3);
}

/**
 * 32 bytes of indices; 32 nibbles: the index' upper three bits, and the sign of the eighth; u16[4]: four scales of
 * three bits, one for 16 values.
 */
function iq1m(bytes: DataView, at: number, out: Float32Array, to: number): void {
  for (let i = 0; i < 32; i++) {
    const upper = nibble(bytes, at + 32, i);
    const scale = (bytes.getUint16(at + 48 + 2 * (i >> 3), true) >> (3 * ((i >> 1) & 3))) & 7;
    writeEighths(bytes.getUint8(at + i) | ((upper & 7) << 8), upper >> 3 !== 0, 2 * scale + 1, out, to + 8 * i);
  }
}

/** Runs of bytes: where each begins, its length, and how many values a byte holds. */
const TQ1_RUNS = [
  [0, 32, 5],
  [32, 16, 5],
  [48, 4, 4],
] as const;

/** 52 bytes, each a fraction of 256 with five digits to base 3, in the last four bytes four; f16 d. */
function tq1(bytes: DataView, at: number, out: Float32Array, to: number): void {
  let place = to;
  for (const [begin, length, numDigits] of TQ1_RUNS) {
    for (let digit = 0; digit < numDigits; digit++) {
      for (let i = 0; i < length; i++, place++) {
        out[place] = ((((bytes.getUint8(at + begin + i) * 3 ** digit) & 255) * 3) >> 8) - 1;
      }
    }
  }
}

/** 64 bytes of bit pairs as in Q2_K, f16 d. */
function tq2(bytes: DataView, at: number, out: Float32Array, to: number): void {
  for (let i = 0; i < 256; i++) {
    out[to + i] = ((bytes.getUint8(at + (i >> 7) * 32 + (i & 31)) >> (2 * ((i >> 5) & 3))) & 3) - 1;
  }
}
