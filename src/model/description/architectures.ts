/**
 * The architectures that the embedded engine computes, and what sets each apart from llama, whichever format a model is
 * read from or written to. Facts of one format alone are beside its reader: names of tensors, and defaults of
 * transformers' classes.
 */
import type { Activation } from "../../backend/ops.js";

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
  "lfm2",
  "lfm2moe",
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
] as const;
/** Models that make vectors of whole texts. */
const ENCODERS = ["bert", "nomic-bert", "nomic-bert-moe", "modern-bert", "gemma-embedding"] as const;
export type DecoderArchitecture = (typeof DECODERS)[number];
export type EncoderArchitecture = (typeof ENCODERS)[number];

export const ARCHITECTURES = [...DECODERS, ...ENCODERS] as const;
export type Architecture = (typeof ARCHITECTURES)[number];

export const isEncoder = (architecture: string): architecture is EncoderArchitecture =>
  (ENCODERS as readonly string[]).includes(architecture);

/**
 * How an architecture differs from llama; absent fields are as in llama. The tensors present (biases, norms, fused
 * projections) show the rest.
 */
interface ArchitectureFacts {
  /** Where a file is silent. */
  readonly activation: Activation;
  /** How GGUF files store the rows of queries and keys: rotated pairs are (i, i + half) instead of (2i, 2i + 1). */
  readonly isNeoxInFiles?: true;
  /** Rotated pairs in folders are (2i, 2i + 1) instead of (i, i + half). */
  readonly isInterleavedInFolders?: true;
  /** Embeddings are multiplied by √width. */
  readonly scalesEmbeddings?: true;
  /** Folders store norms as their distance from one. */
  readonly hasOffsetNorms?: true;
  /** Most layers keep a recurrent state in place of keys and values, and attention is gated. */
  readonly delta?: DeltaFacts;
  /** Most layers are a short convolution between two gates, and keep its last inputs in place of keys and values. */
  readonly hasConvolutions?: true;
  /** Most layers keep the state of a Mamba-2 in place of keys and values. */
  readonly hasMamba?: true;
  /** A layer is one part, with a norm before it: it mixes tokens, or is a feed-forward part. */
  readonly isOnePart?: true;
  /** Norms stand after sub-layers and not before them. */
  readonly isPostNormed?: true;
  /** Queries and keys are rotated before they are normed. */
  readonly normsAfterRope?: true;
  /** Norms take away the mean and may have a bias (LayerNorm); otherwise they only divide by the root mean square. */
  readonly isLayerNormed?: true;
  /** GGUF files call the epsilon of such norms that of an RMS norm, which llama.cpp computes. */
  readonly areRmsInFiles?: true;
  /** Norms stand after the sum of a sub-layer and its input, so that the residual stream itself is normed. */
  readonly normsSums?: true;
  readonly hasEmbeddingNorm?: true;
  /** Every linear layer and every norm must have a bias: without it, the model would compute something else. */
  readonly hasBiases?: true;
  /** Heads of queries and keys have norms of their own. */
  readonly hasHeadNorms?: true;
  /** Norms of queries and of keys go over all heads together. */
  readonly normsAllHeads?: true;
  /** Heads of values are normed too, without weights. */
  readonly hasValueNorm?: true;
  /** Norms stand after sub-layers too. */
  readonly hasPostNorms?: true;
  /** Factor of attention scores; absent: 1 / √headDim. */
  readonly attentionScale?: number;
  /** Positions are rows of a table, and no layer has a rope. */
  readonly hasPositionTable?: true;
  /** A layer's two parts read the same norm of its input, and both are added to it. */
  readonly isParallel?: true;
  /** Logits have a factor. */
  readonly hasLogitScale?: true;
  /** Feed-forward parts are two matrices. */
  readonly isGateless?: true;
  /** Models of it may have experts. */
  readonly experts?: ExpertFacts;
  /** Layers keep one latent vector of each token in place of the keys and values of heads. */
  readonly isLatent?: true;
  /** Each head has one more attention score, without a value. */
  readonly hasSinks?: true;
  /** Embeddings, residuals, scores and logits have factors. */
  readonly hasFactors?: true;
  /** A config.json may stretch the rope by an `alpha`; GGUF files have the base that it leads to. */
  readonly hasAlphaRope?: true;
  /**
   * A GGUF file's `rope.scaling.finetuned` switches the rope off: such files are served, or refused because nobody has
   * published one.
   */
  readonly ropeSwitch?: "served" | "refused";
  /** No layer has a rope. */
  readonly hasNoRope?: true;
  /** Queries may grow with their position. */
  readonly scalesQueries?: true;
  /** Bounds of attention scores and of logits, where a file is silent. */
  readonly caps?: { readonly attention: number; readonly logits: number };
  /** Logits have a bound where a file states one. */
  readonly mayCapLogits?: true;
  /** The model's rope turns a part of its pairs only, which a GGUF file says by factors of the frequencies. */
  readonly hasPartialRope?: true;
  /** Layers may share keys and values, take values of keys, and have an input of their own for each token. */
  readonly mayShareKeys?: true;
  /** Every n-th layer has no rope, where a file is silent. */
  readonly noRopePeriod?: number;
  readonly windows?: WindowFacts;
  /**
   * The ends of YaRN's ramp stay between whole pairs, in GGUF files, which do not say so (a config.json does:
   * `truncate`).
   */
  readonly roundsYarnRange?: false;
  /** As what GGUF files hold models that attend to all tokens with a rope, and have no experts. */
  readonly plainInFiles?: Architecture;
  /** Blocks behind the layers may draft later tokens; left out: they are not computed. */
  readonly draftBlocks?: "computed" | "left out";
  /** Base of the rope in a GGUF file that does not say; absent: 10,000. */
  readonly ropeBaseInFiles?: number;
  /**
   * Number of layers of the one size that divides scores by √(width / heads) instead of √headDim. GGUF files do not
   * state the divisor, and llama.cpp goes by the number of layers too.
   */
  readonly numLayersOf27b?: number;
}

