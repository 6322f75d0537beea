/** The loop on a simulated server with a known best configuration. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { expect, test } from "vitest";
import { QUIET, SETTINGS as USUAL } from "../../../test/helpers/simulated-bench.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { uniform } from "../../core/random.js";
import { compare } from "../../quality/compare.js";
import { itemsNeeded } from "../../quality/paired.js";
import { resultOf } from "../../quality/run-task.js";
import { type Configuration, edited, numberOf } from "./configuration.js";
import type { Evidence } from "./evidence.js";
import { Journal } from "./journal.js";
import { type Bench, type Measured, type Trial, type TuneSettings, tune } from "./loop.js";
import { TUNED_ENGINES } from "./tuned-engines.js";

interface World {
  readonly seed: number;
  readonly numItems: number;
  /** Share of right answers that each kind of weights loses. */
  readonly damage: Readonly<Record<string, number>>;
  /** Relative noise of a run. */
  readonly noise: number;
}

const NUM_CLIENTS = 16;

/** Throughput grows with the seats in use, with the cache for the repeated share, and with smaller weights. */
class SimulatedBench implements Bench {
  readonly measured: Configuration[][] = [];
  readonly #random: () => number;

  constructor(private readonly world: World) {
    this.#random = uniform(world.seed);
  }

