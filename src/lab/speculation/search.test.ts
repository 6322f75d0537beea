/**
 * The choice on simulated measurements: it finds the planted winner with 19 of 20 seeds, and none where nothing gains.
 */
import { expect, test } from "vitest";
import { cases } from "../../../test/helpers/long.js";
import { uniform } from "../../core/random.js";
import { DEFAULT_SPECULATIVE_CONFIG } from "../../engine/api/speculative-config.js";
import type { Candidate } from "./candidates.js";
import {
  type Cell,
  type CellMeasured,
  type DraftsBench,
  type Look,
  type SpeculationTuning,
  tuneSpeculation,
} from "./search.js";

const CELLS: readonly Cell[] = [
  { className: "edit", temperature: "0", share: 0.5 },
  { className: "code", temperature: "0", share: 0.1 },
  { className: "chat", temperature: "0.8", share: 0.4 },
];

/** The true ratio of each candidate in each cell. */
type World = Readonly<Record<string, readonly [number, number, number]>>;

const candidate = (name: string): Candidate => ({ name, config: DEFAULT_SPECULATIVE_CONFIG });

/** Ratios with noise of each run, and of each round of the whole machine, on a logarithmic scale. */
class SimulatedDrafts implements DraftsBench {
  readonly looks: [string, number, Look][] = [];

  constructor(
    private readonly world: World,
    private readonly normal: () => number,
    private readonly noise = 0.08,
  ) {}

  async measure({ name }: Candidate, numRounds: number, look: Look) {
    this.looks.push([name, numRounds, look]);
    const truth = this.world[name];
    if (truth === undefined) return { problem: "it does not fit the model" };
    const rounds = Array.from({ length: numRounds }, () => 0.03 * this.normal());
    const cells = truth.map((ratio): CellMeasured => {
      const ratios = rounds.map((ofRound) => ratio * Math.exp(ofRound + this.noise * this.normal()));
      return { ratios, numDraftTokens: 10, numAcceptedTokens: 5, numTokens: 30, numSteps: 20 };
    });
    return { cells };
  }
}

function normals(seed: number): () => number {
  const random = uniform(seed);
  return () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

const never = new AbortController().signal;

const tuned = (
  bench: DraftsBench,
  names: readonly string[],
  deadlineMs = Number.POSITIVE_INFINITY,
  clock: () => number = () => 0,
) => {
  const settings = { cells: CELLS, candidates: names.map(candidate), numRounds: 3, deadlineMs, clock };
  return tuneSpeculation(settings, bench, () => {}, never);
};

async function outcomes(world: World): Promise<readonly SpeculationTuning[]> {
  const seeds = Array.from({ length: cases(200, 2000) }, (_, seed) => seed + 1);
  return Promise.all(seeds.map((seed) => tuned(new SimulatedDrafts(world, normals(seed)), Object.keys(world))));
}

const shareOf = (all: readonly SpeculationTuning[], name: string | undefined): number =>
  all.filter(({ chosen }) => chosen?.name === name).length / all.length;

test("the fastest on the whole mix wins, not the fastest of one class", async () => {
  // On the mix: heads 1.32, lookup 1.13, draft model 1.13, long heads 1.09.
  const all = await outcomes({
    lookup: [1.9, 0.8, 0.78],
    heads: [1.4, 1.5, 1.2],
    "long heads": [1.6, 1.4, 0.74],
    "draft model": [1.1, 1.3, 1.13],
    suffix: [1.02, 1, 0.9],
  });
  expect(shareOf(all, "heads")).toBeGreaterThanOrEqual(0.95);
  for (const { confirmed } of all.filter(({ chosen }) => chosen !== undefined))
    expect(confirmed!.low).toBeGreaterThan(1);
});

test("of fifteen candidates that gain nothing, none is chosen", async () => {
  const world = Object.fromEntries(Array.from({ length: 15 }, (_, index) => [`drafts ${index}`, [1, 1, 1] as const]));
  expect(shareOf(await outcomes(world), undefined)).toBeGreaterThanOrEqual(0.95);
});

test("drafts that gain in one class what they lose in another are not chosen", async () => {
  expect(shareOf(await outcomes({ lookup: [1.5, 1, 0.706] }), undefined)).toBeGreaterThanOrEqual(0.95);
});

test("only what may win is looked at more closely, and the winner's gain is that of its own rounds", async () => {
  const bench = new SimulatedDrafts(
    { slow: [0.7, 0.7, 0.7], none: [1, 1, 1], fast: [1.5, 1.5, 1.5] },
    normals(7),
    0.02,
  );
  const { ranking, failed, chosen, confirmed, end } = await tuned(bench, ["slow", "none", "broken", "fast"]);
  expect(bench.looks).toEqual([
    ["slow", 3, "first"],
    ["none", 3, "first"],
    ["broken", 3, "first"],
    ["fast", 3, "first"],
    ["fast", 5, "closer"],
    ["fast", 5, "again"],
  ]);
  expect(ranking.map(({ candidate: { name }, mix }) => [name, mix.numRuns])).toEqual([
    ["fast", 8],
    ["none", 3],
    ["slow", 3],
  ]);
  expect(ranking[0]!.cells[0]).toMatchObject({ numDraftTokens: 20, numTokens: 60 });
  expect(failed.map(({ candidate: { name }, problem }) => [name, problem])).toEqual([
    ["broken", "it does not fit the model"],
  ]);
  expect([chosen?.name, confirmed?.numRuns, end]).toEqual(["fast", 5, "the gain is sure"]);
});

test("after the time is spent no candidate begins, but the best so far is measured again", async () => {
  const bench = new SimulatedDrafts({ fast: [1.5, 1.5, 1.5], faster: [3, 3, 3] }, normals(3), 0.02);
  let nowMs = 0;
  const late: DraftsBench = {
    measure(...args) {
      nowMs += 30;
      return bench.measure(...args);
    },
  };
  const { chosen, end } = await tuned(late, ["fast", "faster"], 10, () => nowMs);
  expect(chosen?.name).toBe("fast");
  expect(end).toMatch(/the budget of time was spent after 1 candidates$/);
});

test("drafts that fail when they are measured again are counted once, as failed", async () => {
  const bench = new SimulatedDrafts({ fast: [1.5, 1.5, 1.5] }, normals(3), 0.02);
  const failing: DraftsBench = {
    measure: async (of, numRounds, look) =>
      look === "again" ? { problem: "out of memory" } : bench.measure(of, numRounds, look),
  };
  const { ranking, failed, chosen } = await tuned(failing, ["fast"]);
  expect([ranking, failed.map(({ problem }) => problem), chosen]).toEqual([[], ["out of memory"], undefined]);
});

test("nothing that starts, nothing chosen", async () => {
  expect(await tuned(new SimulatedDrafts({}, normals(1)), ["broken"])).toMatchObject({
    chosen: undefined,
    ranking: [],
    end: "no candidate could be measured",
  });
});
