/**
 * The kinds of models that config.json files name, and what transformers' configuration class of each takes where a
 * file is silent; more of them are in more-class-traits.ts.
 */
import { MORE_TRAITS } from "./more-class-traits.js";
import { chosenExperts, type EncoderTraits, LLAMA, type ServedTraits } from "./trait-types.js";

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
  servedValues: { attn_output_gate: [true], output_gate_type: ["silu", "swish"] },
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
const LFM2: ServedTraits = {
  ...LLAMA,
  architecture: "lfm2",
  isTied: true,
  denseWidth: "adjusted",
  servedValues: { conv_bias: [false], use_expert_bias: [true] },
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

const LFM3: ServedTraits = {
  ...LLAMA,
  architecture: "lfm3",
  windows: "period",
  isTied: true,
  hasOwnRope: true,
  servedValues: { conv_bias: [false], use_sandwich_norm: [true], use_attention_gate: [true] },
  defaults: {
    rmsEps: 1e-5,
    ropeBase: 10_000,
    ffWidth: 7680,
    headDim: 128,
    numHeads: 16,
    numKvHeads: 4,
    maxPositions: 128_000,
    window: 256,
    vocabSize: 128_000,
    numTaps: 7,
  },
};
/** Language parts of models that see. */
const QWEN2_VL: ServedTraits = {
  ...LLAMA,
  architecture: "qwen2",
  windows: "whenUsed",
  defaults: {
    rmsEps: 1e-5,
    ropeBase: 1_000_000,
    ffWidth: 29_568,
    numHeads: 64,
    numKvHeads: 8,
    maxPositions: 32_768,
    window: 4096,
    firstWindow: 80,
    vocabSize: 152_064,
  },
};
const QWEN3_VL = { rmsEps: 1e-6, ropeBase: 500_000, maxPositions: 128_000, vocabSize: 151_936 };

/** The default sizes of Llama and Mistral: LLaVA's files leave out every value that equals the default. */
const SEVEN_B = { ...LLAMA.defaults, width: 4096, numLayers: 32, numHeads: 32 };

/** By `model_type`. */
export const TRAITS = {
  llama: { ...LLAMA, defaults: { ...SEVEN_B, ffWidth: 11_008 } },
  mistral: {
    ...LLAMA,
    architecture: "mistral",
    windows: "all",
    defaults: { ...SEVEN_B, ffWidth: 14_336, window: 4096 },
  },
  ministral: {
    ...LLAMA,
    architecture: "mistral",
    windows: "listed",
    defaults: { ...SEVEN_B, numKvHeads: 8, ffWidth: 14_336, window: 4096 },
  },
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
  qwen2_vl: QWEN2_VL,
  qwen2_5_vl: QWEN2_VL,
  qwen3_vl: {
    ...LLAMA,
    architecture: "qwen3",
    defaults: { ...QWEN3_VL, ffWidth: 22_016, headDim: 128, numHeads: 32, numKvHeads: 32 },
  },
  qwen3_vl_moe: {
    ...LLAMA,
    architecture: "qwen3moe",
    // The class does not read it.
    servedValues: { norm_topk_prob: [true] },
    experts: chosenExperts(60, 4, 1408, { normalises: true, mayBeTransposed: true }),
    defaults: { ...QWEN3_VL, ffWidth: 5632, numHeads: 16, numKvHeads: 16 },
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
  phimoe: {
    ...LLAMA,
    architecture: "phimoe",
    windows: "all",
    servedValues: { router_jitter_noise: [0.01], num_experts_per_tok: [2] },
    experts: { count: 16, active: 2, width: 6400, widthKey: "intermediate_size", hasChoice: false },
    defaults: {
      rmsEps: 1e-5,
      ropeBase: 1_000_000,
      numHeads: 32,
      numKvHeads: 8,
      maxPositions: 131_072,
      vocabSize: 32_064,
    },
  },
  gpt_oss: {
    ...LLAMA,
    architecture: "gpt-oss",
    windows: "period",
    hasOwnRope: true,
    servedValues: { swiglu_alpha: [1.702], swiglu_limit: [7] },
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
  lfm2: LFM2,
  lfm2_vl: LFM2,
  lfm2_moe: {
    ...LFM2,
    architecture: "lfm2moe",
    denseWidth: "stated",
    experts: chosenExperts(32, 4, 1792, { numDenseLayers: 2 }),
    defaults: { ...LFM2.defaults, ffWidth: 7168 },
  },
  lfm3: LFM3,
  lfm3_vl: LFM3,
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
  ...MORE_TRAITS,
} as const satisfies Readonly<Record<string, ServedTraits>>;
