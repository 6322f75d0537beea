/**
 * Compares the dashboard's figures with those of its clients, for a mixed load over three instances behind the gateway.
 * Then it measures a watcher's cost under a load of equal requests: in every other window a client reads the live
 * figures and, once, the history of a week. Prints Markdown tables.
 *
 *   node scripts/measure-dashboard.js [--minutes 10] [--pairs 48] [--window-ms 2500] [--json FILE]
 *
 * --minutes 0 only measures the watcher.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { pairedRatio } from "../dist/src/bench/measure/intervals.js";
import { machineInfo } from "../dist/src/bench/results/machine.js";
import { EVERY_MS, History } from "../dist/src/observe/live/history.js";
import { readingOf } from "../dist/src/observe/live/load.js";
import { freePort, startAt } from "./engine-process.js";

const { values: args } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    pairs: { type: "string", default: "48" },
    "window-ms": { type: "string", default: "2500" },
    json: { type: "string" },
  },
});
/** Rows of the dashboard's day. */
const ROW_MS = 120_000;
const WINDOW_MS = Number(args["window-ms"]);
const NUM_CLIENTS = 9;
const SHAPES = [
  { words: 4, tokens: 64 },
  { words: 60, tokens: 32 },
  { words: 300, tokens: 96 },
];
const WORDS = "the old fox went down to the river and saw a small boat under the bridge".split(" ");

const folder = mkdtempSync(join(tmpdir(), "millrace-dashboard-"));
const model = fileURLToPath(new URL("../models/mill-base.gguf", import.meta.url));
const port = await freePort();
const config = join(folder, "millrace.yaml");
writeFileSync(
  config,
  JSON.stringify({
    port,
    "data-folder": folder,
    "log-level": "warn",
    models: [{ name: "mill-base", model, instances: 3, options: { threads: 1, "max-num-seqs": 4 } }],
  }),
);

/** Writes a week of figures, which the gateway reads at its start, so that each row of its history has every figure. */
function writeWeek() {
  const history = new History(join(folder, "history"));
  const nowMs = Date.now();
  const lengthMs = history.lengthMs("week");
  const none = readingOf([], 0);
  for (let atMs = nowMs - lengthMs; atMs < nowMs; atMs += EVERY_MS) {
    const count = (atMs - nowMs + lengthMs) / 10;
    const counters = Object.fromEntries(Object.keys(none.counters).map((name) => [name, count]));
    const times = new Map(
      [0.001, 0.01, 0.1, 1, Number.POSITIVE_INFINITY].map((bound, i) => [bound, (count * (i + 1)) / 5]),
    );
    const gauges = { running: 9, waiting: 2, seats: 12, kvUse: 0.25, memoryBytes: 1e9 };
    history.add({ ...none, ...gauges, atMs, counters, firstToken: times, perToken: times, queue: times });
  }
  history.close();
}

writeWeek();
const { url, child } = await startAt(port, "serve", "--config", config);
process.on("exit", () => {
  child.kill("SIGTERM");
  rmSync(folder, { recursive: true, force: true });
});
while ((await (await fetch(`${url}/health`)).text()).includes("starting")) await sleep(200);

const requests = [];
let isOver = false;
let isMixed = true;
let numSent = 0;

async function ask() {
  const number = numSent++;
  const { words, tokens } = isMixed ? SHAPES[number % SHAPES.length] : SHAPES[0];
  const prompt = [number, ...Array.from({ length: words }, (_, i) => WORDS[(i * 7 + number) % WORDS.length])].join(" ");
  const body = { model: "mill-base", prompt, max_tokens: tokens, ignore_eos: true, temperature: 1, seed: number };
  const startMs = Date.now();
  const answer = await fetch(`${url}/v1/completions`, {
    method: "POST",
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
  });
  let firstMs;
  let text = "";
  for await (const chunk of answer.body) {
    firstMs ??= Date.now();
    text = (text + Buffer.from(chunk).toString()).slice(-2000);
  }
  const numTokens = Number(/"completion_tokens":(\d+)/.exec(text)?.[1]);
  if (!answer.ok || !(numTokens > 1)) throw new Error(`expected an answer, got ${answer.status}: ${text}`);
  requests.push({ startMs, firstMs, endMs: Date.now(), numTokens });
}

const clients = Array.from({ length: NUM_CLIENTS }, async () => {
  while (!isOver) await ask();
});

