/** Configuration classes of decoders with LayerNorms: rows of the table in class-traits.ts. */
import { LLAMA, type ServedTraits } from "./trait-types.js";

const USUAL = { rmsEps: 1e-5, ropeBase: 10_000 };
/** Names of transformers for GELU, and for its approximation by a tanh. */
const GELUS = {
  gelu: "gelu",
  gelu_new: "geluTanh",
  gelu_fast: "geluTanh",
  gelu_pytorch_tanh: "geluTanh",
} as const;

/** By `model_type`. */
export const CLASSIC_TRAITS = {
  gpt2: {
    ...LLAMA,
    architecture: "gpt2",
    isTied: true,
    activations: GELUS,
    denseWidth: "fourfold",
    unservedKeys: ["scale_attn_by_inverse_layer_idx", "add_cross_attention"],
    servedValues: { scale_attn_weights: [true] },
    defaults: { ...USUAL, width: 768, numLayers: 12, numHeads: 12, maxPositions: 1024, vocabSize: 50_257 },
  },
  gpt_bigcode: {
    ...LLAMA,
    architecture: "starcoder",
    isTied: true,
    activations: GELUS,
    denseWidth: "fourfold",
    unservedKeys: ["add_cross_attention"],
    servedValues: { scale_attn_weights: [true], multi_query: [true] },
    defaults: {
      ...USUAL,
      width: 768,
      numLayers: 12,
      numHeads: 12,
      numKvHeads: 1,
      maxPositions: 1024,
      vocabSize: 50_257,
    },
  },
  gpt_neox: {
    ...LLAMA,
    architecture: "gptneox",
    activations: GELUS,
    defaults: {
      ...USUAL,
      width: 6144,
      numLayers: 44,
      numHeads: 64,
      ffWidth: 24_576,
      maxPositions: 2048,
      vocabSize: 50_432,
      rotatedShare: 0.25,
    },
  },
  phi: {
    ...LLAMA,
    architecture: "phi2",
    activations: GELUS,
    unservedKeys: ["qk_layernorm"],
    defaults: {
      ...USUAL,
      width: 2048,
      numLayers: 24,
      numHeads: 32,
      ffWidth: 8192,
      maxPositions: 2048,
      vocabSize: 51_200,
      rotatedShare: 0.5,
    },
  },
  opt: {
    ...LLAMA,
    architecture: "opt",
    isTied: true,
    activations: { ...GELUS, relu: "relu" },
    rowsBeforePositions: 2,
    unservedKeys: ["_remove_final_layer_norm"],
    // Of the 350M model.
    servedValues: { do_layer_norm_before: [true], layer_norm_elementwise_affine: [true] },
    defaults: {
      ...USUAL,
      width: 768,
      numLayers: 12,
      numHeads: 12,
      ffWidth: 3072,
      maxPositions: 2048,
      vocabSize: 50_272,
    },
  },
  stablelm: {
    ...LLAMA,
    architecture: "stablelm",
    // Of the 12B model.
    unservedKeys: ["qk_layernorm", "use_parallel_residual"],
    defaults: {
      ...USUAL,
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
      ...USUAL,
      ffWidth: 12_288,
      numHeads: 24,
      numKvHeads: 2,
      maxPositions: 4096,
      vocabSize: 49_152,
    },
  },
} as const satisfies Readonly<Record<string, ServedTraits>>;
