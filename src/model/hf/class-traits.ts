/**
 * The kinds of models that config.json files name, and what transformers' configuration class of each takes where a
 * file is silent. size: one table, a row for each kind
 */
import type { Activation } from "../../backend/ops.js";
import type { Architecture } from "../description/architectures.js";

export interface TypeTraits {
  /** Absent: the engine does not compute such models. */
  readonly architecture?: Architecture;
  /**
   * The layers with the sliding window where `layer_types` is absent. period: as the architecture's; whenUsed: from
   * max_window_layers on, if use_sliding_window; late: the same without the switch; allWhenUsed: all, if
   * use_sliding_window.
   */
  readonly windows: "none" | "all" | "period" | "whenUsed" | "late" | "allWhenUsed";
  readonly isTied: boolean;
  /** A config.json must state its rope: the class's default is not assumed. */
  readonly hasOwnRope?: true;
  /** `rotary_dim` says how many values of a head are rotated. */
  readonly statesRotatedDim?: true;
  /** Names of activations that a file may choose; absent: it may name the architecture's alone. */
  readonly activations?: Readonly<Record<string, Activation>>;
  /** Traits of an encoder. EmbeddingGemma has none, because it is read as the Gemma 3 that it is made of. */
  readonly encoder?: EncoderTraits;
  /** Absent: models of the class have none. */
  readonly experts?: ExpertTraits;
  /** Features of the class that would silently change the answers if they were ignored. */
  readonly unservedKeys?: readonly string[];
  readonly defaults: {
    readonly rmsEps: number;
    readonly ropeBase: number;
    readonly ffWidth?: number;
    readonly headDim?: number;
    readonly numHeads?: number;
    readonly numKvHeads?: number;
    readonly maxPositions?: number;
    readonly window?: number;
    readonly vocabSize?: number;
    readonly attentionScalar?: number;
    /** Width of heads in layers without a window, where these have their own. */
    readonly globalHeadDim?: number;
    readonly layerInputWidth?: number;
    /** Share of a head that is rotated. */
    readonly rotatedShare?: number;
  };
}

/** Experts of a class, where a config.json is silent. */
interface ExpertTraits {
  readonly count: number;
  readonly active: number;
  readonly width: number;
  /** The key of one expert's width. */
  readonly widthKey: string;
  /** The config.json says which layers have them, and whether their weights are relative to one another. */
  readonly hasChoice: boolean;
  /** With a choice, where the config.json is silent: weights are relative to one another. */
  readonly normalises?: true;
  /** Layers at the beginning that have none. */
  readonly numDenseLayers?: number;
  /** Width of the part that every token passes, in experts. */
  readonly numShared?: number;
  /** The key of that width, where it is stated in values, and the class's own; absent: a key that most classes have. */
  readonly sharedWidthKey?: string;
  readonly sharedWidth?: number;
  /** Of classes of an architecture that has either. */
  readonly scoring?: "softmax";
}

interface EncoderTraits {
  readonly epsKey: "layer_norm_eps" | "norm_eps";
  readonly numTokenTypes: number;
  /** The first position has the row after that of the padding token's number. */
  readonly isTablePadded?: true;
}

export interface ServedTraits extends TypeTraits {
  readonly architecture: Architecture;
}

/** Of a class whose config.json says which layers have them, and how they are weighed. */
const chosenExperts = (
  count: number,
  active: number,
  width: number,
  more: Partial<ExpertTraits> = {},
): ExpertTraits => ({
  count,
  active,
  width,
  widthKey: "moe_intermediate_size",
  hasChoice: true,
  ...more,
});

