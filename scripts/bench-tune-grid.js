/**
 * Compares the result of `millrace tune` with the best of a grid of 60 configurations, on servers on this machine:
 * three loads, each tuned from the defaults and from a deliberately bad configuration with at most twelve trials. The
 * grid's five best are measured again, alternating with the tuned ones. Prints a Markdown table. The JSON file keeps
 * each finished part, from which a stopped run resumes.
 *
 *   node scripts/bench-tune-grid.js --json FILE [--model FILE] [--load NAME,NAME] [--scale SHARE]
 *
 * --scale multiplies the number of requests. Two cores: the server has one, the load generator the other.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { freemem } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { machineInfo } from "../dist/src/bench/results/machine.js";
import { benchedThreads } from "../dist/src/bench/run/benched-threads.js";
import { planFor } from "../dist/src/bench/run/plan.js";
import { tune } from "../dist/src/lab/tune/loop.js";
import { ServerBench } from "../dist/src/lab/tune/server-bench.js";
import { TUNED_ENGINES } from "../dist/src/lab/tune/tuned-engines.js";

const { values: args } = parseArgs({
  options: {
    json: { type: "string" },
    model: { type: "string", default: fileURLToPath(new URL("../models/mill-base.gguf", import.meta.url)) },
    load: { type: "string" },
    scale: { type: "string", default: "1" },
  },
});
if (args.json === undefined) throw new Error("expected --json FILE, got none");

const draftsOf = (config) => ({ "speculative-config": JSON.stringify(config) });
const NONE = draftsOf({ method: "none" });
const NO_CACHE = { "no-enable-prefix-caching": "" };
const BAD = {
  threads: "1",
  "max-num-seqs": "4",
  "max-num-batched-tokens": "64",
  ...NO_CACHE,
  ...draftsOf({ method: "ngram", num_speculative_tokens: 8, adaptive: false }),
};
const DIMENSIONS = [
  [4, 16, 64].map((count) => ({ "max-num-seqs": String(count) })),
  [64, 128, 256, 1024, 4096].map((count) => ({ "max-num-batched-tokens": String(count) })),
  [{}, NONE],
  [{}, NO_CACHE],
];
const GRID = DIMENSIONS.reduce((all, more) => all.flatMap((one) => more.map((other) => ({ ...one, ...other }))), [{}]);
const MAX_TRIALS = GRID.length / 5;
const NUM_ROUNDS = 3;
const NUM_AGAIN = 5;
const ROUNDS_AGAIN = 5;

const LOADS = {
  "shared prefixes": { numRequests: 96, concurrency: 16, promptTokens: 512, sharedTokens: 448, outputTokens: 64 },
  "long prompts": { numRequests: 32, concurrency: 8, promptTokens: 1024, sharedTokens: 0, outputTokens: 32 },
  "many short chats": { numRequests: 192, concurrency: 32, promptTokens: 64, sharedTokens: 0, outputTokens: 64 },
};
const STARTS = { defaults: {}, bad: BAD };

const kept = existsSync(args.json)
  ? JSON.parse(readFileSync(args.json, "utf8"))
  : { machine: machineInfo(), loads: {} };
const keep = () => writeFileSync(args.json, `${JSON.stringify(kept)}\n`);
const stop = new AbortController();
process.on("SIGINT", () => stop.abort());
const quiet = () => ({ update: () => {}, done: () => {} });
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const tell = (line) => process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);

/** Counts the servers that it starts. */
class CountedBench {
  numRuns = 0;

  constructor(planned, start) {
    const settings = {
      engine: { engine: "millrace", program: undefined },
      modelPath: args.model,
      start,
      planned,
      objective: "throughput",
      numThreads: benchedThreads(),
      timeoutMs: 300_000,
      numWorkers: 1,
      isPolling: false,
      tasks: [],
      maxDrop: 0.02,
      evaluation: { temperature: 0, maxTokens: 512, seed: 0, concurrency: 16 },
    };
    this.bench = new ServerBench(settings, quiet, stop.signal);
  }

  measure(configurations, numRounds) {
    this.numRuns += configurations.length * numRounds;
    return this.bench.measure(configurations, numRounds);
  }

  judge(configuration) {
    return this.bench.judge(configuration);
  }
}

