/**
 * The table the conformance suite runs over: each operation with the types, shapes and inputs that a device must get
 * right.
 *
 * size: one table, with a function for the cases of each operation.
 */

import { activationRowBytes, packedByteLength } from "../../src/backend/cpu/library/packing.js";
import { type BufferHandle, NO_BUFFER } from "../../src/backend/handles.js";
import { KV_TYPES, type OpName } from "../../src/backend/ops.js";
import { gatedOperands, type KvShape, kvEntryBytes } from "../../src/backend/program.js";
import { BLOCK_LAYOUT, WEIGHT_TYPES } from "../../src/formats/dequantize.js";
import { type Bench, extremes, joined, normals, type Tolerance, weightBytes } from "./compare.js";
import { EXPERT_CASES } from "./expert-cases.js";
import { copyColumnsCases, latentCases } from "./latent-cases.js";
import type { OpCase, Result } from "./op-case.js";
import { recordAttention, recordCounts, recordSample, storeSequences } from "./recorders.js";
import { RECURRENT_CASES } from "./recurrent-cases.js";
import { WEIGHT_CASES } from "./weight-cases.js";

/** A few roundings of f32. */
const ROUNDING: Tolerance = { relative: 1e-6, absolute: 1e-37 };
const EXACT: Tolerance = { relative: 0, absolute: 0 };
/** One f16 rounding may fall the other way. */
const F16_ROUNDING: Tolerance = { relative: 2 ** -10, absolute: 2 ** -24 };

function f32Result(name: string, handle: BufferHandle, tolerance: Tolerance): Result {
  return { name, handle, as: "f32", tolerance };
}

function embedCases(): OpCase[] {
  return WEIGHT_TYPES.flatMap((type) => {
    const block = BLOCK_LAYOUT[type].numValues;
    const allCols = block === 1 ? [1, 3, 17, 64] : [block, 3 * block];
    return allCols.map(
      (cols): OpCase => ({
        op: "embed",
        label: `${type} [5, ${cols}]`,
        record: (bench) => {
          const weight = bench.weight(type, 5, cols, weightBytes(type, 5, cols, 1));
          const out = bench.unwritten(7 * cols);
          const ids = bench.i32([0, 4, 2, 2, 1, 3, 4]);
          bench.program.record("embed", { out, weight, ids, numRows: 7, scale: 1.5 });
          // Scale times quantum and minimum cancel in the _1 and _K types.
          return [f32Result("out", out, { relative: 1e-6, absolute: 1e-5 })];
        },
      }),
    );
  });
}

/** One row far from zero, whose mean must not cost its digits. */
function layerNormCases(): OpCase[] {
  return [1, 3, 8, 33, 256, 1031].flatMap((width) =>
    [false, true].map(
      (hasBias): OpCase => ({
        op: "layerNorm",
        label: `4 rows of ${width}${hasBias ? ", in place, with a bias" : ""}`,
        record: (bench) => {
          const far = normals(width, 4).map((value) => value + 1000);
          const x = bench.f32(joined([normals(width, 2), extremes(width, 3), new Float32Array(width), far]));
          const out = hasBias ? x : bench.unwritten(4 * width);
          const [gain, bias] = [bench.f32(normals(width, 5)), hasBias ? bench.f32(normals(width, 6)) : NO_BUFFER];
          bench.program.record("layerNorm", { out, x, gain, bias, numRows: 4, width, eps: 1e-5 });
          return [f32Result("out", out, { relative: 3e-6, absolute: 1e-6 })];
        },
      }),
    ),
  );
}

function rmsNormCases(): OpCase[] {
  const widths = [1, 3, 8, 33, 256, 1031];
  return widths.flatMap((width) =>
    [false, true].map(
      (isInPlace): OpCase => ({
        op: "rmsNorm",
        label: `4 rows of ${width}${isInPlace ? ", in place" : ""}`,
        record: (bench) => {
          const rows = [normals(width, 2), extremes(width, 3), new Float32Array(width), normals(width, 4)];
          const x = bench.f32(joined(rows));
          const out = isInPlace ? x : bench.unwritten(4 * width);
          const gain = bench.f32(normals(width, 5));
          bench.program.record("rmsNorm", { out, x, gain, numRows: 4, width, eps: 1e-5 });
          return [f32Result("out", out, { relative: 3e-6, absolute: 1e-30 })];
        },
      }),
    ),
  );
}

