/** Types of stored weights, keys and values: bytes, the arithmetic of their products, and the known loss of quality. */
import { FEW_BIT_IDS, FEW_BITS } from "./few-bits.js";

/** Number types of a device's arithmetic, each with its own peak. */
export type Arithmetic = "float16" | "fp8" | "int8" | "fp4" | "cpu4" | "cpu8" | "cpuFloat";

/** Evidence that others published. A model outside `of` may lose more. */
interface QualityGate {
  /** Mean score in percent of the unquantised model's: the least published figure; undefined: no score is known. */
  readonly recovery: number | undefined;
  /** Models that the evidence covers. */
  readonly of: readonly string[];
  /** The worst single figure of the evidence, in percent. */
  readonly lowest?: number;
  readonly evidence: string;
}

export const QUANTIZATION_IDS = [
  "bf16",
  "fp8",
  "int8",
  "awq",
  "nvfp4",
  "eetq",
  "nf4",
  "mxfp4",
  "q8_0",
  "q6_k",
  "q4_k_m",
  "q4_0",
  ...FEW_BIT_IDS,
  "file",
] as const;
export type QuantizationId = (typeof QUANTIZATION_IDS)[number];

export interface Quantization {
  readonly id: QuantizationId;
  readonly label: string;
  /** Bytes per weight of the layers, scales included. */
  readonly linearBytes: number;
  /** Bytes per weight of the embedding table and the output matrix. */
  readonly tableBytes: number;
  readonly arithmetic: Arithmetic;
  /** Share of the arithmetic's speed that remains after unpacking. */
  readonly computeFactor: number;
  /** Bytes of the layers in the embedded engine's memory, as a multiple of their bytes in the file; absent: 1. */
  readonly packedFactor?: number;
  /** Time to read the weights, as a multiple of the time that their bytes alone take; absent: 1. */
  readonly readFactor?: number;
  readonly gate: QualityGate;
}

const bits = (count: number): number => count / 8;

/**
 * Recovery in percent: means over task suites by the quantisers' authors. Tables stay at 16 bits in the GPU formats, as
 * in llm-compressor and AutoAWQ.
 */
