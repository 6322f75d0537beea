/** What the operations of mixtures of experts compute, in double precision and the most obvious loops. */

import { activationRowBytes } from "../../src/backend/cpu/library/packing.js";
import { activationsOf } from "../../src/backend/cpu/product-type.js";
import type { OperandName } from "../../src/backend/ops.js";
import { type Operands, type ReferenceWeight, weightRow } from "./operands.js";
import { ACTIVATIONS, type ReadActivations, type Work } from "./ops.js";
import { quantizeRow } from "./packed.js";

function readChoice(operands: Operands<"routeExperts"> | Operands<"groupExperts">) {
  const numExperts = operands.integer("numExperts", 1);
  const numChosen = operands.integer("numChosen", 1, numExperts);
  return { numRows: operands.integer("numRows"), numExperts, numChosen };
}

export function routeExperts(operands: Operands<"routeExperts">): Work {
  const { numRows, numExperts, numChosen } = readChoice(operands);
  const experts = operands.i32("experts", numRows * numChosen);
  const weights = operands.f32("weights", numRows * numChosen);
  const logits = operands.f32("logits", numRows * numExperts);
  const normalises = operands.flag("normalises");
  const scoring = operands.code("scoring");
  const isSigmoid = scoring === "sigmoid";
  const scale = operands.number("scale");
  const numGroups = operands.integer("numGroups", 1, numExperts);
  const numUsedGroups = operands.integer("numUsedGroups", 1, numGroups);
  const bias = operands.optionalF32("bias", numExperts);
  const factors = operands.optionalF32("factors", numExperts);
  const perGroup = numExperts / numGroups;
  if (numGroups > 1 && (!Number.isInteger(perGroup) || perGroup < 2)) {
    operands.refuse("numGroups", `such that ${numExperts} experts make whole groups of two or more`, numGroups);
  }
  if (Math.floor(perGroup) * numUsedGroups < numChosen) {
    operands.refuse("numUsedGroups", `enough for ${numChosen} experts`, numUsedGroups);
  }
  /** Indices, largest first; the sort is stable: equal ones stay in order of their index. */
  const orderOf = (values: readonly number[]) =>
    values.map((_, i) => i).sort((a, b) => (values[a] === values[b] ? 0 : values[b]! - values[a]!));
  return () => {
    for (let m = 0; m < numRows; m++) {
      const row = Array.from(logits.subarray(m * numExperts, (m + 1) * numExperts));
      const lowest = Number.NEGATIVE_INFINITY;
      const sigmoid = (e: number) => (Number.isNaN(row[e]!) ? 0 : 1 / (1 + Math.exp(-row[e]!)));
      const largest = Math.max(...row.filter((logit) => !Number.isNaN(logit)));
      const powers = row.map((logit) => (Number.isNaN(logit) ? 0 : Math.exp(logit - largest)));
      const total = powers.reduce((all, each) => all + each, 0);
      const scores = row.map((logit, e) => {
        if (Number.isNaN(logit)) return lowest;
        if (bias !== undefined && !isSigmoid) return Math.fround(Math.fround(powers[e]! / total) + bias[e]!);
        return isSigmoid ? Math.fround(Math.fround(sigmoid(e)) + (bias?.[e] ?? 0)) : logit;
      });
      if (numUsedGroups < numGroups) {
        const sums = Array.from({ length: numGroups }, (_, g) => {
          const [first, second] = scores.slice(g * perGroup, (g + 1) * perGroup).sort((a, b) => b - a);
          return isSigmoid ? Math.fround(first! + second!) : first!;
        });
        const used = orderOf(sums).slice(0, numUsedGroups);
        scores.forEach((_, e) => {
          if (!used.includes(Math.floor(e / perGroup))) scores[e] = lowest;
        });
      }
      const chosen = orderOf(scores).slice(0, numChosen);
      const keyOf = (e: number) => (Number.isNaN(row[e]!) ? lowest : row[e]!);
      const top = Math.max(...(normalises || bias === undefined ? chosen : row.map((_, e) => e)).map(keyOf));
      const power = (e: number) => (isSigmoid ? sigmoid(e) : Math.exp(keyOf(e) - top));
      const all = isSigmoid || normalises ? chosen : row.map((_, e) => e);
      const sum =
        isSigmoid && !normalises ? 1 : all.reduce((total, e) => total + power(e), 0) + (isSigmoid ? 1e-20 : 0);
      experts.set(chosen, m * numChosen);
      if (scoring === "sparseMixer") {
        const mixed = chosen.map((expert, s) => {
          const own = keyOf(expert);
          const left = row.filter((logit, e) => {
            const distance = Math.fround(Math.fround(own - logit) / Math.max(Math.abs(logit), own));
            return !chosen.slice(0, s).includes(e) && !Number.isNaN(logit) && !(distance > Math.fround(0.02));
          });
          const sum = left.reduce((total, logit) => total + Math.exp(logit - own), 0);
          return (sum > 0 ? Math.fround(scale / sum) : 0) * (factors?.[expert] ?? 1);
        });
        weights.set(mixed, m * numChosen);
        continue;
      }
      weights.set(
        chosen.map((e) => Math.fround((power(e) / sum) * scale) * (factors?.[e] ?? 1)),
        m * numChosen,
      );
    }
  };
}