async function speedOf(bench, configuration) {
  const [{ values, problem }] = await bench.measure([configuration], 1);
  if (values[0] === undefined) tell(`not measured: ${JSON.stringify(configuration)}: ${problem}`);
  return values[0] ?? 0;
}

function plannedOf(name) {
  const { numRequests, concurrency, ...lengths } = LOADS[name];
  return planFor({
    scenario: "quick",
    workloads: [{ name, workload: { kind: "random", ...lengths } }],
    isReplay: false,
    concurrency: [concurrency],
    numRequests: Math.max(concurrency, Math.round(numRequests * Number(args.scale))),
    rounds: NUM_ROUNDS,
    scale: 1,
    seed: 1,
  });
}

async function tuned(planned, start) {
  const bench = new CountedBench(planned, start);
  const settings = {
    objective: "throughput",
    start,
    maxTrials: MAX_TRIALS,
    deadlineMs: performance.now() + 3_600_000,
    minAttainment: 0.9,
    alternatives: { engine: TUNED_ENGINES.millrace, weights: [], freeBytes: freemem() },
    numRounds: NUM_ROUNDS,
  };
  const events = {
    onFinding: (finding) => tell(`bottleneck: ${finding.bottleneck}`),
    onTrial: ({ name }, number) => tell(`${number}. ${name}`),
    onOutcome: ({ outcome, reason }) => tell(`   ${outcome}: ${reason}`),
  };
  const { best, trials, first, last } = await tune(settings, bench, events, { trials: [] }, stop.signal);
  return { best, numTrials: trials.length, numRuns: bench.numRuns, first, last, trials };
}

/** @returns maps a configuration's text to its runs, which alternate */
async function again(planned, configurations) {
  const bench = new CountedBench(planned, {});
  const speeds = new Map(configurations.map((each) => [JSON.stringify(each), []]));
  for (let round = 0; round < ROUNDS_AGAIN; round++) {
    for (const [text, values] of speeds) values.push(await speedOf(bench, JSON.parse(text)));
    tell(`measured again: round ${round + 1} of ${ROUNDS_AGAIN}`);
  }
  return Object.fromEntries(speeds);
}

const chosen = args.load?.split(",") ?? Object.keys(LOADS);
for (const name of chosen) {
  const planned = plannedOf(name);
  kept.loads[name] ??= { grid: [], tuned: {} };
  const load = kept.loads[name];
  const bench = new CountedBench(planned, {});
  while (load.grid.length < GRID.length && !stop.signal.aborted) {
    const configuration = GRID[load.grid.length];
    load.grid.push({ configuration, speed: await speedOf(bench, configuration) });
    keep();
    if (load.grid.length % 10 === 0) tell(`${name}: ${load.grid.length} of ${GRID.length} points`);
  }
  for (const [from, start] of Object.entries(STARTS)) {
    if (load.tuned[from] !== undefined || stop.signal.aborted) continue;
    tell(`${name}, from ${from}`);
    load.tuned[from] = await tuned(planned, start);
    keep();
  }
  if (stop.signal.aborted) process.exit(130);
  const best = [...load.grid].sort((a, b) => b.speed - a.speed).slice(0, NUM_AGAIN);
  const winners = Object.values(load.tuned).map((tuning) => tuning.best);
  load.again ??= await again(planned, [...best.map((one) => one.configuration), ...winners, ...Object.values(STARTS)]);
  keep();
}

process.stdout.write(
  "| load | from | start | tuned | trials | runs, of the grid's |\n| --- | --- | --- | --- | --- | --- |\n",
);
for (const name of chosen) {
  const { grid, tuned: byStart, again: values } = kept.loads[name];
  const speed = (configuration) => median(values[JSON.stringify(configuration)]);
  const most = Math.max(
    ...grid
      .map((one) => values[JSON.stringify(one.configuration)])
      .filter(Boolean)
      .map(median),
  );
  const percent = (configuration) => `${((100 * speed(configuration)) / most).toFixed(1)} %`;
  for (const [from, { best, numTrials, numRuns }] of Object.entries(byStart)) {
    const cells = [name, from, percent(STARTS[from]), percent(best), `${numTrials} of ${grid.length}`];
    process.stdout.write(`| ${cells.join(" | ")} | ${numRuns} of ${NUM_ROUNDS * grid.length} |\n`);
  }
}
