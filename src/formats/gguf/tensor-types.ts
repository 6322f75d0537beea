/**
 * GGML's tensor types: ids, names and block sizes of those millrace reads, and the names of all the others for error
 * messages.
 */
import type { TensorType } from "./types.js";

export interface TensorTypeInfo {
  readonly id: number;
  readonly name: TensorType;
  /** Values per block. */
  readonly blockSize: number;
  /** Bytes per block. */
  readonly blockBytes: number;
}

/** Ids and sizes: ggml.h `enum ggml_type` and ggml-common.h block structures. */
export const TENSOR_TYPES: Readonly<Record<TensorType, TensorTypeInfo>> = {
  F32: { id: 0, name: "F32", blockSize: 1, blockBytes: 4 },
  F16: { id: 1, name: "F16", blockSize: 1, blockBytes: 2 },
  Q4_0: { id: 2, name: "Q4_0", blockSize: 32, blockBytes: 18 },
  Q4_1: { id: 3, name: "Q4_1", blockSize: 32, blockBytes: 20 },
  Q5_0: { id: 6, name: "Q5_0", blockSize: 32, blockBytes: 22 },
  Q5_1: { id: 7, name: "Q5_1", blockSize: 32, blockBytes: 24 },
  Q8_0: { id: 8, name: "Q8_0", blockSize: 32, blockBytes: 34 },
  Q2_K: { id: 10, name: "Q2_K", blockSize: 256, blockBytes: 84 },
  Q3_K: { id: 11, name: "Q3_K", blockSize: 256, blockBytes: 110 },
  Q4_K: { id: 12, name: "Q4_K", blockSize: 256, blockBytes: 144 },
  Q5_K: { id: 13, name: "Q5_K", blockSize: 256, blockBytes: 176 },
  Q6_K: { id: 14, name: "Q6_K", blockSize: 256, blockBytes: 210 },
  IQ4_NL: { id: 20, name: "IQ4_NL", blockSize: 32, blockBytes: 18 },
  IQ4_XS: { id: 23, name: "IQ4_XS", blockSize: 256, blockBytes: 136 },
  BF16: { id: 30, name: "BF16", blockSize: 1, blockBytes: 2 },
  MXFP4: { id: 39, name: "MXFP4", blockSize: 32, blockBytes: 17 },
  NVFP4: { id: 40, name: "NVFP4", blockSize: 64, blockBytes: 36 },
  IQ2_XXS: { id: 16, name: "IQ2_XXS", blockSize: 256, blockBytes: 66 },
  IQ2_XS: { id: 17, name: "IQ2_XS", blockSize: 256, blockBytes: 74 },
  IQ2_S: { id: 22, name: "IQ2_S", blockSize: 256, blockBytes: 82 },
  IQ3_XXS: { id: 18, name: "IQ3_XXS", blockSize: 256, blockBytes: 98 },
  IQ3_S: { id: 21, name: "IQ3_S", blockSize: 256, blockBytes: 110 },
  IQ1_S: { id: 19, name: "IQ1_S", blockSize: 256, blockBytes: 50 },
  IQ1_M: { id: 29, name: "IQ1_M", blockSize: 256, blockBytes: 56 },
  TQ1_0: { id: 34, name: "TQ1_0", blockSize: 256, blockBytes: 54 },
  TQ2_0: { id: 35, name: "TQ2_0", blockSize: 256, blockBytes: 66 },
};

const INFO_BY_ID: ReadonlyMap<number, TensorTypeInfo> = new Map(
  Object.values(TENSOR_TYPES).map((info) => [info.id, info]),
);

/** Types GGML defines and millrace has no kernels for ("removed" ones were withdrawn by GGML itself). */
const UNSUPPORTED_NAME_BY_ID: Readonly<Record<number, string>> = {
  4: "Q4_2 (removed)",
  5: "Q4_3 (removed)",
  9: "Q8_1",
  15: "Q8_K",
  24: "I8",
  25: "I16",
  26: "I32",
  27: "I64",
  28: "F64",
  31: "Q4_0_4_4 (removed)",
  32: "Q4_0_4_8 (removed)",
  33: "Q4_0_8_8 (removed)",
  36: "IQ4_NL_4_4 (removed)",
  37: "IQ4_NL_4_8 (removed)",
  38: "IQ4_NL_8_8 (removed)",
  41: "Q1_0",
};

export function tensorTypeById(id: number): TensorTypeInfo | undefined {
  return INFO_BY_ID.get(id);
}

/** Name of a type that `tensorTypeById` does not know; undefined when GGML does not know the id either. */
export function unsupportedTensorTypeName(id: number): string | undefined {
  return UNSUPPORTED_NAME_BY_ID[id];
}

/** Bytes of `numValues` values of a type; numValues is a multiple of the block size. */
export function tensorBytes(type: TensorType, numValues: number): number {
  const { blockSize, blockBytes } = TENSOR_TYPES[type];
  return (numValues / blockSize) * blockBytes;
}
