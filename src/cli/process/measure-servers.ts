/**
 * Measures servers from flags to report: shows the progress, saves after every run, and on a signal stops with the
 * results so far.
 */
import type { Planned } from "../../bench/run/plan.js";
import type { Restarts } from "../../bench/run/runner.js";
import type { ServerUnderTest } from "../../bench/run/target.js";
import { cpuCores, defaultNumThreads } from "../../core/cpu.js";
import { MillraceError } from "../../core/errors.js";
import { type OutputFlags, resumedReport } from "../flags/bench-options.js";
import { assertFolders, presentReport } from "../output/bench-report.js";
import { benchView } from "../output/bench-view.js";
import { onStopSignals } from "./stop-signal.js";

interface MeasureJob {
  /** Threads for measuring the machine's ceilings; absent: one per physical core. */
  readonly numThreads?: number | undefined;
  readonly targets: readonly ServerUnderTest[];
  readonly planned: Planned;
  /** Absent: never. */
  readonly restarts?: Restarts;
}

/**
 * The first Ctrl-C, SIGTERM or closed terminal ends the measurement with a partial report; the second ends the process.
 */
export async function measureServers(
  { targets, planned, restarts = "never", numThreads = defaultNumThreads(cpuCores()) }: MeasureJob,
  flags: OutputFlags,
): Promise<void> {
  assertDistinct(targets.map((target) => target.name));
  assertFolders(flags);
  const [{ runBench }, { writeReport }] = await Promise.all([
    import("../../bench/run/bench.js"),
    import("../../bench/results/schema.js"),
  ]);
  const resumed = await resumedReport(flags);
  const stopping = new AbortController();
  const stopListening = onStopSignals((exitCode) => {
    if (stopping.signal.aborted) process.exit(exitCode);
    process.stderr.write("\nstopping; repeat to stop at once\n");
    stopping.abort();
  });
  try {
    const { signal } = stopping;
    const job = {
      targets,
      planned,
      restarts,
      numThreads,
      resumed,
      numWorkers: flags.workers,
      isPolling: flags.poll === true,
      signal,
    };
    const report = await runBench(job, {
      ...benchView(process.stderr),
      onOpening: (name) => process.stderr.write(`${name}: starting\n`),
      onTargets: (live) => {
        for (const { name, address, facts } of live)
          process.stderr.write(`${name}: ${facts.model} at ${address.url}\n`);
      },
      onReport: (unfinished) => {
        if (flags.out !== undefined) writeReport(flags.out, unfinished);
      },
    });
    if (report === undefined) process.exitCode = 130;
    else await presentReport(report, flags);
  } finally {
    stopListening();
  }
}

/** For commands without saved work: the first signal ends the process and its children. */
export function exitOnSignals(): void {
  onStopSignals((exitCode) => process.exit(exitCode));
}

function assertDistinct(names: readonly string[]): void {
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice === undefined) return;
  throw new MillraceError("invalid_option", `expected servers of different names, got ${twice} twice`, {
    hint: "give running servers names: first=http://… second=http://…",
  });
}
