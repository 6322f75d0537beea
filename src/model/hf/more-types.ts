/** Rows of the table of kinds of models in `model-types.ts`: older families, and mixtures of experts of several makers. */
import type { ServedTraits, TypeTraits } from "./type-traits.js";

export const ANY: TypeTraits = { windows: "none", isTied: false, defaults: { rmsEps: 1e-6, ropeBase: 10_000 } };
export const LLAMA: ServedTraits = { ...ANY, architecture: "llama" };
const COHERE: ServedTraits = {
  ...LLAMA,
  architecture: "command-r",
  isTied: true,
  // Of Command R+.
  unservedKeys: ["use_qk_norm"],
  defaults: {
    rmsEps: 1e-5,
    ropeBase: 10_000,
    ffWidth: 22_528,
    numHeads: 64,
    maxPositions: 8192,
    vocabSize: 256_000,
  },
};
const GRANITE_MOE = {
  ...LLAMA,
  architecture: "granitemoe",
  experts: { count: 8, active: 2, width: 11_008, widthKey: "intermediate_size", hasChoice: false },
  defaults: { ...LLAMA.defaults, numHeads: 32, maxPositions: 2048, vocabSize: 32_000 },
} as const satisfies ServedTraits;

/** By `model_type`. */
export const MORE_TRAITS = {
  gemma: {
    architecture: "gemma",
    windows: "none",
    isTied: true,
    // Files that name the exact function mean its approximation by a tanh.
    activations: { gelu: "geluTanh", gelu_pytorch_tanh: "geluTanh" },
    defaults: {
      rmsEps: 1e-6,
      ropeBase: 10_000,
      ffWidth: 24_576,
      headDim: 256,
      numHeads: 16,
      numKvHeads: 16,
      maxPositions: 8192,
      vocabSize: 256_000,
    },
  },
  qwen2_moe: {
    ...LLAMA,
    architecture: "qwen2moe",
    // Of every second layer among the first ones.
    unservedKeys: ["use_sliding_window"],
    experts: {
      count: 60,
      active: 4,
      width: 1408,
      widthKey: "moe_intermediate_size",
      hasChoice: true,
      sharedWidth: 5632,
      sharedKey: "shared_expert_intermediate_size",
    },
    defaults: {
      ...LLAMA.defaults,
      ffWidth: 5632,
      numHeads: 16,
      numKvHeads: 16,
      maxPositions: 32_768,
      vocabSize: 151_936,
    },
  },
  granitemoe: GRANITE_MOE,
  granitemoeshared: { ...GRANITE_MOE, experts: { ...GRANITE_MOE.experts, sharedKey: "shared_intermediate_size" } },
  olmoe: {
    ...LLAMA,
    architecture: "olmoe",
    unservedKeys: ["clip_qkv"],
    experts: { count: 64, active: 8, width: 2048, widthKey: "intermediate_size", hasChoice: true },
    defaults: { rmsEps: 1e-5, ropeBase: 10_000, numHeads: 16, maxPositions: 4096, vocabSize: 50_304 },
  },
  dots1: {
    ...LLAMA,
    architecture: "dots1",
    windows: "late",
    experts: { count: 0, active: 1, width: 1408, widthKey: "moe_intermediate_size", hasChoice: true },
    defaults: {
      ...LLAMA.defaults,
      ffWidth: 10_944,
      numHeads: 32,
      numKvHeads: 32,
      maxPositions: 2048,
      window: 4096,
      vocabSize: 152_064,
    },
  },
  deepseek: {
    ...LLAMA,
    architecture: "deepseek",
    // It weighs them by softmax alone, and has them in each layer behind the dense ones.
    unservedKeys: ["attention_bias", "use_mla"],
    experts: { count: 0, active: 1, width: 1407, widthKey: "moe_intermediate_size", hasChoice: true },
    defaults: { ...LLAMA.defaults, ffWidth: 11_008, numHeads: 32, maxPositions: 2048, vocabSize: 102_400 },
  },
  internlm2: {
    ...LLAMA,
    architecture: "internlm2",
    unservedKeys: ["bias"],
    defaults: { ...LLAMA.defaults, ffWidth: 11_008, numHeads: 32, maxPositions: 2048, vocabSize: 103_168 },
  },
  cohere: COHERE,
  cohere2: { ...COHERE, architecture: "cohere2", windows: "period", defaults: { ...COHERE.defaults, window: 4096 } },
  stablelm: {
    ...LLAMA,
    architecture: "stablelm",
    // Of the 12B model.
    unservedKeys: ["qk_layernorm", "use_parallel_residual"],
    defaults: {
      rmsEps: 1e-5,
      ropeBase: 10_000,
      ffWidth: 6912,
      numHeads: 32,
      numKvHeads: 32,
      maxPositions: 4096,
      vocabSize: 50_304,
      rotatedShare: 0.25,
    },
  },
  starcoder2: {
    ...LLAMA,
    architecture: "starcoder2",
    windows: "all",
    isTied: true,
    defaults: {
      rmsEps: 1e-5,
      ropeBase: 10_000,
      ffWidth: 12_288,
      numHeads: 24,
      numKvHeads: 2,
      maxPositions: 4096,
      vocabSize: 49_152,
    },
  },
} as const satisfies Readonly<Record<string, ServedTraits>>;
