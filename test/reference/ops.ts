/**
 * What each operation computes, in double precision and the most obvious loops; attention and sampling have files of
 * their own. Every function checks its operands and returns the work, so that a whole program is checked before any of
 * it runs.
 */

import { activationsOf } from "../../src/backend/cpu/product-type.js";
import type { Activation, OperandName } from "../../src/backend/ops.js";
import { storeEntry } from "./kv-entries.js";
import { type Operands, type ReferenceWeight, readKvShape, weightRow } from "./operands.js";

export type Work = () => void;

export function embed(operands: Operands<"embed">): Work {
  const weight = operands.rowWeight("weight");
  const numRows = operands.integer("numRows");
  const scale = operands.number("scale");
  const ids = operands.indices("ids", numRows, 0, weight.rows - 1);
  const out = operands.f32("out", numRows * weight.cols);
  return () => {
    ids.forEach((id, m) => {
      weightRow(weight, id).forEach((value, col) => {
        out[m * weight.cols + col] = value * scale;
      });
    });
  };
}

export function rmsNorm(operands: Operands<"rmsNorm">): Work {
  const numRows = operands.integer("numRows");
  const width = operands.integer("width", 1);
  const eps = operands.number("eps");
  if (eps < 0) operands.refuse("eps", "at least 0", eps);
  const x = operands.f32("x", numRows * width);
  const gain = operands.f32("gain", width);
  const out = operands.f32("out", numRows * width);
  return () => {
    for (let r = 0; r < numRows; r++) {
      const row = x.slice(r * width, (r + 1) * width);
      const meanSquare = row.reduce((sum, value) => sum + value * value, 0) / width;
      const inverse = 1 / Math.sqrt(meanSquare + eps);
      row.forEach((value, i) => {
        out[r * width + i] = value * inverse * gain[i]!;
      });
    }
  };
}

export function layerNorm(operands: Operands<"layerNorm">): Work {
  const numRows = operands.integer("numRows");
  const width = operands.integer("width", 1);
  const eps = operands.number("eps");
  if (eps < 0) operands.refuse("eps", "at least 0", eps);
  const x = operands.f32("x", numRows * width);
  const gain = operands.f32("gain", width);
  const bias = operands.optionalF32("bias", width);
  const out = operands.f32("out", numRows * width);
  return () => {
    for (let r = 0; r < numRows; r++) {
      const row = Float64Array.from(x.subarray(r * width, (r + 1) * width));
      const mean = row.reduce((sum, value) => sum + value, 0) / width;
      const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / width;
      row.forEach((value, i) => {
        out[r * width + i] = ((value - mean) / Math.sqrt(variance + eps)) * gain[i]! + (bias?.[i] ?? 0);
      });
    }
  };
}

type LinearOp = "linear" | "gatedLinear" | "expertLinear" | "expertGatedLinear";

/** Values [numRows, cols] of operand `x`, quantised rows. */
export type ReadActivations = <Name extends LinearOp>(
  operands: Operands<Name>,
  x: OperandName<Name, "activations">,
  weight: ReferenceWeight,
  numRows: number,
) => () => Float64Array;

interface LayerNames<Name extends LinearOp> {
  readonly out: OperandName<Name, "f32">;
  readonly x: OperandName<Name, "activations">;
  readonly weight: OperandName<Name, "weight">;
  readonly bias: OperandName<Name, "f32">;
}

