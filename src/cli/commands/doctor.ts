/** `millrace doctor`: what this machine offers an inference server, and what is missing. Looks, never changes anything, always exits 0. */

import { execFile } from "node:child_process";
import { accessSync, constants, readFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { Command } from "commander";
import { availableMemory } from "../../core/available-memory.js";
import { type CpuCores, cpuCores, defaultNumThreads } from "../../core/cpu.js";
import { toMillraceError } from "../../core/errors.js";
import { packageVersion } from "../../core/package-root.js";
import { formatBytes } from "../../core/quantities.js";
import { whyUnconfined } from "../../quality/sandbox/run-code.js";
import { formatTable, jsonText } from "../output/format.js";

const run = promisify(execFile);
const PROBE_TIMEOUT_MS = 5_000;

const COMPILERS = ["c++", "g++", "clang++"] as const;
const ENGINES = ["vllm", "sglang", "llama-server", "trtllm-serve", "text-generation-launcher", "ollama"] as const;

/** Instruction sets that matter to inference, as /proc/cpuinfo writes them (x86 and arm64). */
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

interface DoctorReport {
  readonly version: string;
  readonly node: string;
  readonly platform: string;
  readonly cpu: CpuCores & {
    readonly model: string;
    readonly features: readonly string[];
    readonly defaultThreads: number;
  };
  readonly memory: { readonly totalBytes: number; readonly availableBytes: number };
  /** First line of `--version`; undefined = none found. */
  readonly compiler: { readonly command: string; readonly version: string } | undefined;
  readonly kernels: {
    readonly isLoaded: boolean;
    readonly isa?: string;
    readonly problem?: string;
    readonly hint?: string;
  };
  /** Why the code that models write cannot be run behind walls; undefined = it can. */
  readonly unconfined: string | undefined;
  readonly gpus: readonly Gpu[];
  readonly engines: readonly { readonly name: string; readonly path: string }[];
}

export function doctorCommand(): Command {
  return new Command("doctor")
    .description("Show what this machine has: CPU, memory, compiler, kernels, GPUs, other engines.")
    .option("--json", "as JSON")
    .action(async (flags: { readonly json?: boolean }) => {
      const report = await examine();
      process.stdout.write(`${flags.json ? jsonText(report, 2) : textOf(report)}\n`);
    });
}

async function examine(): Promise<DoctorReport> {
  const [compiler, kernels, gpus, unconfined] = await Promise.all([
    findCompiler(),
    loadedKernels(),
    listGpus(),
    whyUnconfined("typescript"),
  ]);
  const cores = cpuCores();
  return {
    version: packageVersion(),
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
    cpu: {
      model: cpus()[0]?.model.trim() ?? "unknown",
      ...cores,
      defaultThreads: defaultNumThreads(cores),
      features: cpuFeatures(),
    },
    memory: { totalBytes: totalmem(), availableBytes: availableMemory() },
    compiler,
    kernels,
    unconfined,
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
    // Not Linux: Node's own figures have to do.
    return "";
  }
}

function cpuFeatures(): string[] {
  const flags = new Set(/^(?:flags|Features)\s*:\s*(.*)$/m.exec(readProc("cpuinfo"))?.[1]?.split(" "));
  return NOTABLE_FEATURES.filter((feature) => flags.has(feature));
}

function findOnPath(command: string): string | undefined {
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

/** Output of a program, or undefined when it is absent, fails or takes too long. */
async function outputOf(command: string, args: readonly string[]): Promise<string | undefined> {
  try {
    return (await run(command, args, { timeout: PROBE_TIMEOUT_MS })).stdout;
  } catch {
    return undefined;
  }
}

async function findCompiler(): Promise<DoctorReport["compiler"]> {
  for (const command of [process.env.CXX, ...COMPILERS]) {
    const output = command === undefined ? undefined : await outputOf(command, ["--version"]);
    if (command !== undefined && output !== undefined) return { command, version: output.split("\n")[0]!.trim() };
  }
  return undefined;
}

async function loadedKernels(): Promise<DoctorReport["kernels"]> {
  try {
    const { createBackend } = await import("../../backend/create/create-backend.js");
    const backend = createBackend({ numThreads: 1 });
    const { isa } = backend.description;
    backend.destroy();
    return { isLoaded: true, isa };
  } catch (thrown) {
    const { code, message, hint } = toMillraceError(thrown);
    return { isLoaded: false, problem: `[${code}] ${message}`, ...(hint === undefined ? {} : { hint }) };
  }
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

function textOf(report: DoctorReport): string {
  const { cpu, memory, compiler, kernels, unconfined, gpus, engines } = report;
  const limit = cpu.cgroupLimit === undefined ? "" : `, cgroup allows ${cpu.cgroupLimit} CPUs`;
  const rows = [
    ["millrace", report.version],
    ["node", `${report.node} (${report.platform})`],
    ["cpu", cpu.model],
    [
      "cores",
      `${cpu.numPhysical} physical, ${cpu.numAvailable} hardware threads${limit}; --threads ${cpu.defaultThreads} by default`,
    ],
    ["features", cpu.features.join(" ") || "unknown"],
    ["memory", `${formatBytes(memory.totalBytes)}, ${formatBytes(memory.availableBytes)} available`],
    [
      "compiler",
      compiler === undefined ? "none found: install g++ or clang++" : `${compiler.command}: ${compiler.version}`,
    ],
    ["kernels", kernels.isLoaded ? `loaded (${kernels.isa})` : (kernels.problem ?? "not loaded")],
    ...(kernels.hint === undefined ? [] : [["", kernels.hint]]),
    [
      "generated code",
      unconfined === undefined ? "runs confined (namespaces, limits)" : `refused by eval and distill: ${unconfined}`,
    ],
    ...gpus.map((gpu) => ["gpu", `${gpu.name}, ${gpu.memory}, driver ${gpu.driver}`]),
    ...(gpus.length === 0 ? [["gpu", "none found"]] : []),
    ...engines.map(({ name, path }) => ["engine", `${name}: ${path}`]),
    ...(engines.length === 0 ? [["engines", "none found besides the embedded one"]] : []),
  ];
  return formatTable(rows);
}
