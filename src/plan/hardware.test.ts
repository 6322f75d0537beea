import { expect, test } from "vitest";
import { GPUS } from "./data/hardware.js";
import { GPU_HOUR } from "./data/prices.js";
import { findGpu, gpuBySmiName, linkOf, machineLabel, parseHardware } from "./hardware.js";

test("every GPU has sane figures, a source and a price with a date", () => {
  for (const { id, memoryBytes, bytesPerS, flops, source } of GPUS) {
    expect(memoryBytes, id).toBeGreaterThan(15e9);
    expect(bytesPerS, id).toBeGreaterThan(2e11);
    expect(flops.float16, id).toBeGreaterThan(5e13);
    if (flops.fp8 !== undefined) expect(flops.fp8 / flops.float16!, id).toBeCloseTo(2, 1);
    expect(source, id).toMatch(/NVIDIA|AMD/);
    expect(GPU_HOUR[id]!.usd, id).toBeGreaterThan(0);
    expect(GPU_HOUR[id]!.date, id).toMatch(/^20\d\d-\d\d$/);
  }
});

test.each([
  ["h100x2", "2 × H100 SXM 80 GB"],
  ["A100", "A100 SXM 80 GB"],
  ["4090x4", "4 × RTX 4090 24 GB"],
  ["rtx_6000_ada", "RTX 6000 Ada 48 GB"],
  ["cpu-16", "16 cores with AVX-512"],
])("%s is %s", (name, label) => {
  expect(machineLabel(parseHardware(name))).toBe(label);
});

test.each([
  ["NVIDIA H100 80GB HBM3", "h100"],
  ["NVIDIA H100 PCIe", "h100-pcie"],
  ["NVIDIA H100 NVL", "h100-nvl"],
  ["NVIDIA H200", "h200"],
  ["NVIDIA A100-SXM4-40GB", "a100-40"],
  ["NVIDIA A100-SXM4-80GB", "a100-80"],
  ["NVIDIA L40S", "l40s"],
  ["NVIDIA RTX 6000 Ada Generation", "rtx6000-ada"],
  ["NVIDIA A10G", "a10g"],
  ["NVIDIA GeForce RTX 4090", "rtx4090"],
  ["AMD Instinct MI300X", "mi300x"],
])("nvidia-smi's %s is %s", (name, id) => {
  expect(gpuBySmiName(name)?.id).toBe(id);
});

test.each([
  "NVIDIA GH200 480GB",
  "NVIDIA GeForce RTX 4090 Laptop GPU",
  "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
])("%s is none of them", (name) => {
  expect(gpuBySmiName(name)).toBeUndefined();
});

test("links: bridges join pairs, Infinity Fabric has one link to each neighbour", () => {
  expect(linkOf(findGpu("h100-nvl")!, 2).kind).toBe("nvlink");
  expect(linkOf(findGpu("h100-nvl")!, 4).kind).toBe("pcie");
  expect(linkOf(findGpu("mi300x")!, 8).bytesPerS / linkOf(findGpu("mi300x")!, 2).bytesPerS).toBe(7);
});
