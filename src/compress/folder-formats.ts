/**
 * Quantising methods for Hugging Face folders: each one's storage of a layer, and its config.json entry. vLLM, SGLang
 * and TGI read all of them, TensorRT-LLM those of FP8 (docs/guides/quantize.md). Layouts: the packages
 * compressed-tensors 0.12, AutoAWQ and GPTQModel; DeepSeek-V3's blocks; ModelOpt's file. `src/model/hf/quantized` reads
 * them.
 */
import type { Feedback, RowEncoder } from "../backend/backend.js";
import type { ScaledType } from "../backend/ops.js";
import { compressedConfig, nvfp4Config, nvfp4Parts } from "../convert/weights/compressed-tensors.js";
import { type LayerStorage, type ModelTensor, valuesOf } from "../convert/weights/tensors.js";
import { MillraceError } from "../core/errors.js";
import { packageVersion } from "../core/package-root.js";
import { E2M1_GRID, E4M3 } from "../formats/dequantize.js";
import type { PlainType } from "../formats/files/plain-values.js";
import { AWQ_PLACES } from "../model/hf/quantized/packed-words.js";
import { type Rounding, weightsOf } from "./error-feedback.js";
import type { FusedMatrices } from "./fused-matrices.js";
import { FP4_GROUP, fp4Scales, groupScales, rowScales, squareScales, tensorScale } from "./scales.js";

export const LAYOUTS = ["compressed-tensors", "awq", "gptq"] as const;
export type Layout = (typeof LAYOUTS)[number];

interface FolderRecipe {
  readonly kind: "fp8" | "fp8 blocks" | "fp8 tensor" | "int8" | "int4" | "nvfp4";
  /** Columns of a row that share a scale; absent: all. */
  readonly group?: number;
}

/** Largest first. */
const RECIPES = {
  INT8: { kind: "int8" },
  FP8: { kind: "fp8" },
  FP8_BLOCK: { kind: "fp8 blocks" },
  FP8_TENSOR: { kind: "fp8 tensor" },
  INT4_32: { kind: "int4", group: 32 },
  NVFP4: { kind: "nvfp4", group: FP4_GROUP },
  INT4_64: { kind: "int4", group: 64 },
  INT4_128: { kind: "int4", group: 128 },
} as const satisfies Readonly<Record<string, FolderRecipe>>;

export type FolderMethod = keyof typeof RECIPES;
export const FOLDER_METHODS = Object.keys(RECIPES) as readonly FolderMethod[];

export const isFolderMethod = (method: string): method is FolderMethod => method in RECIPES;

/** Rows and columns that share a scale in DeepSeek's layout. */
const SQUARE = 128;

/**
 * Linear layers within a model's blocks; embeddings, the output matrix, routers, and gates of recurrent states stay
 * plain.
 */
const LINEAR =
  /^blk\.\d+\.(attn_(q|k|v|qkv|gate|output)|ssm_(in|out)|shortconv\.(in|out)_proj|ffn_(gate|up|down)(_exps|_shexp)?)\.weight$/;

/** A layer's codes and scales, and the values that they represent. */
interface Coded {
  readonly type: ScaledType;
  readonly codes: Uint8Array;
  /** The stored scales. */
  readonly scales: Uint8Array | Uint16Array | Float32Array;
  /** The value of the scale of each `group` columns of a row. */
  readonly perGroup: Float32Array;
  readonly group: number;
  /** NVFP4's divisor of the stored scales. */
  readonly divisor?: number;
}

/** Parameters of rounding rows. `weights` are those of the columns' squared errors; undefined: equal. */
interface RowsRounding {
  readonly encoder: RowEncoder;
  readonly weights: Float32Array | undefined;
  readonly feedback?: Feedback | undefined;
  /**
   * Largest magnitude among all values that share a scale or divisor of the matrix; absent: the largest of the rounded
   * values.
   */
  readonly largest?: number | undefined;
}

