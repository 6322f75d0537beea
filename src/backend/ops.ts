/**
 * The table of operations: for each one, its meaning and its operands in encoding order. The operand types, the
 * recorder, the reference device's decoder and the malformed-program tests derive from this table;
 * `scripts/write-op-table.js` writes native/cpu/kernels/op_table.h and docs/reference/operations.md from it. This file
 * imports only types and the other files of the table beside it, so that the script can load it alone.
 *
 * size: one table, most of whose statements are the lines of its operands.
 *
 * Matrices are row-major. The dimensions of a shape are integer operands, a weight's rows and cols, or constants of
 * this file; `*` is any size.
 */
import { ATTENTION_OPS } from "./attention-ops.js";
import { COLUMN_OPS } from "./column-ops.js";
import { EXPERT_OPS } from "./expert-ops.js";
import type { BufferHandle, WeightHandle, WeightStackHandle } from "./handles.js";
import { RECURRENT_OPS } from "./recurrent-ops.js";
import { ROW_OPS } from "./row-ops.js";
import { WEIGHT_OPS } from "./weight-ops.js";

/** Attention always splits the KV range into parts of this many entries (exactness rule E3). */
export const ATTENTION_PART = 256;

/** Entries stored together in a KV block; every block size is a multiple of it. */
export const KV_OCTET = 8;

/** Columns of a recurrent state that lie together, and that one task computes. */
export const STATE_COLUMNS = 32;

/** Names that an operand may have instead of a number; a name's index in its list is its code. */
export const CODES = {
  /**
   * Storage type of keys and values. int8 has one f32 scale per token and head, fp8_e4m3 a power of two, fp8_e5m2 none;
   * fp4 is NVFP4's E2M1 with an E4M3 scale per 16 values, and a power of two per token and head in place of one scale
   * per tensor.
   */
  KvType: ["f16", "f32", "int8", "fp8_e4m3", "fp8_e5m2", "fp4"],
  /**
   * A router's function of its logits, by which it chooses: their softmax over all experts (or over the chosen ones),
   * or each one's sigmoid. sparseMixer: their softmax over those near the chosen one.
   */
  Scoring: ["softmax", "sigmoid", "sparseMixer"],
  /**
   * Applied to a gate g, which is then multiplied by up u; clampedSwiglu needs both: min(g, 7) · sigmoid(1.702 · min(g,
   * 7)) · (clamp(u, ±7) + 1). relu: max(g, 0); reluSquared: its square.
   */
  Activation: ["silu", "geluTanh", "gelu", "relu", "reluSquared", "clampedSwiglu"],
  /** A function of a gate, by which `applyGate` multiplies. */
  Gate: ["sigmoid", "silu"],
  /**
   * Format of the left operand of `linear`: unrounded; int8 with a scale per block of 32 or 256 columns; int16 with a
   * scale per row; int8 per block of 32 for weights that are stored as bytes centred on 128; bfloat16; int8 with a
   * scale per block of 16 columns.
   */
  ActivationFormat: ["f32", "blocks32", "blocks256", "row16", "centred32", "bf16", "blocks16"],
  /** GGML's types that `encodeRows` writes. */
  BlockType: [
    "Q8_0",
    "Q4_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q2_K",
    "Q3_K",
    "Q4_K",
    "Q5_K",
    "Q6_K",
    "IQ4_NL",
    "IQ4_XS",
    "MXFP4",
  ],
  /**
   * Codes of `roundToScales`: 0 to 15 for −8 to 7; −127 to 127 in two's complement; E4M3's bits, of 448 at most; E2M1's
   * bits, in the low half of a byte.
   */
  ScaledType: ["int4", "int8", "e4m3", "e2m1"],
} as const;