/** Checks one linear layer's operands; `each` calls back with the place of every output and its sum. */
function linearLayer<Name extends LinearOp>(
  operands: Operands<Name>,
  names: LayerNames<Name>,
  numRows: number,
  readActivations: ReadActivations,
) {
  const weight = operands.weight(names.weight);
  const isRounded = activationsOf(weight.type, weight.isPacked) !== "f32";
  const left = isRounded ? undefined : operands.f32(names.x, numRows * weight.cols);
  const readLeft = left === undefined ? readActivations(operands, names.x, weight, numRows) : () => left;
  const bias = operands.optionalF32(names.bias, weight.rows);
  const out = operands.f32(names.out, numRows * weight.rows);
  operands.requireApart(names.out, names.x);
  const each = (use: (at: number, sum: number) => void) => {
    const x = readLeft();
    for (let n = 0; n < weight.rows; n++) {
      const row = weightRow(weight, n);
      for (let m = 0; m < numRows; m++) {
        let sum = 0;
        for (let k = 0; k < weight.cols; k++) sum += x[m * weight.cols + k]! * row[k]!;
        use(m * weight.rows + n, sum + (bias?.[n] ?? 0));
      }
    }
  };
  return { weight, out, each };
}

const LINEAR = { out: "out", x: "x", weight: "weight", bias: "bias" } as const;
const GATE = { out: "out", x: "gateX", weight: "gateWeight", bias: "gateBias" } as const;
const UP = { out: "scratch", x: "upX", weight: "upWeight", bias: "upBias" } as const;

export function linear(operands: Operands<"linear">, readActivations: ReadActivations): Work {
  const { out, each } = linearLayer(operands, LINEAR, operands.integer("numRows"), readActivations);
  const isAccumulating = operands.flag("accumulate");
  return () => {
    each((at, sum) => {
      out[at] = sum + (isAccumulating ? out[at]! : 0);
    });
  };
}

export function gatedLinear(operands: Operands<"gatedLinear">, readActivations: ReadActivations): Work {
  const numRows = operands.integer("numRows");
  const gate = linearLayer(operands, GATE, numRows, readActivations);
  const up = linearLayer(operands, UP, numRows, readActivations);
  const activate = ACTIVATIONS[operands.code("kind")];
  if (gate.weight.rows !== up.weight.rows) operands.refuse("upWeight", `${gate.weight.rows} rows`, up.weight.rows);
  operands.requireApart("scratch", "out");
  operands.requireApart("scratch", "gateX");
  operands.requireApart("out", "upX");
  return () => {
    const gates = new Float64Array(gate.out.length);
    gate.each((at, sum) => {
      gates[at] = sum;
    });
    up.each((at, sum) => {
      gate.out[at] = activate(gates[at]!, sum);
    });
  };
}

export function add(operands: Operands<"add">): Work {
  const count = operands.integer("numRows") * operands.integer("width");
  const x = operands.f32("x", count);
  const out = operands.f32("out", count);
  return () => {
    for (let i = 0; i < count; i++) out[i] = out[i]! + x[i]!;
  };
}

export function multiply(operands: Operands<"multiply">): Work {
  const numRows = operands.integer("numRows");
  const width = operands.integer("width");
  const xWidth = operands.integer("xWidth", width);
  const first = operands.integer("first", 0, xWidth - width);
  const x = operands.f32("x", numRows * xWidth);
  const out = operands.f32("out", numRows * width);
  return () => {
    out.forEach((value, i) => {
      out[i] = value * x[Math.floor(i / width) * xWidth + first + (i % width)]!;
    });
  };
}

/** 0: `x` itself. */
export const capped = (x: number, cap: number): number => (cap > 0 ? cap * Math.tanh(x / cap) : x);

export function scaleAndCap(operands: Operands<"scaleAndCap">): Work {
  const x = operands.f32("x", operands.integer("numRows") * operands.integer("width"));
  const scale = operands.number("scale");
  const cap = operands.number("cap");
  if (cap < 0) operands.refuse("cap", "at least 0", cap);
  return () => {
    x.forEach((value, i) => {
      x[i] = capped(scale * value, cap);
    });
  };
}

export function scaleByPosition(operands: Operands<"scaleByPosition">): Work {
  const numRows = operands.integer("numRows");
  const width = operands.integer("width");
  const x = operands.f32("x", numRows * width);
  const positions = operands.i32("positions", numRows);
  const beta = operands.number("beta");
  const length = operands.integer("length", 1, 2 ** 27);
  return () => {
    x.forEach((value, i) => {
      const position = Math.max(0, positions[Math.floor(i / width)]!);
      x[i] = value * (1 + beta * Math.log(1 + Math.floor(position / length)));
    });
  };
}

