/** The part of the table of operations that is about mixtures of experts; see ops.ts. */

const NUM_ROWS = { kind: "integer", note: "M" } as const;
const NUM_CHOSEN = { kind: "integer", note: "k, at least 1" } as const;
const NUM_EXPERTS = { kind: "integer", note: "E, at least k" } as const;
const NUM_SLOTS = { kind: "integer", note: "M · k" } as const;
const PLACES = {
  kind: "i32",
  shape: "[numRows, numChosen]",
  access: "reads",
  note: "as `groupExperts` wrote them",
} as const;

export const EXPERT_OPS = {
  routeExperts: {
    computes:
      "experts[m] = the k experts with the largest scores of row m, largest first, ties to the lower index, NaN last. With softmax and sparseMixer, scores " +
      "are the logits, or where there is a bias, the softmax of the row's logits + bias. With softmax, weights[m, s] is scale times the softmax of all the row's logits at experts[m, s]; when `normalises`, of the k " +
      "chosen logits. With sparseMixer, it is scale times the softmax at experts[m, s] of those logits x that are not of experts[m, 0 to s - 1] " +
      "and that are near its logit y: (y - x) / max(|x|, y) is not above 0.02, all in f32. With sigmoid, weights are sigmoid(logit), when `normalises` over their sum, times scale; scores are sigmoid(logit) + " +
      "bias. Experts lie in numGroups groups side by side; where these are more than numUsedGroups, only experts of those numUsedGroups " +
      "are chosen whose largest scores are the largest, or with sigmoid, whose two largest scores have the largest sums, ties to the lower index.",
    operands: {
      experts: { kind: "i32", shape: "[numRows, numChosen]", access: "writes" },
      weights: { kind: "f32", shape: "[numRows, numChosen]", access: "writes" },
      logits: { kind: "f32", shape: "[numRows, numExperts]", access: "reads" },
      numRows: NUM_ROWS,
      numExperts: NUM_EXPERTS,
      numChosen: NUM_CHOSEN,
      normalises: { kind: "flag" },
      scoring: { kind: "code", of: "Scoring" },
      scale: { kind: "number" },
      numGroups: { kind: "integer", note: "G, at least 1; E is a multiple, and of two or more if G > 1" },
      numUsedGroups: { kind: "integer", note: "at least 1, at most G; they have at least k experts" },
      bias: { kind: "f32", shape: "[numExperts]", access: "reads", optional: true, note: "of scores, not of weights" },
      factors: {
        kind: "f32",
        shape: "[numExperts]",
        access: "reads",
        optional: true,
        note: "of weights, by which experts[m, s] multiplies its own",
      },
    },
  },
  groupExperts: {
    computes:
      "Gives each slot (m, s) a place among M · k, so that the slots of one expert have neighbouring places, in order of (m, s). groups " +
      "lists (expert, first place, number of places) of the experts that have slots, those with many before those with few, then zeros.",
    operands: {
      groups: { kind: "i32", shape: "[numExperts, 3]", access: "writes" },
      places: { kind: "i32", shape: "[numRows, numChosen]", access: "writes" },
      experts: { kind: "i32", shape: "[numRows, numChosen]", access: "reads", note: "one out of range counts as 0" },
      numRows: NUM_ROWS,
      numExperts: NUM_EXPERTS,
      numChosen: NUM_CHOSEN,
    },
  },
  dispatchRows: {
    computes:
      "out[places[m, s]] = x[m] for every slot, as `quantize` rounds it; f32: as it is. A place out of range is left out.",
    operands: {
      out: { kind: "bytes", shape: "[*]", access: "writes", note: "M · k rows of activationRowBytes(format, width)" },
      x: { kind: "f32", shape: "[numRows, width]", access: "reads" },
      places: PLACES,
      numRows: NUM_ROWS,
      numChosen: NUM_CHOSEN,
      width: { kind: "integer", note: "as of `quantize`" },
      format: { kind: "code", of: "ActivationFormat" },
    },
  },
  expertGatedLinear: {
    computes:
      "out[p] = kind(gate) · up as in `gatedLinear`, by the expert in whose group place p is: a row has the same bits alone and among " +
      "others (E7). Rows of places in no group are left as they are.",
    operands: {
      out: { kind: "f32", shape: "[numSlots, gateWeights.rows]", access: "writes" },
      scratch: { kind: "f32", shape: "[numSlots, upWeights.rows]", access: "writes" },
      gateX: { kind: "activations", shape: "[numSlots, gateWeights.cols]", access: "reads", note: "as x of `linear`" },
      gateWeights: { kind: "weights", shape: "[E, N, K]" },
      upX: { kind: "activations", shape: "[numSlots, upWeights.cols]", access: "reads", note: "as x of `linear`" },
      upWeights: { kind: "weights", shape: "[E, N, *]" },
      gateBiases: {
        kind: "f32",
        shape: "[gateWeights.count, gateWeights.rows]",
        access: "reads",
        optional: true,
        note: "one row for each expert, as are those of up",
      },
      upBiases: { kind: "f32", shape: "[upWeights.count, upWeights.rows]", access: "reads", optional: true },
      groups: { kind: "i32", shape: "[gateWeights.count, 3]", access: "reads", note: "one out of range is left out" },
      numSlots: NUM_SLOTS,
      kind: { kind: "code", of: "Activation" },
    },
  },
  expertLinear: {
    computes:
      "out[p] = x[p] · weights[e]ᵀ (+ biases[e]) as in `linear`, e the expert in whose group place p is. Other rows are left as they are.",
    operands: {
      out: { kind: "f32", shape: "[numSlots, weights.rows]", access: "writes" },
      x: { kind: "activations", shape: "[numSlots, weights.cols]", access: "reads", note: "as x of `linear`" },
      weights: { kind: "weights", shape: "[E, N, K]" },
      biases: { kind: "f32", shape: "[weights.count, weights.rows]", access: "reads", optional: true },
      groups: { kind: "i32", shape: "[weights.count, 3]", access: "reads", note: "one out of range is left out" },
      numSlots: NUM_SLOTS,
    },
  },
  combineExperts: {
    computes:
      "out[m] += (bias +) weights[m, 0] · x[places[m, 0]] + weights[m, 1] · x[places[m, 1]] + …, summed in order of slots before it is " +
      "added. A place out of range is left out.",
    operands: {
      out: { kind: "f32", shape: "[numRows, width]", access: "reads and writes" },
      x: { kind: "f32", shape: "[*, width]", access: "reads", note: "M · k rows" },
      places: PLACES,
      weights: { kind: "f32", shape: "[numRows, numChosen]", access: "reads" },
      numRows: NUM_ROWS,
      numChosen: NUM_CHOSEN,
      width: { kind: "integer", note: "at least 1" },
      bias: { kind: "f32", shape: "[width]", access: "reads", optional: true },
    },
  },
} as const;
