/** Cores that this process may compute on, within its affinity mask and its cgroup's quota. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { cgroupFolders, readText } from "./cgroup.js";

export interface CpuCores {
  /** Hardware threads that this process may run on. */
  readonly numAvailable: number;
  /** Number of physical cores with these threads; two hardware threads of a core share its arithmetic units. */
  readonly numPhysical: number;
  /** CPUs' worth of time that the cgroup allows; undefined: no limit. */
  readonly cgroupLimit: number | undefined;
}

/** More CPUs than any machine has. */
const MAX_CPUS = 4096;

/** Ranges end at MAX_CPUS numbers. @example parseCpuList("0-2,8") // [0, 1, 2, 8] */
export function parseCpuList(list: string): number[] {
  return list.split(",").flatMap((part) => {
    const match = /^\s*(\d+)(?:-(\d+))?\s*$/.exec(part);
    if (match === null) return [];
    const first = Number(match[1]);
    const last = Number(match[2] ?? match[1]);
    return Array.from({ length: Math.min(MAX_CPUS, Math.max(0, last - first + 1)) }, (_, i) => first + i);
  });
}

/** The tightest quota of the process's own cgroup and its ancestors. */
function cgroupCpuLimit(root: string): number | undefined {
  const quotas = [
    ...cgroupFolders(root).map((folder) => (readText(join(folder, "cpu.max")) ?? "").split(" ")),
    ...cgroupFolders(root, "cpu").map((folder) =>
      ["cpu.cfs_quota_us", "cpu.cfs_period_us"].map((file) => readText(join(folder, file))),
    ),
  ];
  const limits = quotas.map(([quota, period]) => Number(quota) / Number(period)).filter((limit) => limit > 0);
  return limits.length === 0 ? undefined : Math.min(...limits);
}

/** The CPUs of this process's affinity mask; empty if the OS does not report them. */
export function allowedCpus(root = "/"): number[] {
  const allowed = /^Cpus_allowed_list:\s*(\S+)/m.exec(readText(join(root, "proc/self/status")) ?? "")?.[1];
  return allowed === undefined ? [] : parseCpuList(allowed);
}

/** The CPUs of each memory node; empty if the OS does not report them. */
export function numaNodes(root = "/"): readonly (readonly number[])[] {
  const folder = join(root, "sys/devices/system/node");
  const online = parseCpuList(readText(join(folder, "online")) ?? "");
  return online.map((node) => parseCpuList(readText(join(folder, `node${node}/cpulist`)) ?? ""));
}

/**
 * The CPUs of each physical core that this process may run on, ordered by memory node; empty if the OS does not report
 * them. Under a quota smaller than the cores, only the number of cores is known: each has an empty list, since
 * otherwise
 * every process with a quota would choose the same CPUs.
 */
export function cpusByCore(root = "/"): readonly (readonly number[])[] {
  const byCore = new Map<string, number[]>();
  for (const cpu of allowedCpus(root)) {
    const core = readText(join(root, `sys/devices/system/cpu/cpu${cpu}/topology/thread_siblings_list`)) ?? String(cpu);
    byCore.set(core, [...(byCore.get(core) ?? []), cpu]);
  }
  const nodes = numaNodes(root);
  const nodeOf = ([first]: readonly number[]) => nodes.findIndex((cpus) => cpus.includes(first!));
  const cores = [...byCore.values()].toSorted((a, b) => nodeOf(a) - nodeOf(b));
  const numAllowed = Math.max(1, Math.floor(cgroupCpuLimit(root) ?? cores.length));
  return numAllowed < cores.length ? Array.from({ length: numAllowed }, () => []) : cores;
}

/** @param root "/" except in tests, which create their own /proc and /sys */
export function cpuCores(root = "/", parallelism = availableParallelism()): CpuCores {
  const cpus = allowedCpus(root);
  const numAvailable = cpus.length > 0 ? Math.min(cpus.length, parallelism) : parallelism;
  const cores = new Set(
    cpus.flatMap((cpu) => readText(join(root, `sys/devices/system/cpu/cpu${cpu}/topology/thread_siblings_list`)) ?? []),
  );
  return {
    numAvailable,
    numPhysical: cores.size > 0 ? Math.min(cores.size, numAvailable) : numAvailable,
    cgroupLimit: cgroupCpuLimit(root),
  };
}

/**
 * The default number of kernel threads: one per physical core. A quota rounds down, since one throttled thread stalls
 * all others.
 */
export function defaultNumThreads({ numPhysical, cgroupLimit }: CpuCores = cpuCores()): number {
  return Math.max(1, Math.min(numPhysical, Math.floor(cgroupLimit ?? numPhysical)));
}
