/** The number of threads for the servers that a benchmark starts on its own machine. */
import { type CpuCores, cpuCores, defaultNumThreads } from "../../core/cpu.js";

/** All physical cores but one, which the load generator needs; at least one. */
export function benchedThreads(cores: CpuCores = cpuCores()): number {
  return Math.max(1, defaultNumThreads(cores) - 1);
}
