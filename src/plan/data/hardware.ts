/**
 * GPUs: memory, bandwidth, dense peaks and links, from the makers' datasheets. Peaks exclude sparsity, and assume
 * 32-bit sums on cards that these slow to half.
 */
import type { Cpu, Gpu } from "./device.js";

const TERA = 1e12;
const GIGA = 1e9;
const mebibytes = (count: number): number => count * 2 ** 20;

/** A datasheet's NVLink figure counts both directions; `bytesPerS` is one direction of one GPU. */
const nvlink = (gigabytesPerS: number) => ({ kind: "nvlink", bytesPerS: gigabytesPerS * GIGA }) as const;
const pcie = (gigabytesPerS: number) => ({ kind: "pcie", bytesPerS: gigabytesPerS * GIGA }) as const;

/** Memory as `nvidia-smi` and `rocm-smi` list it. */
export const GPUS: readonly Gpu[] = [
  {
    id: "h100",
    label: "H100 SXM 80 GB",
    aliases: ["h100-sxm"],
    smiNames: ["H100 80GB HBM3"],
    arch: "hopper",
    memoryBytes: mebibytes(81_559),
    bytesPerS: 3.35 * TERA,
    flops: { float16: 989 * TERA, fp8: 1979 * TERA, int8: 1979 * TERA },
    link: nvlink(450),
    maxPerNode: 8,
    source: "NVIDIA H100 datasheet (SXM: 3.35 TB/s, 989 and 1,979 TFLOPS dense, NVLink 900 GB/s)",
  },
  {
    id: "h100-pcie",
    label: "H100 PCIe 80 GB",
    aliases: [],
    smiNames: ["H100 PCIe"],
    arch: "hopper",
    memoryBytes: mebibytes(81_559),
    bytesPerS: 2.0 * TERA,
    flops: { float16: 756 * TERA, fp8: 1513 * TERA, int8: 1513 * TERA },
    link: pcie(64),
    maxPerNode: 8,
    source: "NVIDIA H100 datasheet (PCIe: 2 TB/s, 756 and 1,513 TFLOPS dense; PCIe 5.0 ×16)",
  },
  {
    id: "h100-nvl",
    label: "H100 NVL 94 GB",
    aliases: [],
    smiNames: ["H100 NVL"],
    arch: "hopper",
    memoryBytes: mebibytes(95_830),
    bytesPerS: 3.9 * TERA,
    flops: { float16: 835 * TERA, fp8: 1671 * TERA, int8: 1671 * TERA },
    // The bridge joins two cards; wider groups use PCIe (`linkOf`).
    link: nvlink(300),
    maxPerNode: 8,
    bridgedPairs: true,
    source: "NVIDIA H100 datasheet (NVL: 3.9 TB/s, 835 and 1,671 TFLOPS dense, NVLink bridge 600 GB/s)",
  },
  {
    id: "h200",
    label: "H200 SXM 141 GB",
    aliases: ["h200-sxm"],
    smiNames: ["H200"],
    arch: "hopper",
    memoryBytes: mebibytes(143_771),
    bytesPerS: 4.8 * TERA,
    flops: { float16: 989 * TERA, fp8: 1979 * TERA, int8: 1979 * TERA },
    link: nvlink(450),
    maxPerNode: 8,
    source: "NVIDIA H200 datasheet (4.8 TB/s, 989 and 1,979 TFLOPS dense, NVLink 900 GB/s)",
  },
  {
    id: "b200",
    label: "B200 180 GB",
    aliases: ["b200-sxm"],
    smiNames: ["B200"],
    arch: "blackwell",
    memoryBytes: mebibytes(183_359),
    bytesPerS: 7.7 * TERA,
    flops: { float16: 2250 * TERA, fp8: 4500 * TERA, int8: 4500 * TERA, fp4: 9000 * TERA },
    link: nvlink(900),
    maxPerNode: 8,
    source: "NVIDIA DGX B200 datasheet, an eighth of it (62 TB/s, 36 PFLOPS FP8 dense; NVLink 1.8 TB/s)",
  },
  {
    id: "a100-40",
    label: "A100 SXM 40 GB",
    aliases: ["a100-40gb"],
    smiNames: ["A100-SXM4-40GB", "A100-PCIE-40GB"],
    arch: "ampere",
    memoryBytes: mebibytes(40_960),
    bytesPerS: 1.555 * TERA,
    flops: { float16: 312 * TERA, int8: 624 * TERA },
    link: nvlink(300),
    maxPerNode: 8,
    source: "NVIDIA A100 datasheet (1,555 GB/s, 312 TFLOPS, 624 TOPS, NVLink 600 GB/s)",
  },
  {
    id: "a100-80",
    label: "A100 SXM 80 GB",
    aliases: ["a100", "a100-80gb"],
    smiNames: ["A100-SXM4-80GB", "A100 80GB PCIe"],
    arch: "ampere",
    memoryBytes: mebibytes(81_920),
    bytesPerS: 2.039 * TERA,
    flops: { float16: 312 * TERA, int8: 624 * TERA },
    link: nvlink(300),
    maxPerNode: 8,
    source: "NVIDIA A100 datasheet (2,039 GB/s, 312 TFLOPS, 624 TOPS, NVLink 600 GB/s)",
  },
  {
    id: "l40s",
    label: "L40S 48 GB",
    aliases: [],
    smiNames: ["L40S"],
    arch: "ada",
    memoryBytes: mebibytes(46_068),
    bytesPerS: 0.864 * TERA,
    flops: { float16: 362 * TERA, fp8: 733 * TERA, int8: 733 * TERA },
    link: pcie(32),
    maxPerNode: 8,
    source: "NVIDIA L40S datasheet (864 GB/s, 362 and 733 TFLOPS dense; PCIe 4.0 ×16)",
  },
  {
    id: "rtx6000-ada",
    label: "RTX 6000 Ada 48 GB",
    aliases: ["rtx-6000-ada"],
    smiNames: ["RTX 6000 Ada Generation"],
    arch: "ada",
    memoryBytes: mebibytes(49_140),
    bytesPerS: 0.96 * TERA,
    flops: { float16: 364 * TERA, fp8: 728 * TERA, int8: 728 * TERA },
    link: pcie(32),
    maxPerNode: 8,
    source: "NVIDIA RTX 6000 Ada datasheet (960 GB/s; 1,457 TFLOPS FP8 with sparsity, half of it dense)",
  },
  {
    id: "rtx4000-ada",
    label: "RTX 4000 Ada 20 GB",
    aliases: ["rtx-4000-ada"],
    smiNames: ["RTX 4000 Ada Generation"],
    arch: "ada",
    memoryBytes: mebibytes(20_475),
    bytesPerS: 0.36 * TERA,
    flops: { float16: 82 * TERA, fp8: 164 * TERA, int8: 164 * TERA },
    link: pcie(32),
    maxPerNode: 4,
    source: "NVIDIA RTX 4000 Ada datasheet (360 GB/s; 327.6 TFLOPS FP8 with sparsity, half of it dense)",
  },
  {
    id: "a10g",
    label: "A10G 24 GB",
    aliases: [],
    smiNames: ["A10G"],
    arch: "ampere",
    memoryBytes: mebibytes(23_028),
    bytesPerS: 0.6 * TERA,
    flops: { float16: 70 * TERA, int8: 140 * TERA },
    link: pcie(32),
    maxPerNode: 8,
    source: "NVIDIA A10G datasheet for AWS G5 (600 GB/s, 70 TFLOPS, 140 TOPS)",
  },
  {
    id: "rtx4090",
    label: "RTX 4090 24 GB",
    aliases: ["4090", "rtx-4090"],
    smiNames: ["GeForce RTX 4090"],
    arch: "ada",
    memoryBytes: mebibytes(24_564),
    bytesPerS: 1.008 * TERA,
    flops: { float16: 165 * TERA, fp8: 330 * TERA, int8: 661 * TERA },
    // Cards exchange data through the host's memory.
    link: pcie(16),
    maxPerNode: 8,
    source: "NVIDIA Ada architecture whitepaper (1,008 GB/s; 165.2 and 330.3 TFLOPS with 32-bit sums)",
  },
  {
    id: "mi300x",
    label: "MI300X 192 GB",
    aliases: [],
    smiNames: ["MI300X"],
    arch: "cdna3",
    memoryBytes: mebibytes(196_592),
    bytesPerS: 5.3 * TERA,
    flops: { float16: 1307 * TERA, fp8: 2615 * TERA, int8: 2615 * TERA },
    // Seven links of 64 GB/s, one to each neighbour: a group of n uses n − 1 of them, a pair just one.
    link: { kind: "nvlink", bytesPerS: 64 * GIGA },
    linksPerNeighbour: true,
    maxPerNode: 8,
    source: "AMD MI300X datasheet (5.3 TB/s, 1,307 and 2,615 TFLOPS dense, Infinity Fabric 128 GB/s per link)",
  },
];

/** A CPU server with a given number of cores, for plans without the machine at hand; `detect` measures the real one. */
function cpuTier(numCores: number, memoryGibibytes: number, gigabytesPerS: number): Cpu {
  // 185 GMAC/s per core in 8-bit products, as on two Zen 5 cores in a slow hour
  // (docs/background/benchmarks/kernels.md).
  const narrow = 2 * 185 * GIGA * numCores;
  return {
    id: `cpu-${numCores}`,
    label: `${numCores} cores with AVX-512`,
    memoryBytes: memoryGibibytes * 2 ** 30,
    bytesPerS: gigabytesPerS * GIGA,
    flops: { cpu4: narrow, cpu8: narrow / 2, cpuFloat: narrow / 3 },
    numCores,
    isa: "avx512vnni",
    source: "assumed: a slow hour's speed per core, and a fair share of an eight-channel DDR5 socket's bandwidth",
  };
}

export const CPU_TIERS: readonly Cpu[] = [cpuTier(8, 32, 60), cpuTier(16, 64, 120), cpuTier(32, 128, 200)];
