/** The machine and the versions of a measurement, which every saved result has. */
import { cpus, totalmem } from "node:os";
import { packageVersion } from "../../core/package-root.js";

export interface MachineInfo {
  readonly cpu: string;
  /** Hardware threads the operating system shows. */
  readonly numCpus: number;
  readonly memoryBytes: number;
  readonly platform: string;
}

export interface Versions {
  readonly millrace: string;
  readonly node: string;
}

export function machineInfo(): MachineInfo {
  const all = cpus();
  return {
    cpu: all[0]?.model.trim() ?? "unknown",
    numCpus: all.length,
    memoryBytes: totalmem(),
    platform: `${process.platform} ${process.arch}`,
  };
}

export function versions(): Versions {
  return { millrace: packageVersion(), node: process.versions.node };
}
