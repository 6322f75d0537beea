/**
 * Measures configurations of a simulated server for the tuner: each is simulated once, and its runs differ by noise.
 */
import type { Cost } from "../../src/bench/measure/cost.js";
import type { BenchRun } from "../../src/bench/results/schema.js";
import { uniform } from "../../src/core/random.js";
import type { Objective } from "../../src/lab/tune/bottleneck.js";
import { type Configuration, keyOf } from "../../src/lab/tune/configuration.js";
import type { Bench, Measured, TuneEvents, TuneSettings } from "../../src/lab/tune/loop.js";
import { measuredOf } from "../../src/lab/tune/server-bench.js";
import { TUNED_ENGINES } from "../../src/lab/tune/tuned-engines.js";
import { type Machine, simulate } from "./simulated-server.js";
import type { Traffic } from "./simulated-traffic.js";

interface Noise {
  readonly seed: number;
  /** Standard deviation of a run, as a share. */
  readonly ofRun: number;
  /** Of a round, which all of its runs share. */
  readonly ofRound: number;
}

/** One machine under one load. */
export class World {
  readonly #runs = new Map<string, Promise<BenchRun | string>>();

  constructor(
    readonly machine: Machine,
    readonly traffic: Traffic,
    readonly objective: Objective = "throughput",
    readonly pricePerHour?: number,
  ) {}

  /** Without noise. */
  async measured(configuration: Configuration): Promise<Measured> {
    const key = keyOf(configuration);
    const running = this.#runs.get(key) ?? simulate(this.machine, this.traffic, configuration);
    this.#runs.set(key, running);
    const run = await running;
    if (typeof run === "string") return { ...NOTHING, problem: run };
    const { machine, objective, pricePerHour } = this;
    const terms = { cores: machine.cores, objective, engine: TUNED_ENGINES.millrace, pricePerHour };
    return measuredOf([run], configuration, this.traffic, terms);
  }
}

const NOTHING = { values: [], attainment: undefined, peakMemoryBytes: undefined, evidence: undefined };

export const SETTINGS: TuneSettings = {
  objective: "throughput",
  start: {},
  maxTrials: 12,
  deadlineMs: Number.POSITIVE_INFINITY,
  minAttainment: 0.9,
  alternatives: { engine: TUNED_ENGINES.millrace, weights: [], freeBytes: 8e9 },
  numRounds: 3,
};
export const QUIET: TuneEvents = { onFinding: () => {}, onTrial: () => {}, onOutcome: () => {} };

export class SimulatedBench implements Bench {
  numRuns = 0;
  readonly #normal: () => number;

  constructor(
    private readonly world: World,
    private readonly noise: Noise,
  ) {
    const random = uniform(noise.seed);
    this.#normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  }

  async measure(configurations: readonly Configuration[], numRounds: number): Promise<readonly Measured[]> {
    const factor = (share: number): number => Math.exp(share * this.#normal());
    const rounds = Array.from({ length: numRounds }, () => factor(this.noise.ofRound));
    const all: Measured[] = [];
    for (const configuration of configurations) {
      this.numRuns += numRounds;
      const measured = await this.world.measured(configuration);
      const factors = rounds.map((round) => round * factor(this.noise.ofRun));
      const values = measured.values.flatMap((value) => factors.map((each) => value * each));
      const costs = measured.costs?.flatMap((cost) => factors.map((each) => dividedBy(each, cost)));
      all.push({ ...measured, values, costs });
    }
    return all;
  }

  async judge(): Promise<undefined> {
    return undefined;
  }
}

/** A faster run costs less. */
const dividedBy = (factor: number, { perMillionOutput, perMillionTotal, perThousandRequests }: Cost): Cost => ({
  perMillionOutput: perMillionOutput / factor,
  perMillionTotal: perMillionTotal / factor,
  perThousandRequests: perThousandRequests / factor,
});