/** CPU seconds of this process. */
function cpuSeconds(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const history = async (window) => (await fetch(`${url}/watch/history?window=${window}`)).json();
const numWeekRows = (await history("week")).loads.length;
if (numWeekRows < 600) throw new Error(`expected a week of figures, got ${numWeekRows} rows`);

async function watch() {
  const stop = new AbortController();
  const live = await fetch(`${url}/watch/live`, { signal: stop.signal });
  // The client only keeps the bytes: reading them costs the server nothing.
  await (await fetch(`${url}/watch/history?window=week`)).arrayBuffer();
  const read = (async () => {
    for await (const _ of live.body);
  })().catch(() => {});
  await sleep(WINDOW_MS - 50);
  stop.abort();
  await read;
}

await sleep(2000);
const beganMs = Date.now();
await sleep(Number(args.minutes) * 60_000);
const endMs = Date.now();
const loads = { day: (await history("day")).loads, hour: (await history("hour")).loads };

isMixed = false;
await sleep(2000);
const windows = [];
while (windows.length < 2 * Number(args.pairs)) {
  const isWatched = windows.length % 2 === Math.floor(windows.length / 2) % 2;
  const [fromMs, cpu] = [Date.now(), cpuSeconds(child.pid)];
  await (isWatched ? watch() : sleep(WINDOW_MS));
  windows.push({ isWatched, fromMs, toMs: Date.now(), cpuS: cpuSeconds(child.pid) - cpu });
}
isOver = true;
await Promise.all(clients);

/** Tokens between two times, with each answer's spread evenly over its time. */
function tokensBetween(fromMs, toMs) {
  return requests.reduce((sum, { firstMs, endMs: lastMs, numTokens }) => {
    const overlap = Math.min(toMs, lastMs) - Math.max(fromMs, firstMs);
    return overlap <= 0 ? sum : sum + (numTokens * overlap) / Math.max(1, lastMs - firstMs);
  }, 0);
}

const quantile = (values, share) =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))];
const within = (list, key, fromMs, toMs) => list.filter((one) => one[key] > fromMs && one[key] <= toMs);

const isWithin =
  (lengthMs) =>
  ({ at_ms }) =>
    at_ms - lengthMs >= beganMs && at_ms <= endMs;

/** Prints the dashboard's figures beside the clients' as a table. */
function compareFigures() {
  /** A row covers the time before it. */
  const rows = loads.day.filter(isWithin(ROW_MS)).map((load) => {
    const [fromMs, toMs] = [load.at_ms - ROW_MS, load.at_ms];
    const ttfts = within(requests, "firstMs", fromMs, toMs).map((each) => each.firstMs - each.startMs);
    const tpots = within(requests, "endMs", fromMs, toMs).map(
      (each) => (each.endMs - each.firstMs) / (each.numTokens - 1),
    );
    const pairs = Object.entries({ ttft: ttfts, tpot: tpots }).flatMap(([name, values]) =>
      Object.entries({ p50: 0.5, p95: 0.95, p99: 0.99 }).map(([key, share]) => {
        return [`${name} ${key}, ms`, load[name][key], quantile(values, share)];
      }),
    );
    return { at_ms: load.at_ms, numRequests: ttfts.length, pairs };
  });

  /** Figures of all rows together, between the readings at their ends. */
  const ticks = loads.hour.filter(isWithin(10_000));
  const [first, last] = [ticks[0].at_ms, ticks.at(-1).at_ms];
  const shownTokens = ticks
    .slice(1)
    .reduce((sum, { tokens_out_per_s, at_ms }, i) => sum + (tokens_out_per_s * (at_ms - ticks[i].at_ms)) / 1000, 0);
  const spanS = (last - first) / 1000;
  const throughput = ["tokens/s", shownTokens / spanS, tokensBetween(first, last) / spanS];

  process.stdout.write(
    "| row of two minutes | figure | dashboard | clients | ratio | difference |\n| --- | --- | --- | --- | --- | --- |\n",
  );
  for (const [row, name, shown, measured] of [
    [`all, ${Math.round(spanS)} s`, ...throughput],
    ...rows.flatMap(({ pairs }, i) => pairs.map((pair) => [i + 1, ...pair])),
  ]) {
    const figures = [
      shown.toFixed(2),
      measured.toFixed(2),
      (shown / measured).toFixed(3),
      (measured - shown).toFixed(2),
    ];
    process.stdout.write(`| ${[row, name, ...figures].join(" | ")} |\n`);
  }
  return { throughput, rows };
}

const figures = Number(args.minutes) > 0 ? compareFigures() : {};
const rateOf = ({ fromMs, toMs }) => (1000 * tokensBetween(fromMs, toMs)) / (toMs - fromMs);
const watched = windows.filter(({ isWatched }) => isWatched);
const unwatched = windows.filter(({ isWatched }) => !isWatched);
const numPairs = Math.min(watched.length, unwatched.length);
const ratio = pairedRatio(watched.slice(0, numPairs).map(rateOf), unwatched.slice(0, numPairs).map(rateOf));
const cpuOf = (list) =>
  list.reduce((sum, { cpuS }) => sum + cpuS, 0) /
  list.reduce((sum, { fromMs, toMs }) => sum + (toMs - fromMs) / 1000, 0);
const interval = `${ratio.value.toFixed(4)} (${ratio.low?.toFixed(4)} to ${ratio.high?.toFixed(4)})`;
process.stdout.write(`\ntokens/s watched ÷ not watched: ${interval}, ${numPairs} pairs\n`);
process.stdout.write(
  `CPU of the gateway, ms a second: ${(1000 * cpuOf(watched)).toFixed(1)} watched, ${(1000 * cpuOf(unwatched)).toFixed(1)} not\n`,
);
if (args.json !== undefined) {
  const result = {
    date: new Date().toISOString(),
    machine: machineInfo(),
    minutes: Number(args.minutes),
    windowMs: WINDOW_MS,
    numWeekRows,
    ...figures,
    ratio,
    windows,
  };
  writeFileSync(args.json, `${JSON.stringify(result)}\n`);
}
process.exit(0);
