/**
 * Measurements of millrace on a CPU (docs/background/benchmarks/kernels.md, 2026-11-22), with the probes of the same
 * hour. They check the model's CPU side, which is fitted to other data.
 */
import { layersOf, type ModelDescription } from "../../model/description/model-description.js";

/**
 * AMD EPYC of the Zen 5 generation, two cores, AVX-512 with VNNI: results of the multiplying, reading and float probes.
 */
export const ZEN5_PROBES = {
  readBytesPerS: 54e9,
  narrowMacsPerS: 790e9,
  wideMacsPerS: 395e9,
  floatMacsPerS: 255e9,
  numCores: 2,
} as const;

/** The random 1.1B llama. */
export const R1_1B: ModelDescription = {
  name: "r1.1b",
  width: 2048,
  vocabSize: 32_000,
  contextLength: 4096,
  isTied: false,
  layers: layersOf(22, () => ({
    mixer: { kind: "attention", numHeads: 32, numKvHeads: 4, headDim: 64, valueDim: 64, window: 0, rope: 0 },
    feedForward: { kind: "dense", width: 5632 },
  })),
};

export interface MeasuredModel {
  readonly label: string;
  readonly weightBytes: number;
  readonly embeddingBytes: number;
  /** Tokens/s: a prompt of 512 tokens; decoding of so many sequences at 16 to 40 tokens of context; of one at 4,096. */
  readonly prefill512: number;
  readonly decode: Readonly<Record<1 | 2 | 4 | 8 | 16, number>>;
  readonly decodeAt4096: number;
}

export const MEASURED: readonly MeasuredModel[] = [
  {
    label: "Q4_0",
    weightBytes: 635_990_016,
    embeddingBytes: 36_864_000,
    prefill512: 618.4,
    decode: { 1: 81.0, 2: 165.3, 4: 305.1, 8: 425.4, 16: 488.0 },
    decodeAt4096: 68.3,
  },
  {
    label: "Q8_0",
    weightBytes: 1_169_072_128,
    embeddingBytes: 69_632_000,
    prefill512: 374.8,
    decode: { 1: 38.2, 2: 77.0, 4: 159.1, 8: 248.3, 16: 302.4 },
    decodeAt4096: 36.3,
  },
  {
    label: "Q4_K",
    weightBytes: 667_078_656,
    embeddingBytes: 36_864_000,
    prefill512: 551.5,
    decode: { 1: 65.0, 2: 127.0, 4: 248.6, 8: 404.8, 16: 493.7 },
    decodeAt4096: 51.0,
  },
];
