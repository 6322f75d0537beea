/** The machine and the versions of a measurement; every saved result contains them. */
import { cpus, totalmem } from "node:os";
import { packageVersion } from "../../core/package-root.js";

export interface MachineInfo {
  readonly cpu: string;
  /** Hardware threads that the operating system reports. */
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
