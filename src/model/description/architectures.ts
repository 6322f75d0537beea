/**
 * The architectures that the embedded engine computes, and what sets each apart from llama, whichever format a model is
 * read from or written to. Facts of one format alone are beside its reader: names of tensors, and defaults of
 * transformers' classes.
 */
import type { ArchitectureFacts, ExpertFacts } from "./architecture-facts.js";

/** Models that generate text, as GGUF files name them. */
export const DECODERS = [
  "llama",
  "mistral",
  "mistral3",
  "qwen2",
  "qwen3",
  "qwen2moe",
  "qwen3moe",
  "qwen3next",
  "qwen35",
  "qwen35moe",
  "qwen2vl",
  "qwen3vl",
  "qwen3vlmoe",
  "gemma",
  "gemma2",
  "gemma3",
  "gemma4",
  "phi3",
  "smollm3",
  "granite",
  "granitemoe",
  "phimoe",
  "olmo2",
  "olmoe",
  "seed_oss",
  "exaone4",
  "gpt-oss",
  "glm4moe",
  "dots1",
  "deepseek",
  "internlm2",
  "command-r",
  "cohere2",
  "stablelm",
  "starcoder2",
  "deepseek2",
  "mistral4",
  "lfm2",
  "lfm2moe",
  "lfm3",
  "ernie4_5",
  "ernie4_5-moe",
  "hunyuan-dense",
  "hunyuan-moe",
  "minimax-m2",
  "glm4",
  "granitehybrid",
  "nemotron",
  "arcee",
  "bailingmoe",
  "bailingmoe2",
  "nemotron_h",
  "nemotron_h_moe",
  "gpt2",
  "gptneox",
  "phi2",
  "opt",
  "starcoder",
  "exaone",
  "chatglm",
] as const;
/** Models that make vectors of whole texts. */
const ENCODERS = ["bert", "nomic-bert", "nomic-bert-moe", "modern-bert", "gemma-embedding"] as const;
export type DecoderArchitecture = (typeof DECODERS)[number];
export type EncoderArchitecture = (typeof ENCODERS)[number];

export const ARCHITECTURES = [...DECODERS, ...ENCODERS] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

export const isEncoder = (architecture: string): architecture is EncoderArchitecture =>
  (ENCODERS as readonly string[]).includes(architecture);

const LLAMA: ArchitectureFacts = { activation: "silu" };
const NEOX: ArchitectureFacts = { ...LLAMA, isNeoxInFiles: true };
const SOFTMAX: ExpertFacts = { weighedBy: "softmax" };
const BERT: ArchitectureFacts = {
  activation: "gelu",
  isNeoxInFiles: true,
  isLayerNormed: true,
  hasEmbeddingNorm: true,
};
const GEMMA4: ArchitectureFacts = {
  activation: "geluTanh",
  isNeoxInFiles: true,
  scalesEmbeddings: true,
  hasPostNorms: true,
  hasHeadNorms: true,
  hasValueNorm: true,
  attentionScale: 1,
  mayCapLogits: true,
  mayShareKeys: true,
  hasPartialRope: true,
  experts: { weighedBy: "softmax", areBesideDense: true },
  windows: { period: 6, localRope: { base: 10_000 }, hasOwnHeads: true },
};
const GEMMA: ArchitectureFacts = {
  activation: "geluTanh",
  isNeoxInFiles: true,
  scalesEmbeddings: true,
  hasOffsetNorms: true,
};
const GEMMA2: ArchitectureFacts = { ...GEMMA, hasPostNorms: true };
const QWEN_DELTA: ArchitectureFacts = {
  ...NEOX,
  hasHeadNorms: true,
  hasOffsetNorms: true,
  delta: { isTiledInFiles: true, isFusedInFolders: false, hasImageRope: true, period: 4 },
  gates: "values",
  draftBlocks: "computed",
};
const NEMOTRON_H: ArchitectureFacts = {
  activation: "reluSquared",
  isNeoxInFiles: true,
  hasMamba: true,
  isOnePart: true,
  hasNoRope: true,
  isGateless: true,
};
const LFM2: ArchitectureFacts = { ...NEOX, hasHeadNorms: true, hasConvolutions: true };
const ERNIE: ArchitectureFacts = { ...LLAMA, isInterleavedInFolders: true };
const HUNYUAN: ArchitectureFacts = { ...NEOX, hasHeadNorms: true, normsAfterRope: true, hasAlphaRope: true };
const GRANITE: ArchitectureFacts = { ...LLAMA, hasFactors: true, ropeSwitch: "refused" };
const COHERE: ArchitectureFacts = {
  ...LLAMA,
  isLayerNormed: true,
  parallel: "oneNorm",
  hasLogitScale: true,
  isInterleavedInFolders: true,
};
/** Models before llama: LayerNorms, feed-forward parts of two matrices, and biases. */
const CLASSIC: ArchitectureFacts = { activation: "gelu", isNeoxInFiles: true, isLayerNormed: true, isGateless: true };
const LATENT: ArchitectureFacts = { ...LLAMA, isLatent: true, experts: { weighedBy: "either", mayShare: true } };
const QWEN_EXPERTS: ExpertFacts = { weighedBy: "softmax", mayShare: true, isSharedGated: true, sharedSize: "width" };