export function groupExperts(operands: Operands<"groupExperts">): Work {
  const { numRows, numExperts, numChosen } = readChoice(operands);
  const groups = operands.i32("groups", 3 * numExperts);
  const places = operands.i32("places", numRows * numChosen);
  const experts = operands.i32("experts", numRows * numChosen);
  return () => {
    const slots = Array.from({ length: numExperts }, (): number[] => []);
    experts.forEach((expert, slot) => {
      (slots[expert] ?? slots[0]!).push(slot);
    });
    const bits = (e: number) => 32 - Math.clz32(slots[e]!.length);
    const order = slots.map((_, e) => e).sort((a, b) => bits(b) - bits(a));
    let place = 0;
    order.forEach((e, g) => {
      const count = slots[e]!.length;
      groups.set(count === 0 ? [0, 0, 0] : [e, place, count], 3 * g);
      for (const slot of slots[e]!) places[slot] = place++;
    });
  };
}

export function dispatchRows(operands: Operands<"dispatchRows">): Work {
  const numRows = operands.integer("numRows");
  const numChosen = operands.integer("numChosen", 1);
  const width = operands.integer("width", 1);
  const format = operands.code("format");
  const block = format === "f32" ? 1 : format === "blocks256" ? 256 : 32;
  if (width % block !== 0) operands.refuse("width", `a multiple of ${block}`, width);
  const rowBytes = activationRowBytes(format, width);
  const numSlots = numRows * numChosen;
  const out = operands.bytes("out", 0, numSlots * rowBytes);
  const x = operands.f32("x", numRows * width);
  const places = operands.i32("places", numSlots);
  return () => {
    places.forEach((place, slot) => {
      if (place < 0 || place >= numSlots) return;
      const m = Math.floor(slot / numChosen);
      const row = x.subarray(m * width, (m + 1) * width);
      const target = out.subarray(place * rowBytes, (place + 1) * rowBytes);
      if (format === "f32") target.set(new Uint8Array(row.buffer, row.byteOffset, row.byteLength));
      else quantizeRow(row, target, format);
    });
  };
}

export function combineExperts(operands: Operands<"combineExperts">): Work {
  const numRows = operands.integer("numRows");
  const numChosen = operands.integer("numChosen", 1);
  const width = operands.integer("width", 1);
  const numSlots = numRows * numChosen;
  const out = operands.f32("out", numRows * width);
  const x = operands.f32("x", numSlots * width);
  const places = operands.i32("places", numSlots);
  const weights = operands.f32("weights", numSlots);
  const bias = operands.optionalF32("bias", width);
  return () => {
    for (let at = 0; at < out.length; at++) {
      const [m, i] = [Math.floor(at / width), at % width];
      let sum = bias?.[i] ?? 0;
      for (let slot = m * numChosen; slot < (m + 1) * numChosen; slot++) {
        const place = places[slot]!;
        if (place >= 0 && place < numSlots) sum += weights[slot]! * x[place * width + i]!;
      }
      out[at] = out[at]! + sum;
    }
  };
}