export const QUANTIZATIONS: Readonly<Record<QuantizationId, Quantization>> = {
  bf16: {
    id: "bf16",
    label: "BF16",
    linearBytes: 2,
    tableBytes: 2,
    arithmetic: "float16",
    computeFactor: 1,
    gate: { recovery: 100, of: [], evidence: "as published: nothing is quantised" },
  },
  fp8: {
    id: "fp8",
    label: "FP8 (W8A8)",
    linearBytes: 1,
    tableBytes: 2,
    arithmetic: "fp8",
    computeFactor: 1,
    gate: {
      recovery: 99.9,
      of: ["llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b"],
      evidence: "lossless at 8B, 70B and 405B over 500,000 evaluations (arXiv 2411.02355)",
    },
  },
  int8: {
    id: "int8",
    label: "INT8 (W8A8)",
    linearBytes: 1,
    tableBytes: 2,
    arithmetic: "int8",
    computeFactor: 1,
    gate: {
      recovery: 99.4,
      of: ["llama-3.3-70b", "llama-3.1-8b"],
      lowest: 97,
      evidence: "Llama-3.3-70B 99.4 % of OpenLLM v1, Llama-3.1-8B 100.3 % (model cards); 1 to 3 % in arXiv 2411.02355",
    },
  },
  awq: {
    id: "awq",
    label: "AWQ INT4 (W4A16)",
    // 4 bits, a 16-bit scale and a 4-bit zero for 128 weights.
    linearBytes: bits(4 + 20 / 128),
    tableBytes: 2,
    arithmetic: "float16",
    // Marlin's products are 5 to 10 % slower than 16-bit ones.
    computeFactor: 0.92,
    gate: {
      recovery: 98.9,
      of: ["llama-3.1-8b", "llama-3.1-70b"],
      lowest: 93,
      evidence:
        "4 bits in groups of 128: Llama-3.1-8B 98.9 % of OpenLLM v1, 96.1 % of v2, 93.0 % of Arena-Hard; Llama-3.1-70B 99.4, 97.4 and 100.0 % (model cards); up to −59 % on long contexts (arXiv 2505.20276)",
    },
  },
  nvfp4: {
    id: "nvfp4",
    label: "NVFP4",
    linearBytes: bits(4.5),
    tableBytes: 2,
    arithmetic: "fp4",
    computeFactor: 1,
    gate: { recovery: undefined, of: [], evidence: "no gate result known here" },
  },
  eetq: {
    id: "eetq",
    label: "EETQ INT8 (W8A16)",
    linearBytes: 1,
    tableBytes: 2,
    arithmetic: "float16",
    computeFactor: 0.92,
    gate: { recovery: undefined, of: [], evidence: "no gate result known here" },
  },
  nf4: {
    id: "nf4",
    label: "NF4 (bitsandbytes)",
    // An 8-bit scale for 64 weights, and a 32-bit scale for 256 of these scales.
    linearBytes: bits(4 + 8 / 64 + 32 / (64 * 256)),
    tableBytes: 2,
    arithmetic: "float16",
    computeFactor: 0.92,
    // Assumed: as slow as 16 bits, since TGI's documentation calls bitsandbytes slower than FP16.
    readFactor: 16 / 4.13,
    gate: { recovery: undefined, of: [], evidence: "no gate result known here, and no faster than 16 bits" },
  },
  mxfp4: {
    id: "mxfp4",
    label: "MXFP4",
    linearBytes: bits(4.25),
    tableBytes: 2,
    arithmetic: "float16",
    computeFactor: 0.92,
    gate: { recovery: 100, of: [], evidence: "as published: the model was trained for it" },
  },
  q8_0: {
    id: "q8_0",
    label: "GGUF Q8_0",
    linearBytes: bits(8.5),
    tableBytes: bits(8.5),
    arithmetic: "cpu8",
    computeFactor: 1,
    gate: {
      recovery: 99.9,
      of: ["llama-3-8b"],
      evidence: "KL divergence 0.0014, same top token 97.7 % (llama.cpp's table)",
    },
  },
  q6_k: {
    id: "q6_k",
    label: "GGUF Q6_K",
    linearBytes: bits(6.5625),
    tableBytes: bits(6.5625),
    arithmetic: "cpu4",
    computeFactor: 0.85,
    gate: {
      recovery: 99.7,
      of: ["llama-3-8b"],
      evidence: "KL divergence 0.0055, same top token 96.0 % (llama.cpp's table)",
    },
  },
  q4_k_m: {
    id: "q4_k_m",
    label: "GGUF Q4_K_M",
    linearBytes: bits(4.83),
    tableBytes: bits(5.5),
    arithmetic: "cpu4",
    // A sixth of the weights is Q6_K, with 85 % of the others' speed in products
    // (docs/background/benchmarks/kernels.md).
    computeFactor: 0.97,
    gate: {
      recovery: 98.5,
      of: ["llama-3-8b"],
      evidence: "KL divergence 0.031, same top token 91.9 % (llama.cpp's table)",
    },
  },
  q4_0: {
    id: "q4_0",
    label: "GGUF Q4_0",
    linearBytes: bits(4.5),
    tableBytes: bits(5.5),
    arithmetic: "cpu4",
    computeFactor: 1,
    gate: {
      recovery: undefined,
      of: ["llama-3-8b"],
      evidence: "KL divergence 0.072, above the 4-bit gate of 0.05 (llama.cpp's table)",
    },
  },
  ...FEW_BITS,
  /** Stands for the type of a model's file; the file gives the bytes. */
  file: {
    id: "file",
    label: "as stored",
    linearBytes: 2,
    tableBytes: 2,
    arithmetic: "float16",
    computeFactor: 1,
    gate: { recovery: 100, of: [], evidence: "the model's file as it is" },
  },
};

export type KvTypeId = "16" | "fp8" | "int8";

export interface PlannedKvType {
  readonly id: KvTypeId;
  readonly label: string;
  /** Bytes of one vector of `width` keys or values, its scale included. */
  readonly vectorBytes: (width: number) => number;
  readonly evidence: string;
}

export const KV_TYPES: Readonly<Record<KvTypeId, PlannedKvType>> = {
  "16": {
    id: "16",
    label: "16 bits",
    vectorBytes: (width) => 2 * width,
    evidence: "as computed: nothing is lost",
  },
  fp8: {
    id: "fp8",
    label: "FP8 E4M3",
    vectorBytes: (width) => width,
    evidence: "one scale per tensor; calibrated scales advised (vLLM's documentation)",
  },
  int8: {
    id: "int8",
    label: "INT8, a scale per token and head",
    vectorBytes: (width) => width + 4,
    evidence: "8-bit K and V of an 8B model: KL divergence 0.001 (llama.cpp discussion 7412)",
  },
};