export const ANY: TypeTraits = { windows: "none", isTied: false, defaults: { rmsEps: 1e-6, ropeBase: 10_000 } };
const LLAMA: ServedTraits = { ...ANY, architecture: "llama" };
const GEMMA3: ServedTraits = {
  architecture: "gemma3",
  windows: "period",
  isTied: true,
  defaults: {
    rmsEps: 1e-6,
    ropeBase: 1_000_000,
    headDim: 256,
    numHeads: 8,
    numKvHeads: 4,
    maxPositions: 131_072,
    window: 4096,
    vocabSize: 262_208,
    attentionScalar: 256,
  },
};
const GEMMA4: ServedTraits = {
  architecture: "gemma4",
  windows: "period",
  isTied: true,
  experts: { count: 0, active: 0, width: 0, widthKey: "moe_intermediate_size", hasChoice: false },
  defaults: {
    rmsEps: 1e-6,
    ropeBase: 1_000_000,
    ffWidth: 9216,
    headDim: 256,
    globalHeadDim: 512,
    numHeads: 8,
    numKvHeads: 4,
    maxPositions: 131_072,
    window: 512,
    vocabSize: 262_144,
    layerInputWidth: 256,
  },
};
/** The 12B model, whose images and sounds have no tower. */
const GEMMA4_UNIFIED: ServedTraits = {
  ...GEMMA4,
  defaults: { ...GEMMA4.defaults, maxPositions: 262_144, window: 1024, layerInputWidth: 0 },
};
const OLMO2: ServedTraits = {
  ...LLAMA,
  architecture: "olmo2",
  defaults: { ...LLAMA.defaults, rmsEps: 1e-5, maxPositions: 2048 },
};
/** EmbeddingGemma. */
export const GEMMA_EMBEDDING: ServedTraits = { ...GEMMA3, architecture: "gemma-embedding" };

const BERT_ENCODER: EncoderTraits = { epsKey: "layer_norm_eps", numTokenTypes: 2 };
const BERT: ServedTraits = {
  architecture: "bert",
  windows: "none",
  isTied: true,
  activations: { gelu: "gelu", gelu_new: "geluTanh", gelu_pytorch_tanh: "geluTanh", silu: "silu" },
  encoder: BERT_ENCODER,
  unservedKeys: ["is_decoder", "add_cross_attention", "embedding_size", "chunk_size_feed_forward"],
  defaults: { rmsEps: 1e-12, ropeBase: 10_000, maxPositions: 512, numHeads: 12, vocabSize: 30_522 },
};
const ROBERTA: ServedTraits = {
  ...BERT,
  encoder: { ...BERT_ENCODER, isTablePadded: true },
  defaults: { ...BERT.defaults, vocabSize: 50_265 },
};

const NOMIC_UNSERVED = [
  "prenorm",
  "parallel_block",
  "use_rms_norm",
  "rotary_emb_interleaved",
  "rotary_emb_scale_base",
  "rotary_scaling_factor",
  "causal",
] as const;
const NOMIC: ServedTraits = {
  ...BERT,
  architecture: "nomic-bert",
  activations: { silu: "silu", swiglu: "silu" },
  unservedKeys: [...NOMIC_UNSERVED, "num_experts", "moe_every_n_layers"],
  defaults: { ...BERT.defaults, ropeBase: 1000, maxPositions: 2048, vocabSize: 30_528 },
};
/**
 * A nomic_bert with experts (nomic-embed-text v2). transformers has no class for it: defaults are those of Nomic's own
 * code, and its experts must be stated.
 */
export const NOMIC_MOE: ServedTraits = {
  ...NOMIC,
  architecture: "nomic-bert-moe",
  activations: { gelu: "gelu" },
  experts: { count: 0, active: 0, width: 0, widthKey: "intermediate_size", hasChoice: true },
  unservedKeys: [...NOMIC_UNSERVED, "expert_choice_router", "moe_normalize_expert_weights", "num_shared_experts"],
  defaults: { ...NOMIC.defaults, rmsEps: 1e-5, ropeBase: 10_000 },
};

const QWEN = { ...LLAMA.defaults, window: 4096 };
const QWEN35: ServedTraits = {
  ...LLAMA,
  architecture: "qwen35",
  defaults: {
    ...LLAMA.defaults,
    ffWidth: 12_288,
    headDim: 256,
    numHeads: 16,
    numKvHeads: 4,
    maxPositions: 32_768,
    vocabSize: 248_320,
    rotatedShare: 0.25,
  },
};
const QWEN35_MOE: ServedTraits = {
  ...QWEN35,
  architecture: "qwen35moe",
  experts: { count: 256, active: 8, width: 512, widthKey: "moe_intermediate_size", hasChoice: false, numShared: 1 },
  defaults: { ...QWEN35.defaults, numKvHeads: 2 },
};