const FACTS: Readonly<Record<Architecture, ArchitectureFacts>> = {
  // Mixtral is one.
  llama: { ...LLAMA, experts: SOFTMAX },
  // llama.cpp knows them as llamas: a window needs a name of its own.
  mistral: { ...LLAMA, windows: { period: 0 }, plainInFiles: "llama" },
  mistral3: { ...LLAMA, scalesQueries: true },
  qwen2: NEOX,
  qwen3: { ...NEOX, hasHeadNorms: true },
  // Qwen1.5-MoE too.
  qwen2moe: { ...NEOX, experts: { ...QWEN_EXPERTS, normalisesInFiles: false } },
  qwen3moe: { ...NEOX, hasHeadNorms: true, experts: SOFTMAX },
  // Qwen3-Next and Qwen3-Coder-Next; Qwen3.5 to 3.8.
  qwen3next: {
    ...QWEN_DELTA,
    delta: { isTiledInFiles: false, isFusedInFolders: true, hasImageRope: false, period: 4 },
    experts: QWEN_EXPERTS,
  },
  qwen35: QWEN_DELTA,
  qwen35moe: { ...QWEN_DELTA, experts: QWEN_EXPERTS },
  // Qwen2-VL and 2.5-VL; Qwen3-VL. A text's tokens have one position for all axes of a picture.
  qwen2vl: { ...NEOX, languagePart: "qwen2" },
  qwen3vl: { ...NEOX, hasHeadNorms: true, languagePart: "qwen3" },
  qwen3vlmoe: { ...NEOX, hasHeadNorms: true, experts: SOFTMAX, languagePart: "qwen3moe" },
  gemma: GEMMA,
  gemma2: {
    ...GEMMA2,
    caps: { attention: 50, logits: 30 },
    windows: { period: 2, widthInFiles: 4096 },
    numLayersOf27b: 46,
  },
  gemma3: {
    ...GEMMA2,
    hasHeadNorms: true,
    windows: { period: 6, localRope: { base: 10_000 } },
    numLayersOf27b: 62,
  },
  gemma4: GEMMA4,
  phi3: { ...NEOX, windows: { period: 0 } },
  // Phi 3.5 MoE, Phi mini and tiny MoE.
  phimoe: {
    ...NEOX,
    isLayerNormed: true,
    areRmsInFiles: true,
    experts: { weighedBy: "sparseMixer" },
    windows: { period: 0 },
  },
  smollm3: { ...LLAMA, noRopePeriod: 4 },
  granite: GRANITE,
  // Granite 3 with experts.
  granitemoe: { ...GRANITE, experts: { weighedBy: "softmax", mayShare: true, sharedSize: "width" } },
  // OLMo 3 is one with windows.
  olmo2: {
    ...NEOX,
    isPostNormed: true,
    hasHeadNorms: true,
    normsAllHeads: true,
    windows: { period: 4, localRope: {} },
  },
  olmoe: {
    ...NEOX,
    hasHeadNorms: true,
    normsAllHeads: true,
    experts: { weighedBy: "softmax", normalisesInFiles: false },
  },
  seed_oss: NEOX,
  // EXAONE 4.0.
  exaone4: { ...NEOX, isPostNormed: true, hasHeadNorms: true, windows: { period: 4, areAloneRotated: "ifAny" } },
  "gpt-oss": {
    activation: "clampedSwiglu",
    isNeoxInFiles: true,
    experts: { weighedBy: "softmaxOfChosen", hasBiases: true },
    hasSinks: true,
    windows: { period: 2, widthInFiles: 128 },
    roundsYarnRange: false,
  },
  // GLM-4.5 to 4.7.
  glm4moe: { ...NEOX, experts: { weighedBy: "sigmoid", mayShare: true }, draftBlocks: "computed" },
  dots1: { ...NEOX, hasHeadNorms: true, experts: { weighedBy: "sigmoid", mayShare: true } },
  // DeepSeek-MoE, and later models without latent attention.
  deepseek: { ...LLAMA, experts: { weighedBy: "softmax", mayShare: true, normalisesInFiles: false } },
  // InternLM2 and 2.5.
  internlm2: LLAMA,
  // Command R, and R7B to A.
  "command-r": COHERE,
  cohere2: { ...COHERE, windows: { period: 4, areAloneRotated: "always" } },
  stablelm: { ...NEOX, isLayerNormed: true },
  starcoder2: {
    activation: "geluTanh",
    isNeoxInFiles: true,
    isLayerNormed: true,
    isGateless: true,
    windows: { period: 0 },
  },
  // DeepSeek-V2 to V3.1 and R1, Kimi K2, GLM-4.7-Flash.
  deepseek2: { ...LATENT, draftBlocks: "left out" },
  // Mistral Small 4.
  mistral4: { ...LATENT, scalesQueries: true },
  // LFM2 and LFM2.5.
  lfm2: LFM2,
  lfm3: {
    ...LFM2,
    gates: "heads",
    hasPostNorms: true,
    hasPartialRope: true,
    windows: { period: 0, localRope: { base: 10_000 } },
  },
  lfm2moe: { ...LFM2, experts: { weighedBy: "sigmoid", mayShare: true, normalisesInFiles: true } },
  // ERNIE 4.5.
  ernie4_5: ERNIE,
  "ernie4_5-moe": {
    ...ERNIE,
    experts: { weighedBy: "softmax", mayShare: true, hasScoreBiases: true, hasInterval: true },
  },
  // Hunyuan's small models, and A13B.
  "hunyuan-dense": HUNYUAN,
  "hunyuan-moe": { ...HUNYUAN, experts: { weighedBy: "softmax", mayShare: true } },
  "minimax-m2": {
    ...NEOX,
    hasHeadNorms: true,
    normsAllHeads: true,
    experts: { weighedBy: "sigmoid", normalisesInFiles: true },
  },
  // GLM-4-0414.
  glm4: { ...LLAMA, isInterleavedInFolders: true, isNeoxWithAxes: true, hasPostNorms: true },
  // Granite 4.0.
  granitehybrid: {
    ...LLAMA,
    hasMamba: true,
    hasFactors: true,
    ropeSwitch: "served",
    experts: { weighedBy: "softmaxOfChosen", mayShare: true, sharedSize: "one" },
    plainInFiles: "granite",
  },
  // Nemotron 3 and 4, Minitron.
  nemotron: {
    activation: "reluSquared",
    isNeoxInFiles: true,
    isLayerNormed: true,
    hasOffsetNorms: true,
    isGateless: true,
  },
  // Arcee's AFM.
  arcee: { activation: "reluSquared", isGateless: true },
  // Ling 1 and 1.5; Ling, Ring and others of 2.0.
  bailingmoe: { ...LLAMA, experts: { weighedBy: "softmax", mayShare: true, normalisesInFiles: false } },
  bailingmoe2: {
    ...NEOX,
    hasHeadNorms: true,
    experts: { weighedBy: "sigmoid", mayShare: true, sharedSize: "one" },
    draftBlocks: "left out",
  },
  // Nemotron-H, Nemotron Nano 2 and 3.
  nemotron_h: NEMOTRON_H,
  nemotron_h_moe: { ...NEMOTRON_H, experts: { weighedBy: "sigmoid", mayShare: true, sharedSize: "one" } },
  // GPT-2; Pythia and GPT-NeoX; Phi 1 to 2; OPT.
  gpt2: { ...CLASSIC, activation: "geluTanh", hasPositionTable: true },
  gptneox: { ...CLASSIC, parallel: "ownNorms", mayBeSequential: true },
  phi2: { ...CLASSIC, activation: "geluTanh", parallel: "oneNorm" },
  // StarCoder 1.
  starcoder: { ...CLASSIC, activation: "geluTanh", hasPositionTable: true },
  // EXAONE 3.0, 3.5 and Deep; GLM-4-9B.
  exaone: NEOX,
  chatglm: { ...LLAMA, isInterleavedInFolders: true },
  opt: { ...CLASSIC, activation: "relu", hasPositionTable: true },
  // RoBERTa is one.
  bert: { ...BERT, hasBiases: true, normsSums: true, hasPositionTable: true, isGateless: true },
  "nomic-bert": { ...BERT, activation: "silu", normsSums: true, ropeBaseInFiles: 1000 },
  "nomic-bert-moe": {
    ...BERT,
    hasBiases: true,
    normsSums: true,
    isGateless: true,
    experts: { weighedBy: "softmaxOfAll", periodKey: "moe_every_n_layers" },
  },
  "modern-bert": {
    ...BERT,
    windows: { period: 3, isFromFirst: true, localRope: { base: 10_000 }, widthInFiles: 128 },
    ropeBaseInFiles: 160_000,
  },
  // A gemma3 whose tokens see the whole text.
  "gemma-embedding": {
    ...GEMMA2,
    hasHeadNorms: true,
    windows: { period: 6, localRope: { base: 10_000 }, widthInFiles: 512 },
    ropeBaseInFiles: 1_000_000,
  },
};

/**
 * The weights of a token's experts are relative to one another in GGUF files that do not say: where a row says nothing
 * else, with softmax they are, and with sigmoid, or of all experts, they are not.
 */
export const normalisesInFiles = ({ weighedBy = "softmax", normalisesInFiles: stated }: Partial<ExpertFacts> = {}) =>
  stated ?? (weighedBy === "softmax" || weighedBy === "softmaxOfChosen");

/** Tokens that a token of an encoder sees, itself included, where half of `stated` lie on each side; 0: all. */
export function windowOfBothSides(stated: number, contextLength: number): number {
  const half = Math.floor(stated / 2);
  return half >= contextLength - 1 ? 0 : 2 * half + 1;
}

export const factsOf = (architecture: Architecture): ArchitectureFacts => FACTS[architecture];

/** Facts about an architecture, by its name in files; none of one that the embedded engine does not compute. */
export const knownFacts = (name: string | undefined): Partial<ArchitectureFacts> =>
  ARCHITECTURES.some((known) => known === name) ? FACTS[name as Architecture] : {};
