/** The facts by which architectures differ; architectures.ts has them for each. */
import type { Activation } from "../../backend/ops.js";
import type { HeadGates } from "./model-description.js";

/**
 * How an architecture differs from llama; absent fields are as in llama. The tensors present (biases, norms, fused
 * projections) show the rest.
 */
export interface ArchitectureFacts {
  /** Where a file is silent. */
  readonly activation: Activation;
  /** How GGUF files store the rows of queries and keys: rotated pairs are (i, i + half) instead of (2i, 2i + 1). */
  readonly isNeoxInFiles?: true;
  /** The same, in files of models that see: those that say which pairs turn by which axis of a picture. */
  readonly isNeoxWithAxes?: true;
  /** Rotated pairs in folders are (2i, 2i + 1) instead of (i, i + half). */
  readonly isInterleavedInFolders?: true;
  /** Embeddings are multiplied by √width. */
  readonly scalesEmbeddings?: true;
  /** Folders store norms as their distance from one. */
  readonly hasOffsetNorms?: true;
  /** Most layers keep a recurrent state in place of keys and values. */
  readonly delta?: DeltaFacts;
  /** Gates of heads in layers with attention. */
  readonly gates?: HeadGates;
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
  /** A layer's two parts both read its input, and both are added to it; absent: the second reads the first's sum. */
  readonly parallel?: ParallelParts;
  /** A file may say that the parts are not parallel. */
  readonly mayBeSequential?: true;
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
  /** The architecture that GGUF files name for such models with full attention, a rope and no experts. */
  readonly plainInFiles?: "llama" | "granite";
  /** Of models that see: the architecture as which texts are computed, and which copies have. */
  readonly languagePart?: "qwen2" | "qwen3" | "qwen3moe";
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

/** Parts of a layer that read the same input: one norm of it for both, or a norm for each. */
export type ParallelParts = "oneNorm" | "ownNorms";

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

export interface ExpertFacts {
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
