import { expect, test } from "vitest";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { cpuCores, cpusByCore, defaultNumThreads, numaNodes, parseCpuList } from "./cpu.js";

/** A machine's /proc and /sys: allowed CPUs, each CPU's siblings, and further given files. */
function machine(allowed: string, siblings: readonly string[], more: Readonly<Record<string, string>> = {}): string {
  const topology = siblings.map((list, cpu) => [
    `sys/devices/system/cpu/cpu${cpu}/topology/thread_siblings_list`,
    list,
  ]);
  return tempTree({
    "proc/self/status": `Name:\tnode\nCpus_allowed_list:\t${allowed}\n`,
    ...Object.fromEntries(topology),
    ...more,
  });
}

const HYPERTHREADED = ["0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"];

test("CPU lists", () => {
  expect(parseCpuList("0-2,8")).toEqual([0, 1, 2, 8]);
  expect(parseCpuList("3")).toEqual([3]);
  expect(parseCpuList("nonsense")).toEqual([]);
  expect(parseCpuList("3-99999999999")).toHaveLength(4096);
});

test("two hardware threads of a core count once", () => {
  const cores = cpuCores(machine("0-7", HYPERTHREADED), 8);
  expect(cores).toEqual({ numAvailable: 8, numPhysical: 4, cgroupLimit: undefined });
  expect(defaultNumThreads(cores)).toBe(4);
});

test("an affinity mask leaves its own cores", () => {
  expect(cpuCores(machine("0,1,4", HYPERTHREADED), 8)).toMatchObject({ numAvailable: 3, numPhysical: 2 });
});

test("a cgroup's quota limits, rounded down, and the tightest of the nested ones counts", () => {
  const root = machine("0-7", HYPERTHREADED, {
    "proc/self/cgroup": "0::/pod/container\n",
    "sys/fs/cgroup/pod/container/cpu.max": "max 100000\n",
    "sys/fs/cgroup/pod/cpu.max": "250000 100000\n",
  });
  const cores = cpuCores(root, 8);
  expect(cores.cgroupLimit).toBe(2.5);
  expect(defaultNumThreads(cores)).toBe(2);
});

test("version 1 quotas", () => {
  const quota = { "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000" };
  const cores = cpuCores(machine("0-7", HYPERTHREADED, quota), 8);
  expect(cores.cgroupLimit).toBe(0.5);
  expect(defaultNumThreads(cores)).toBe(1);
});

test("a machine that tells nothing is taken at Node's word", () => {
  expect(cpuCores(tempTree({}), 6)).toEqual({ numAvailable: 6, numPhysical: 6, cgroupLimit: undefined });
});

test("cores with their hardware threads, within affinity", () => {
  expect(cpusByCore(machine("0-7", HYPERTHREADED))).toEqual([
    [0, 4],
    [1, 5],
    [2, 6],
    [3, 7],
  ]);
  expect(cpusByCore(machine("0,1,4", HYPERTHREADED))).toEqual([[0, 4], [1]]);
  expect(cpusByCore(tempTree({}))).toEqual([]);
});

test("a quota says how many cores, not which", () => {
  const quota = (us: number) => ({ "sys/fs/cgroup/cpu.max": `${us} 100000\n` });
  expect(cpusByCore(machine("0-7", HYPERTHREADED, quota(250_000)))).toEqual([[], []]);
  expect(cpusByCore(machine("0-7", HYPERTHREADED, quota(400_000)))).toHaveLength(4);
  expect(cpusByCore(machine("0,4", HYPERTHREADED, quota(150_000)))).toEqual([[0, 4]]);
});

test("cores of one memory node come together", () => {
  const nodes = { online: "0-1", "node0/cpulist": "0,2,4,6", "node1/cpulist": "1,3,5,7" };
  const files = Object.entries(nodes).map(([path, text]) => [`sys/devices/system/node/${path}`, text]);
  const root = machine("0-7", HYPERTHREADED, Object.fromEntries(files));
  expect(numaNodes(root)).toHaveLength(2);
  expect(cpusByCore(root).map(([first]) => first)).toEqual([0, 2, 1, 3]);
});