function addCases(): OpCase[] {
  return [1, 3, 8, 33, 1000].map((width) => ({
    op: "add",
    label: `3 rows of ${width}`,
    record: (bench) => {
      const out = bench.f32(extremes(3 * width, 6));
      bench.program.record("add", { out, x: bench.f32(extremes(3 * width, 7)), numRows: 3, width });
      return [f32Result("out", out, EXACT)];
    },
  }));
}

function multiplyCases(): OpCase[] {
  return [1, 8, 33].map((width) => ({
    op: "multiply",
    label: `3 rows of ${width}, from columns of 40`,
    record: (bench) => {
      const [out, x] = [bench.f32(extremes(3 * width, 8)), bench.f32(normals(3 * 40, 9))];
      bench.program.record("multiply", { out, x, numRows: 3, width, xWidth: 40, first: 7 });
      return [f32Result("out", out, EXACT)];
    },
  }));
}

function scaleAndCapCases(): OpCase[] {
  return [1, 8, 33, 1000].flatMap((width) =>
    [undefined, 3].map((cap) => ({
      op: "scaleAndCap" as const,
      label: `3 rows of ${width}${cap === undefined ? "" : `, capped at ${cap}`}`,
      record: (bench: Bench) => {
        const x = bench.f32(joined([normals(width, 60), extremes(width, 61), normals(width, 62)]));
        bench.program.record("scaleAndCap", { x, numRows: 3, width, scale: 1.7, cap });
        return [f32Result("x", x, cap === undefined ? ROUNDING : { relative: 1e-6, absolute: 1e-30 })];
      },
    })),
  );
}

function scaleByPositionCases(): OpCase[] {
  return [1, 33].map((width) => ({
    op: "scaleByPosition",
    label: `6 rows of ${width}`,
    record: (bench) => {
      const [x, positions] = [bench.f32(normals(6 * width, 63)), bench.i32([0, 15, 16, 47, 48, 2 ** 31 - 1])];
      bench.program.record("scaleByPosition", { x, positions, numRows: 6, width, beta: 0.3, length: 16 });
      return [f32Result("x", x, ROUNDING)];
    },
  }));
}

const KINDS = ["silu", "geluTanh", "gelu", "relu", "reluSquared"] as const;

function activateCases(): OpCase[] {
  return KINDS.flatMap((kind) =>
    [1, 8, 33, 1500].map(
      (width): OpCase => ({
        op: "activate",
        label: `${kind} of 3 rows of ${width}`,
        record: (bench) => {
          const x = bench.f32(extremes(3 * width, 8).map((value, i) => (i % 5 === 0 ? value * 20 : value)));
          bench.program.record("activate", { x, numRows: 3, width, kind });
          return [f32Result("x", x, { relative: 3e-6, absolute: 3e-6 })];
        },
      }),
    ),
  );
}

/**
 * Weights of one column and an x of ones: gate and up are the weights themselves, and only the activation is left to
 * err.
 */
function gatedLinearCases(): OpCase[] {
  const activations = [...KINDS, "clampedSwiglu" as const].flatMap((kind) =>
    [1, 3, 8, 33, 1000].map(
      (width): OpCase => ({
        op: "gatedLinear",
        label: `${kind} of ${width} values`,
        record: (bench) => {
          const gate = extremes(width, 8).map((value, i) => (i % 5 === 0 ? value * 20 : value));
          const [x, out] = [bench.f32([1]), bench.unwritten(width)];
          const layer = (values: Float32Array) => ({
            x,
            bias: NO_BUFFER,
            weight: bench.weight("F32", width, 1, new Uint8Array(values.buffer)),
          });
          // Some beyond the bounds of clampedSwiglu.
          const up = normals(width, 9).map((value, i) => (i % 3 === 0 ? value * 9 : value));
          const operands = gatedOperands(layer(gate), layer(up));
          bench.program.record("gatedLinear", { ...operands, out, scratch: bench.unwritten(width), numRows: 1, kind });
          // Left tails cancel against 1 before they vanish: gelu loses 1e-6 there.
          return [f32Result("out", out, { relative: 3e-6, absolute: 3e-6 })];
        },
      }),
    ),
  );
  const layers: OpCase = {
    op: "gatedLinear",
    label: "F32 and F16 [37, 24] with biases on 3 rows",
    record: (bench) => {
      const layer = (type: "F32" | "F16", seed: number) => ({
        x: bench.f32(normals(3 * 24, seed)),
        weight: bench.weight(type, 37, 24, weightBytes(type, 37, 24, seed + 1)),
        bias: bench.f32(normals(37, seed + 2)),
      });
      const out = bench.unwritten(3 * 37);
      const operands = gatedOperands(layer("F32", 40), layer("F16", 50));
      bench.program.record("gatedLinear", {
        ...operands,
        out,
        scratch: bench.unwritten(3 * 37),
        numRows: 3,
        kind: "silu",
      });
      return [f32Result("out", out, { relative: 1e-5, absolute: 1e-5 })];
    },
  };
  return [...activations, layers];
}

