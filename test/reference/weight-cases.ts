/** Cases of the operations that make weights smaller; breadth is in kernels.encode.test.ts. */
import { NO_BUFFER } from "../../src/backend/handles.js";
import { CODES } from "../../src/backend/ops.js";
import { rowByteLength } from "../../src/formats/dequantize.js";
import { type Bench, normals } from "./compare.js";
import type { OpCase } from "./op-case.js";

/** The levels are the device's choice; kernels.encode.test.ts compares them with the values. */
function encodeRowsCases(): OpCase[] {
  return (["Q8_0", "Q4_K"] as const).map((type) => ({
    op: "encodeRows",
    label: `${type} [2, 512]`,
    record: (bench) => {
      const out = bench.bytes(new Uint8Array(2 * rowByteLength(type, 512)!));
      const importance = type === "Q8_0" ? NO_BUFFER : bench.f32(normals(512, 33).map(Math.abs));
      bench.program.record("encodeRows", {
        out,
        x: bench.f32(normals(1024, 34)),
        importance,
        factor: NO_BUFFER,
        numRows: 2,
        width: 512,
        type,
      });
      return [];
    },
  }));
}

/** With a factor the order of sums decides ties; kernels.encode.test.ts compares the errors. */
function roundToScalesCases(): OpCase[] {
  return CODES.ScaledType.flatMap((type) =>
    [1, 35].map((group) => ({
      op: "roundToScales" as const,
      label: `${type} [3, 70], groups of ${group}`,
      record: (bench: Bench) => {
        const numGroups = (3 * 70) / group;
        const x = bench.f32(normals(3 * 70, 36).map((value) => 9 * value));
        const scales = bench.f32(
          Float32Array.from({ length: numGroups }, (_, g) => (g === 0 ? 0 : 0.02 + (g % 9) / 3)),
        );
        const out = bench.bytes(new Uint8Array(3 * 70));
        const shape = { numRows: 3, width: 70, group, type };
        bench.program.record("roundToScales", { out, x, scales, factor: NO_BUFFER, order: NO_BUFFER, ...shape });
        return [{ name: "out", handle: out, as: "bytes" as const }];
      },
    })),
  );
}

function addGramCases(): OpCase[] {
  return [0, 1, 9].flatMap((numRows) =>
    [1, 24, 70].map((width) => ({
      op: "addGram" as const,
      label: `${numRows} rows of ${width}`,
      record: (bench: Bench) => {
        const gram = bench.f32(Float32Array.from({ length: width * width }, (_, i) => i % 5));
        bench.program.record("addGram", { gram, x: bench.f32(normals(numRows * width, 37)), numRows, width });
        return [{ name: "gram", handle: gram, as: "f32", tolerance: { relative: 1e-6, absolute: 1e-5 } }];
      },
    })),
  );
}

function factoriseCases(): OpCase[] {
  return [1, 5, 64, 150].map((width) => ({
    op: "factorise",
    label: `${width} columns`,
    record: (bench) => {
      const x = normals(2 * width * width, 38);
      const gram = new Float32Array(width * width);
      for (let i = 0; i < width; i++) {
        for (let j = 0; j < width; j++) {
          for (let m = 0; m < 2 * width; m++) gram[i * width + j]! += x[m * width + i]! * x[m * width + j]!;
        }
      }
      const handle = bench.f32(gram);
      bench.program.record("factorise", { gram: handle, width, damping: 0.01 });
      return [{ name: "gram", handle: handle, as: "f32", tolerance: { relative: 1e-4, absolute: 1e-5 } }];
    },
  }));
}

function addSquaresCases(): OpCase[] {
  return [0, 1, 5].map((numRows) => ({
    op: "addSquares",
    label: `${numRows} rows of 70`,
    record: (bench) => {
      const sums = bench.bytes(new Uint8Array(Float64Array.from({ length: 70 }, (_, c) => c).buffer));
      bench.program.record("addSquares", { sums, x: bench.f32(normals(70 * numRows, 35)), numRows, width: 70 });
      return [{ name: "sums", handle: sums, as: "bytes" as const }];
    },
  }));
}

function keepLargestCases(): OpCase[] {
  return [0, 1, 5].map((numRows) => ({
    op: "keepLargest",
    label: `${numRows} rows of 70`,
    record: (bench) => {
      const largest = bench.f32(Float32Array.from({ length: 70 }, (_, c) => c / 35));
      bench.program.record("keepLargest", { largest, x: bench.f32(normals(70 * numRows, 35)), numRows, width: 70 });
      return [{ name: "largest", handle: largest, as: "bytes" as const }];
    },
  }));
}

export const WEIGHT_CASES = {
  encodeRows: encodeRowsCases(),
  roundToScales: roundToScalesCases(),
  addSquares: addSquaresCases(),
  keepLargest: keepLargestCases(),
  addGram: addGramCases(),
  factorise: factoriseCases(),
};
