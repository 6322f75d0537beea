/**
 * Describes this machine to the planner: its GPUs by nvidia-smi, otherwise its CPU with speeds from the probes or from
 * flags.
 */

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { availableMemory } from "../../core/available-memory.js";
import { allowedCpus, defaultNumThreads, numaNodes } from "../../core/cpu.js";
import { MillraceError } from "../../core/errors.js";
import { lastingSpeeds, type MachineSpeeds } from "../../core/machine-speeds.js";
import { type Cpu, ceilingsOf, type Machine } from "../../plan/data/device.js";
import { GPU_NAMES, gpuBySmiName } from "../../plan/hardware.js";

const SMI_TIMEOUT_MS = 10_000;

/** Several, since a reading may be half of the next if neighbours use the machine too. */
const NUM_READINGS = 12;

interface DetectOptions {
  readonly ignoreGpus: boolean;
  /** Replaces the probes. */
  readonly gigabytesPerS: number | undefined;
  readonly gmacsPerS: number | undefined;
}

export async function detectMachine(options: DetectOptions): Promise<Machine> {
  const names = options.ignoreGpus ? [] : await gpuNames();
  return names.length > 0 ? gpuMachine(names) : cpuMachine(await detectCpu(options), numUsedNodes());
}

/** The names in nvidia-smi, one per GPU. */
export async function gpuNames(): Promise<readonly string[]> {
  try {
    const { stdout } = await promisify(execFile)("nvidia-smi", ["--query-gpu=name", "--format=csv,noheader"], {
      timeout: SMI_TIMEOUT_MS,
    });
    return stdout
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line !== "");
  } catch {
    // Without a driver there is no GPU.
    return [];
  }
}

const NAME_THEM = `name those to plan for, for instance --hardware h100x2, of ${GPU_NAMES.join(", ")}`;

/** @param names in the form of nvidia-smi, one per GPU. @param hint remedy for other GPUs */
export function gpuMachine(names: readonly string[], hint = NAME_THEM): Machine {
  const [first = "", ...others] = names;
  const device = gpuBySmiName(first);
  if (device === undefined || others.some((name) => name !== first)) {
    const got = [...new Set(names)].join(", ");
    throw new MillraceError("invalid_option", `expected GPUs of one known kind on this machine, got ${got}`, { hint });
  }
  return { kind: "gpu", device, count: names.length };
}

/** An instance stays on one memory node, whose cores read their own memory, so each node is a device. */
export function cpuMachine(whole: Cpu, numNodes: number): Machine {
  if (numNodes === 1) return { kind: "cpu", device: whole, count: 1 };
  const { label, memoryBytes, bytesPerS, flops, numCores } = whole;
  const device: Cpu = {
    ...whole,
    label: `memory node of ${Math.floor(numCores / numNodes)} of ${label}`,
    memoryBytes: memoryBytes / numNodes,
    bytesPerS: bytesPerS / numNodes,
    flops: Object.fromEntries(Object.entries(flops).map(([name, peak]) => [name, peak / numNodes])),
    numCores: Math.max(1, Math.floor(numCores / numNodes)),
  };
  return { kind: "cpu", device, count: numNodes };
}

/**
 * Multiply-adds per multiply-add with 4-bit weights: FLOAT_SHARE for 16-bit weights' and attention's floats, WIDE_SHARE
 * for 8-bit weights, as on Zen 5 (docs/background/benchmarks/kernels.md).
 */
const FLOAT_SHARE = 0.32;
const WIDE_SHARE = 0.5;

interface Speeds extends MachineSpeeds {
  readonly source: string;
}

async function detectCpu({ gigabytesPerS, gmacsPerS }: DetectOptions): Promise<Cpu> {
  const numCores = defaultNumThreads();
  const speeds =
    gigabytesPerS !== undefined && gmacsPerS !== undefined
      ? givenSpeeds(gigabytesPerS, gmacsPerS)
      : await probedSpeeds(numCores, gigabytesPerS, gmacsPerS);
  const name = /^model name\s*:\s*(.*)$/m.exec(readProc("cpuinfo"))?.[1]?.trim() ?? "this CPU";
  return {
    id: "cpu",
    label: `${numCores} cores of ${name}`,
    memoryBytes: availableMemory(),
    ...ceilingsOf(speeds),
    numCores,
    isa: isaOf(),
    source: speeds.source,
  };
}

function givenSpeeds(gigabytesPerS: number, gmacsPerS: number): Speeds {
  const narrow = gmacsPerS * 1e9;
  return {
    bytesPerS: gigabytesPerS * 1e9,
    narrow,
    wide: WIDE_SHARE * narrow,
    float: FLOAT_SHARE * narrow,
    source: "given by flags",
  };
}

/** Throws `kernels_missing` with a hint that adds the flags for plans without probes. */
async function probedSpeeds(
  numThreads: number,
  gigabytesPerS: number | undefined,
  gmacsPerS: number | undefined,
): Promise<Speeds> {
  const { loadProbes, readSpeeds } = await import("../../bench/kernels/probes.js");
  try {
    const probes = loadProbes(numThreads);
    const probed = lastingSpeeds(Array.from({ length: NUM_READINGS }, () => readSpeeds(probes)));
    if (gigabytesPerS !== undefined) return { ...probed, bytesPerS: gigabytesPerS * 1e9, source: "probes and flags" };
    if (gmacsPerS !== undefined)
      return { ...givenSpeeds(probed.bytesPerS / 1e9, gmacsPerS), source: "probes and flags" };
    return { ...probed, source: "probes, measured now" };
  } catch (cause) {
    if (!(cause instanceof MillraceError) || cause.code !== "kernels_missing") throw cause;
    throw new MillraceError("kernels_missing", cause.message, {
      hint: `${cause.hint ?? ""}; or give --memory-bandwidth and --multiply-speed, or plan for a named machine such as cpu-16`,
      cause,
    });
  }
}

function readProc(name: string): string {
  try {
    return readFileSync(`/proc/${name}`, "utf8");
  } catch {
    // The system is not Linux.
    return "";
  }
}

/** Memory nodes whose CPUs this process may use. */
function numUsedNodes(): number {
  const allowed = new Set(allowedCpus());
  return Math.max(1, numaNodes().filter((cpus) => cpus.some((cpu) => allowed.has(cpu))).length);
}

const ISAS = [
  [["amx_bf16", "avx512vbmi"], "amx"],
  [["avx512_bf16", "avx512vbmi"], "avx512bf16"],
  [["avx512_vnni"], "avx512vnni"],
  [["avx512f"], "avx512"],
  [["avx2"], "avx2"],
  [["asimddp"], "neondot"],
  [["asimd"], "neon"],
] as const;

function isaOf(): string {
  const flags = new Set(/^(?:flags|Features)\s*:\s*(.*)$/m.exec(readProc("cpuinfo"))?.[1]?.split(" "));
  return ISAS.find(([needed]) => needed.every((flag) => flags.has(flag)))?.[1] ?? "portable";
}
