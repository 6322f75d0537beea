/** Machines by name: `h100x2` is two of the table's H100 GPUs in one box. */
import { MillraceError } from "../core/errors.js";
import type { Gpu, Link, Machine } from "./data/device.js";
import { CPU_TIERS, GPUS } from "./data/hardware.js";

export function machineLabel({ device, count }: Machine): string {
  return count === 1 ? device.label : `${count} × ${device.label}`;
}

/** The link over which a group of `size` GPUs sums its parts. */
export function linkOf(gpu: Gpu, size: number): Link {
  if (gpu.bridgedPairs === true && size > 2) return { kind: "pcie", bytesPerS: 64e9 };
  if (gpu.linksPerNeighbour === true) return { ...gpu.link, bytesPerS: gpu.link.bytesPerS * Math.max(1, size - 1) };
  return gpu.link;
}

export const GPU_NAMES: readonly string[] = GPUS.map((gpu) => gpu.id);

export function findGpu(name: string): Gpu | undefined {
  const wanted = name.toLowerCase().replace(/[_ ]/g, "-");
  return GPUS.find((gpu) => gpu.id === wanted || gpu.aliases.includes(wanted));
}

/**
 * The table's entry for a whole name as nvidia-smi shows it: a GH200, a laptop's RTX 4090 and a slice of an H100 are
 * different machines.
 */
export function gpuBySmiName(name: string): Gpu | undefined {
  const model = name.trim().replace(/^(NVIDIA|AMD Instinct) /, "");
  return GPUS.find((gpu) => gpu.smiNames.includes(model));
}

/**
 * @param spec a GPU's name, and optionally an x and the number of GPUs
 * @example parseHardware("h100x2")
 */
export function parseHardware(spec: string): Machine {
  const cpu = CPU_TIERS.find(({ id }) => id === spec.toLowerCase());
  if (cpu !== undefined) return { kind: "cpu", device: cpu, count: 1 };
  const gpu = findGpu(spec);
  if (gpu !== undefined) return { kind: "gpu", device: gpu, count: 1 };
  const match = /^(.+)x(\d+)$/i.exec(spec.trim());
  const found = match === null ? undefined : findGpu(match[1]!);
  if (match === null || found === undefined) throw unknownHardware(spec);
  const count = Number(match[2]);
  if (count >= 1 && count <= found.maxPerNode) return { kind: "gpu", device: found, count };
  throw new MillraceError(
    "invalid_option",
    `expected --hardware with 1 to ${found.maxPerNode} ${found.id} on one machine, got ${count}`,
    { hint: "plan one machine; more of them are more instances behind one gateway, each as planned" },
  );
}

function unknownHardware(spec: string): MillraceError {
  return new MillraceError(
    "invalid_option",
    `expected --hardware to be detect, cpu or a GPU such as h100x2, got ${JSON.stringify(spec)}`,
    { hint: `known: ${[...GPU_NAMES, ...CPU_TIERS.map(({ id }) => id)].join(", ")}` },
  );
}
