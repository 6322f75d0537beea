/** Configuration classes of families with a few models each: rows of the table in class-traits.ts. */
import { CLASSIC_TRAITS } from "./classic-traits.js";
import { chosenExperts, LLAMA, type ServedTraits } from "./trait-types.js";

const USUAL = { rmsEps: 1e-5, ropeBase: 10_000 };
const GLM4_MOE = { ...USUAL, ffWidth: 10_944, numHeads: 96, numKvHeads: 8, rotatedShare: 0.5 };
const GLM4 = {
  rmsEps: 1.5625e-7,
  ropeBase: 10_000,
  ffWidth: 13_696,
  headDim: 128,
  numHeads: 32,
  numKvHeads: 2,
  maxPositions: 131_072,
  vocabSize: 151_552,
  rotatedShare: 0.5,
};
const DEEPSEEK = { ...LLAMA.defaults, ffWidth: 11_008, numHeads: 32, maxPositions: 2048, vocabSize: 102_400 };
const OLMO2: ServedTraits = {
  ...LLAMA,
  architecture: "olmo2",
  defaults: { ...USUAL, maxPositions: 2048 },
};
/** Layers behind the dense ones have experts, each of them. */
const EACH_LAYER = { moe_layer_freq: [1] };
const DEEPSEEK_V3: ServedTraits = {
  ...LLAMA,
  architecture: "deepseek2",
  servedValues: { ...EACH_LAYER, scoring_func: ["sigmoid"], topk_method: ["noaux_tc"] },
  experts: chosenExperts(256, 8, 2048, { numDenseLayers: 3, numShared: 1, scale: 2.5, numGroups: 8, numUsedGroups: 4 }),
  defaults: { ...LLAMA.defaults, ffWidth: 18_432, numHeads: 128, maxPositions: 4096, vocabSize: 129_280 },
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
    ...USUAL,
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
    ...USUAL,
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
/** Of models with a Mamba-2. */
const MAMBA = { ...LLAMA, unservedKeys: ["moe_latent_size"], servedValues: { mamba_hidden_act: ["silu"] } };
const NEMOTRON_H: ServedTraits = {
  ...MAMBA,
  architecture: "nemotron_h",
  defaults: {
    ...USUAL,
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

/** Classes of their makers' own code. The matrix of outputs may be normed when a folder is loaded (`norm_head`). */
const BAILING: ServedTraits = {
  ...LLAMA,
  architecture: "bailingmoe",
  unservedKeys: ["norm_head"],
  experts: chosenExperts(16, 2, 0, { normalises: true }),
  defaults: { ...USUAL, numHeads: 16, maxPositions: 16_384, vocabSize: 30_592 },
};

/** By `model_type`. */
export const MORE_TRAITS = {
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
    defaults: { ...USUAL, numHeads: 16, maxPositions: 4096, vocabSize: 50_304 },
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
    defaults: { ...USUAL, maxPositions: 2048, window: 4096 },
  },
  glm4_moe: {
    ...LLAMA,
    architecture: "glm4moe",
    experts: chosenExperts(128, 8, 1408, { numDenseLayers: 1, numShared: 1 }),
    defaults: { ...GLM4_MOE, maxPositions: 131_072, vocabSize: 151_552 },
  },
  // Language parts of GLM-4.1V and 4.6V-Flash; of GLM-4.5V and 4.6V.
  glm4v: {
    ...LLAMA,
    architecture: "glm4",
    defaults: { ...USUAL, ffWidth: 13_696, numHeads: 32, numKvHeads: 2, maxPositions: 32_768, vocabSize: 151_552 },
  },
  glm4v_moe: {
    ...LLAMA,
    architecture: "glm4moe",
    experts: chosenExperts(128, 8, 1408, { numDenseLayers: 1, numShared: 1 }),
    defaults: { ...GLM4_MOE, maxPositions: 65_536, vocabSize: 151_424 },
  },
  dots1: {
    ...LLAMA,
    architecture: "dots1",
    windows: "late",
    experts: chosenExperts(0, 1, 1408, { normalises: false }),
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
    // It weighs them by softmax alone.
    unservedKeys: ["attention_bias", "use_mla"],
    servedValues: EACH_LAYER,
    experts: chosenExperts(0, 1, 1407),
    defaults: DEEPSEEK,
  },
  internlm2: {
    ...LLAMA,
    architecture: "internlm2",
    unservedKeys: ["bias"],
    defaults: { ...DEEPSEEK, vocabSize: 103_168 },
  },
  cohere: COHERE,
  cohere2: { ...COHERE, architecture: "cohere2", windows: "period", defaults: { ...COHERE.defaults, window: 4096 } },
  deepseek_v2: {
    ...DEEPSEEK_V3,
    // Weights that are relative to the chosen ones have another factor in DeepSeek's own code than in transformers.
    servedValues: {
      ...EACH_LAYER,
      norm_topk_prob: [false],
      scoring_func: ["softmax"],
      topk_method: ["greedy", "group_limited_greedy"],
    },
    experts: chosenExperts(64, 1, 1407, { numShared: 2, scoring: "softmax" }),
    defaults: DEEPSEEK,
  },
  deepseek_v3: DEEPSEEK_V3,
  // Kimi K2's own class is DeepSeek-V3's under another name.
  kimi_k2: DEEPSEEK_V3,
  mistral4: {
    ...DEEPSEEK_V3,
    architecture: "mistral4",
    hasOwnRope: true,
    servedValues: { n_group: [1], topk_group: [1] },
    experts: chosenExperts(128, 4, 2048, { normalises: true, numShared: 1, scoring: "softmax" }),
    defaults: { ...LLAMA.defaults, ffWidth: 12_288, numHeads: 32, maxPositions: 1_048_576, vocabSize: 131_072 },
  },
  glm4_moe_lite: {
    ...DEEPSEEK_V3,
    experts: chosenExperts(64, 4, 1536, { numDenseLayers: 1, numShared: 1, scale: 1.8 }),
    defaults: {
      ...USUAL,
      ffWidth: 10_240,
      numHeads: 20,
      maxPositions: 202_752,
      vocabSize: 154_880,
    },
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
  glm: { ...LLAMA, architecture: "chatglm", defaults: { ...GLM4, width: 4096, numLayers: 40 } },
  glm4: { ...LLAMA, architecture: "glm4", defaults: GLM4 },
  granitemoehybrid: {
    ...MAMBA,
    architecture: "granitehybrid",
    denseWidth: "shared",
    experts: {
      ...GRANITE_MOE.experts,
      sharedWidthKey: "shared_intermediate_size",
      sharedWidth: 1024,
    },
    defaults: { ...GRANITE_MOE.defaults, ffWidth: 1024 },
  },
  nemotron: {
    ...LLAMA,
    architecture: "nemotron",
    defaults: {
      ...USUAL,
      ffWidth: 24_576,
      numHeads: 48,
      maxPositions: 4096,
      vocabSize: 256_000,
      rotatedShare: 0.5,
    },
  },
  arcee: {
    ...LLAMA,
    architecture: "arcee",
    defaults: { ...USUAL, ffWidth: 18_432, numHeads: 32, maxPositions: 4096, vocabSize: 32_000 },
  },
  bailing_moe: BAILING,
  bailing_moe_v2: {
    ...BAILING,
    architecture: "bailingmoe2",
    servedValues: { score_function: ["sigmoid"] },
    experts: chosenExperts(16, 2, 0, { scale: 2.5, numGroups: 8, numUsedGroups: 4 }),
    defaults: { ...BAILING.defaults, rotatedShare: 0.5 },
  },
  nemotron_h: NEMOTRON_H,
  exaone: {
    ...LLAMA,
    architecture: "exaone",
    defaults: {
      rmsEps: 1e-5,
      ropeBase: 500_000,
      width: 4096,
      numLayers: 32,
      numHeads: 32,
      numKvHeads: 8,
      ffWidth: 14_336,
      maxPositions: 4096,
      vocabSize: 102_400,
    },
  },
  // It is a llama.
  internlm3: {
    ...LLAMA,
    defaults: {
      ...USUAL,
      width: 4096,
      numLayers: 48,
      headDim: 128,
      numHeads: 32,
      numKvHeads: 2,
      ffWidth: 10_240,
      maxPositions: 32_768,
      vocabSize: 128_512,
    },
  },
  ...CLASSIC_TRAITS,
} as const satisfies Readonly<Record<string, ServedTraits>>;
