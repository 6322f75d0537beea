/**
 * Well-known models by name: the numbers of their published `config.json` files, and the sizes that their cards state.
 * A test compares our arithmetic with those sizes. No test checks that the quantised checkpoints still exist.
 */
import {
  type ExpertsFeedForward,
  type LatentMixer,
  layersOf,
  seesAll,
} from "../../model/description/model-description.js";
import { CONFIGURED_MODELS } from "./configured-models.js";
import type { DraftHeads, KnownModel } from "./model-row.js";

/** Differences of a model's layers from full attention and dense feed-forward parts. */
interface LayerTraits {
  readonly experts?: Omit<ExpertsFeedForward, "kind"> | undefined;
  /** First layers without experts. */
  readonly numDenseLayers?: number | undefined;
  readonly latent?: Pick<LatentMixer, "kvRank" | "ropeDim" | "queryRank" | "valueDim"> | undefined;
  /** Every `period`-th layer attends to the whole context, the others to the last `numTokens` tokens. */
  readonly window?: { readonly numTokens: number; readonly period: number } | undefined;
}

type KnownTraits = Partial<Omit<KnownModel, "layers">> & LayerTraits;

type Row = readonly [
  name: string,
  repo: string,
  layers: number,
  width: number,
  heads: number,
  kvHeads: number,
  headDim: number,
  ffWidth: number,
  vocab: number,
  context: number,
  billions: number,
];

type FamilyTraits = Pick<KnownModel, "modelType" | "toolCalls" | "thoughts">;

/** Traits of a family's models, where a model's row does not override them. */
const FAMILIES: Readonly<Record<string, FamilyTraits>> = {
  llama: { modelType: "llama", toolCalls: "llama3" },
  "llama-2": { modelType: "llama" },
  "qwen2.5": { modelType: "qwen2", toolCalls: "hermes" },
  qwen3: { modelType: "qwen3", toolCalls: "hermes", thoughts: "qwen3" },
  mistral: { modelType: "mistral", toolCalls: "mistral" },
  deepseek: { modelType: "deepseek_v3", toolCalls: "deepseek" },
  "gpt-oss": { modelType: "gpt_oss", toolCalls: "harmony", thoughts: "harmony" },
  gemma2: { modelType: "gemma2" },
  gemma3: { modelType: "gemma3" },
  phi: { modelType: "phi3" },
  glm: { modelType: "glm4_moe", toolCalls: "glm45", thoughts: "glm45" },
  minimax: { modelType: "minimax_m2", toolCalls: "minimax-m2", thoughts: "minimax-m2" },
};

function model(family: string, row: Row, more: KnownTraits = {}): KnownModel {
  const [name, repo, , width, , , , , vocabSize, contextLength, billions] = row;
  const { experts, numDenseLayers, latent, window, isTied = false, ...rest } = more;
  const layers = layersOfRow(row, { experts, numDenseLayers, latent, window });
  const dimensions = { width, vocabSize, contextLength, isTied, layers };
  return { name, repo, family, ...FAMILIES[family]!, ...dimensions, publishedParameters: billions * 1e9, ...rest };
}

function layersOfRow(row: Row, { experts, numDenseLayers = 0, latent, window }: LayerTraits) {
  const [, , numLayers, , numHeads, numKvHeads, headDim, ffWidth] = row;
  const attention = { kind: "attention", numHeads, numKvHeads, headDim, valueDim: headDim, rope: 0 } as const;
  return layersOf(numLayers, (index) => {
    const isLocal = window !== undefined && !seesAll(index, window.period);
    return {
      mixer:
        latent === undefined
          ? { ...attention, window: isLocal ? window.numTokens : 0 }
          : { kind: "latent", numHeads, headDim, ...latent },
      feedForward:
        experts === undefined || index < numDenseLayers
          ? { kind: "dense", width: ffWidth }
          : { kind: "experts", ...experts },
    };
  });
}

/** Red Hat's heads, in the format of its Speculators library, which only vLLM is known to read. */
const redHatHeads = (name: string): DraftHeads => ({ repo: `RedHatAI/${name}-speculator.eagle3`, onlyIn: "vllm" });

const tied = { isTied: true } as const;
const K128 = 131_072;
/** Shape of Llama 3 70B, and of the models trained from it. */
const LLAMA_70B = [80, 8192, 64, 8, 128, 28_672, 128_256, K128, 70.55] as const;