export type Scoring = (typeof CODES.Scoring)[number];
export type KvType = (typeof CODES.KvType)[number];
export type Activation = (typeof CODES.Activation)[number];
export type ActivationFormat = (typeof CODES.ActivationFormat)[number];
export type BlockType = (typeof CODES.BlockType)[number];
export type ScaledType = (typeof CODES.ScaledType)[number];
export const KV_TYPES: readonly KvType[] = CODES.KvType;
export const BLOCK_TYPES: readonly BlockType[] = CODES.BlockType;
export const ACTIVATION_FORMATS: readonly ActivationFormat[] = CODES.ActivationFormat;

/** Column of each parameter in a row of sampler parameters (f64). */
export const SAMPLE_PARAM = {
  /** 0: sample; 1: only score `target`, for prompt log-probabilities */
  mode: 0,
  target: 1,
  /** 0 = greedy */
  temperature: 2,
  /** 0 = off */
  topK: 3,
  /** 1 = off */
  topP: 4,
  /** 0 = off */
  minP: 5,
  presencePenalty: 6,
  frequencyPenalty: 7,
  /** 1 = off */
  repetitionPenalty: 8,
  /** seed as two unsigned 32-bit halves */
  seedHigh: 9,
  seedLow: 10,
  /** position of the chosen token in the sequence; the counter of the noise generator */
  position: 11,
  /** how many top tokens to report; 0: only the chosen token's log-probability; −1: no log-probabilities at all */
  numTop: 12,
  historyStart: 13,
  numPromptTokens: 14,
  numOutputTokens: 15,
  biasStart: 16,
  numBiases: 17,
  banStart: 18,
  numBanned: 19,
  /** −1: no mask */
  maskStart: 20,
  /** 0 = off */
  topNSigma: 21,
  /** 1 = off */
  typicalP: 22,
  /** 0 = off */
  xtcProbability: 23,
  xtcThreshold: 24,
  /** 0 = off */
  dynatempRange: 25,
  dynatempExponent: 26,
  lateBiasStart: 27,
  numLateBiases: 28,
} as const;
/** f64 values per row of sampler parameters. */
export const SAMPLE_PARAMS = 32;

export type Access = "reads" | "writes" | "reads and writes";

export type BufferKind = "f32" | "i32" | "f64" | "bytes" | "activations" | "kvCache";

/** Description of an operand. `optional`: it may be omitted; 0 (NO_BUFFER, false) is then encoded. */
export type OperandSpec =
  | {
      readonly kind: BufferKind;
      readonly shape: string;
      readonly access: Access;
      readonly optional?: true;
      readonly note?: string;
    }
  | { readonly kind: "weight" | "weights"; readonly shape: string; readonly note?: string }
  | { readonly kind: "integer"; readonly optional?: true; readonly note?: string }
  | { readonly kind: "number"; readonly optional?: true; readonly note?: string }
  | { readonly kind: "flag"; readonly optional?: true; readonly note?: string }
  | {
      readonly kind: "code";
      readonly of: keyof typeof CODES;
      /** The lowest and the highest valid code; absent: of all in the list. */
      readonly min?: number;
      readonly max?: number;
      readonly note?: string;
    };

export interface OpSpec {
  readonly computes: string;
  readonly operands: Readonly<Record<string, OperandSpec>>;
}

const NUM_ROWS = { kind: "integer", note: "M" } as const;