  async measure(configurations: readonly Configuration[], numRounds: number): Promise<readonly Measured[]> {
    this.measured.push([...configurations]);
    // Drift of the machine, which paired rounds share.
    const drifts = Array.from({ length: numRounds }, () => 1 + 0.3 * this.#random());
    return configurations.map((configuration) => {
      if (numberOf(configuration, "max-num-batched-tokens") === 4096) {
        return {
          values: [],
          attainment: undefined,
          peakMemoryBytes: undefined,
          evidence: undefined,
          problem: "no memory",
        };
      }
      const speed = speedOf(configuration);
      const values = drifts.map((drift) => drift * speed * (1 + this.world.noise * (2 * this.#random() - 1)));
      return { values, attainment: 1, peakMemoryBytes: memoryOf(configuration), evidence: evidenceFor(configuration) };
    });
  }

  async judge(configuration: Configuration) {
    const { numItems, damage } = this.world;
    if (numItems === 0) return undefined;
    const lost = damage[configuration.model ?? ""] ?? 0;
    const items = (isAfter: boolean, random: () => number) =>
      Array.from({ length: numItems }, (_, index) => {
        // Two of a hundred answers flip in either direction, whatever the change.
        const isRight = index % 4 !== 0;
        const draw = random();
        const flips = isAfter && (isRight ? draw < 0.02 + lost / 0.75 : draw < 0.06);
        const exact = flips ? !isRight : isRight;
        return { ...ITEM, prompt: [{ role: "user" as const, content: String(index) }], exact, score: Number(exact) };
      });
    const resultFor = (isAfter: boolean) => [resultOf("task", items(isAfter, this.#random), 1)];
    return compare(resultFor(false), resultFor(true), 0.02);
  }
}

const ITEM = { answer: "", expected: "", numPromptTokens: 1, numOutputTokens: 1, end: "stop" } as const;

const seatsOf = (configuration: Configuration): number => numberOf(configuration, "max-num-seqs") ?? 64;

function speedOf(configuration: Configuration): number {
  const rows = Math.min(seatsOf(configuration), NUM_CLIENTS);
  const cache = configuration["no-enable-prefix-caching"] === undefined ? 1.4 : 1;
  const weights = configuration.model === undefined ? 1 : 1.5;
  return (100 * cache * weights * rows) / (rows + 8);
}

const memoryOf = (configuration: Configuration): number => (configuration.model === undefined ? 4e9 : 2e9);

function evidenceFor(configuration: Configuration): Evidence {
  const seats = seatsOf(configuration);
  const hasCache = configuration["no-enable-prefix-caching"] === undefined;
  return {
    numClients: NUM_CLIENTS,
    seats,
    threads: 4,
    cores: 4,
    cpuCores: 3.9,
    ttftMs: 100,
    tpotMs: 20,
    queueShare: seats < NUM_CLIENTS ? 0.7 : 0,
    maxRunning: Math.min(seats, NUM_CLIENTS),
    maxKvUsage: 0.2,
    preemptionsPerRequest: 0,
    repeatedShare: 0.8,
    movedShare: 0,
    cacheHitShare: hasCache ? 0.8 : 0,
    acceptance: undefined,
    rejectedPerToken: 0,
    prefillShare: hasCache ? 0.2 : 0.6,
    kernelShare: 0.9,
    interference: 1,
    clientUtilization: 0.1,
    isVoid: false,
    isServerKnown: true,
  };
}

const SETTINGS: TuneSettings = {
  ...USUAL,
  start: { "max-num-seqs": "2" },
  maxTrials: 20,
};
const WORLD: World = { seed: 1, numItems: 0, damage: {}, noise: 0.02 };
const never = new AbortController().signal;

/** Every configuration is equally fast. */
class Indifferent extends SimulatedBench {
  override async measure(configurations: readonly Configuration[], numRounds: number) {
    const all = await super.measure(configurations, numRounds);
    return all.map((each, index) => ({
      ...each,
      values: each.values.map((_, round) => 100 * (1 + 0.01 * ((index + round) % 2))),
    }));
  }
}

test("from a bad configuration to the best, with each change a hypothesis", async () => {
  const bench = new SimulatedBench(WORLD);
  const { best, trials, first, last, total, end } = await tune(SETTINGS, bench, QUIET, { trials: [] }, never);
  expect(speedOf(best)).toBeCloseTo(speedOf({}), 5);
  expect([first.bottleneck, last.bottleneck]).toEqual(["seats", "bandwidth"]);
  expect(total!.low).toBeLessThan(speedOf({}) / speedOf(SETTINGS.start));
  expect(total!.high).toBeGreaterThan(speedOf({}) / speedOf(SETTINGS.start));
  expect(end).toBe("no further change is worth its trial");
  const kept = trials.filter(({ outcome }) => outcome === "kept").map(({ proposal }) => proposal.name);
  expect(kept).toEqual(["8 seats", "16 seats"]);
  for (const { proposal, finding, measured } of trials) {
    expect(finding.bottleneck).toBe(proposal.bottleneck);
    if (proposal.name !== "steps of 2048 tokens") expect(measured?.low).toBeDefined();
  }
});

test("of several flags, the defaults are tried first, and the limit that they lift is not refuted by them", async () => {
  const start = { "max-num-seqs": "2", "no-enable-prefix-caching": "" };
  const quick = await tune({ ...SETTINGS, start }, new SimulatedBench(WORLD), QUIET, { trials: [] }, never);
  expect(quick.trials[0]).toMatchObject({ proposal: { name: "the server's defaults" }, outcome: "kept" });
  expect(quick.best).toEqual({});
  const { trials } = await tune({ ...SETTINGS, start }, new Indifferent(WORLD), QUIET, { trials: [] }, never);
  expect(trials.slice(0, 2).map(({ proposal }) => proposal.name)).toEqual(["the server's defaults", "8 seats"]);
});

test("a change that surely harmed is not tried again from another configuration", async () => {
  const { trials } = await tune(SETTINGS, new Worse(WORLD), QUIET, { trials: [] }, never);
  expect(trials.filter(({ proposal }) => proposal.name === "no drafts")).toHaveLength(1);
});

/** Removing drafts costs a tenth of the speed, and each of two other changes gains a fifth. */
class Worse extends SimulatedBench {
  override async measure(configurations: readonly Configuration[], numRounds: number) {
    const all = await super.measure(configurations, numRounds);
    return all.map((each, index) => {
      const drafts = configurations[index]!["speculative-config"] ?? "";
      const factor = drafts.includes("none") ? 0.9 : drafts.includes("ngram") ? 1.2 : 1;
      return { ...each, values: each.values.map((value) => factor * value) };
    });
  }
}

test("no configuration is tried twice, and the present one is in every comparison", async () => {
  const bench = new SimulatedBench(WORLD);
  const { trials } = await tune(SETTINGS, bench, QUIET, { trials: [] }, never);
  const keys = trials.map(({ configuration }) => JSON.stringify(configuration));
  expect(new Set(keys).size).toBe(keys.length);
  for (const pair of bench.measured.slice(1)) expect(pair).toHaveLength(2);
});

test("a limit whose lifting gains nothing is refuted", async () => {
  const { trials, last } = await tune(SETTINGS, new Indifferent(WORLD), QUIET, { trials: [] }, never);
  expect(trials.filter(({ proposal }) => proposal.bottleneck === "seats")).toHaveLength(1);
  expect(trials.every(({ outcome }) => outcome === "rolled back")).toBe(true);
  expect(last.bottleneck).not.toBe("seats");
});

test("a change of the cache refutes no lack of memory, and other activations are judged", async () => {
  const start = { "no-enable-prefix-caching": "", "activation-dtype": "f32" };
  class Full extends SimulatedBench {
    override async measure(configurations: readonly Configuration[], numRounds: number) {
      const measured = await super.measure(configurations, numRounds);
      return measured.map((each, index) => ({
        ...each,
        values: each.values.map((_, round) => 100 * (1 + 0.01 * ((index + round) % 2))),
        evidence: each.evidence && {
          ...each.evidence,
          maxKvUsage: 1,
          preemptionsPerRequest: 1,
          maxRunning: 4,
          prefillShare: 0.9,
        },
      }));
    }
  }
  const { trials } = await tune({ ...SETTINGS, start, maxTrials: 40 }, new Full(WORLD), QUIET, { trials: [] }, never);
  const tried = (name: string) => trials.find(({ proposal }) => proposal.name === name)?.proposal;
  expect(tried("without --no-enable-prefix-caching")).toMatchObject({ isLossy: false });
  expect(tried("half of the free memory for KV")).toBeDefined();
  expect(tried("without --activation-dtype")).toMatchObject({ isLossy: true });
});

test.each([
  ["worse", 1, 2],
  ["not surely better", 1.05, 1],
])("a winner that is %s when measured again does not win", async (_, winner, start) => {
  class Unlucky extends SimulatedBench {
    override async measure(configurations: readonly Configuration[], numRounds: number) {
      const measured = await super.measure(configurations, numRounds);
      const isLast = isDeepStrictEqual(configurations[1], SETTINGS.start);
      return isLast
        ? measured.map((each, i) => ({
            ...each,
            values: each.values.map((__, round) => noisy(i === 0 ? winner : start, round + i)),
          }))
        : measured;
    }
  }
  const tuning = await tune(SETTINGS, new Unlucky(WORLD), QUIET, { trials: [] }, never);
  expect(tuning.trials.some(({ outcome }) => outcome === "kept")).toBe(true);
  expect(tuning.best).toEqual(SETTINGS.start);
  expect(tuning.end).toMatch(/showed no certain gain when measured again, and the first configuration stays/);
});

/** Up and down by a fifth from round to round. */
const noisy = (value: number, round: number): number => value * (round % 2 === 0 ? 1.2 : 0.8);

test("a journal holds the first finding, and an earlier one is kept aside", () => {
  const folder = tempTree({});
  const first = { bottleneck: "seats", because: "all are taken" } as const;
  const journal = new Journal(folder, SETTINGS, false);
  journal.begin(first);
  journal.begin({ bottleneck: "host", because: "later" });
  expect(new Journal(folder, SETTINGS, true).first).toEqual(first);
  expect(new Journal(folder, SETTINGS, false).first).toBeUndefined();
  expect(readdirSync(folder).filter((name) => name.startsWith("tune-"))).toHaveLength(1);
  const saved = JSON.parse(readFileSync(join(folder, "tune.json"), "utf8"));
  writeFileSync(join(folder, "tune.json"), JSON.stringify({ ...saved, trials: [{ outcome: "kept" }] }));
  expect(() => new Journal(folder, SETTINGS, true)).toThrow(/got something else/);
});

test("budgets end the loop", async () => {
  const few = await tune({ ...SETTINGS, maxTrials: 1 }, new SimulatedBench(WORLD), QUIET, { trials: [] }, never);
  expect(few).toMatchObject({ end: "the budget of trials is spent", trials: [{ outcome: "kept" }] });
  const late = await tune({ ...SETTINGS, deadlineMs: 0 }, new SimulatedBench(WORLD), QUIET, { trials: [] }, never);
  expect(late).toMatchObject({ end: "the budget of time is spent", trials: [], best: edited(SETTINGS.start, {}) });
  expect(late.total).toBeUndefined();
});

test("an interrupted tuning goes on from its trials and ends as it would have", async () => {
  const whole = await tune(SETTINGS, new SimulatedBench(WORLD), QUIET, { trials: [] }, never);
  const stopping = new AbortController();
  const journal: Trial[] = [];
  const events = {
    ...QUIET,
    onOutcome: (trial: Trial) => {
      journal.push(trial);
      if (journal.length === 2) stopping.abort();
    },
  };
  const stopped = await tune(SETTINGS, new SimulatedBench(WORLD), events, { trials: [] }, stopping.signal);
  expect(stopped).toMatchObject({ end: "stopped", trials: journal });
  const bench = new SimulatedBench(WORLD);
  const resumed = await tune(SETTINGS, bench, QUIET, { trials: JSON.parse(JSON.stringify(journal)) }, never);
  expect(resumed.best).toEqual(whole.best);
  expect(resumed.trials.map(({ proposal }) => proposal.name)).toEqual(
    whole.trials.map(({ proposal }) => proposal.name),
  );
  expect(bench.measured[0]).toEqual([journal.at(-1)!.configuration]);
});

test("a first configuration that cannot be measured is an error that says why", async () => {
  const start = { "max-num-batched-tokens": "4096" };
  const failing = tune({ ...SETTINGS, start }, new SimulatedBench(WORLD), QUIET, { trials: [] }, never);
  await expect(failing).rejects.toMatchObject({ code: "peer_failed", message: expect.stringContaining("no memory") });
});

test("a change over the memory limit is rolled back", async () => {
  const settings = {
    ...SETTINGS,
    start: {},
    maxMemoryBytes: 1e9,
    alternatives: { engine: TUNED_ENGINES.millrace, weights: [{ path: "q4.gguf", bytesShare: 0.5 }], freeBytes: 1e9 },
  };
  const { trials } = await tune(
    settings,
    new SimulatedBench({ ...WORLD, numItems: 100 }),
    QUIET,
    { trials: [] },
    never,
  );
  expect(trials.find(({ proposal }) => proposal.isLossy)).toMatchObject({
    outcome: "rolled back",
    reason: "it needs more memory than allowed",
  });
});

test("a change that alters answers is rolled back where nothing can judge it", async () => {
  const alternatives = {
    engine: TUNED_ENGINES.millrace,
    weights: [{ path: "q4.gguf", bytesShare: 0.5 }],
    freeBytes: 0,
  };
  const { trials } = await tune(
    { ...SETTINGS, start: {}, alternatives },
    new SimulatedBench(WORLD),
    QUIET,
    { trials: [] },
    never,
  );
  const lossy = trials.find(({ configuration }) => configuration.model === "q4.gguf");
  expect(lossy).toMatchObject({ outcome: "rolled back", reason: expect.stringContaining("no items to judge") });
});

test("in 18 of 20 seeds, weights that lose three points are rolled back and weights that lose none are kept", async () => {
  const weights = [
    { path: "damaged.gguf", bytesShare: 0.5 },
    { path: "sound.gguf", bytesShare: 0.6 },
  ];
  // Of a hundred answers that are right three times in four, 2 % and 6 % flip.
  const numItems = itemsNeeded(0.75 * 0.02 + 0.25 * 0.06, 0.02, 0, 0.975)!;
  expect(numItems).toBe(1109);
  let numRight = 0;
  for (let seed = 1; seed <= 20; seed++) {
    const bench = new SimulatedBench({ ...WORLD, seed, numItems, damage: { "damaged.gguf": 0.03 } });
    const settings = {
      ...SETTINGS,
      start: {},
      alternatives: { engine: TUNED_ENGINES.millrace, weights, freeBytes: 0 },
    };
    const { trials, best } = await tune(settings, bench, QUIET, { trials: [] }, never);
    const outcomeOf = (path: string) => trials.find(({ configuration }) => configuration.model === path)?.outcome;
    if (outcomeOf("damaged.gguf") === "rolled back" && best.model === "sound.gguf") numRight++;
  }
  expect(numRight).toBeGreaterThanOrEqual(18);
});
