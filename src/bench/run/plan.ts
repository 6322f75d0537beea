/** Derives the cells to measure and the report's plan from a scenario and the user's changes. */
import { createHash } from "node:crypto";
import { MillraceError } from "../../core/errors.js";
import type { BenchPlan, PlannedCell, Slo } from "../results/schema.js";
import type { Load } from "../workload/load.js";
import {
  type Cell,
  cellsOf,
  closedLoads,
  type NamedWorkload,
  SCENARIOS,
  type Scenario,
} from "../workload/scenarios.js";
import { type Entry, hasOwnText, scaled } from "../workload/workload.js";

export interface PlanWishes {
  readonly scenario: string;
  /** Replace the scenario's workloads. */
  readonly workloads?: readonly NamedWorkload[] | undefined;
  readonly entries?: readonly Entry[] | undefined;
  /** Entries are sent at their own times. */
  readonly isReplay: boolean;
  /** Replace the scenario's loads; sweep: doubles until throughput stops growing. */
  readonly concurrency?: readonly number[] | "sweep" | undefined;
  readonly ratesPerS?: readonly number[] | undefined;
  /** Shape of gamma arrivals; undefined: evenly spaced. */
  readonly burstiness?: number | undefined;
  /** Replace the scenario's limits. */
  readonly numRequests?: number | undefined;
  readonly durationS?: number | undefined;
  readonly rounds?: number | undefined;
  readonly scale: number;
  readonly seed: number;
  readonly slo?: Slo | undefined;
  readonly pricePerHour?: number | undefined;
}

export interface Planned {
  readonly cells: readonly Cell[];
  readonly plan: BenchPlan;
}

const SWEEP = Array.from({ length: 11 }, (_, power) => 2 ** power);

/** Throws invalid_option. */
export function planFor(wishes: PlanWishes): Planned {
  const scenario = scenarioFor(wishes);
  const cells = cellsOf(scenario);
  const stopsWhenSaturated = wishes.concurrency === "sweep";
  return {
    cells,
    plan: {
      scenario: scenario.name,
      cells: cells.map(plannedCell),
      rounds: scenario.rounds,
      seed: wishes.seed,
      ...(wishes.scale === 1 ? {} : { scale: wishes.scale }),
      slo: scenario.slo,
      pricePerHour: wishes.pricePerHour,
      stopsWhenSaturated,
    },
  };
}

function scenarioFor(wishes: PlanWishes): Scenario {
  const base = wishes.entries === undefined ? scenarioNamed(wishes.scenario) : entriesScenario(wishes.entries);
  const workloads = (wishes.workloads ?? base.workloads).map(({ name, workload }) => ({
    name,
    workload: scaled(workload, wishes.scale),
  }));
  const { numRequests, durationS, rounds = base.rounds, slo = base.slo } = wishes;
  const hasOwnBounds = numRequests !== undefined || durationS !== undefined;
  const bounds = hasOwnBounds ? { numRequests, durationS } : base.bounds;
  const loads = loadsFor(wishes) ?? base.loads;
  // With other lengths, the scenario's name would be misleading.
  const name = wishes.workloads === undefined ? base.name : workloads.map((each) => each.name).join(", ");
  return { ...base, name, workloads, loads, bounds, rounds, ...(slo === undefined ? {} : { slo }) };
}

function scenarioNamed(name: string): Scenario {
  const scenario = SCENARIOS.find((each) => each.name === name);
  if (scenario !== undefined) return scenario;
  const known = SCENARIOS.map((each) => `${each.name}: ${each.about}`).join("\n  ");
  throw new MillraceError("invalid_option", `expected --scenario to be among\n  ${known}\ngot ${JSON.stringify(name)}`);
}

function entriesScenario(entries: readonly Entry[]): Scenario {
  return {
    name: "prompts",
    about: "the user's own prompts",
    loads: closedLoads([1, 4, 16]),
    workloads: [{ name: "prompts", workload: { kind: "entries", entries } }],
    bounds: { numRequests: entries.length },
    rounds: 3,
  };
}

function loadsFor(wishes: PlanWishes): readonly Load[] | undefined {
  const { concurrency, ratesPerS, burstiness, entries, isReplay } = wishes;
  if (isReplay) {
    const atMs = entries?.map((entry) => entry.atMs);
    if (atMs?.every((each) => each !== undefined) === true) return [{ kind: "replay", atMs }];
    throw new MillraceError(
      "invalid_option",
      "expected --replay with --prompts that have a timestamp on every line, got none",
      {
        hint: "give a file whose lines have a timestamp, in milliseconds",
      },
    );
  }
  if (ratesPerS !== undefined) return ratesPerS.map((ratePerS) => ({ kind: "open", ratePerS, burstiness }));
  return concurrency === undefined ? undefined : closedLoads(concurrency === "sweep" ? SWEEP : concurrency);
}

/** Notes about repeated prompts. */
export function notesOn(cells: readonly Cell[], numRounds: number): string[] {
  const own = cells.filter(({ workload }) => hasOwnText(workload));
  const isRepeated = ({ workload, numSessions = Number.POSITIVE_INFINITY }: Cell) =>
    workload.kind === "entries" && numSessions > workload.entries.length;
  const notes: string[] = [];
  if (own.length * numRounds >= 2) {
    notes.push("All runs send the same prompts: from the second run on, a prefix cache may contain them.");
  }
  if (own.some(isRepeated)) {
    notes.push("Runs with more requests than prompts repeat prompts, which a prefix cache may contain.");
  }
  return notes;
}

export function plannedCell(cell: Cell): PlannedCell {
  const { workload, load, shape: _, targets, ...rest } = cell;
  return {
    ...rest,
    ...(targets === undefined ? {} : { targets: [...targets] }),
    workload:
      workload.kind === "entries"
        ? { kind: "entries", numEntries: workload.entries.length, digest: digestOf(workload.entries) }
        : workload,
    load: load.kind === "replay" ? { kind: "replay", numArrivals: load.atMs.length } : load,
  };
}

function digestOf(entries: readonly Entry[]): string {
  return createHash("sha256").update(JSON.stringify(entries)).digest("hex").slice(0, 16);
}
