/**
 * Runs a benchmark from targets to report: starts servers and the load generator, measures, and always stops them
 * again.
 */
import { isDeepStrictEqual } from "node:util";
import { MillraceError } from "../../core/errors.js";
import { LoadGenerator } from "../load/generator.js";
import { machineInfo, versions } from "../results/machine.js";
import { type BenchReport, type BenchTarget, REPORT_VERSION } from "../results/schema.js";
import { longestRequest } from "../workload/workload.js";
import { ceilingReader } from "./ceilings.js";
import { notesOn, type Planned } from "./plan.js";
import { isCutShort, type Restarts, Runner, type RunnerEvents } from "./runner.js";
import { aboutTarget, inCommon, type LiveTarget, openTarget, type ServerUnderTest, unopenedTarget } from "./target.js";

/** Begins the note about an early end. */
const ENDED_EARLY = "Ended early";

export interface BenchJob {
  readonly targets: readonly ServerUnderTest[];
  readonly planned: Planned;
  readonly numWorkers: number;
  readonly isPolling: boolean;
  readonly restarts: Restarts;
  /** Number of threads for reading the machine's ceilings. */
  readonly numThreads: number;
  /** Results of an interrupted run of the same plan. */
  readonly resumed?: BenchReport | undefined;
  /** Aborted: the benchmark ends early with the results so far. */
  readonly signal: AbortSignal;
}

export interface BenchEvents extends RunnerEvents {
  /** Called before a server is started or asked for the first time. */
  onOpening(target: string): void;
  /** Called when all targets have answered, before the first run. */
  onTargets(targets: readonly LiveTarget[]): void;
  /** Called whenever the report has new results. */
  onReport(report: BenchReport): void;
}

/**
 * @returns the report, complete or not; undefined when stopped before all servers answered. Throws errors before the
 * first run.
 */
export async function runBench(job: BenchJob, events: BenchEvents): Promise<BenchReport | undefined> {
  const { planned, numWorkers, isPolling, restarts, signal } = job;
  const generator = await LoadGenerator.start(numWorkers, isPolling);
  let live: LiveTarget[] = [];
  const onAbort = () => generator.stop("abort");
  signal.addEventListener("abort", onAbort);
  try {
    for (const target of job.targets.filter(({ factsOf }) => factsOf === undefined)) {
      events.onOpening(target.name);
      const opened = await openTarget(target, planned.cells[0]!.shape, signal);
      live.push(opened);
      // Servers that take turns must not share the machine.
      if (restarts !== "never") await opened.close();
    }
    live = job.targets.map((target) => {
      const like = live.find(({ name }) => name === (target.factsOf ?? target.name))!;
      return target.factsOf === undefined ? like : unopenedTarget(target, like, planned.cells[0]!.shape);
    });
    const common = inCommon(live.map((each) => each.facts));
    live = live.map((each, i) => ({ ...each, facts: common[i]! }));
    // A server that is restarted gets the size that its cells need.
    if (restarts === "never") for (const each of live) assertFits(planned, each);
    const targets = live.map((each) => aboutTarget(each, live[0]!));
    assertAlike(planned, targets);
    events.onTargets(live);
    const report = reportFor(job, targets);
    const works = live.flatMap(({ work }) => work ?? []);
    const readCeilings = ceilingReader(works, job.numThreads);
    const addCeilings = () => {
      if (readCeilings === undefined) return;
      const before = report.ceilings?.readings ?? [];
      report.ceilings = { numThreads: job.numThreads, readings: [...before, ...readCeilings()] };
    };
    addCeilings();
    const options = { cells: planned.cells, restarts, signal };
    const runner = new Runner(job.targets, live, generator, report, options, {
      ...events,
      onRun: (place, run) => {
        events.onRun(place, run);
        events.onReport(report);
      },
    });
    try {
      report.isComplete = await runner.run();
    } catch (thrown) {
      report.isComplete = false;
      if (!signal.aborted) {
        // The runs so far are kept, with a note about the error.
        if (report.runs.length === 0) throw thrown;
        report.notes.push(`${ENDED_EARLY}: ${thrown instanceof Error ? thrown.message : String(thrown)}`);
      }
    }
    addCeilings();
    events.onReport(report);
    return report;
  } catch (thrown) {
    if (signal.aborted && live.length < job.targets.length) return undefined;
    throw thrown;
  } finally {
    signal.removeEventListener("abort", onAbort);
    generator.close();
    for (const each of live) await each.close();
  }
}

function assertFits({ cells }: Planned, { name, facts: { maxModelLen } }: LiveTarget): void {
  const longest = cells.reduce((a, b) => (longestRequest(b.workload) > longestRequest(a.workload) ? b : a));
  const numTokens = longestRequest(longest.workload);
  if (maxModelLen === undefined || numTokens <= maxModelLen) return;
  const message = `expected requests of at most the ${maxModelLen} tokens that ${name} takes, got ${numTokens} in "${longest.name}"`;
  throw new MillraceError("invalid_option", message, {
    hint:
      longest.workload.kind === "entries"
        ? "leave longer prompts out of the file, or serve a longer context"
        : `make all lengths shorter: --scale ${(Math.floor((90 * maxModelLen) / numTokens) / 100).toFixed(2)}`,
  });
}

const cosineNotes = ([first, ...others]: readonly BenchTarget[]): string[] =>
  others.flatMap(({ name, leastCosine }) =>
    leastCosine === undefined
      ? []
      : `Vectors of ${name} and ${first!.name}: a cosine of at least ${leastCosine.toFixed(6)} over all compared texts.`,
  );

/** Servers with different vectors do different work. Throws peer_failed. */
function assertAlike({ plan: { minCosine = -1 } }: Planned, targets: readonly BenchTarget[]): void {
  const other = targets.find(({ leastCosine = 1 }) => leastCosine < minCosine);
  if (other === undefined) return;
  const message = `expected vectors of ${other.name} with a cosine of at least ${minCosine} with those of ${targets[0]!.name}, got ${other.leastCosine}`;
  throw new MillraceError("peer_failed", message, {
    hint: "serve the same model with the same pooling everywhere, or lower --min-cosine",
  });
}

function reportFor({ planned: { plan, cells }, resumed }: BenchJob, targets: BenchTarget[]): BenchReport {
  if (resumed !== undefined) {
    const what = (report: Pick<BenchReport, "plan" | "targets" | "machine" | "versions">): unknown =>
      JSON.parse(
        JSON.stringify([
          report.plan,
          report.machine,
          report.versions,
          report.targets.map(({ name, model, version, command }) => [name, model, version, command]),
        ]),
      );
    if (!isDeepStrictEqual(what(resumed), what({ plan, targets, machine: machineInfo(), versions: versions() }))) {
      const message =
        "expected --resume with the options, servers, models and machine of the results to go on with, got others";
      throw new MillraceError("invalid_option", message, {
        hint: "repeat the first command as it was, or leave out --resume",
      });
    }
    return {
      ...resumed,
      targets,
      runs: resumed.runs.filter((run) => !isCutShort(run)),
      notes: resumed.notes.filter((note) => !note.startsWith(ENDED_EARLY)),
    };
  }
  return {
    format: "millrace-bench",
    version: REPORT_VERSION,
    createdAt: new Date().toISOString(),
    isComplete: false,
    machine: machineInfo(),
    versions: versions(),
    plan,
    notes: [...notesOn(cells, plan.rounds), ...cosineNotes(targets)],
    targets,
    runs: [],
  };
}