/** @param values f32 [rows, cols] */
function codesOf(
  { kind, group }: FolderRecipe,
  plain: PlainType,
  values: Float32Array,
  cols: number,
  { encoder, weights, feedback, largest }: RowsRounding,
): Coded {
  const coded = (type: ScaledType, scales: Coded["scales"], perGroup: Float32Array, width: number): Coded => {
    const codes = encoder.round(type, values, cols, perGroup, width, feedback);
    return { type, codes, scales, perGroup, group: width };
  };
  switch (kind) {
    case "int8":
    case "fp8": {
      const type = kind === "fp8" ? "e4m3" : "int8";
      const scales = rowScales(values, cols, type);
      return coded(type, scales, scales, cols);
    }
    case "fp8 blocks": {
      const scales = squareScales(values, cols, SQUARE);
      const perRow = cols / SQUARE;
      const ofRows = Float32Array.from({ length: values.length / SQUARE }, (_, at) => {
        const row = Math.floor(at / perRow);
        return scales[Math.floor(row / SQUARE) * perRow + (at % perRow)]!;
      });
      return coded("e4m3", scales, ofRows, SQUARE);
    }
    case "fp8 tensor": {
      const scale = tensorScale(values, largest);
      return coded("e4m3", Float32Array.of(scale), new Float32Array(values.length / cols).fill(scale), cols);
    }
    case "int4": {
      const scales = groupScales(values, cols, group!, plain, weights);
      return coded("int4", scales.stored, scales.values, group!);
    }
    case "nvfp4": {
      const { stored, values: perGroup, divisor } = fp4Scales(values, cols, weights, largest);
      return { ...coded("e2m1", stored, perGroup, group!), divisor };
    }
  }
}

/**
 * Rows of a layer with each value rounded to the nearest.
 * @param values f32 [rows, cols]; for FP8_BLOCK whole squares
 */
export function roundedAs(
  method: FolderMethod,
  plain: PlainType,
  values: Float32Array,
  cols: number,
  rounding: RowsRounding,
): Float32Array {
  const { type, codes, perGroup, group } = codesOf(RECIPES[method], plain, values, cols, rounding);
  const levelOf = LEVELS[type];
  return Float32Array.from(codes, (code, at) => levelOf(code) * perGroup[Math.floor(at / group)]!);
}

/** Number that a code represents. */
const LEVELS: Readonly<Record<ScaledType, (code: number) => number>> = {
  e4m3: (code) => E4M3[code]!,
  int8: (code) => (code << 24) >> 24,
  int4: (code) => code - 8,
  e2m1: (code) => E2M1_GRID[code]! / 2,
};

/** Whether the method quantises the layer. */
export function takesLayer(method: FolderMethod, { name, shape: [rows, cols] }: ModelTensor): boolean {
  const { kind, group }: FolderRecipe = RECIPES[method];
  if (cols === undefined || !LINEAR.test(name)) return false;
  // This engine's kernels read NVFP4 in blocks of four groups.
  return group === undefined || (cols % (kind === "nvfp4" ? 4 * group : group) === 0 && rows % 8 === 0);
}

/**
 * @param plain type of the unquantised matrices, and of four-bit scales
 * @param fused fused matrices of the model
 */
export function layerStorage(
  method: FolderMethod,
  layout: Layout,
  plain: PlainType,
  rounding: Rounding,
  fused: FusedMatrices,
): LayerStorage {
  const recipe: FolderRecipe = RECIPES[method];
  const { kind, group } = recipe;
  const hasOneScale = kind === "fp8 tensor" || kind === "nvfp4";
  const peaks = kind === "fp8 tensor" ? rounding.peaks : undefined;
  return {
    takes: (tensor) => takesLayer(method, tensor),
    partsOf: (rows, cols) => [
      ...PARTS[kind](rows, cols, group ?? cols, layout, plain),
      ...(peaks === undefined ? [] : [INPUT_SCALE]),
    ],
    encode: (source, tensor) => {
      const { encoder, feedback: errors } = rounding;
      const values = valuesOf(source, tensor);
      const cols = tensor.shape[1]!;
      const { name } = tensor;
      const weights = weightsOf(rounding, name, cols);
      const largest = hasOneScale ? fused.largest(tensor) : undefined;
      const coded = codesOf(recipe, plain, values, cols, { encoder, weights, feedback: errors?.of(name), largest });
      if (kind === "int4") return packed(layout, values.length / cols, cols, group!, coded);
      if (coded.divisor !== undefined)
        return [inPairs(coded.codes), bytesOf(coded.scales), bytesOf(Float32Array.of(coded.divisor))];
      const parts = [coded.codes, bytesOf(coded.scales)];
      if (peaks === undefined) return parts;
      return [...parts, bytesOf(Float32Array.of(peaks.scaleOf(name, rounding.mover?.moved.columnsOf(name))))];
    },
    configOf: (ignored) => configOf(kind, layout, group, peaks !== undefined, ignored),
    ...(peaks && { filesOf: (ignored: readonly string[]) => ({ [MODELOPT_NAME]: modelOptConfig(ignored) }) }),
  };
}