export const KNOWN_MODELS: readonly KnownModel[] = [
  model(
    "llama",
    ["llama-3.2-1b", "meta-llama/Llama-3.2-1B-Instruct", 16, 2048, 32, 8, 64, 8192, 128_256, K128, 1.24],
    tied,
  ),
  model(
    "llama",
    ["llama-3.2-3b", "meta-llama/Llama-3.2-3B-Instruct", 28, 3072, 24, 8, 128, 8192, 128_256, K128, 3.21],
    tied,
  ),
  model(
    "llama",
    ["llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct", 32, 4096, 32, 8, 128, 14_336, 128_256, K128, 8.03],
    {
      checkpoints: {
        fp8: "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic",
        int8: "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8",
        awq: "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4",
      },
      eagle3: { repo: "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", trainedTokens: 2048 },
      gguf: "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF",
    },
  ),
  model("llama", ["llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct", ...LLAMA_70B], {
    checkpoints: {
      fp8: "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
      int8: "RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8",
      awq: "casperhansen/llama-3.3-70b-instruct-awq",
    },
    eagle3: { repo: "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B", trainedTokens: 2048 },
    gguf: "bartowski/Llama-3.3-70B-Instruct-GGUF",
  }),
  model("llama", ["llama-3.1-70b", "meta-llama/Llama-3.1-70B-Instruct", ...LLAMA_70B]),
  model("llama", ["deepseek-r1-distill-70b", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B", ...LLAMA_70B], {
    checkpoints: { fp8: "RedHatAI/DeepSeek-R1-Distill-Llama-70B-FP8-dynamic" },
    toolCalls: undefined,
    thoughts: "deepseek-r1",
  }),
  model("llama", [
    "llama-3.1-405b",
    "meta-llama/Llama-3.1-405B-Instruct",
    126,
    16_384,
    128,
    8,
    128,
    53_248,
    128_256,
    K128,
    405.9,
  ]),
  model("llama-2", ["llama-2-7b", "meta-llama/Llama-2-7b-chat-hf", 32, 4096, 32, 32, 128, 11_008, 32_000, 4096, 6.74]),
  model("llama-2", [
    "llama-2-70b",
    "meta-llama/Llama-2-70b-chat-hf",
    80,
    8192,
    64,
    8,
    128,
    28_672,
    32_000,
    4096,
    68.98,
  ]),
  ...(
    [
      ["0.5b", 24, 896, 14, 2, 64, 4864, 151_936, 0.494],
      ["1.5b", 28, 1536, 12, 2, 128, 8960, 151_936, 1.54],
      ["3b", 36, 2048, 16, 2, 128, 11_008, 151_936, 3.09],
      ["7b", 28, 3584, 28, 4, 128, 18_944, 152_064, 7.62],
      ["14b", 48, 5120, 40, 8, 128, 13_824, 152_064, 14.77],
      ["32b", 64, 5120, 40, 8, 128, 27_648, 152_064, 32.76],
      ["72b", 80, 8192, 64, 8, 128, 29_568, 152_064, 72.7],
    ] as const
  ).map(([size, layers, width, heads, kvHeads, headDim, ff, vocab, billions]) => {
    const repo = `Qwen/Qwen2.5-${size.toUpperCase()}-Instruct`;
    const row: Row = [`qwen2.5-${size}`, repo, layers, width, heads, kvHeads, headDim, ff, vocab, 32_768, billions];
    return model("qwen2.5", row, {
      checkpoints: {
        fp8: `RedHatAI/${repo.slice("Qwen/".length)}-FP8-dynamic`,
        awq: `${repo}-AWQ`,
        ...(size === "3b" || size === "7b"
          ? { int8: `RedHatAI/Qwen2.5-${size.toUpperCase()}-Instruct-quantized.w8a8` }
          : {}),
      },
      gguf: `bartowski/Qwen2.5-${size.toUpperCase()}-Instruct-GGUF`,
      isTied: billions < 4,
    });
  }),
  ...(
    [
      ["0.6b", 28, 1024, 16, 3072, 0.596],
      ["1.7b", 28, 2048, 16, 6144, 1.72],
      ["4b", 36, 2560, 32, 9728, 4.02],
      ["8b", 36, 4096, 32, 12_288, 8.19],
      ["14b", 40, 5120, 40, 17_408, 14.77],
      ["32b", 64, 5120, 64, 25_600, 32.76],
    ] as const
  ).map(([size, layers, width, heads, ff, billions]) => {
    const repo = `Qwen/Qwen3-${size.toUpperCase()}`;
    const row: Row = [`qwen3-${size}`, repo, layers, width, heads, 8, 128, ff, 151_936, 40_960, billions];
    return model("qwen3", row, {
      isTied: billions < 5,
      ...(billions < 4 ? {} : { checkpoints: { fp8: `${repo}-FP8`, awq: `${repo}-AWQ` }, gguf: `${repo}-GGUF` }),
      ...(billions < 8 ? {} : { eagle3: redHatHeads(`Qwen3-${size.toUpperCase()}`) }),
    });
  }),
  model("qwen3", ["qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B", 48, 2048, 32, 4, 128, 0, 151_936, 40_960, 30.53], {
    experts: { count: 128, active: 8, width: 768, sharedWidth: 0 },
    modelType: "qwen3_moe",
    checkpoints: { fp8: "Qwen/Qwen3-30B-A3B-FP8", awq: "RedHatAI/Qwen3-30B-A3B-quantized.w4a16" },
    gguf: "unsloth/Qwen3-30B-A3B-GGUF",
    publishedActiveParameters: 3.35e9,
  }),
  model(
    "qwen3",
    ["qwen3-coder-30b-a3b", "Qwen/Qwen3-Coder-30B-A3B-Instruct", 48, 2048, 32, 4, 128, 0, 151_936, 262_144, 30.53],
    {
      experts: { count: 128, active: 8, width: 768, sharedWidth: 0 },
      modelType: "qwen3_moe",
      toolCalls: "qwen3-coder",
      thoughts: undefined,
      publishedActiveParameters: 3.3e9,
    },
  ),
  model("qwen3", ["qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B", 94, 4096, 64, 4, 128, 0, 151_936, 40_960, 235.1], {
    experts: { count: 128, active: 8, width: 1536, sharedWidth: 0 },
    modelType: "qwen3_moe",
    checkpoints: { fp8: "Qwen/Qwen3-235B-A22B-FP8" },
    eagle3: redHatHeads("Qwen3-235B-A22B"),
    publishedActiveParameters: 22.1e9,
  }),
  model("mistral", [
    "mistral-7b",
    "mistralai/Mistral-7B-Instruct-v0.3",
    32,
    4096,
    32,
    8,
    128,
    14_336,
    32_768,
    32_768,
    7.25,
  ]),
  model("mistral", [
    "mistral-small-24b",
    "mistralai/Mistral-Small-24B-Instruct-2501",
    40,
    5120,
    32,
    8,
    128,
    32_768,
    K128,
    32_768,
    23.57,
  ]),
  model(
    "mistral",
    ["mixtral-8x7b", "mistralai/Mixtral-8x7B-Instruct-v0.1", 32, 4096, 32, 8, 128, 0, 32_000, 32_768, 46.7],
    {
      modelType: "mixtral",
      // Its tokenizer predates the token that begins a call.
      toolCalls: undefined,
      experts: { count: 8, active: 2, width: 14_336, sharedWidth: 0 },
      publishedActiveParameters: 12.9e9,
    },
  ),
  model(
    "mistral",
    ["mixtral-8x22b", "mistralai/Mixtral-8x22B-Instruct-v0.1", 56, 6144, 48, 8, 128, 0, 32_768, 65_536, 140.6],
    {
      modelType: "mixtral",
      experts: { count: 8, active: 2, width: 16_384, sharedWidth: 0 },
      publishedActiveParameters: 39.1e9,
    },
  ),
  model(
    "deepseek",
    ["deepseek-v3", "deepseek-ai/DeepSeek-V3", 61, 7168, 128, 128, 128, 18_432, 129_280, 163_840, 671],
    {
      experts: { count: 256, active: 8, width: 2048, sharedWidth: 2048 },
      numDenseLayers: 3,
      latent: { kvRank: 512, ropeDim: 64, queryRank: 1536, valueDim: 128 },
      native: "fp8",
      publishedActiveParameters: 37e9,
    },
  ),
  model("gpt-oss", ["gpt-oss-20b", "openai/gpt-oss-20b", 24, 2880, 64, 8, 64, 0, 201_088, K128, 20.9], {
    experts: { count: 32, active: 4, width: 2880, sharedWidth: 0 },
    window: { numTokens: 128, period: 2 },
    native: "mxfp4",
    gguf: "ggml-org/gpt-oss-20b-GGUF",
    eagle3: redHatHeads("gpt-oss-20b"),
    publishedActiveParameters: 3.6e9,
  }),
  model("gpt-oss", ["gpt-oss-120b", "openai/gpt-oss-120b", 36, 2880, 64, 8, 64, 0, 201_088, K128, 116.8], {
    experts: { count: 128, active: 4, width: 2880, sharedWidth: 0 },
    window: { numTokens: 128, period: 2 },
    native: "mxfp4",
    gguf: "ggml-org/gpt-oss-120b-GGUF",
    eagle3: { repo: "nvidia/gpt-oss-120b-Eagle3-long-context" },
    publishedActiveParameters: 5.1e9,
  }),
  ...(
    [
      ["2b", 26, 2304, 8, 4, 256, 9216, 2.61],
      ["9b", 42, 3584, 16, 8, 256, 14_336, 9.24],
      ["27b", 46, 4608, 32, 16, 128, 36_864, 27.2],
    ] as const
  ).map(([size, layers, width, heads, kvHeads, headDim, ff, billions]) => {
    const repo = `google/gemma-2-${size}-it`;
    const row: Row = [`gemma-2-${size}`, repo, layers, width, heads, kvHeads, headDim, ff, 256_000, 8192, billions];
    const window = { numTokens: 4096, period: 2 };
    return model("gemma2", row, { isTied: true, window, gguf: `bartowski/gemma-2-${size}-it-GGUF` });
  }),
  model("gemma3", ["gemma3-1b", "google/gemma-3-1b-it", 26, 1152, 4, 1, 256, 6912, 262_144, 32_768, 1.0], {
    ...tied,
    modelType: "gemma3_text",
    window: { numTokens: 512, period: 6 },
  }),
  model("gemma3", ["gemma3-4b", "google/gemma-3-4b-it", 34, 2560, 8, 4, 256, 10_240, 262_208, K128, 3.88], {
    ...tied,
    window: { numTokens: 1024, period: 6 },
  }),
  model("gemma3", ["gemma3-12b", "google/gemma-3-12b-it", 48, 3840, 16, 8, 256, 15_360, 262_208, K128, 11.77], {
    ...tied,
    window: { numTokens: 1024, period: 6 },
  }),
  model("gemma3", ["gemma3-27b", "google/gemma-3-27b-it", 62, 5376, 32, 16, 128, 21_504, 262_208, K128, 27.0], {
    ...tied,
    window: { numTokens: 1024, period: 6 },
  }),
  model("phi", ["phi-4", "microsoft/phi-4", 40, 5120, 40, 10, 128, 17_920, 100_352, 16_384, 14.66]),
  // Both GLM models' dimensions are also the defaults of their classes in transformers; so are MiniMax's.
  model("glm", ["glm-4.5-air", "zai-org/GLM-4.5-Air", 46, 4096, 96, 8, 128, 10_944, 151_552, K128, 106], {
    experts: { count: 128, active: 8, width: 1408, sharedWidth: 1408 },
    numDenseLayers: 1,
  }),
  model("glm", ["glm-4.7-flash", "zai-org/GLM-4.7-Flash", 47, 2048, 20, 20, 192, 10_240, 154_880, 202_752, 30], {
    experts: { count: 64, active: 4, width: 1536, sharedWidth: 1536 },
    numDenseLayers: 1,
    latent: { kvRank: 512, ropeDim: 64, queryRank: 768, valueDim: 256 },
    modelType: "glm4_moe_lite",
    toolCalls: "glm47",
  }),
  model("minimax", ["minimax-m2", "MiniMaxAI/MiniMax-M2", 62, 3072, 48, 8, 128, 0, 200_064, 196_608, 230], {
    experts: { count: 256, active: 8, width: 1536, sharedWidth: 0 },
    native: "fp8",
  }),
  ...CONFIGURED_MODELS,
];
