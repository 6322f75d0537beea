/** Geometry of packed weights and of the activations they are multiplied with; the layouts themselves are in native/cpu/kernels/packed.h. */
import type { WeightType } from "../../../formats/dequantize.js";
import type { ActivationFormat } from "../../ops.js";

interface PackedType {
  /** Columns of a cell, which has eight rows. */
  readonly cellValues: number;
  readonly cellBytes: number;
  readonly activations: ActivationFormat;
}

const PACKED_TYPES: Readonly<Partial<Record<WeightType, PackedType>>> = {
  Q8_0: { cellValues: 32, cellBytes: 272, activations: "row16" },
  Q8_0_INT8: { cellValues: 32, cellBytes: 272, activations: "centred32" },
  Q4_0: { cellValues: 32, cellBytes: 144, activations: "blocks32" },
  Q4_1: { cellValues: 32, cellBytes: 160, activations: "blocks32" },
  Q5_0: { cellValues: 32, cellBytes: 176, activations: "blocks32" },
  Q5_1: { cellValues: 32, cellBytes: 192, activations: "blocks32" },
  Q2_K: { cellValues: 256, cellBytes: 672, activations: "blocks256" },
  Q3_K: { cellValues: 256, cellBytes: 880, activations: "blocks256" },
  Q4_K: { cellValues: 256, cellBytes: 1152, activations: "blocks256" },
  Q5_K: { cellValues: 256, cellBytes: 1408, activations: "blocks256" },
  Q6_K: { cellValues: 256, cellBytes: 1680, activations: "blocks256" },
  IQ4_NL: { cellValues: 32, cellBytes: 144, activations: "row16" },
  IQ4_XS: { cellValues: 256, cellBytes: 1088, activations: "row16" },
  MXFP4: { cellValues: 32, cellBytes: 136, activations: "blocks32" },
};

const ROWS_PER_GROUP = 8;
const CACHE_LINE = 64;
const alignUp = (bytes: number) => Math.ceil(bytes / CACHE_LINE) * CACHE_LINE;

/** The format of the activations that a packed weight of `type` needs; undefined when the type has no packed form. */
export function packedActivations(type: WeightType): ActivationFormat | undefined {
  return PACKED_TYPES[type]?.activations;
}

/** Bytes of a packed matrix; cols is a multiple of the type's block. Throws nothing: undefined when the type has no packed form. */
export function packedByteLength(type: WeightType, rows: number, cols: number): number | undefined {
  const packed = PACKED_TYPES[type];
  if (packed === undefined) return undefined;
  return Math.ceil(rows / ROWS_PER_GROUP) * (cols / packed.cellValues) * packed.cellBytes;
}

/** Bytes of a row before its integers: scales and sums. */
export function activationHeaderBytes(format: Exclude<ActivationFormat, "f32">, cols: number): number {
  if (format === "blocks32" || format === "centred32") return alignUp((cols / 32) * 8);
  if (format === "blocks256") return alignUp((cols / 256) * BLOCK256_BYTES);
  return CACHE_LINE;
}

/** Bytes from one row of `cols` activations to the next. */
export function activationRowBytes(format: ActivationFormat, cols: number): number {
  if (format === "f32") return cols * 4;
  const bytes = activationHeaderBytes(format, cols) + cols * (format === "row16" ? 2 : 1);
  // An odd number of cache lines: rows side by side do not fall on the same cache sets.
  return (Math.ceil(bytes / CACHE_LINE) | 1) * CACHE_LINE;
}

/** f32 scale, i16 sums16[16], sums32[8], offsets16[32]: see packed.h. */
export const BLOCK256_BYTES = 116;
