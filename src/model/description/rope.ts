/**
 * Rotary position embedding: its settings, and the inverse frequencies and the magnitude that the kernels multiply
 * with. Kinds of scaling: linear, YaRN (arXiv 2309.00071, with llama.cpp's constants), a factor for each frequency
 * (Llama 3, Phi-3 long).
 */
import { MillraceError } from "../../core/errors.js";

export const ROPE_SCALINGS = ["none", "linear", "yarn", "longrope"] as const;
type RopeScaling = (typeof ROPE_SCALINGS)[number];

export interface RopeConfig {
  /** Values of a head that are rotated; even, at most headDim. */
  readonly dim: number;
  readonly base: number;
  readonly scaling: RopeScaling;
  /** How far the context was stretched; 1 = not. */
  readonly factor: number;
  readonly originalContextLength: number;
  readonly betaFast: number;
  readonly betaSlow: number;
  /** The ends of YaRN's ramp from kept to stretched frequencies are rounded outwards to whole pairs. */
  readonly roundsYarnRange: boolean;
  readonly attentionFactor: number;
}

/**
 * Inverse frequencies [dim / 2] and the magnitude of cosine and sine.
 * `factors` [dim / 2] divide the frequencies (tensors rope_freqs, rope_factors_short / _long).
 */
export function ropeFrequencies(
  rope: RopeConfig,
  factors: Float32Array | undefined,
): { readonly invFreq: Float32Array; readonly magnitude: number } {
  const half = rope.dim / 2;
  if (factors !== undefined && (factors.length !== half || !factors.every((factor) => factor > 0))) {
    throw new MillraceError(
      "gguf_tensor",
      `expected ${half} positive rope factors, got ${factors.length} (or one that is not positive)`,
    );
  }
  const invFreq = new Float32Array(half);
  for (let i = 0; i < half; i++) {
    const plain = rope.base ** ((-2 * i) / rope.dim) / (factors?.[i] ?? 1);
    invFreq[i] = plain * frequencyScale(rope, i);
  }
  const stretch = rope.scaling === "yarn" ? 1 + 0.1 * Math.log(rope.factor) : 1;
  return { invFreq, magnitude: rope.attentionFactor * stretch };
}

function frequencyScale(rope: RopeConfig, pair: number): number {
  if (rope.scaling === "linear") return 1 / rope.factor;
  if (rope.scaling !== "yarn") return 1;
  const [first, last] = [correctionDim(rope, rope.betaFast), correctionDim(rope, rope.betaSlow)];
  const low = Math.max(0, rope.roundsYarnRange ? Math.floor(first) : first);
  const high = Math.min(rope.dim - 1, rope.roundsYarnRange ? Math.ceil(last) : last);
  const ramp = Math.min(1, Math.max(0, (pair - low) / Math.max(0.001, high - low)));
  // ramp 0: fast pair, kept as trained; ramp 1: slow pair, interpolated.
  return (1 - ramp) * 1 + ramp / rope.factor;
}

/** The (fractional) pair whose wave turns `rotations` times within the original context. */
function correctionDim(rope: RopeConfig, rotations: number): number {
  const turns = rope.originalContextLength / (rotations * 2 * Math.PI);
  return (rope.dim * Math.log(turns)) / (2 * Math.log(rope.base));
}