const DEEPSEEK_V3: ServedTraits = {
  ...LLAMA,
  architecture: "deepseek2",
  experts: chosenExperts(256, 8, 2048, { numDenseLayers: 3, numShared: 1 }),
  defaults: { ...LLAMA.defaults, ffWidth: 18_432, numHeads: 128, maxPositions: 4096, vocabSize: 129_280 },
};

const LFM2: ServedTraits = {
  ...LLAMA,
  architecture: "lfm2",
  isTied: true,
  defaults: {
    rmsEps: 1e-5,
    ropeBase: 1_000_000,
    ffWidth: 12_288,
    numHeads: 32,
    numKvHeads: 8,
    maxPositions: 128_000,
    vocabSize: 65_536,
  },
};

const ERNIE: ServedTraits = {
  ...LLAMA,
  architecture: "ernie4_5",
  isTied: true,
  defaults: { rmsEps: 1e-5, ropeBase: 500_000, maxPositions: 131_072, vocabSize: 103_424 },
};
const HUNYUAN: ServedTraits = {
  ...LLAMA,
  architecture: "hunyuan-dense",
  // Layers that read the keys of others.
  unservedKeys: ["use_cla"],
  defaults: {
    rmsEps: 1e-5,
    ropeBase: 10_000,
    ffWidth: 11_008,
    numHeads: 32,
    maxPositions: 2048,
    vocabSize: 290_943,
  },
};
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
const NEMOTRON_H: ServedTraits = {
  ...LLAMA,
  architecture: "nemotron_h",
  defaults: {
    rmsEps: 1e-5,
    ropeBase: 10_000,
    ffWidth: 21_504,
    headDim: 128,
    numHeads: 32,
    numKvHeads: 8,
    maxPositions: 4096,
    vocabSize: 131_072,
  },
};
export const NEMOTRON_H_MOE: ServedTraits = {
  ...NEMOTRON_H,
  architecture: "nemotron_h_moe",
  experts: chosenExperts(8, 2, 7688, { sharedWidthKey: "moe_shared_expert_intermediate_size", sharedWidth: 7688 }),
};