function ropeTableCases(): OpCase[] {
  return [1, 3, 32, 64].map((half) => ({
    op: "ropeTable",
    label: `half ${half}, positions up to 2³¹ − 1`,
    record: (bench) => {
      const positions = [0, 1, 2, 4097, 131071, 1e6, 2 ** 24 + 1, 2 ** 31 - 1];
      const invFreq = Float32Array.from({ length: half }, (_, i) => 10000 ** (-i / half));
      const out = bench.unwritten(positions.length * half * 2);
      const inputs = { positions: bench.i32(positions), invFreq: bench.f32(invFreq) };
      bench.program.record("ropeTable", { ...inputs, out, numRows: positions.length, half, magnitude: 1.25 });
      return [f32Result("out", out, { relative: 0, absolute: 3e-7 })];
    },
  }));
}

function ropeAndWriteKvCases(): OpCase[] {
  const shapes = [
    { numHeads: 4, numKvHeads: 1, headDim: 40, blockSize: 8, half: 4, latentDim: 32 },
    { numHeads: 2, numKvHeads: 1, headDim: 7, blockSize: 16, half: 0 },
    { numHeads: 1, numKvHeads: 1, headDim: 2, blockSize: 8, half: 1 },
    { numHeads: 6, numKvHeads: 2, headDim: 24, blockSize: 16, half: 12 },
    { numHeads: 4, numKvHeads: 4, headDim: 80, blockSize: 32, half: 16 },
  ];
  return shapes.flatMap(({ half, ...shape }) =>
    KV_TYPES.flatMap((kvType) =>
      [false, true].map(
        (isNeox): OpCase => ({
          op: "ropeAndWriteKv",
          label: `${kvType} ${shape.numHeads}/${shape.numKvHeads} heads of ${shape.headDim}, half ${half}, ${isNeox ? "neox" : "pairs"}`,
          record: (bench) => recordRope(bench, { ...shape, kvType }, half, isNeox),
        }),
      ),
    ),
  );
}

function recordRope(
  bench: Bench,
  shape: KvShape & { latentDim?: number },
  half: number,
  isNeox: boolean,
): readonly Result[] {
  const numBlocks = 3;
  const slots = [2 * shape.blockSize + 1, -1, 0, shape.blockSize - 1, 3 * shape.blockSize - 1];
  const numRows = slots.length;
  const angles = normals(numRows * half, 10);
  const table = Float32Array.from({ length: angles.length * 2 }, (_, i) =>
    i % 2 === 0 ? Math.cos(angles[i >> 1]!) : Math.sin(angles[i >> 1]!),
  );
  const q = bench.f32(normals(numRows * shape.numHeads * shape.headDim, 11));
  const numKvValues = numRows * shape.numKvHeads * shape.headDim;
  const k = bench.f32(normals(numKvValues, 12));
  const v = bench.f32(extremes(numKvValues, 13));
  const numEntries = numBlocks * shape.numKvHeads * shape.blockSize;
  const zeros = new Uint8Array(numEntries * kvEntryBytes(shape.kvType, shape.headDim));
  const [keyCache, valueCache] = [bench.bytes(zeros), bench.bytes(zeros)];
  bench.program.record("ropeAndWriteKv", {
    ...shape,
    q,
    k,
    v,
    table: bench.f32(table),
    keyCache,
    valueCache,
    slots: bench.i32(slots),
    numRows,
    half,
    isNeox,
  });
  const rotated = f32Result("q", q, { relative: 1e-6, absolute: 1e-6 });
  if (shape.kvType !== "f16" && shape.kvType !== "f32") {
    // A rotated key may round to the neighbouring code: what was not rotated must be the very bytes.
    const exact = half === 0 ? [{ name: "keyCache", handle: keyCache, as: "bytes" as const }] : [];
    return [rotated, ...exact, { name: "valueCache", handle: valueCache, as: "bytes" }];
  }
  const keyTolerance = shape.kvType === "f16" ? F16_ROUNDING : { relative: 1e-6, absolute: 1e-6 };
  return [
    rotated,
    { name: "keyCache", handle: keyCache, as: shape.kvType, tolerance: keyTolerance },
    { name: "valueCache", handle: valueCache, as: shape.kvType, tolerance: EXACT },
  ];
}

