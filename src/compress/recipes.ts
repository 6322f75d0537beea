/**
 * Quantising methods for GGUF files: the type of each matrix. Names and codes are llama.cpp's (`enum llama_ftype` of
 * llama.h).
 */
import type { BlockType } from "../backend/ops.js";
import type { ModelTensor } from "../convert/weights/tensors.js";
import { BLOCK_LAYOUT } from "../formats/dequantize.js";
import type { TensorType } from "../formats/gguf/types.js";

interface Recipe {
  /** llama.cpp's `general.file_type`. */
  readonly fileType: number;
  readonly base: BlockType;
  /**
   * Layers in which values and down projections get more bits, because they pass their errors on undamped; absent:
   * none.
   */
  readonly better?: { readonly type: BlockType; readonly layers: "all" | "some" | "first" };
}

/** Largest first. */
const RECIPES = {
  Q8_0: { fileType: 7, base: "Q8_0" },
  Q6_K: { fileType: 18, base: "Q6_K" },
  Q5_K_M: { fileType: 17, base: "Q5_K", better: { type: "Q6_K", layers: "some" } },
  Q5_K_S: { fileType: 16, base: "Q5_K" },
  Q5_1: { fileType: 9, base: "Q5_1" },
  Q5_0: { fileType: 8, base: "Q5_0" },
  Q4_K_M: { fileType: 15, base: "Q4_K", better: { type: "Q6_K", layers: "some" } },
  Q4_K_S: { fileType: 14, base: "Q4_K", better: { type: "Q5_K", layers: "first" } },
  Q4_1: { fileType: 3, base: "Q4_1" },
  Q4_0: { fileType: 2, base: "Q4_0" },
  IQ4_NL: { fileType: 25, base: "IQ4_NL" },
  IQ4_XS: { fileType: 30, base: "IQ4_XS", better: { type: "Q5_K", layers: "first" } },
  MXFP4: { fileType: 38, base: "MXFP4" },
  Q3_K_M: { fileType: 12, base: "Q3_K", better: { type: "Q4_K", layers: "all" } },
  Q3_K_S: { fileType: 11, base: "Q3_K" },
  Q2_K: { fileType: 10, base: "Q2_K", better: { type: "Q3_K", layers: "all" } },
} as const satisfies Readonly<Record<string, Recipe>>;

export type FileMethod = keyof typeof RECIPES;
export const FILE_METHODS = Object.keys(RECIPES) as readonly FileMethod[];

export const fileTypeOf = (method: FileMethod): number => RECIPES[method].fileType;

/** The file type of the first method with this base type; readers show it for a mixture. */
export function fileTypeNear(type: BlockType): number {
  const method = FILE_METHODS.find((each) => RECIPES[each].base === type);
  return fileTypeOf(method ?? "Q4_K_M");
}

/** The next larger type with 32 values per block, for rows that are not a multiple of 256 values. */
const NARROW: Partial<Readonly<Record<BlockType, BlockType>>> = {
  Q2_K: "IQ4_NL",
  Q3_K: "IQ4_NL",
  IQ4_XS: "IQ4_NL",
  Q4_K: "Q5_0",
  Q5_K: "Q5_1",
  Q6_K: "Q8_0",
};

/** Least type of the output matrix, all of whose rows determine the logits. */
const OUTPUT_TYPE = "Q6_K";

/**
 * Whether the matrix controls how fast states of recurrent layers decay and how much they absorb. Its errors would
 * accumulate over a text, and it only has one row per head.
 */
export const isStateGate = ({ name }: Pick<ModelTensor, "name">): boolean =>
  /\.ssm_(alpha|beta|ba)\.weight$/.test(name);

/**
 * The type for a matrix.
 * @param hasOutput whether the model has an output matrix beside its embeddings
 * @param numLayers of the model
 */
export function typeFor(method: FileMethod, tensor: ModelTensor, hasOutput: boolean, numLayers: number): TensorType {
  const { base, better }: Recipe = RECIPES[method];
  const cols = tensor.shape[1]!;
  const name = tensor.name.replace(/\.weight$/, "");
  if (name === (hasOutput ? "output" : "token_embd")) return fitting(base === "Q8_0" ? base : OUTPUT_TYPE, cols);
  if (isStateGate(tensor)) return "F16";
  const parts = /^blk\.(\d+)\.(attn_v|attn_qkv|ffn_down|ffn_down_exps|ffn_down_shexp)$/.exec(name);
  const isBetter = better !== undefined && parts !== null && hasMore(better.layers, Number(parts[1]), numLayers);
  return fitting(isBetter ? better.type : base, cols);
}

/** The first and the last eighth of the layers, and every third between them, as in llama.cpp's `use_more_bits`. */
function hasMore(layers: NonNullable<Recipe["better"]>["layers"], layer: number, numLayers: number): boolean {
  if (layers === "all") return true;
  const eighth = Math.floor(numLayers / 8);
  if (layers === "first") return layer < Math.max(1, eighth);
  return layer < eighth || layer >= Math.floor((7 * numLayers) / 8) || (layer - eighth) % 3 === 2;
}

/** The type itself, or the next larger one if rows are not a whole number of its blocks. */
export function fitting(type: BlockType, cols: number): TensorType {
  if (cols % BLOCK_LAYOUT[type].numValues === 0) return type;
  const narrow = NARROW[type];
  return narrow !== undefined && cols % BLOCK_LAYOUT[narrow].numValues === 0 ? narrow : "F16";
}