/** Order matters: an operation's index is its opcode, and an operand's index is that of its encoded word. */
export const OPS = {
  embed: {
    computes: "out[m] = scale · weight[ids[m]], of dequantised rows.",
    operands: {
      out: { kind: "f32", shape: "[numRows, weight.cols]", access: "writes" },
      weight: { kind: "weight", shape: "[*, *]", note: "in rows" },
      ids: { kind: "i32", shape: "[numRows]", access: "reads", note: "each in [0, weight.rows)" },
      numRows: NUM_ROWS,
      scale: { kind: "number" },
    },
  },
  rmsNorm: {
    computes: "out[m] = x[m] / sqrt(mean(x[m]²) + eps) · gain. out may be x.",
    operands: {
      out: { kind: "f32", shape: "[numRows, width]", access: "writes" },
      x: { kind: "f32", shape: "[numRows, width]", access: "reads" },
      gain: { kind: "f32", shape: "[width]", access: "reads" },
      numRows: NUM_ROWS,
      width: { kind: "integer", note: "at least 1" },
      eps: { kind: "number", note: "at least 0" },
    },
  },
  layerNorm: {
    computes: "out[m] = (x[m] − mean(x[m])) / sqrt(variance(x[m]) + eps) · gain (+ bias). out may be x.",
    operands: {
      out: { kind: "f32", shape: "[numRows, width]", access: "writes" },
      x: { kind: "f32", shape: "[numRows, width]", access: "reads" },
      gain: { kind: "f32", shape: "[width]", access: "reads" },
      bias: { kind: "f32", shape: "[width]", access: "reads", optional: true },
      numRows: NUM_ROWS,
      width: { kind: "integer", note: "at least 1" },
      eps: { kind: "number", note: "at least 0" },
    },
  },
  quantize: {
    computes:
      "Rounds rows of x to integers with a scale per block or row: d = max|x| / largest, q = x · (largest / max|x|) to nearest even, " +
      "largest = 127 or 32767. A block or row with a NaN or an infinity has d = NaN.",
    operands: {
      out: { kind: "bytes", shape: "[*]", access: "writes", note: "M rows of activationRowBytes(format, width)" },
      x: { kind: "f32", shape: "[numRows, width]", access: "reads" },
      numRows: NUM_ROWS,
      width: {
        kind: "integer",
        note: "a multiple of 256 for blocks256, of 16 for blocks16, any for bf16, of 32 otherwise",
      },
      format: { kind: "code", of: "ActivationFormat", min: 1 },
    },
  },
  linear: {
    computes:
      "out = x · weightᵀ (+ bias) (+ out, when `accumulate`). One output's K-sum is the same sequence of operations whatever M and the " +
      "thread count are (E1). out is not x.",
    operands: {
      out: { kind: "f32", shape: "[numRows, weight.rows]", access: "reads and writes", note: "read when `accumulate`" },
      x: {
        kind: "activations",
        shape: "[numRows, weight.cols]",
        access: "reads",
        note: "f32; with a packed weight, rows that `quantize` wrote in the format the weight's type needs",
      },
      weight: { kind: "weight", shape: "[N, K]" },
      bias: { kind: "f32", shape: "[weight.rows]", access: "reads", optional: true },
      numRows: NUM_ROWS,
      accumulate: { kind: "flag", optional: true },
    },
  },
  add: {
    computes: "out[i] += x[i].",
    operands: {
      out: { kind: "f32", shape: "[numRows, width]", access: "reads and writes" },
      x: { kind: "f32", shape: "[numRows, width]", access: "reads" },
      numRows: NUM_ROWS,
      width: { kind: "integer" },
    },
  },
  multiply: {
    computes: "out[m, i] ·= x[m, first + i].",
    operands: {
      out: { kind: "f32", shape: "[numRows, width]", access: "reads and writes" },
      x: { kind: "f32", shape: "[numRows, xWidth]", access: "reads" },
      numRows: NUM_ROWS,
      width: { kind: "integer" },
      xWidth: { kind: "integer", note: "at least first + width" },
      first: { kind: "integer" },
    },
  },
  scaleAndCap: {
    computes: "x[i] = scale · x[i], then, where cap > 0, x[i] = cap · tanh(x[i] / cap).",
    operands: {
      x: { kind: "f32", shape: "[numRows, width]", access: "reads and writes" },
      numRows: NUM_ROWS,
      width: { kind: "integer" },
      scale: { kind: "number" },
      cap: { kind: "number", optional: true, note: "at least 0; 0 = none" },
    },
  },
  scaleByPosition: {
    computes: "x[m] ·= 1 + beta · ln(1 + floor(positions[m] / length)).",
    operands: {
      x: { kind: "f32", shape: "[numRows, width]", access: "reads and writes" },
      positions: { kind: "i32", shape: "[numRows]", access: "reads", note: "each at least 0" },
      numRows: NUM_ROWS,
      width: { kind: "integer" },
      beta: { kind: "number" },
      length: { kind: "integer", note: "in [1, 2²⁷]" },
    },
  },
  activate: {
    computes: "x[i] = kind(x[i]).",
    operands: {
      x: { kind: "f32", shape: "[numRows, width]", access: "reads and writes" },
      numRows: NUM_ROWS,
      width: { kind: "integer" },
      kind: { kind: "code", of: "Activation", max: CODES.Activation.indexOf("reluSquared") },
    },
  },
  gatedLinear: {
    computes:
      "out = kind(gate) · up, where gate and up are `linear`, each with its own x and bias; with clampedSwiglu, g · sigmoid(1.702 · g) · u, " +
      "where g is gate bounded to at most 7, and u is 1 + up bounded to ±7. scratch is memory that the operation may use; it is neither out nor " +
      "an x.",
    operands: {
      out: { kind: "f32", shape: "[numRows, gateWeight.rows]", access: "writes" },
      scratch: { kind: "f32", shape: "[numRows, upWeight.rows]", access: "writes" },
      gateX: { kind: "activations", shape: "[numRows, gateWeight.cols]", access: "reads", note: "as x of `linear`" },
      gateWeight: { kind: "weight", shape: "[N, K]" },
      gateBias: { kind: "f32", shape: "[gateWeight.rows]", access: "reads", optional: true },
      upX: { kind: "activations", shape: "[numRows, upWeight.cols]", access: "reads", note: "as x of `linear`" },
      upWeight: { kind: "weight", shape: "[N, *]" },
      upBias: { kind: "f32", shape: "[upWeight.rows]", access: "reads", optional: true },
      numRows: NUM_ROWS,
      kind: { kind: "code", of: "Activation" },
    },
  },
  ropeTable: {
    computes: "out[m, i] = (cos, sin)(positions[m] · invFreq[i]) · magnitude.",
    operands: {
      out: { kind: "f32", shape: "[numRows, half, 2]", access: "writes" },
      positions: { kind: "i32", shape: "[numRows]", access: "reads" },
      invFreq: { kind: "f32", shape: "[half]", access: "reads" },
      numRows: NUM_ROWS,
      half: { kind: "integer" },
      magnitude: { kind: "number" },
    },
  },
  ...ATTENTION_OPS,
  ...ROW_OPS,
  sample: {
    computes:
      "Chooses (or scores) one token per row of logits. Order of work: log-probabilities and ranks from the raw logits; mask; biases; bans; " +
      "repetition, then frequency and presence penalties; late biases; top-n-sigma; min-p, top-k, top-p, of the probabilities at the temperature " +
      "(at 1, where it is 0); locally typical; XTC and dynamic temperature, as typical of the probabilities at temperature 1 of the tokens " +
      "left; temperature; Gumbel noise; arg-max. Ties everywhere: logit descending, id ascending. Noise is a function of (seed, position, id) " +
      "only (E5), and XTC's number that of id −1.",
    operands: {
      logits: { kind: "f32", shape: "[numRows, vocabSize]", access: "reads" },
      numRows: NUM_ROWS,
      vocabSize: { kind: "integer", note: "V, at least 1" },
      params: {
        kind: "f64",
        shape: "[numRows, SAMPLE_PARAMS]",
        access: "reads",
        note: "columns: `SAMPLE_PARAM`, beside the table",
      },
      history: {
        kind: "i32",
        shape: "[*]",
        access: "reads",
        note: "each row's prompt, then output, at its historyStart",
      },
      biasIds: {
        kind: "i32",
        shape: "[*]",
        access: "reads",
        note: "ids of additive biases at each row's biasStart, and of those added after the penalties at its lateBiasStart",
      },
      biasValues: { kind: "f32", shape: "[*]", access: "reads", note: "parallel to biasIds" },
      bannedIds: {
        kind: "i32",
        shape: "[*]",
        access: "reads",
        note: "ids whose logit becomes −inf, at each row's banStart",
      },
      masks: {
        kind: "i32",
        shape: "[*]",
        access: "reads",
        note: "at each row's maskStart, ceil(V / 32) words whose bits say which ids may come (bit i of word w: id 32w + i)",
      },
      outIds: {
        kind: "i32",
        shape: "[numRows]",
        access: "writes",
        note: "−1 where all logits are NaN or −∞: the row has then no log-probability or rank",
      },
      outLogprobs: { kind: "f32", shape: "[numRows]", access: "writes" },
      outRanks: { kind: "i32", shape: "[numRows]", access: "writes", note: "1 = most likely" },
      topIds: {
        kind: "i32",
        shape: "[numRows, topStride]",
        access: "writes",
        note: "logit descending, then id ascending",
      },
      topLogprobs: { kind: "f32", shape: "[numRows, topStride]", access: "writes" },
      topStride: { kind: "integer" },
    },
  },
  pack: {
    computes: "Writes weight, which lies in rows, to out from byteOffset on in its packed layout.",
    operands: {
      out: { kind: "bytes", shape: "[*]", access: "writes", note: "packedByteLength bytes from byteOffset on" },
      byteOffset: { kind: "integer" },
      weight: { kind: "weight", shape: "[N, K]", note: "in rows, of a type with a packed form" },
    },
  },
  ...EXPERT_OPS,
  ...RECURRENT_OPS,
  ...WEIGHT_OPS,
  ...COLUMN_OPS,
} as const satisfies Readonly<Record<string, OpSpec>>;