/** By `model_type`. */
export const TRAITS = {
  llama: LLAMA,
  mistral: { ...LLAMA, architecture: "mistral", windows: "all", defaults: { ...LLAMA.defaults, window: 4096 } },
  ministral3: {
    ...LLAMA,
    architecture: "mistral3",
    windows: "all",
    defaults: { rmsEps: 1e-5, ropeBase: 1_000_000, headDim: 128, numHeads: 32, numKvHeads: 8, maxPositions: 262_144 },
  },
  qwen2: { ...LLAMA, architecture: "qwen2", windows: "whenUsed", defaults: QWEN },
  qwen3: { ...LLAMA, architecture: "qwen3", windows: "whenUsed", defaults: { ...QWEN, headDim: 128 } },
  qwen2_moe: {
    ...LLAMA,
    architecture: "qwen2moe",
    // Of every second layer among the first ones.
    unservedKeys: ["use_sliding_window"],
    experts: chosenExperts(60, 4, 1408, { sharedWidth: 5632, sharedWidthKey: "shared_expert_intermediate_size" }),
    defaults: {
      ...LLAMA.defaults,
      ffWidth: 5632,
      numHeads: 16,
      numKvHeads: 16,
      maxPositions: 32_768,
      vocabSize: 151_936,
    },
  },
  qwen3_moe: {
    ...LLAMA,
    architecture: "qwen3moe",
    windows: "allWhenUsed",
    experts: chosenExperts(128, 8, 768),
    defaults: { ...QWEN, numHeads: 32, numKvHeads: 4, ffWidth: 6144, maxPositions: 32_768, vocabSize: 151_936 },
  },
  qwen3_5: QWEN35,
  qwen3_5_text: QWEN35,
  qwen3_5_moe: QWEN35_MOE,
  qwen3_5_moe_text: QWEN35_MOE,
  qwen3_next: {
    ...QWEN35,
    architecture: "qwen3next",
    experts: chosenExperts(512, 10, 512, { normalises: true, numShared: 1 }),
    defaults: { ...QWEN35.defaults, numKvHeads: 2, ffWidth: 5632, vocabSize: 151_936 },
  },
  mixtral: {
    ...LLAMA,
    windows: "all",
    experts: { count: 8, active: 2, width: 14_336, widthKey: "intermediate_size", hasChoice: false },
    defaults: {
      rmsEps: 1e-5,
      ropeBase: 1_000_000,
      numHeads: 32,
      numKvHeads: 8,
      maxPositions: 131_072,
      vocabSize: 32_000,
    },
  },
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
  gemma2: {
    ...GEMMA3,
    architecture: "gemma2",
    defaults: { ...GEMMA3.defaults, ropeBase: 10_000, maxPositions: 8192, vocabSize: 256_000 },
  },
  gemma3: GEMMA3,
  gemma3_text: GEMMA3,
  gemma4: GEMMA4,
  gemma4_text: GEMMA4,
  gemma4_unified: GEMMA4_UNIFIED,
  gemma4_unified_text: GEMMA4_UNIFIED,
  phi3: { ...LLAMA, architecture: "phi3", windows: "all", defaults: { ...LLAMA.defaults, rmsEps: 1e-5 } },
  smollm3: {
    ...LLAMA,
    architecture: "smollm3",
    isTied: true,
    defaults: { rmsEps: 1e-6, ropeBase: 2_000_000, numHeads: 16, numKvHeads: 4, maxPositions: 32_768 },
  },
  granite: { ...LLAMA, architecture: "granite", defaults: { ...LLAMA.defaults, maxPositions: 2048 } },
  granitemoe: GRANITE_MOE,
  granitemoeshared: { ...GRANITE_MOE, experts: { ...GRANITE_MOE.experts, sharedWidthKey: "shared_intermediate_size" } },
  olmo2: OLMO2,
  olmo3: { ...OLMO2, windows: "period", defaults: { ...OLMO2.defaults, ropeBase: 500_000, window: 4096 } },
  olmoe: {
    ...LLAMA,
    architecture: "olmoe",
    unservedKeys: ["clip_qkv"],
    experts: { count: 64, active: 8, width: 2048, widthKey: "intermediate_size", hasChoice: true },
    defaults: { rmsEps: 1e-5, ropeBase: 10_000, numHeads: 16, maxPositions: 4096, vocabSize: 50_304 },
  },
  seed_oss: {
    ...LLAMA,
    architecture: "seed_oss",
    defaults: { ...LLAMA.defaults, headDim: 128, numHeads: 80, numKvHeads: 8, maxPositions: 524_288 },
  },
  exaone4: {
    ...LLAMA,
    architecture: "exaone4",
    windows: "period",
    defaults: { ...LLAMA.defaults, rmsEps: 1e-5, maxPositions: 2048, window: 4096 },
  },
  gpt_oss: {
    ...LLAMA,
    architecture: "gpt-oss",
    windows: "period",
    hasOwnRope: true,
    experts: { count: 128, active: 4, width: 2880, widthKey: "intermediate_size", hasChoice: false },
    defaults: {
      rmsEps: 1e-5,
      ropeBase: 150_000,
      headDim: 64,
      numHeads: 64,
      numKvHeads: 8,
      maxPositions: 131_072,
      window: 128,
      vocabSize: 201_088,
    },
  },
  glm4_moe: {
    ...LLAMA,
    architecture: "glm4moe",
    experts: chosenExperts(128, 8, 1408, { numDenseLayers: 1, numShared: 1 }),
    defaults: {
      rmsEps: 1e-5,
      ropeBase: 10_000,
      ffWidth: 10_944,
      numHeads: 96,
      numKvHeads: 8,
      maxPositions: 131_072,
      vocabSize: 151_552,
      rotatedShare: 0.5,
    },
  },
  dots1: {
    ...LLAMA,
    architecture: "dots1",
    windows: "late",
    experts: chosenExperts(0, 1, 1408),
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
    experts: chosenExperts(0, 1, 1407),
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
  deepseek_v2: {
    ...DEEPSEEK_V3,
    experts: chosenExperts(64, 1, 1407, { numShared: 2, scoring: "softmax" }),
    defaults: { ...LLAMA.defaults, ffWidth: 11_008, numHeads: 32, maxPositions: 2048, vocabSize: 102_400 },
  },
  deepseek_v3: DEEPSEEK_V3,
  // Kimi K2's own class is DeepSeek-V3's under another name.
  kimi_k2: DEEPSEEK_V3,
  glm4_moe_lite: {
    ...DEEPSEEK_V3,
    experts: chosenExperts(64, 4, 1536, { numDenseLayers: 1, numShared: 1 }),
    defaults: {
      rmsEps: 1e-5,
      ropeBase: 10_000,
      ffWidth: 10_240,
      numHeads: 20,
      maxPositions: 202_752,
      vocabSize: 154_880,
    },
  },
  lfm2: LFM2,
  lfm2_vl: LFM2,
  lfm2_moe: {
    ...LFM2,
    architecture: "lfm2moe",
    experts: chosenExperts(32, 4, 1792, { numDenseLayers: 2 }),
    defaults: { ...LFM2.defaults, ffWidth: 7168 },
  },
  ernie4_5: { ...ERNIE, defaults: { ...ERNIE.defaults, headDim: 128, numHeads: 16, numKvHeads: 2, ffWidth: 3072 } },
  ernie4_5_moe: {
    ...ERNIE,
    architecture: "ernie4_5-moe",
    experts: chosenExperts(64, 6, 1536, { normalises: true, numDenseLayers: 1, numShared: 2 }),
    defaults: { ...ERNIE.defaults, numHeads: 20, numKvHeads: 4, ffWidth: 12_288 },
  },
  hunyuan_v1_dense: HUNYUAN,
  hunyuan_v1_moe: {
    ...HUNYUAN,
    architecture: "hunyuan-moe",
    experts: { count: 1, active: 1, width: 11_008, widthKey: "intermediate_size", hasChoice: false, numShared: 1 },
  },
  minimax_m2: {
    ...LLAMA,
    architecture: "minimax-m2",
    // A part that every token passes.
    unservedKeys: ["shared_intermediate_size"],
    statesRotatedDim: true,
    experts: { count: 256, active: 8, width: 1536, widthKey: "intermediate_size", hasChoice: false },
    defaults: {
      rmsEps: 1e-6,
      ropeBase: 5_000_000,
      headDim: 128,
      numHeads: 48,
      numKvHeads: 8,
      maxPositions: 196_608,
      vocabSize: 200_064,
    },
  },
  glm4: {
    ...LLAMA,
    architecture: "glm4",
    defaults: {
      rmsEps: 1.5625e-7,
      ropeBase: 10_000,
      ffWidth: 13_696,
      headDim: 128,
      numHeads: 32,
      numKvHeads: 2,
      maxPositions: 131_072,
      vocabSize: 151_552,
      rotatedShare: 0.5,
    },
  },
  granitemoehybrid: {
    ...LLAMA,
    architecture: "granitehybrid",
    experts: {
      count: 8,
      active: 2,
      width: 11_008,
      widthKey: "intermediate_size",
      hasChoice: false,
      sharedWidthKey: "shared_intermediate_size",
      sharedWidth: 1024,
    },
    defaults: { ...LLAMA.defaults, ffWidth: 1024, numHeads: 32, maxPositions: 2048, vocabSize: 32_000 },
  },
  nemotron_h: NEMOTRON_H,
  bert: BERT,
  roberta: ROBERTA,
  "xlm-roberta": ROBERTA,
  camembert: ROBERTA,
  nomic_bert: NOMIC,
  modernbert: {
    architecture: "modern-bert",
    windows: "period",
    isTied: true,
    activations: { gelu: "gelu", gelu_pytorch_tanh: "geluTanh", silu: "silu" },
    encoder: { epsKey: "norm_eps", numTokenTypes: 0 },
    defaults: { rmsEps: 1e-5, ropeBase: 160_000, maxPositions: 8192, numHeads: 12, vocabSize: 50_368, window: 128 },
  },
} as const satisfies Readonly<Record<string, ServedTraits>>;
