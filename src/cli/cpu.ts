/** How many cores this process may compute on: physical ones, inside its affinity mask and its cgroup's quota. */
import { existsSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";

export interface CpuCores {
  /** Hardware threads this process may run on. */
  readonly numAvailable: number;
  /** Physical cores among them; two hardware threads of a core share its arithmetic units. */
  readonly numPhysical: number;
  /** CPUs' worth of time the cgroup allows; undefined = no limit. */
  readonly cgroupLimit: number | undefined;
}

function readText(path: string): string | undefined {
  try {
    return existsSync(path) ? readFileSync(path, "utf8").trim() : undefined;
  } catch {
    // Some files below /sys and /proc may exist and yet refuse to be read; that is the same as not knowing.
    return undefined;
  }
}

/** @example parseCpuList("0-2,8") // [0, 1, 2, 8] */
export function parseCpuList(list: string): number[] {
  return list.split(",").flatMap((part) => {
    const match = /^\s*(\d+)(?:-(\d+))?\s*$/.exec(part);
    if (match === null) return [];
    const first = Number(match[1]);
    const last = Number(match[2] ?? match[1]);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
  });
}

/** The tightest quota of the process's own cgroup and those above it (v2), or of the v1 controller. */
function cgroupCpuLimit(root: string): number | undefined {
  const limits: number[] = [];
  const ownPath = /^0::(.*)$/m.exec(readText(join(root, "proc/self/cgroup")) ?? "")?.[1] ?? "/";
  const parts = ownPath.split("/").filter((part) => part !== "" && part !== "..");
  for (let depth = parts.length; depth >= 0; depth--) {
    const text = readText(join(root, "sys/fs/cgroup", ...parts.slice(0, depth), "cpu.max"));
    const [quota, period] = (text ?? "max").split(" ").map(Number);
    if (quota! > 0 && period! > 0) limits.push(quota! / period!);
  }
  const quotaV1 = Number(readText(join(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us")) ?? "-1");
  const periodV1 = Number(readText(join(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us")) ?? "0");
  if (quotaV1 > 0 && periodV1 > 0) limits.push(quotaV1 / periodV1);
  return limits.length === 0 ? undefined : Math.min(...limits);
}

/** The CPUs of this process's affinity mask; none where the OS does not tell. */
export function allowedCpus(root = "/"): number[] {
  const allowed = /^Cpus_allowed_list:\s*(\S+)/m.exec(readText(join(root, "proc/self/status")) ?? "")?.[1];
  return allowed === undefined ? [] : parseCpuList(allowed);
}

/** The CPUs of each physical core this process may run on, as many cores as its cgroup allows; a single unnamed core where the OS does not tell. */
export function cpusByCore(root = "/"): readonly (readonly number[])[] {
  const byCore = new Map<string, number[]>();
  for (const cpu of allowedCpus(root)) {
    const core = readText(join(root, `sys/devices/system/cpu/cpu${cpu}/topology/thread_siblings_list`)) ?? String(cpu);
    byCore.set(core, [...(byCore.get(core) ?? []), cpu]);
  }
  const cores = [...byCore.values()];
  return cores.length === 0 ? [[]] : cores.slice(0, Math.max(1, Math.floor(cgroupCpuLimit(root) ?? cores.length)));
}

/** @param root "/" except in tests, which lay out their own /proc and /sys */
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

/** Kernel threads when nobody says: one per physical core; part of a CPU rounds down, as a throttled thread stalls all others. */
export function defaultNumThreads({ numPhysical, cgroupLimit }: CpuCores = cpuCores()): number {
  return Math.max(1, Math.min(numPhysical, Math.floor(cgroupLimit ?? numPhysical)));
}