function gatherRowsCases(): OpCase[] {
  return [1, 5, 100].map((width) => ({
    op: "gatherRows",
    label: `4 of 6 rows of ${width}`,
    record: (bench) => {
      const out = bench.unwritten(4 * width);
      const [x, rows] = [bench.f32(extremes(6 * width, 14)), bench.i32([5, 0, 3, 3])];
      bench.program.record("gatherRows", { out, x, rows, numRows: 4, width });
      return [f32Result("out", out, EXACT)];
    },
  }));
}

function spreadColumnsCases(): OpCase[] {
  return [[], [4], [6, 0, 3]].map((columns) => ({
    op: "spreadColumns",
    label: `${columns.length} of 7 columns`,
    record: (bench) => {
      const out = bench.unwritten(5 * 7);
      const x = bench.f32(extremes(5 * columns.length, 27));
      const operands = { out, x, columns: bench.i32(columns), numRows: 5, width: columns.length, outWidth: 7 };
      bench.program.record("spreadColumns", operands);
      return [f32Result("out", out, EXACT)];
    },
  }));
}

/** Breadth is in kernels.linear.test.ts; this one stands for the operation where every operation is needed. */
function linearCases(): OpCase[] {
  return [NO_BUFFER, 1].map((biasOrNone) => ({
    op: "linear",
    label: `F32 [3, 5], ${biasOrNone === NO_BUFFER ? "no bias" : "bias"}`,
    record: (bench) => {
      const out = bench.unwritten(2 * 3);
      const bias = biasOrNone === NO_BUFFER ? NO_BUFFER : bench.f32(normals(3, 15));
      const weight = bench.weight("F32", 3, 5, weightBytes("F32", 3, 5, 16));
      bench.program.record("linear", { out, x: bench.f32(normals(10, 17)), weight, bias, numRows: 2 });
      return [f32Result("out", out, { relative: 1e-6, absolute: 1e-6 })];
    },
  }));
}

/** Formats at widths of one and of several blocks, with values of every size. */
function quantizeCases(): OpCase[] {
  return (["blocks16", "blocks32", "blocks256", "row16", "centred32"] as const).flatMap((format) =>
    [256, 768].map((width) => ({
      op: "quantize" as const,
      label: `3 rows of ${width} to ${format}`,
      record: (bench: Bench) => {
        const numBytes = 3 * activationRowBytes(format, width);
        const out = bench.bytes(new Uint8Array(numBytes));
        const x = joined([normals(width, 30), extremes(width, 31, 1e20), new Float32Array(width)]);
        bench.program.record("quantize", { out, x: bench.f32(x), numRows: 3, width, format });
        return [{ name: "out", handle: out, as: "i32" as const }];
      },
    })),
  );
}

/**
 * What is packed differs from device to device; that it is all there shows in what linear computes
 * (kernels.linear.test.ts).
 */
function packCases(): OpCase[] {
  return (["Q4_0", "Q6_K"] as const).map((type) => ({
    op: "pack",
    label: `${type} [11, 256]`,
    record: (bench) => {
      const packed = bench.bytes(new Uint8Array(packedByteLength(type, 11, 256)! + 8));
      const weight = bench.weight(type, 11, 256, weightBytes(type, 11, 256, 32));
      bench.program.record("pack", { out: packed, byteOffset: 8, weight });
      return [];
    },
  }));
}

/** Breadth is in kernels.attention.test.ts. */
function pagedAttentionCases(): OpCase[] {
  const shape: KvShape = { kvType: "f32", numHeads: 2, numKvHeads: 1, headDim: 4, blockSize: 8 };
  const sequences = [{ keys: normals(40, 18), values: normals(40, 19) }];
  const rows = [9, 10].map((kvLength) => ({ sequence: 0, kvLength, q: normals(8, kvLength) }));
  const causal = [{}, { cap: 0.7 }, { sinks: Float32Array.of(0.5, -2) }].map(
    (each): OpCase => ({
      op: "pagedAttention",
      label: `two rows of one sequence ${JSON.stringify(each)}`,
      record: (bench) => {
        const stored = storeSequences(bench, shape, sequences, 1);
        const out = recordAttention(bench, stored, rows, { scale: 0.5, window: 0, ...each });
        return [f32Result("out", out, { relative: 1e-5, absolute: 1e-6 })];
      },
    }),
  );
  // An encoder's windows: each row sees entries on both sides of its own, rows of one sequence see nothing in common,
  // and one sees nothing.
  const bothSides: OpCase = {
    op: "pagedAttention",
    label: "rows with windows to both sides, and sinks",
    record: (bench) => {
      const numEntries = 300;
      const text = { keys: normals(numEntries * 4, 18), values: normals(numEntries * 4, 19) };
      const stored = storeSequences(bench, shape, [text], 2);
      const wide = Array.from({ length: numEntries }, (_, position) => ({
        sequence: 0,
        begin: Math.max(0, position - 3),
        kvLength: Math.min(numEntries, position + 4),
        q: normals(8, position),
      }));
      const windowed = [...wide, { sequence: 0, begin: 5, kvLength: 5, q: normals(8, 500) }];
      const sinks = Float32Array.of(0.5, -2);
      const out = recordAttention(bench, stored, windowed, { scale: 0.5, window: 0, sinks });
      return [f32Result("out", out, { relative: 1e-5, absolute: 1e-6 })];
    },
  };
  return [...causal, bothSides, ...latentCases()];
}