/** The layers with a recurrent state. */
export interface DeltaFacts {
  /** GGUF files order value heads so that head h shares the key head h modulo their number. */
  readonly isTiledInFiles: boolean;
  /** Folders have queries, keys, values and gates in one matrix. */
  readonly isFusedInFolders: boolean;
  /** The rope is made for images too: GGUF files say which pairs turn by which axis. */
  readonly hasImageRope: boolean;
  /** Every n-th layer has attention, where a file does not list the layers. */
  readonly period: number;
}

interface ExpertFacts {
  /**
   * How logits weigh a token's experts. softmax: over all experts or over the chosen ones, as a file says.
   * softmaxOfChosen, softmaxOfAll: always so. sigmoid: of each expert's own logit; experts are chosen by it plus a
   * bias, within groups. either: softmax over all experts, within groups, or sigmoid, as a file says. sparseMixer: each
   * chosen one among those whose logits are near its own.
   */
  readonly weighedBy: "softmax" | "softmaxOfChosen" | "softmaxOfAll" | "sigmoid" | "either" | "sparseMixer";
  /** The weights of a token's experts are relative to one another in silent GGUF files; absent: `weighedBy` decides. */
  readonly normalisesInFiles?: boolean;
  /** Scores have biases, as with sigmoid they always have; folders store them as a matrix of one row. */
  readonly hasScoreBiases?: true;
  /** Of the layers that may have experts, every n-th one has them: layers n - 1, 2n - 1 and so on. */
  readonly hasInterval?: true;
  /** Routers and experts add biases. */
  readonly hasBiases?: true;
  /**
   * The first layers may have no experts, and the others may have a shared part beside theirs, which every token
   * passes.
   */
  readonly mayShare?: true;
  /**
   * GGUF files state the shared part's width, or that it is one part and its width; absent: they count the experts that
   * it is as wide as, and with softmax state its width too.
   */
  readonly sharedSize?: "width" | "one";
  /** The shared part's output has a gate. */
  readonly isSharedGated?: true;
  /** The key, in both formats, of a number n: the second of each n layers has experts, and the others have none. */
  readonly periodKey?: "moe_every_n_layers";
  /**
   * Every layer has a dense part beside its experts. Both have norms of their own, on both sides, and the router reads
   * the residual stream.
   */
  readonly areBesideDense?: true;
}

/** The layers with a sliding window, where a file does not list them. */
export interface WindowFacts {
  /** Every n-th layer sees everything (0: none does), the others have the window. */
  readonly period: number;
  /** The first layer sees everything, and each `period` after it. */
  readonly isFromFirst?: true;
  /**
   * Layers with the window have a rope of their own; base: where the file does not say (absent: that of the other
   * layers).
   */
  readonly localRope?: { readonly base?: number };
  /**
   * Layers with the window alone have the rope; ifAny: in a folder that states no window (null), all layers have it.
   */
  readonly areAloneRotated?: "always" | "ifAny";
  /** Layers with the window have heads of another width, and may have another number of heads of keys. */
  readonly hasOwnHeads?: true;
  /** Width in a GGUF file that does not say; absent: there is none. */
  readonly widthInFiles?: number;
}

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
  isParallel: true,
  hasLogitScale: true,
  isInterleavedInFolders: true,
};
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
  deepseek2: { ...LLAMA, isLatent: true, experts: { weighedBy: "either", mayShare: true }, draftBlocks: "left out" },
  // LFM2 and LFM2.5.
  lfm2: LFM2,
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
  glm4: { ...LLAMA, isInterleavedInFolders: true, hasPostNorms: true },
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
