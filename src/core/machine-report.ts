/** Facts of a machine that matter to an inference server. Only reads. */
import { execFile } from "node:child_process";
import { accessSync, constants, readFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { availableMemory } from "./available-memory.js";
import { type CpuCores, cpuCores, defaultNumThreads } from "./cpu.js";

const run = promisify(execFile);
const PROBE_TIMEOUT_MS = 5_000;

const COMPILERS = ["c++", "g++", "clang++"] as const;
const ENGINES = ["vllm", "sglang", "llama-server", "trtllm-serve", "text-generation-launcher", "ollama"] as const;

/** Instruction sets that matter to inference, under their names in /proc/cpuinfo (x86 and arm64). */
const NOTABLE_FEATURES = [
  "avx",
  "avx2",
  "fma",
  "f16c",
  "avx512f",
  "avx512_vnni",
  "avx512_bf16",
  "avx_vnni",
  "amx_int8",
  "amx_bf16",
  "asimd",
  "asimdhp",
  "asimddp",
  "i8mm",
  "bf16",
  "sve",
];

interface Gpu {
  readonly name: string;
  readonly memory: string;
  readonly driver: string;
}

export interface MachineReport {
  readonly platform: string;
  readonly cpu: CpuCores & {
    readonly model: string;
    readonly features: readonly string[];
    readonly defaultThreads: number;
  };
  readonly memory: { readonly totalBytes: number; readonly availableBytes: number };
  /** Version: the first line of `--version`. Undefined: none found. */
  readonly compiler: { readonly command: string; readonly version: string } | undefined;
  readonly gpus: readonly Gpu[];
  /** Other inference engines on the PATH. */
  readonly engines: readonly { readonly name: string; readonly path: string }[];
}

export async function examineMachine(): Promise<MachineReport> {
  const [compiler, gpus] = await Promise.all([findCompiler(), listGpus()]);
  const cores = cpuCores();
  return {
    platform: `${process.platform} ${process.arch}`,
    cpu: {
      model: cpus()[0]?.model.trim() ?? "unknown",
      ...cores,
      defaultThreads: defaultNumThreads(cores),
      features: cpuFeatures(),
    },
    memory: { totalBytes: totalmem(), availableBytes: availableMemory() },
    compiler,
    gpus,
    engines: ENGINES.flatMap((name) => {
      const path = findOnPath(name);
      return path === undefined ? [] : [{ name, path }];
    }),
  };
}

function readProc(name: string): string {
  try {
    return readFileSync(join("/proc", name), "utf8");
  } catch {
    // The system is not Linux.
    return "";
  }
}

function cpuFeatures(): string[] {
  const flags = new Set(/^(?:flags|Features)\s*:\s*(.*)$/m.exec(readProc("cpuinfo"))?.[1]?.split(" "));
  return NOTABLE_FEATURES.filter((feature) => flags.has(feature));
}

export function findOnPath(command: string): string | undefined {
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return folders.map((folder) => join(folder, command)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Output of a program; undefined if it is absent, fails or takes too long. */
async function outputOf(command: string, args: readonly string[]): Promise<string | undefined> {
  try {
    return (await run(command, args, { timeout: PROBE_TIMEOUT_MS })).stdout;
  } catch {
    return undefined;
  }
}

async function findCompiler(): Promise<MachineReport["compiler"]> {
  for (const command of [process.env.CXX, ...COMPILERS]) {
    const output = command === undefined ? undefined : await outputOf(command, ["--version"]);
    if (command !== undefined && output !== undefined) return { command, version: output.split("\n")[0]!.trim() };
  }
  return undefined;
}

async function listGpus(): Promise<Gpu[]> {
  const output = await outputOf("nvidia-smi", [
    "--query-gpu=name,memory.total,driver_version",
    "--format=csv,noheader",
  ]);
  return (output ?? "").split("\n").flatMap((line) => {
    const [name, memory, driver] = line.split(",").map((cell) => cell.trim());
    return name === undefined || memory === undefined || driver === undefined ? [] : [{ name, memory, driver }];
  });
}
