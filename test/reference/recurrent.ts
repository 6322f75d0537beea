/** What the operations with recurrent state compute, in double precision and the most obvious loops. */

import { STATE_COLUMNS } from "../../src/backend/ops.js";
import type { Operands } from "./operands.js";
import type { Work } from "./ops.js";

const EMPTY_STATE = -1;
const ROW_BEFORE = -2;

type Recurrent = "causalConv" | "deltaRule" | "selectiveScan";

function readRows<Name extends Recurrent>(operands: Operands<Name>) {
  const read = operands as unknown as Operands<"causalConv">;
  const numRows = read.integer("numRows");
  const numSlots = read.integer("numSlots");
  const sources = read.indices("sources", numRows, ROW_BEFORE, numSlots - 1);
  const targets = read.indices("targets", numRows, -1, numSlots - 1);
  const copies = read.optionalIndices("copies", numRows, -1, numSlots - 1);
  if (sources[0] === ROW_BEFORE) operands.refuse("sources", "no row before the first", ROW_BEFORE);
  for (const written of ["out", "state"]) {
    for (const other of ["x", "sources", "targets", ...(copies === undefined ? [] : ["copies"])]) {
      operands.requireApart(written, other);
    }
  }
  operands.requireApart("out", "state");
  /** Calls `load` and `keep` where row m continues a slot, and where one keeps the state after it. */
  const each = (
    load: (slot: number | undefined) => void,
    compute: (m: number) => void,
    keep: (slot: number) => void,
  ): void => {
    for (let m = 0; m < numRows; m++) {
      const source = sources[m]!;
      if (source !== ROW_BEFORE) load(source === EMPTY_STATE ? undefined : source);
      compute(m);
      for (const slot of [copies?.[m] ?? -1, targets[m]!]) if (slot >= 0) keep(slot);
    }
  };
  return { numRows, numSlots, each };
}

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

export function causalConv(operands: Operands<"causalConv">): Work {
  const { numRows, numSlots, each } = readRows(operands);
  const width = operands.integer("width", 1);
  const taps = operands.integer("taps", 1, 64);
  const isActivated = operands.flag("isActivated");
  const out = operands.f32("out", numRows * width);
  const x = operands.f32("x", numRows * width);
  const kernel = operands.f32("kernel", taps * width);
  const bias = operands.optionalF32("bias", width);
  const slotSize = (taps - 1) * width;
  const state = operands.f32("state", numSlots * slotSize);
  operands.requireApart("out", "kernel");
  operands.requireApart("state", "kernel");
  for (const written of bias === undefined ? [] : ["out", "state"]) operands.requireApart(written, "bias");
  return () => {
    let past: Float32Array = new Float32Array(slotSize);
    each(
      (slot) => {
        past = slot === undefined ? new Float32Array(slotSize) : state.slice(slot * slotSize, (slot + 1) * slotSize);
      },
      (m) => {
        const seen = Float32Array.of(...past, ...x.subarray(m * width, (m + 1) * width));
        for (let c = 0; c < width; c++) {
          let sum = bias?.[c] ?? 0;
          for (let j = 0; j < taps; j++) sum += kernel[j * width + c]! * seen[j * width + c]!;
          out[m * width + c] = isActivated ? sum * sigmoid(sum) : sum;
        }
        past = seen.slice(width);
      },
      (slot) => state.set(past, slot * slotSize),
    );
  };
}

export function deltaRule(operands: Operands<"deltaRule">): Work {
  const { numRows, numSlots, each } = readRows(operands);
  const numKeyHeads = operands.integer("numKeyHeads", 1, 65536);
  const numHeads = operands.integer("numValueHeads", 1, 65536);
  if (numHeads % numKeyHeads !== 0) operands.refuse("numValueHeads", `a multiple of ${numKeyHeads}`, numHeads);
  const keyDim = operands.integer("keyDim", 1, 4096);
  const valueDim = operands.integer("valueDim", 1, 4096);
  const isTiled = operands.flag("isTiled");
  const eps = operands.number("eps");
  if (eps < 0) operands.refuse("eps", "at least 0", eps);
  const rowWidth = 2 * numKeyHeads * keyDim + numHeads * valueDim;
  const out = operands.f32("out", numRows * numHeads * valueDim);
  const x = operands.f32("x", numRows * rowWidth);
  const alpha = operands.f32("alpha", numRows * numHeads);
  const beta = operands.f32("beta", numRows * numHeads);
  const decay = operands.f32("decay", numHeads);
  const bias = operands.f32("bias", numHeads);
  const numBlocks = Math.ceil(valueDim / STATE_COLUMNS);
  const slotSize = numHeads * numBlocks * keyDim * STATE_COLUMNS;
  const state = operands.f32("state", numSlots * slotSize);
  /** Place of row i, column j of a head's S. */
  const placeOf = (h: number, i: number, j: number) =>
    ((h * numBlocks + Math.floor(j / STATE_COLUMNS)) * keyDim + i) * STATE_COLUMNS + (j % STATE_COLUMNS);
  const unit = (values: Float32Array): number[] => {
    const length = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) + eps);
    return Array.from(values, (value) => value / length);
  };
  return () => {
    let s: Float32Array = new Float32Array(slotSize);
    each(
      (slot) => {
        s = slot === undefined ? new Float32Array(slotSize) : state.slice(slot * slotSize, (slot + 1) * slotSize);
      },
      (m) => {
        const row = x.subarray(m * rowWidth, (m + 1) * rowWidth);
        for (let h = 0; h < numHeads; h++) {
          const g = isTiled ? h % numKeyHeads : Math.floor((h * numKeyHeads) / numHeads);
          const q = unit(row.subarray(g * keyDim, (g + 1) * keyDim)).map((value) => value / Math.sqrt(keyDim));
          const k = unit(row.subarray((numKeyHeads + g) * keyDim, (numKeyHeads + g + 1) * keyDim));
          const v = row.subarray(2 * numKeyHeads * keyDim + h * valueDim);
          const at = m * numHeads + h;
          const a = Math.exp(decay[h]! * Math.log1p(Math.exp(alpha[at]! + bias[h]!)));
          for (let j = 0; j < valueDim; j++) {
            let recalled = 0;
            for (let i = 0; i < keyDim; i++) recalled += a * s[placeOf(h, i, j)]! * k[i]!;
            const delta = sigmoid(beta[at]!) * (v[j]! - recalled);
            let sum = 0;
            for (let i = 0; i < keyDim; i++) {
              const value = a * s[placeOf(h, i, j)]! + k[i]! * delta;
              s[placeOf(h, i, j)] = value;
              sum += value * q[i]!;
            }
            out[at * valueDim + j] = sum;
          }
        }
      },
      (slot) => state.set(s, slot * slotSize),
    );
  };
}