const INPUT_SCALE = { part: "input_scale", type: "F32", shape: [1] } as const;

/** Two columns' codes per byte, the first in the low half. */
const inPairs = (codes: Uint8Array): Uint8Array =>
  Uint8Array.from({ length: codes.length / 2 }, (_, i) => codes[2 * i]! | (codes[2 * i + 1]! << 4));

/** File in which NVIDIA's ModelOpt describes a quantised folder; TensorRT-LLM prefers it to config.json. */
const MODELOPT_NAME = "hf_quant_config.json";

const modelOptConfig = (ignored: readonly string[]): object => ({
  producer: { name: "millrace", version: packageVersion() },
  quantization: { quant_algo: "FP8", kv_cache_quant_algo: null, exclude_modules: ignored },
});

type Parts = ReturnType<LayerStorage["partsOf"]>;
type PartsOf = (rows: number, cols: number, group: number, layout: Layout, plain: PlainType) => Parts;

const PARTS: Readonly<Record<FolderRecipe["kind"], PartsOf>> = {
  int8: (rows, cols) => [
    { part: "weight", type: "I8", shape: [rows, cols] },
    { part: "weight_scale", type: "F32", shape: [rows, 1] },
  ],
  fp8: (rows, cols) => [
    { part: "weight", type: "F8_E4M3", shape: [rows, cols] },
    { part: "weight_scale", type: "F32", shape: [rows, 1] },
  ],
  "fp8 tensor": (rows, cols) => [
    { part: "weight", type: "F8_E4M3", shape: [rows, cols] },
    { part: "weight_scale", type: "F32", shape: [1] },
  ],
  "fp8 blocks": (rows, cols) => {
    assertWholeSquares(rows, cols);
    return [
      { part: "weight", type: "F8_E4M3", shape: [rows, cols] },
      { part: "weight_scale_inv", type: "F32", shape: [rows / SQUARE, cols / SQUARE] },
    ];
  },
  nvfp4: nvfp4Parts,
  int4: (rows, cols, group, layout, plain) => {
    const numGroups = cols / group;
    switch (layout) {
      case "compressed-tensors":
        return [
          { part: "weight_packed", type: "I32", shape: [rows, cols / 8] },
          { part: "weight_scale", type: plain, shape: [rows, numGroups] },
          { part: "weight_shape", type: "I64", shape: [2] },
        ];
      case "awq":
        return [
          { part: "qweight", type: "I32", shape: [cols, rows / 8] },
          { part: "scales", type: plain, shape: [numGroups, rows] },
          { part: "qzeros", type: "I32", shape: [numGroups, rows / 8] },
        ];
      case "gptq":
        return [
          { part: "qweight", type: "I32", shape: [cols / 8, rows] },
          { part: "scales", type: plain, shape: [numGroups, rows] },
          { part: "qzeros", type: "I32", shape: [numGroups, rows / 8] },
          { part: "g_idx", type: "I32", shape: [cols] },
        ];
    }
  },
};

/** Engines merge matrices, and cut them between devices at multiples of a square. */
function assertWholeSquares(rows: number, cols: number): void {
  if (rows % SQUARE === 0 && cols % SQUARE === 0) return;
  throw new MillraceError(
    "invalid_option",
    `expected matrices of whole squares of ${SQUARE} × ${SQUARE} for FP8_BLOCK, got one of ${rows} × ${cols}`,
    { hint: "use FP8, whose scales are for rows" },
  );
}

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);

