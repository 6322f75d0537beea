/** The tuner against a full grid of a simulated server. The grid has no noise, so its best point is not a lucky one. */
import { expect, test } from "vitest";
import { QUIET, SETTINGS, SimulatedBench, World } from "../../../test/helpers/simulated-bench.js";
import { MACHINE } from "../../../test/helpers/simulated-server.js";
import { closed, randomTraffic } from "../../../test/helpers/simulated-traffic.js";
import { writeTable } from "../../../test/helpers/written-table.js";
import type { Configuration } from "./configuration.js";
import { tune } from "./loop.js";

const DEFAULT = {};
const draftsOf = (config: object): Configuration => ({ "speculative-config": JSON.stringify(config) });
const NONE = draftsOf({ method: "none" });
const FORCED = draftsOf({ method: "ngram", num_speculative_tokens: 8, adaptive: false });
const NO_CACHE = { "no-enable-prefix-caching": "" };
const BAD = { threads: "1", "max-num-seqs": "4", "max-num-batched-tokens": "64", ...NO_CACHE, ...FORCED };

const seats = (counts: readonly number[]) => counts.map((count) => ({ "max-num-seqs": String(count) }));
const tokensOf = (count: number) => ({ "max-num-batched-tokens": String(count) });
const tokens = [64, 128, 256, 1024, 4096].map(tokensOf);

/** All combinations of one configuration from each dimension. */
const gridOf = (...dimensions: readonly (readonly Configuration[])[]): Configuration[] =>
  dimensions.reduce<Configuration[]>(
    (all, more) => all.flatMap((each) => more.map((one) => ({ ...each, ...one }))),
    [{}],
  );

const GRID = gridOf(seats([4, 16, 64]), tokens, [DEFAULT, NONE], [DEFAULT, NO_CACHE]);
const STREAMS = gridOf(seats([8, 16, 64]), tokens, [DEFAULT, NONE], [DEFAULT, { "max-step-ms": "auto" }]);
const DRAFTS = gridOf(seats([4, 16, 64]), tokens, [
  DEFAULT,
  NONE,
  FORCED,
  draftsOf({ method: "suffix", num_speculative_tokens: 4 }),
]);

const MANY = gridOf(
  seats([16, 64, 256]),
  [256, 512, 1024, 2048, 4096].map(tokensOf),
  [DEFAULT, NONE],
  [DEFAULT, NO_CACHE],
);

const CHATS = randomTraffic(64, 64, closed(32), 128);
const MIXED = randomTraffic({ min: 32, max: 2048 }, 128, closed(6), 32);
const WORLDS = [
  { name: "shared prefixes", world: new World(MACHINE, randomTraffic(512, 64, closed(16), 64, 448)), grid: GRID },
  { name: "long prompts", world: new World(MACHINE, randomTraffic(1024, 32, closed(8), 32)), grid: GRID },
  { name: "many short chats", world: new World(MACHINE, CHATS), grid: GRID },
  {
    name: "short chats, 20 ms a step outside the kernels",
    world: new World({ ...MACHINE, hostStepMs: 20 }, CHATS),
    grid: GRID,
  },
  { name: "200 clients", world: new World(MACHINE, randomTraffic(32, 32, closed(200), 400)), grid: MANY },
  { name: "short chats, end to end", world: new World(MACHINE, CHATS, "e2e"), grid: GRID },
  { name: "streams beside prompts, time per token", world: new World(MACHINE, MIXED, "tpot"), grid: STREAMS },
  {
    name: "two clients, four of five drafted tokens right",
    world: new World({ ...MACHINE, draftAccuracy: 0.8 }, randomTraffic(64, 128, closed(2), 16)),
    grid: DRAFTS,
  },
];
const STARTS = [
  ["defaults", DEFAULT],
  ["bad", BAD],
] as const;
const NUM_SEEDS = 5;
const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

test("from the defaults and from a bad configuration, tuning comes within 5 % of a grid's best at a fifth of its trials", async () => {
  const rows = [
    ["load", "from", "start", "tuned, worst and best of 5 seeds", "trials at most", "runs at most, of the grid's"],
  ];
  for (const { name, world, grid } of WORLDS) {
    const speedOf = async (configuration: Configuration) => (await world.measured(configuration)).values[0] ?? 0;
    let most = 0;
    for (const configuration of grid) most = Math.max(most, await speedOf(configuration));
    for (const [from, start] of STARTS) {
      const shares: number[] = [];
      let [numTrials, numRuns] = [0, 0];
      for (let seed = 1; seed <= NUM_SEEDS; seed++) {
        const bench = new SimulatedBench(world, { seed, ofRun: 0.02, ofRound: 0.1 });
        const settings = { ...SETTINGS, start, objective: world.objective, maxTrials: grid.length / 5 };
        const { best, trials } = await tune(settings, bench, QUIET, { trials: [] }, new AbortController().signal);
        shares.push((await speedOf(best)) / most);
        numTrials = Math.max(numTrials, trials.length);
        numRuns = Math.max(numRuns, bench.numRuns);
      }
      const [worst, best] = [Math.min(...shares), Math.max(...shares)];
      expect.soft(worst, `${name}, ${from}`).toBeGreaterThan(0.95);
      const runs = `${numRuns} of ${SETTINGS.numRounds * grid.length}`;
      rows.push([
        name,
        from,
        percent((await speedOf(start)) / most),
        `${percent(worst)}, ${percent(best)}`,
        `${numTrials} of ${grid.length}`,
        runs,
      ]);
    }
    expect(grid.length).toBeLessThanOrEqual(60);
  }
  writeTable("docs/background/benchmarks/tuning.md", "grids", rows);
}, 600_000);