function countAttentionCases(): OpCase[] {
  const heads = { numHeads: 6, numKvHeads: 1, headDim: 20 };
  const lengths = [300, 9];
  const rows = [300, 9, 1, 0, 157].map((kvLength, i) => ({
    sequence: i % 2,
    kvLength: Math.min(kvLength, lengths[i % 2]!),
    q: normals(heads.numHeads * heads.headDim, 40 + i),
  }));
  const settings = [{}, { cap: 0.7 }, { sinks: Float32Array.of(0.5, -2, 3, 0, 0, 1) }];
  return KV_TYPES.flatMap((kvType) =>
    settings.map((each) => ({
      op: "countAttention" as const,
      label: `${kvType} ${JSON.stringify(each)}`,
      record: (bench: Bench): readonly Result[] => {
        const shape: KvShape = { ...heads, kvType, blockSize: 8 };
        const texts = lengths.map((length, i) => ({
          keys: normals(length * heads.headDim, 50 + i),
          values: normals(length * heads.headDim, 60 + i),
        }));
        const stored = storeSequences(bench, shape, texts, 3);
        const { counts, entropies } = recordCounts(bench, stored, rows, [4, 0, 3, 1], {
          scale: 0.4,
          unit: 1000,
          ...each,
        });
        return [
          { name: "counts", handle: counts, as: "i32" },
          { name: "entropies", handle: entropies, as: "i32" },
        ];
      },
    })),
  );
}

/** Breadth is in kernels.sample.test.ts. */
function sampleCases(): OpCase[] {
  return [
    {
      op: "sample",
      label: "two rows with every input",
      record: (bench) => {
        const row = {
          temperature: 1,
          prompt: [1],
          output: [2, 2],
          biases: [[3, 1]] as const,
          banned: [4],
          allowed: [0, 1, 2, 3, 4, 6],
        };
        const outputs = recordSample(
          bench,
          [20, 21].map((seed) => ({ ...row, seed, repetitionPenalty: 1.1, logits: normals(9, seed) })),
        );
        return [
          { name: "outIds", handle: outputs.ids, as: "i32" },
          { name: "outRanks", handle: outputs.ranks, as: "i32" },
          { name: "topIds", handle: outputs.topIds, as: "i32" },
          f32Result("outLogprobs", outputs.logprobs, ROUNDING),
          f32Result("topLogprobs", outputs.topLogprobs, ROUNDING),
        ];
      },
    },
  ];
}

export const OP_CASES: Readonly<Record<OpName, readonly OpCase[]>> = {
  embed: embedCases(),
  rmsNorm: rmsNormCases(),
  layerNorm: layerNormCases(),
  linear: linearCases(),
  add: addCases(),
  multiply: multiplyCases(),
  scaleAndCap: scaleAndCapCases(),
  scaleByPosition: scaleByPositionCases(),
  activate: activateCases(),
  gatedLinear: gatedLinearCases(),
  ropeTable: ropeTableCases(),
  ropeAndWriteKv: ropeAndWriteKvCases(),
  pagedAttention: pagedAttentionCases(),
  countAttention: countAttentionCases(),
  gatherRows: gatherRowsCases(),
  copyColumns: copyColumnsCases(),
  spreadColumns: spreadColumnsCases(),
  sample: sampleCases(),
  quantize: quantizeCases(),
  pack: packCases(),
  ...WEIGHT_CASES,
  ...EXPERT_CASES,
  ...RECURRENT_CASES,
};

/** The operation's last case as words that can be tampered with. */
export function wordsOf(bench: Bench, op: OpName): Float64Array {
  OP_CASES[op].at(-1)!.record(bench);
  const words = bench.program.words.slice(0, bench.program.numWords);
  bench.program.clear();
  return words;
}