export type OpName = keyof typeof OPS;
/** Operation names in opcode order, from 0. */
export const OP_NAMES = Object.keys(OPS) as readonly OpName[];

type SpecsOf<Name extends OpName> = (typeof OPS)[Name]["operands"];
type AfterFirst<Names> = Names extends readonly [unknown, ...infer Rest extends readonly string[]] ? Rest : never;
type CodeOf<Spec> = Spec extends { readonly of: infer List extends keyof typeof CODES }
  ? (Spec extends { readonly min: 1 } ? AfterFirst<(typeof CODES)[List]> : (typeof CODES)[List])[number]
  : never;
type ValueOf<Spec> = Spec extends { readonly kind: BufferKind }
  ? BufferHandle
  : Spec extends { readonly kind: "weight" }
    ? WeightHandle
    : Spec extends { readonly kind: "weights" }
      ? WeightStackHandle
      : Spec extends { readonly kind: "flag" }
        ? boolean
        : Spec extends { readonly kind: "code" }
          ? CodeOf<Spec>
          : number;
type OptionalIn<Specs> = {
  [Key in keyof Specs]: Specs[Key] extends { readonly optional: true } ? Key : never;
}[keyof Specs];

/** The operand object that `Program.record` takes for an operation. @example OperandsOf<"linear"> */
export type OperandsOf<Name extends OpName> = {
  readonly [Key in Exclude<keyof SpecsOf<Name>, OptionalIn<SpecsOf<Name>>>]: ValueOf<SpecsOf<Name>[Key]>;
} & {
  readonly [Key in OptionalIn<SpecsOf<Name>>]?: ValueOf<SpecsOf<Name>[Key]> | undefined;
};

/** The names of an operation's operands of the given kinds. */
export type OperandName<Name extends OpName, Kind extends OperandSpec["kind"] = OperandSpec["kind"]> = {
  [Key in keyof SpecsOf<Name>]: SpecsOf<Name>[Key] extends { readonly kind: Kind } ? Key : never;
}[keyof SpecsOf<Name>] &
  string;

/** An operation's operands in encoding order. */
export function operandsIn(name: OpName): readonly (readonly [operand: string, spec: OperandSpec])[] {
  return Object.entries<OperandSpec>(OPS[name].operands);
}

/** @example signatureOf("add") // "add(out, x, numRows, width)" */
export function signatureOf(name: OpName): string {
  return `${name}(${operandsIn(name)
    .map(([operand]) => operand)
    .join(", ")})`;
}
