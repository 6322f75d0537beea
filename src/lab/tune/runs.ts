/** Tunings of one load over time: each in its own numbered and dated folder, with the facts about its conditions. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { type Drift, driftBetween, type Facts, type Figures, figuresOf } from "./drift.js";
import { baselineSchema, estimateSchema, findingSchema, Journal } from "./journal.js";
import type { Tuning } from "./loop.js";

const FORMAT = "millrace-tune-run";
const VERSION = 1;
const FILE = "run.json";

const runSchema = z.object({
  format: z.literal(FORMAT),
  version: z.literal(VERSION),
  startedAt: z.iso.datetime(),
  facts: z.record(z.string(), z.unknown()),
  /** Absent: the run was interrupted, or is in progress. */
  figures: z
    .object({
      baseline: baselineSchema.optional(),
      best: z.record(z.string(), z.string()),
      total: estimateSchema.extend({ numRuns: z.number() }).optional(),
      first: findingSchema,
      last: findingSchema,
    })
    .optional(),
});

export interface KeptRun {
  /** @example "0003-2026-11-28" */
  readonly name: string;
  readonly startedAt: string;
  readonly facts: Facts;
  readonly figures?: Figures | undefined;
}

/** The number orders the runs, because clocks can go back; the date is for people. */
const NAME = /^(\d{4,})-\d{4}-\d{2}-\d{2}$/;

const numberOf = (name: string): number => Number(NAME.exec(name)?.[1] ?? 0);

const foldersIn = (folder: string): string[] =>
  existsSync(folder)
    ? readdirSync(folder)
        .filter((name) => NAME.test(name))
        .sort((a, b) => numberOf(a) - numberOf(b))
    : [];

/** Oldest first. Folders without a readable run are left out. */
export const keptRuns = (folder: string): KeptRun[] =>
  foldersIn(folder).flatMap((name) => {
    const run = readRun(join(folder, name, FILE));
    // The schema covers the fields that comparisons and reports read.
    return run === undefined ? [] : [{ name, ...run } as unknown as KeptRun];
  });

function readRun(path: string): z.infer<typeof runSchema> | undefined {
  try {
    return runSchema.safeParse(JSON.parse(readFileSync(path, "utf8"))).data;
  } catch {
    return undefined;
  }
}

export interface OpenRun {
  /** Folder of the run's own files. */
  readonly folder: string;
  readonly name: string;
  readonly journal: Journal;
  /** Whether the run continues an interrupted one. */
  readonly isResumed: boolean;
}

/** Time within which an interrupted run is resumed, so that trials of different days are not mixed. */
const RESUMED_WITHIN_MS = 24 * 3_600_000;

/**
 * The last run if it was interrupted, has the same facts and is less than a day old; else a new one.
 * @param settings of the journal
 */
export function openRun(out: string, facts: Facts, settings: object, nowMs: number): OpenRun {
  // The form after a round trip through JSON, so that both sides of the comparison have the same form.
  const own = JSON.parse(JSON.stringify(facts)) as Facts;
  const [last] = keptRuns(out).slice(-1);
  if (last !== undefined && last.figures === undefined && isDeepStrictEqual(last.facts, own)) {
    const isRecent = Math.abs(nowMs - Date.parse(last.startedAt)) < RESUMED_WITHIN_MS;
    const journal = isRecent ? resumedJournal(join(out, last.name), settings) : undefined;
    if (journal !== undefined) return { folder: join(out, last.name), name: last.name, journal, isResumed: true };
  }
  const number = numberOf(foldersIn(out).at(-1) ?? "") + 1;
  const startedAt = new Date(nowMs).toISOString();
  const name = `${String(number).padStart(4, "0")}-${startedAt.slice(0, 10)}`;
  const folder = join(out, name);
  mkdirSync(folder, { recursive: true });
  write(folder, { startedAt, facts: own });
  return { folder, name, journal: new Journal(folder, settings, false), isResumed: false };
}

/**
 * The journal of an interrupted run; undefined: the run has none for these settings, as after a kill before the first
 * trial.
 */
function resumedJournal(folder: string, settings: object): Journal | undefined {
  try {
    return new Journal(folder, settings, true);
  } catch {
    return undefined;
  }
}

function write(folder: string, run: Omit<KeptRun, "name">): void {
  const path = join(folder, FILE);
  writeFileSync(`${path}.partial`, `${JSON.stringify({ format: FORMAT, version: VERSION, ...run })}\n`);
  renameSync(`${path}.partial`, path);
}

export interface EndedRun {
  readonly name: string;
  /** The run for comparison; undefined: this is the first one. */
  readonly previous: string | undefined;
  readonly drift: Drift | undefined;
}

/** Stores the run's figures, and compares them with the previous run's. @param maxDrift as a share */
export function endRun(out: string, { name, folder }: OpenRun, tuning: Tuning, maxDrift: number): EndedRun {
  const runs = keptRuns(out);
  const own = runs.find((run) => run.name === name)!;
  const previous = runs.filter((run) => run.figures !== undefined && numberOf(run.name) < numberOf(name)).at(-1);
  const ended = { startedAt: own.startedAt, facts: own.facts, figures: figuresOf(tuning) };
  write(folder, ended);
  if (!keptRuns(out).some((run) => run.name === name && run.figures !== undefined)) {
    throw new MillraceError("not_a_number", `expected figures of ${name}, got ${JSON.stringify(ended.figures)}`, {
      hint: "the load generator measured nothing: look at the report in this folder",
    });
  }
  if (previous?.figures === undefined) return { name, previous: undefined, drift: undefined };
  const drift = driftBetween({ figures: previous.figures, facts: previous.facts }, ended, maxDrift);
  return { name, previous: previous.name, drift };
}
