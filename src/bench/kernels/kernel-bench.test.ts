import { describe, expect, test } from "vitest";
import type { GgufFile } from "../../formats/gguf/types.js";
import { weightBytesPerStep } from "./decode-roofline.js";
import { expertWorkloads } from "./expert-workloads.js";
import { resultOf, workloadsOf } from "./kernel-bench.js";
import { linearWorkload } from "./linear-workloads.js";
import type { KernelWorkload } from "./workload.js";

const WORKLOAD: KernelWorkload = { op: "o", shape: "s", macs: 4e9, mix: "wide", bytes: 1e9, record: () => 1 };

describe("the roofline share refers to the ceiling that takes longer", () => {
  test("memory", () => {
    const result = resultOf(WORKLOAD, 0.1, { bytesPerS: 20e9, macsPerS: 100e9 });
    expect(result).toMatchObject({ gbPerS: 10, ceilingGbPerS: 20, gmacPerS: 40, ceilingGmacPerS: 100 });
    expect(result.rooflineShare).toBeCloseTo(0.5, 12);
  });

  test("arithmetic", () => {
    expect(resultOf(WORKLOAD, 0.1, { bytesPerS: 100e9, macsPerS: 50e9 }).rooflineShare).toBeCloseTo(0.8, 12);
  });

  test("neither", () => {
    const unbound = { ...WORKLOAD, macs: 0, bytes: 0 };
    const result = resultOf(unbound, 0.1, { bytesPerS: Number.POSITIVE_INFINITY, macsPerS: Number.POSITIVE_INFINITY });
    expect(result).toEqual({ op: "o", shape: "s", mix: "wide", seconds: 0.1 });
  });
});

test("a linear layer's work equals the work of its matrix", () => {
  expect(linearWorkload("Q4_0", 3)).toMatchObject({ macs: 3 * 5632 * 2048, bytes: (5632 * 2048 * 4.5) / 8 });
  expect(linearWorkload("Q8_0", 1)).toMatchObject({ bytes: (5632 * 2048 * 8.5) / 8, mix: "wide" });
  expect(linearWorkload("F16", 1)).toMatchObject({ bytes: 5632 * 2048 * 2, mix: "float" });
});

test("experts' work equals that of the matrices that rows choose, each read once", () => {
  const [gated, down] = expertWorkloads("Q4_0", 1);
  expect(gated).toMatchObject({ macs: 8 * 2 * 384 * 1024, bytes: (8 * 2 * 384 * 1024 * 4.5) / 8 });
  expect(down).toMatchObject({ macs: 8 * 384 * 1024, bytes: (8 * 384 * 1024 * 4.5) / 8 });
  const [many] = expertWorkloads("Q4_0", 512);
  expect(many).toMatchObject({ macs: 512 * gated!.macs, bytes: 8 * gated!.bytes });
  expect(expertWorkloads("Q4_K", 1).map(({ op }) => op)).toEqual(["expertGatedLinear Q4_K"]);
});

test("every group, type and number of rows has a workload", () => {
  const spec = { types: ["Q4_0", "F16"], numRows: [1, 8], numThreads: 1, isa: "avx512vnni", minSeconds: 0 } as const;
  const ops = workloadsOf({ ...spec, groups: ["linear", "sample"] }).map(({ op, shape }) => `${op} ${shape[0]}`);
  expect(ops.slice(0, 4)).toEqual(["linear Q4_0 1", "linear Q4_0 8", "linear F16 1", "linear F16 8"]);
  expect(ops.filter((op) => op.startsWith("sample 151936"))).toHaveLength(8);
});

test("a step reads the whole embedding table only if it is also the output matrix", () => {
  const gguf = (bytes: Record<string, number>): GgufFile => {
    const tensors = new Map(Object.entries(bytes).map(([name, byteLength]) => [name, { name, byteLength }]));
    return { tensors } as unknown as GgufFile;
  };
  const tied = { "token_embd.weight": 100, "blk.0.attn_q.weight": 7 };
  expect(weightBytesPerStep(gguf(tied))).toBe(107);
  expect(weightBytesPerStep(gguf({ ...tied, "output.weight": 60 }))).toBe(67);
});
