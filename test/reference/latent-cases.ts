/** Cases of latent attention, and of the operation that puts its vectors together. */
import { KV_TYPES } from "../../src/backend/ops.js";
import type { KvShape } from "../../src/backend/program.js";
import { type Bench, extremes, normals } from "./compare.js";
import type { OpCase, Result } from "./op-case.js";
import { recordAttention, storeSequences } from "./recorders.js";

export function copyColumnsCases(): OpCase[] {
  const layouts = [
    { width: 5, outWidth: 5, to: 0, xWidth: 5, from: 0 },
    { width: 3, outWidth: 8, to: 5, xWidth: 7, from: 2 },
  ];
  return layouts.flatMap((layout) =>
    [undefined, [3, 0, -1, 1, 4]].map((rows) => ({
      op: "copyColumns" as const,
      label: `${JSON.stringify(layout)} of ${rows === undefined ? "each row" : `rows ${rows}`}`,
      record: (bench: Bench): readonly Result[] => {
        const out = bench.f32(normals(5 * layout.outWidth, 15));
        const x = bench.f32(extremes(5 * layout.xWidth, 16));
        bench.program.record("copyColumns", { ...layout, out, x, rows: rows && bench.i32(rows), numRows: 5 });
        return [{ name: "out", handle: out, as: "f32", tolerance: { relative: 0, absolute: 0 } }];
      },
    })),
  );
}

/** Many query heads over one of keys, whose last numbers are the values. */
export function latentCases(): OpCase[] {
  const shapes = [
    { numHeads: 2, headDim: 24, latentDim: 16 },
    { numHeads: 20, headDim: 43, latentDim: 34 },
    { numHeads: 70, headDim: 80, latentDim: 80 },
  ];
  const lengths = [300, 9];
  return shapes.flatMap(({ latentDim, ...heads }) =>
    KV_TYPES.map((kvType) => ({
      op: "pagedAttention" as const,
      label: `latent, ${kvType}, ${heads.numHeads} heads of ${heads.headDim}, ${latentDim} of them values`,
      record: (bench: Bench): readonly Result[] => {
        const shape: KvShape = { ...heads, numKvHeads: 1, kvType, blockSize: 8 };
        const texts = lengths.map((length, i) => ({
          keys: normals(length * shape.headDim, 70 + i),
          values: normals(length * shape.headDim, 72 + i),
        }));
        const rows = [300, 9, 1, 0, 157].map((kvLength, i) => ({
          sequence: i % 2,
          kvLength: Math.min(kvLength, lengths[i % 2]!),
          q: normals(shape.numHeads * shape.headDim, 74 + i),
        }));
        const stored = storeSequences(bench, shape, texts, 1);
        const out = recordAttention(bench, stored, rows, { scale: 0.2, window: 0, latentDim });
        return [{ name: "out", handle: out, as: "f32", tolerance: { relative: 1e-5, absolute: 1e-5 } }];
      },
    })),
  );
}
