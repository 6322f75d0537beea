/** `millrace tune --again` and `--schedule`: repeats a tuning later, and reports the drift since the last one. */

import type { Objective } from "../../lab/tune/bottleneck.js";
import type { Facts } from "../../lab/tune/drift.js";
import type { Journal } from "../../lab/tune/journal.js";
import type { Tuning } from "../../lab/tune/loop.js";
import type { EndedRun } from "../../lab/tune/runs.js";
import { dueMs, type Interval, waitUntil } from "../../lab/tune/schedule.js";
import { driftLines } from "../output/drift-text.js";
import { minute } from "../output/format.js";
import { reportError } from "../output/report-error.js";

/** A tuning that is ready to begin. */
export interface PreparedTuning {
  readonly objective: Objective;
  /** The settings of its trials' measurements. */
  readonly settings: object;
  /** Facts that may explain a drift; reads the complete model. */
  facts(): Facts;
  /** Tunes with this journal, and writes reports into the folder. */
  run(
    folder: string,
    journal: Journal,
  ): Promise<{ readonly tuning: Tuning; print(more: object, lines: readonly string[]): void }>;
}

interface AgainFlags {
  readonly out: string;
  readonly maxDrift: number;
}

/** @returns undefined if the run was stopped: it stays open, and the next start resumes it */
export async function tuneAgain(
  prepared: PreparedTuning,
  { out, maxDrift }: AgainFlags,
  signal: AbortSignal,
): Promise<EndedRun | undefined> {
  const { endRun, openRun } = await import("../../lab/tune/runs.js");
  const open = openRun(out, prepared.facts(), prepared.settings, Date.now());
  const { tuning, print } = await prepared.run(open.folder, open.journal);
  if (signal.aborted) return undefined;
  const ended = endRun(out, open, tuning, maxDrift / 100);
  print({ run: ended }, driftLines(ended, prepared.objective));
  return ended;
}

/** Wait after a failed run, for instance on a machine too busy for measurements. */
const RETRY_MS = 3_600_000;

/** Runs until it is stopped. @param prepare reads the options' files again for each run */
export async function tuneOnSchedule(
  prepare: () => Promise<PreparedTuning>,
  interval: Interval,
  flags: AgainFlags,
  signal: AbortSignal,
  wait: (dueAt: () => number, signal: AbortSignal) => Promise<void> = waitUntil,
): Promise<void> {
  const { keptRuns } = await import("../../lab/tune/runs.js");
  let notBefore = 0;
  const dueAt = (): number => {
    const last = keptRuns(flags.out)
      .filter(({ figures }) => figures !== undefined)
      .at(-1);
    return Math.max(notBefore, dueMs(last && Date.parse(last.startedAt), interval, Date.now()));
  };
  while (!signal.aborted) {
    process.stderr.write(`next run: ${minute(new Date(dueAt()).toISOString())} UTC\n`);
    await wait(dueAt, signal);
    try {
      await tuneAgain(await prepare(), flags, signal);
    } catch (thrown) {
      signal.throwIfAborted();
      reportError(thrown, { json: false });
      notBefore = Date.now() + RETRY_MS;
    }
  }
}
