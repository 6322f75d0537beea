/**
 * `millrace doctor`: shows a machine's fitness for an inference server, and missing parts. Changes nothing and always
 * exits with 0.
 */
import { Command } from "commander";
import { toMillraceError } from "../../core/errors.js";
import type { MachineReport } from "../../core/machine-report.js";
import { packageVersion } from "../../core/package-root.js";
import { formatBytes } from "../../core/quantities.js";
import { formatTable, jsonText } from "../output/format.js";

interface DoctorReport extends MachineReport {
  readonly version: string;
  readonly node: string;
  readonly kernels: {
    readonly isLoaded: boolean;
    readonly isa?: string;
    readonly problem?: string;
    readonly hint?: string;
  };
  /** The obstacle to confining generated code here; undefined: none. */
  readonly unconfined: string | undefined;
}

export function doctorCommand(): Command {
  return new Command("doctor")
    .description("Show this machine's CPU, memory, compiler, kernels, GPUs and other engines.")
    .option("--json", "print one JSON object")
    .action(async (flags: { readonly json?: boolean }) => {
      const report = await examine();
      process.stdout.write(`${flags.json ? jsonText(report, 2) : textOf(report)}\n`);
    });
}

async function examine(): Promise<DoctorReport> {
  const [{ examineMachine }, { whyUnconfined }] = await Promise.all([
    import("../../core/machine-report.js"),
    import("../../quality/sandbox/run-code.js"),
  ]);
  const [{ platform, cpu, memory, compiler, gpus, engines }, kernels, unconfined] = await Promise.all([
    examineMachine(),
    loadedKernels(),
    whyUnconfined("typescript"),
  ]);
  const program = { version: packageVersion(), node: process.versions.node };
  return { ...program, platform, cpu, memory, compiler, kernels, unconfined, gpus, engines };
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
    ...(engines.length === 0 ? [["engines", "none found besides millrace's own"]] : []),
  ];
  return formatTable(rows);
}
