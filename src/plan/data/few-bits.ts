/**
 * GGUF types of one to three bits, for tight memory: bits per weight and quality loss, from llama.cpp's own tables of
 * Llama 3(.1) 8B (tools/quantize and tools/perplexity; with an importance matrix, except for the ternary types).
 */
import { GRID_BLOCKS, type GridType } from "../../formats/grid-blocks.js";

export const FEW_BIT_IDS = [
  "q3_k_m",
  "iq3_m",
  "iq3_xxs",
  "q2_k",
  "iq2_m",
  "iq2_xs",
  "iq2_xxs",
  "tq2_0",
  "iq1_m",
  "tq1_0",
  "iq1_s",
] as const;
export type FewBitId = (typeof FEW_BIT_IDS)[number];

/** Weights of Llama-3.1-8B, and of its two tables of 525 million each. */
const [ALL_WEIGHTS, TABLE_WEIGHTS] = [8.03e9, 1.0507e9];

/**
 * The type's name, bits per weight of the whole file, bits of the output matrix and of the embedding as the quantizer
 * chooses them, the type of most layers if it has a codebook, and the KL divergence.
 */
const ROWS: Readonly<Record<FewBitId, readonly [string, number, number, number, GridType | undefined, number?]>> = {
  q3_k_m: ["Q3_K_M", 4.0, 6.5625, 3.4375, undefined, 0.0844],
  iq3_m: ["IQ3_M", 3.7628, 6.5625, 3.4375, "IQ3_S", 0.1025],
  iq3_xxs: ["IQ3_XXS", 3.2548, 5.5, 3.4375, "IQ3_XXS", 0.1836],
  q2_k: ["Q2_K", 3.1593, 6.5625, 2.625, undefined, 0.3322],
  iq2_m: ["IQ2_M", 2.9294, 5.5, 3.4375, "IQ2_S", 0.326],
  iq2_xs: ["IQ2_XS", 2.5882, 5.5, 2.625, "IQ2_XS", 0.5463],
  iq2_xxs: ["IQ2_XXS", 2.3824, 5.5, 2.625, "IQ2_XXS", 0.812],
  // Bits of the ternary types' blocks; the tables have no ternary file of Llama 3.
  tq2_0: ["TQ2_0", 2.0625, 6.5625, 4.5, "TQ2_0"],
  iq1_m: ["IQ1_M", 2.146, 5.5, 2.625, "IQ1_M", 1.3931],
  tq1_0: ["TQ1_0", 1.6875, 6.5625, 4.5, "TQ1_0"],
  iq1_s: ["IQ1_S", 2.0042, 5.5, 2.625, "IQ1_S", 2.2546],
};

/** The same fields as in `Quantization`. */
interface FewBitType {
  readonly id: FewBitId;
  readonly label: string;
  readonly linearBytes: number;
  readonly tableBytes: number;
  readonly arithmetic: "cpu4";
  readonly computeFactor: number;
  readonly packedFactor?: number;
  readonly gate: { readonly recovery: undefined; readonly of: readonly string[]; readonly evidence: string };
}

function fewBits(id: FewBitId): FewBitType {
  const [name, bits, ofOutput, ofEmbedding, grid, divergence] = ROWS[id];
  const ofTables = (ofOutput + ofEmbedding) / 2;
  // A ternary type's bits are those of its blocks; the other types' are those of the whole file.
  const ofLayers =
    divergence === undefined ? bits : (bits * ALL_WEIGHTS - ofTables * TABLE_WEIGHTS) / (ALL_WEIGHTS - TABLE_WEIGHTS);
  const loss =
    divergence === undefined
      ? "no figure is known here: for models that were trained in three values only"
      : `KL divergence ${divergence.toPrecision(2)}, above the 4-bit gate of 0.05 (llama.cpp's table of Llama 3 8B)`;
  return {
    id,
    label: `GGUF ${name}`,
    linearBytes: ofLayers / 8,
    tableBytes: ofTables / 8,
    arithmetic: "cpu4",
    computeFactor: 0.85,
    ...(grid === undefined ? {} : { packedFactor: GRID_BLOCKS[grid].packedBytes / GRID_BLOCKS[grid].byteLength }),
    gate: { recovery: undefined, of: divergence === undefined ? [] : ["llama-3-8b"], evidence: loss },
  };
}

export const FEW_BITS = Object.fromEntries(FEW_BIT_IDS.map((id) => [id, fewBits(id)])) as Readonly<
  Record<FewBitId, FewBitType>
>;

/** Names of the types in GGUF files. */
export const FEW_BIT_NAMES = Object.fromEntries(FEW_BIT_IDS.map((id) => [id, ROWS[id][0]])) as Readonly<
  Record<FewBitId, string>
>;