function silu(x: number): number {
  return x / (1 + Math.exp(-x));
}

/** The tanh approximation of x · Φ(x), Hendrycks & Gimpel 2016. */
function geluTanh(x: number): number {
  return 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x)));
}

/** x · Φ(x), of the normal distribution's tail: a series near zero, a continued fraction beyond. */
function gelu(x: number): number {
  const tail = normalTail(Math.abs(x));
  return x * (x < 0 ? tail : 1 - tail);
}

/** The share of the normal distribution above `a`, at least 0. */
function normalTail(a: number): number {
  const density = Math.exp(-a * a * 0.5) / Math.sqrt(2 * Math.PI);
  if (a > 3) {
    let fraction = a;
    for (let k = 60; k >= 1; k--) fraction = a + k / fraction;
    return density / fraction;
  }
  let [term, sum] = [a, a];
  for (let k = 1; k < 60; k++) {
    term *= (a * a) / (2 * k + 1);
    sum += term;
  }
  return 0.5 - density * sum;
}

const relu = (x: number): number => Math.max(x, 0);
const reluSquared = (x: number): number => relu(x) ** 2;

/** Of one value. */
const PLAIN_ACTIVATIONS: Readonly<Record<Exclude<Activation, "clampedSwiglu">, (x: number) => number>> = {
  silu,
  geluTanh,
  gelu,
  relu,
  reluSquared,
};

function clampedSwiglu(gate: number, up: number): number {
  const bounded = Math.min(gate, 7);
  return (bounded / (1 + Math.exp(-1.702 * bounded))) * (Math.min(Math.max(up, -7), 7) + 1);
}

/** Of a gate and an up. */
export const ACTIVATIONS: Readonly<Record<Activation, (gate: number, up: number) => number>> = {
  silu: (gate, up) => silu(gate) * up,
  geluTanh: (gate, up) => geluTanh(gate) * up,
  gelu: (gate, up) => gelu(gate) * up,
  relu: (gate, up) => relu(gate) * up,
  reluSquared: (gate, up) => reluSquared(gate) * up,
  clampedSwiglu,
};

export function activate(operands: Operands<"activate">): Work {
  const x = operands.f32("x", operands.integer("numRows") * operands.integer("width"));
  const kind = PLAIN_ACTIVATIONS[operands.code("kind") as keyof typeof PLAIN_ACTIVATIONS];
  return () => {
    x.forEach((value, i) => {
      x[i] = kind(value);
    });
  };
}

export function ropeTable(operands: Operands<"ropeTable">): Work {
  const numRows = operands.integer("numRows");
  const half = operands.integer("half");
  const magnitude = operands.number("magnitude");
  const positions = operands.i32("positions", numRows);
  const invFreq = operands.f32("invFreq", half);
  const out = operands.f32("out", numRows * half * 2);
  return () => {
    for (let m = 0; m < numRows; m++) {
      for (let i = 0; i < half; i++) {
        const angle = positions[m]! * invFreq[i]!;
        out[(m * half + i) * 2] = Math.cos(angle) * magnitude;
        out[(m * half + i) * 2 + 1] = Math.sin(angle) * magnitude;
      }
    }
  };
}

