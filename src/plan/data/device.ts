/** Facts about a device: a GPU of the table, or a CPU with its measured speeds. */
import type { MachineSpeeds } from "../../core/machine-speeds.js";
import type { Arithmetic } from "./quantizations.js";

type Architecture = "ampere" | "ada" | "hopper" | "blackwell" | "cdna3";

export interface Link {
  readonly kind: "nvlink" | "pcie";
  /** Per direction and GPU. */
  readonly bytesPerS: number;
}

interface Device {
  readonly id: string;
  readonly label: string;
  readonly memoryBytes: number;
  readonly bytesPerS: number;
  /** Dense peaks in operations per second; a multiply-add counts as two. Absent types are unsupported. */
  readonly flops: Readonly<Partial<Record<Arithmetic, number>>>;
  readonly source: string;
}

export interface Gpu extends Device {
  readonly aliases: readonly string[];
  /** Parts of the names that nvidia-smi and rocm-smi show. */
  readonly smiNames: readonly string[];
  readonly arch: Architecture;
  readonly link: Link;
  readonly maxPerNode: number;
  /** The fast link joins only pairs. */
  readonly bridgedPairs?: boolean;
  /** `link` is the link to each single neighbour. */
  readonly linksPerNeighbour?: boolean;
}

export interface Cpu extends Device {
  readonly numCores: number;
  readonly isa: string;
}

export type Machine =
  | { readonly kind: "gpu"; readonly device: Gpu; readonly count: number }
  /** A machine with several memory nodes counts each as a device, because an instance stays on one node. */
  | { readonly kind: "cpu"; readonly device: Cpu; readonly count: number };

/** A multiply-add counts as two operations. */
export const ceilingsOf = ({ bytesPerS, narrow, wide, float }: MachineSpeeds): Pick<Cpu, "bytesPerS" | "flops"> => ({
  bytesPerS,
  flops: { cpu4: 2 * narrow, cpu8: 2 * wide, cpuFloat: 2 * float },
});