interface LayerNames<Name extends "expertLinear" | "expertGatedLinear"> {
  readonly out: OperandName<Name, "f32">;
  readonly x: OperandName<Name, "activations">;
  readonly weights: OperandName<Name, "weights">;
  readonly biases: OperandName<Name, "f32">;
}

/** Checks one matrix of each expert; `each` calls back with the place of every output and its sum. */
function expertLayer<Name extends "expertLinear" | "expertGatedLinear">(
  operands: Operands<Name>,
  names: LayerNames<Name>,
  numSlots: number,
  readActivations: ReadActivations,
) {
  const weights = operands.weights(names.weights);
  const [first] = weights as [ReferenceWeight];
  const { rows, cols } = first;
  const isRounded = activationsOf(first.type, first.isPacked) !== "f32";
  const left = isRounded ? undefined : operands.f32(names.x, numSlots * cols);
  const readLeft = left === undefined ? readActivations(operands, names.x, first, numSlots) : () => left;
  const biases = operands.optionalF32(names.biases, weights.length * rows);
  const out = operands.f32(names.out, numSlots * rows);
  operands.requireApart(names.out, names.x);
  const each = (groups: Int32Array, use: (at: number, sum: number) => void) => {
    const x = readLeft();
    for (let g = 0; g < weights.length; g++) {
      const [expert = 0, start = 0, count = 0] = groups.subarray(3 * g, 3 * g + 3);
      const weight = weights[expert];
      if (weight === undefined || start < 0 || count <= 0 || start + count > numSlots) continue;
      for (let n = 0; n < rows; n++) {
        const row = weightRow(weight, n);
        for (let place = start; place < start + count; place++) {
          const sum = row.reduce((total, value, k) => total + value * x[place * cols + k]!, 0);
          use(place * rows + n, sum + (biases?.[expert * rows + n] ?? 0));
        }
      }
    }
  };
  return { weights, rows, out, each };
}

const LINEAR = { out: "out", x: "x", weights: "weights", biases: "biases" } as const;
const GATE = { out: "out", x: "gateX", weights: "gateWeights", biases: "gateBiases" } as const;
const UP = { out: "scratch", x: "upX", weights: "upWeights", biases: "upBiases" } as const;

export function expertLinear(operands: Operands<"expertLinear">, readActivations: ReadActivations): Work {
  const { out, weights, each } = expertLayer(operands, LINEAR, operands.integer("numSlots"), readActivations);
  const groups = operands.i32("groups", 3 * weights.length);
  return () => {
    each(groups, (at, sum) => {
      out[at] = sum;
    });
  };
}

export function expertGatedLinear(operands: Operands<"expertGatedLinear">, readActivations: ReadActivations): Work {
  const numSlots = operands.integer("numSlots");
  const gate = expertLayer(operands, GATE, numSlots, readActivations);
  const up = expertLayer(operands, UP, numSlots, readActivations);
  const groups = operands.i32("groups", 3 * gate.weights.length);
  const activate = ACTIVATIONS[operands.code("kind")];
  if (gate.rows !== up.rows || gate.weights.length !== up.weights.length) {
    operands.refuse("upWeights", `${gate.weights.length} matrices of ${gate.rows} rows`, "others");
  }
  operands.requireApart("scratch", "out");
  operands.requireApart("scratch", "gateX");
  operands.requireApart("out", "upX");
  return () => {
    const gates = new Float64Array(gate.out.length);
    gate.each(groups, (at, sum) => {
      gates[at] = sum;
    });
    up.each(groups, (at, sum) => {
      gate.out[at] = activate(gates[at]!, sum);
    });
  };
}