export function ropeAndWriteKv(operands: Operands<"ropeAndWriteKv">): Work {
  const shape = readKvShape(operands);
  const { numHeads, numKvHeads, headDim } = shape;
  const numRows = operands.integer("numRows");
  const half = operands.integer("half", 0, Math.floor(headDim / 2));
  const isNeox = operands.flag("isNeox");
  const q = operands.f32("q", numRows * numHeads * headDim);
  const k = operands.f32("k", numRows * numKvHeads * headDim);
  const v = operands.f32("v", numRows * numKvHeads * headDim);
  const table = operands.f32("table", numRows * half * 2);
  const keyCache = operands.kvCache("keyCache", shape);
  const valueCache = operands.kvCache("valueCache", shape);
  const storesKeysAlone = operands.integer("latentDim", 0, headDim) > 0;
  const numSlots = Math.min(keyCache.numBlocks, valueCache.numBlocks) * shape.blockSize;
  const slots = operands.indices("slots", numRows, -1, numSlots - 1);
  return () => {
    for (let m = 0; m < numRows; m++) {
      const angles = table.subarray(m * half * 2, (m + 1) * half * 2);
      for (let head = 0; head < numHeads; head++) {
        rotate(q.subarray((m * numHeads + head) * headDim), angles, half, isNeox);
      }
      for (let head = 0; head < numKvHeads; head++) {
        const from = (m * numKvHeads + head) * headDim;
        rotate(k.subarray(from), angles, half, isNeox);
        if (slots[m] === -1) continue;
        storeEntry(keyCache, "key", slots[m]!, head, k.subarray(from, from + headDim));
        if (!storesKeysAlone) storeEntry(valueCache, "value", slots[m]!, head, v.subarray(from, from + headDim));
      }
    }
  };
}

/** Rotates the first 2 · half values of `head` in place; angles: (cos, sin) pairs [half, 2]. */
function rotate(head: Float32Array, angles: Float32Array, half: number, isNeox: boolean): void {
  for (let i = 0; i < half; i++) {
    const first = isNeox ? i : 2 * i;
    const second = isNeox ? i + half : 2 * i + 1;
    const a = head[first]!;
    const b = head[second]!;
    const cos = angles[2 * i]!;
    const sin = angles[2 * i + 1]!;
    head[first] = a * cos - b * sin;
    head[second] = a * sin + b * cos;
  }
}

export function gatherRows(operands: Operands<"gatherRows">): Work {
  const numRows = operands.integer("numRows");
  const width = operands.integer("width", 1);
  const allOfX = operands.allF32("x");
  const rows = operands.indices("rows", numRows, 0, Math.floor(allOfX.length / width) - 1);
  const out = operands.f32("out", numRows * width);
  return () => {
    rows.forEach((row, r) => {
      out.set(allOfX.subarray(row * width, (row + 1) * width), r * width);
    });
  };
}

export function copyColumns(operands: Operands<"copyColumns">): Work {
  const numRows = operands.integer("numRows");
  const width = operands.integer("width", 1);
  const to = operands.integer("to");
  const from = operands.integer("from");
  const outWidth = operands.integer("outWidth", to + width);
  const xWidth = operands.integer("xWidth", from + width);
  const x = operands.f32("x", numRows * xWidth);
  const out = operands.f32("out", numRows * outWidth);
  const rows = operands.optionalI32("rows", numRows);
  operands.requireApart("out", "x");
  if (rows !== undefined) operands.requireApart("out", "rows");
  return () => {
    for (let m = 0; m < numRows; m++) {
      const row = rows?.[m] ?? m;
      if (row < 0 || row >= numRows) continue;
      const first = row * xWidth + from;
      out.set(x.subarray(first, first + width), m * outWidth + to);
    }
  };
}

export function spreadColumns(operands: Operands<"spreadColumns">): Work {
  const numRows = operands.integer("numRows");
  const width = operands.integer("width");
  const outWidth = operands.integer("outWidth");
  const x = operands.f32("x", numRows * width);
  const columns = operands.indices("columns", width, 0, outWidth - 1);
  const out = operands.f32("out", numRows * outWidth);
  return () => {
    out.fill(Number.NEGATIVE_INFINITY, 0, numRows * outWidth);
    for (let m = 0; m < numRows; m++) {
      columns.forEach((column, i) => {
        out[m * outWidth + column] = x[m * width + i]!;
      });
    }
  };
}