export function selectiveScan(operands: Operands<"selectiveScan">): Work {
  const { numRows, numSlots, each } = readRows(operands);
  const numGroups = operands.integer("numGroups", 1, 65536);
  const numHeads = operands.integer("numHeads", 1, 65536);
  if (numHeads % numGroups !== 0) operands.refuse("numHeads", `a multiple of ${numGroups}`, numHeads);
  const stateDim = operands.integer("stateDim", 1, 4096);
  const valueDim = operands.integer("valueDim", 1, 4096);
  const inner = numHeads * valueDim;
  const rowWidth = inner + 2 * numGroups * stateDim;
  const out = operands.f32("out", numRows * inner);
  const x = operands.f32("x", numRows * rowWidth);
  const steps = operands.f32("steps", numRows * numHeads);
  const [decay, bias, skip] = (["decay", "bias", "skip"] as const).map((name) => operands.f32(name, numHeads));
  const numBlocks = Math.ceil(valueDim / STATE_COLUMNS);
  const slotSize = numHeads * numBlocks * stateDim * STATE_COLUMNS;
  const state = operands.f32("state", numSlots * slotSize);
  for (const written of ["out", "state"]) {
    for (const read of ["steps", "decay", "bias", "skip"]) operands.requireApart(written, read);
  }
  return () => {
    let s: Float32Array = new Float32Array(slotSize);
    each(
      (slot) => {
        s = slot === undefined ? new Float32Array(slotSize) : state.slice(slot * slotSize, (slot + 1) * slotSize);
      },
      (m) => {
        const row = x.subarray(m * rowWidth, (m + 1) * rowWidth);
        for (let h = 0; h < numHeads; h++) {
          const group = Math.floor((h * numGroups) / numHeads);
          const b = row.subarray(inner + group * stateDim);
          const c = row.subarray(inner + (numGroups + group) * stateDim);
          const step = Math.log1p(Math.exp(steps[m * numHeads + h]! + bias![h]!));
          const kept = Math.exp(decay![h]! * step);
          for (let j = 0; j < valueDim; j++) {
            const value = row[h * valueDim + j]!;
            const block = h * numBlocks + Math.floor(j / STATE_COLUMNS);
            let sum = skip![h]! * value;
            for (let i = 0; i < stateDim; i++) {
              const at = (block * stateDim + i) * STATE_COLUMNS + (j % STATE_COLUMNS);
              s[at] = kept * s[at]! + b[i]! * step * value;
              sum += s[at]! * c[i]!;
            }
            out[m * inner + h * valueDim + j] = sum;
          }
        }
      },
      (slot) => state.set(s, slot * slotSize),
    );
  };
}

export function gatedNorm(operands: Operands<"gatedNorm">): Work {
  const numRows = operands.integer("numRows");
  const width = operands.integer("width", 1);
  const numGroups = operands.integer("numGroups", 1);
  if (width % numGroups !== 0) operands.refuse("width", `a multiple of ${numGroups}`, width);
  const eps = operands.number("eps");
  if (!(eps >= 0)) operands.refuse("eps", "at least 0", eps);
  const x = operands.f32("x", numRows * width);
  const gate = operands.f32("gate", numRows * width);
  const gain = operands.f32("gain", width);
  operands.requireApart("x", "gate");
  operands.requireApart("x", "gain");
  const size = width / numGroups;
  return () => {
    for (let first = 0; first < numRows * width; first += size) {
      const values = Array.from(x.subarray(first, first + size), (value, i) => {
        const g = gate[first + i]!;
        return value * g * sigmoid(g);
      });
      const meanSquare = values.reduce((sum, value) => sum + value * value, 0) / size;
      values.forEach((value, i) => {
        x[first + i] = (value / Math.sqrt(meanSquare + eps)) * gain[(first + i) % width]!;
      });
    }
  };
}

export function applyGate(operands: Operands<"applyGate">): Work {
  const numRows = operands.integer("numRows");
  const width = operands.integer("width");
  const gateWidth = operands.integer("gateWidth");
  if (gateWidth !== width && gateWidth !== 1) operands.refuse("gateWidth", `${width} or 1`, gateWidth);
  const x = operands.f32("x", numRows * width);
  const gate = operands.f32("gate", numRows * gateWidth);
  operands.requireApart("x", "gate");
  const isSilu = operands.code("kind") === "silu";
  return () => {
    for (let i = 0; i < numRows * width; i++) {
      const value = gate[gateWidth === width ? i : Math.floor(i / width)]!;
      x[i] = x[i]! * (isSilu ? value : 1) * sigmoid(value);
    }
  };
}
