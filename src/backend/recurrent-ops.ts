/**
 * The part of the table of operations that carries state from token to token; see ops.ts.
 *
 * A step's rows of one sequence lie side by side, in order. A slot holds the state after some number of a sequence's
 * tokens; `sources` says for each row which one it continues, `targets` and `copies` which ones keep the state after
 * it. So a sequence's state does not depend on how its tokens are spread over steps.
 */

const NUM_ROWS = { kind: "integer", note: "M" } as const;
const NUM_SLOTS = { kind: "integer", note: "of states" } as const;
const SOURCES = {
  kind: "i32",
  shape: "[numRows]",
  access: "reads",
  note: "a slot; −1: the state before a first token, zeros; −2: the state after row m − 1 (not in row 0)",
} as const;
const TARGETS = {
  kind: "i32",
  shape: "[numRows]",
  access: "reads",
  note: "a slot; −1: none. No later row of the program reads another row's slot before it is written",
} as const;
const COPIES = { ...TARGETS, optional: true, note: "a second slot, as targets" } as const;

export const RECURRENT_OPS = {
  causalConv: {
    computes:
      "out[m] = Σ_j kernel[j] · x of the token taps − 1 − j before row m's (+ bias), a convolution of each column alone, and SiLU of it when " +
      "`isActivated`; zeros before a sequence's first token. A slot keeps the last taps − 1 rows of x, the oldest first. Products and sums are " +
      "added in order of j, then the bias, and are the same bits on every instruction set.",
    operands: {
      out: { kind: "f32", shape: "[numRows, width]", access: "writes" },
      x: { kind: "f32", shape: "[numRows, width]", access: "reads" },
      kernel: { kind: "f32", shape: "[taps, width]", access: "reads" },
      bias: { kind: "f32", shape: "[width]", access: "reads", optional: true },
      state: { kind: "f32", shape: "[*]", access: "reads and writes", note: "[numSlots, taps − 1, width]" },
      sources: SOURCES,
      targets: TARGETS,
      copies: COPIES,
      numRows: NUM_ROWS,
      numSlots: NUM_SLOTS,
      width: { kind: "integer", note: "at least 1" },
      taps: { kind: "integer", note: "in [1, 64]" },
      isActivated: { kind: "flag" },
    },
  },
  deltaRule: {
    computes:
      "The gated delta rule, token by token: of each value head h and its key head g, with q and k over their lengths √(Σ² + eps) and q also " +
      "over √keyDim, β = sigmoid(beta[m, h]) and α = e^(decay[h] · softplus(alpha[m, h] + bias[h])): S ← α S; δ = β (v − Sᵀ k); S ← S + k " +
      "δᵀ; out[m, h] = Sᵀ q. g is h mod numKeyHeads when `isTiled`, else ⌊h · numKeyHeads / numValueHeads⌋. Each column of S depends on " +
      "nothing but itself, and its sums are the same sequence of operations whatever the rows, the threads and the instruction set are.",
    operands: {
      out: { kind: "f32", shape: "[numRows, numValueHeads, valueDim]", access: "writes" },
      x: {
        kind: "f32",
        shape: "[*]",
        access: "reads",
        note: "M rows of q [numKeyHeads, keyDim], k [numKeyHeads, keyDim], v [numValueHeads, valueDim]",
      },
      alpha: { kind: "f32", shape: "[numRows, numValueHeads]", access: "reads" },
      beta: { kind: "f32", shape: "[numRows, numValueHeads]", access: "reads" },
      decay: { kind: "f32", shape: "[numValueHeads]", access: "reads" },
      bias: { kind: "f32", shape: "[numValueHeads]", access: "reads" },
      state: {
        kind: "f32",
        shape: "[*]",
        access: "reads and writes",
        note: "[numSlots, numValueHeads, ⌈valueDim / STATE_COLUMNS⌉, keyDim, STATE_COLUMNS]: S in blocks of columns, the last one padded",
      },
      sources: SOURCES,
      targets: TARGETS,
      copies: COPIES,
      numRows: NUM_ROWS,
      numSlots: NUM_SLOTS,
      numKeyHeads: { kind: "integer", note: "at least 1" },
      numValueHeads: { kind: "integer", note: "a multiple of numKeyHeads" },
      keyDim: { kind: "integer", note: "in [1, 4096]" },
      valueDim: { kind: "integer", note: "in [1, 4096]" },
      isTiled: { kind: "flag" },
      eps: { kind: "number", note: "at least 0" },
    },
  },
  selectiveScan: {
    computes:
      "A state space of the kind of Mamba-2, token by token: of each head h and its group g = ⌊h · numGroups / numHeads⌋, with the step Δ = " +
      "softplus(steps[m, h] + bias[h]) and α = e^(decay[h] · Δ): S ← α S + B[g] (Δ x[h])ᵀ; out[m, h] = Sᵀ C[g] + skip[h] · x[h]. Columns of S " +
      "are computed alone, as in `deltaRule`.",
    operands: {
      out: { kind: "f32", shape: "[numRows, numHeads, valueDim]", access: "writes" },
      x: {
        kind: "f32",
        shape: "[*]",
        access: "reads",
        note: "M rows of x [numHeads, valueDim], B [numGroups, stateDim], C [numGroups, stateDim]",
      },
      steps: { kind: "f32", shape: "[numRows, numHeads]", access: "reads" },
      decay: { kind: "f32", shape: "[numHeads]", access: "reads" },
      bias: { kind: "f32", shape: "[numHeads]", access: "reads" },
      skip: { kind: "f32", shape: "[numHeads]", access: "reads" },
      state: {
        kind: "f32",
        shape: "[*]",
        access: "reads and writes",
        note: "[numSlots, numHeads, ⌈valueDim / STATE_COLUMNS⌉, stateDim, STATE_COLUMNS]: S in blocks of columns, the last one padded",
      },
      sources: SOURCES,
      targets: TARGETS,
      copies: COPIES,
      numRows: NUM_ROWS,
      numSlots: NUM_SLOTS,
      numHeads: { kind: "integer", note: "a multiple of numGroups" },
      numGroups: { kind: "integer", note: "at least 1" },
      stateDim: { kind: "integer", note: "in [1, 4096]" },
      valueDim: { kind: "integer", note: "in [1, 4096]" },
    },
  },
  gatedNorm: {
    computes:
      "x[m] ·= silu(gate[m]); then each of the numGroups parts of x[m], which are as wide as one another, over sqrt(mean of its squares + eps), " +
      "· gain.",
    operands: {
      x: { kind: "f32", shape: "[numRows, width]", access: "reads and writes" },
      gate: { kind: "f32", shape: "[numRows, width]", access: "reads" },
      gain: { kind: "f32", shape: "[width]", access: "reads" },
      numRows: NUM_ROWS,
      width: { kind: "integer", note: "a multiple of numGroups" },
      numGroups: { kind: "integer", note: "at least 1" },
      eps: { kind: "number", note: "at least 0" },
    },
  },
  applyGate: {
    computes: "x[m] ·= kind(gate[m]); one gate for the whole row where gateWidth is 1.",
    operands: {
      x: { kind: "f32", shape: "[numRows, width]", access: "reads and writes" },
      gate: { kind: "f32", shape: "[numRows, gateWidth]", access: "reads" },
      numRows: NUM_ROWS,
      width: { kind: "integer" },
      gateWidth: { kind: "integer", note: "width or 1" },
      kind: { kind: "code", of: "Gate" },
    },
  },
} as const;