/** The zero point is 8; the first version of GPTQ's layout stores one less. */
const EIGHTS = 0x8888_8888 | 0;
const SEVENS = 0x7777_7777;

/** @param codes 0 to 15 [rows, cols]; scales: bits of the plain type [rows, groups] */
function packed(
  layout: Layout,
  rows: number,
  cols: number,
  group: number,
  { codes, scales }: Pick<Coded, "codes" | "scales">,
): readonly Uint8Array[] {
  const numGroups = cols / group;
  const words = new Int32Array((rows * cols) / 8);
  if (layout === "compressed-tensors") {
    for (let at = 0; at < codes.length; at++) words[at >> 3]! |= codes[at]! << (4 * (at & 7));
    return [bytesOf(words), bytesOf(scales), bytesOf(BigInt64Array.of(BigInt(rows), BigInt(cols)))];
  }
  const transposed = scales.slice();
  for (let row = 0; row < rows; row++) {
    for (let g = 0; g < numGroups; g++) transposed[g * rows + row] = scales[row * numGroups + g]!;
  }
  const isAwq = layout === "awq";
  for (let row = 0, at = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++, at++) {
      if (isAwq) words[col * (rows / 8) + (row >> 3)]! |= codes[at]! << (4 * AWQ_PLACES[row & 7]!);
      else words[(col >> 3) * rows + row]! |= codes[at]! << (4 * (col & 7));
    }
  }
  const zeros = new Int32Array((numGroups * rows) / 8).fill(isAwq ? EIGHTS : SEVENS);
  const parts = [bytesOf(words), bytesOf(transposed), bytesOf(zeros)];
  if (isAwq) return parts;
  return [...parts, bytesOf(Int32Array.from({ length: cols }, (_, col) => Math.floor(col / group)))];
}

/** Names in compressed-tensors. */
const COMPRESSED = {
  int8: { format: "int-quantized", type: "int", strategy: "channel" },
  fp8: { format: "float-quantized", type: "float", strategy: "channel" },
  "fp8 tensor": { format: "float-quantized", type: "float", strategy: "tensor" },
  int4: { format: "pack-quantized", type: "int", strategy: "group" },
} as const satisfies Partial<Readonly<Record<FolderRecipe["kind"], object>>>;

function configOf(
  kind: FolderRecipe["kind"],
  layout: Layout,
  group: number | undefined,
  hasInputScales: boolean,
  ignored: readonly string[],
): object {
  if (kind === "fp8 blocks") {
    return {
      quant_method: "fp8",
      fmt: "e4m3",
      activation_scheme: "dynamic",
      weight_block_size: [SQUARE, SQUARE],
      modules_to_not_convert: ignored,
    };
  }
  if (kind === "int4" && layout === "awq") {
    return {
      quant_method: "awq",
      bits: 4,
      group_size: group,
      version: "gemm",
      zero_point: true,
      modules_to_not_convert: ignored,
    };
  }
  if (kind === "int4" && layout === "gptq") {
    return {
      quant_method: "gptq",
      bits: 4,
      group_size: group,
      desc_act: false,
      sym: true,
      lm_head: false,
      checkpoint_format: "gptq",
      // GPTQModel's list of layers with plain weights.
      dynamic: Object.fromEntries(
        ignored.flatMap((name) => (name === "lm_head" ? [] : [[`-:^${name.replaceAll(".", "\\.")}$`, {}]])),
      ),
    };
  }
  if (kind === "nvfp4") return nvfp4Config(ignored);
  const { format, type, strategy } = COMPRESSED[kind];
  const bits = group === undefined ? 8 : 4;
  const weights = { num_bits: bits, type, symmetric: true, strategy, group_size: group ?? null, dynamic: false };
  const scaled = hasInputScales ? { strategy: "tensor", dynamic: false } : { strategy: "token", dynamic: true };
  const activations = { num_bits: 8, type, symmetric: true, ...scaled };
  return compressedConfig(format, weights, bits === 4 ? null : activations, ignored);
}
