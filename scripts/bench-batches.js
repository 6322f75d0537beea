/**
 * Measures a running batch's effect on interactive requests of the same gateway, and its share of the idle capacity:
 * windows of interactive load with and without a batch alternate (ABBA), each pair with the same arrivals. A first,
 * unrecorded pair warms up the code that only load runs.
 *
 *   node scripts/bench-batches.js [--url http://127.0.0.1:8000] [--model mill-base] [--load 0.3] [--pairs 4] [--seconds 30] [--tokens 48] [--json FILE]
 *
 * Load is the share of time in which the model has an interactive request, without a batch: arrivals are Poisson, at a
 * rate that two earlier windows determine. Idle capacity is the batch's tokens per second without any other request,
 * times the share of time without an interactive request (measured without a batch).
 */
import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { parseArgs } from "node:util";

const { values: args } = parseArgs({
  options: {
    url: { type: "string", default: "http://127.0.0.1:8000" },
    model: { type: "string", default: "mill-base" },
    load: { type: "string", default: "0.3" },
    pairs: { type: "string", default: "4" },
    seconds: { type: "string", default: "30" },
    tokens: { type: "string", default: "48" },
    json: { type: "string" },
  },
});
const [load, numPairs, windowMs] = [Number(args.load), Number(args.pairs), Number(args.seconds) * 1000];
const numTokens = Number(args.tokens);
const LINES = 4000;

/** Mulberry32: a pair's windows get the same arrivals. */
function drawer(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let z = Math.imul(state ^ (state >>> 15), state | 1);
    z = (z + Math.imul(z ^ (z >>> 7), z | 61)) ^ z;
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32;
  };
}

const KINDS = [
  "fox",
  "boat",
  "clock",
  "river",
  "baker",
  "robot",
  "teacher",
  "mountain",
  "letter",
  "garden",
  "storm",
  "thief",
];
const MOODS = [
  "old",
  "tired",
  "curious",
  "brave",
  "lonely",
  "clever",
  "angry",
  "kind",
  "slow",
  "proud",
  "young",
  "silent",
];
const pick = (draw, from) => from[Math.floor(draw() * from.length)];

/**
 * Sampled, so that drafts from earlier answers are rarely right: such drafts make steps of repeated texts unlike other
 * steps.
 */
function bodyOf(draw, more) {
  const [a, b, c] = [pick(draw, MOODS), pick(draw, KINDS), pick(draw, KINDS)];
  const content = `Number ${Math.floor(draw() * 1e6)}: tell me a story about the ${a} ${b} who met a ${pick(draw, MOODS)} ${c}, and say what each of them learnt from the other on that day.`;
  return {
    model: args.model,
    messages: [{ role: "user", content }],
    max_tokens: numTokens,
    min_tokens: numTokens,
    temperature: 1,
    seed: Math.floor(draw() * 2 ** 31),
    ...more,
  };
}

async function call(path, body, method = "POST") {
  const sent = body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) };
  const answer = await fetch(`${args.url}${path}`, { method, ...sent });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return await answer.json();
}

/** One streamed request, with its start, first token and end. */
async function ask(draw) {
  const startMs = performance.now();
  const body = JSON.stringify(bodyOf(draw, { stream: true }));
  const response = await fetch(`${args.url}/v1/chat/completions`, { method: "POST", body });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  let firstMs;
  let lastMs = startMs;
  for await (const _ of response.body) {
    lastMs = performance.now();
    firstMs ??= lastMs;
  }
  return { startMs, endMs: lastMs, ttftMs: firstMs - startMs, tpotMs: (lastMs - firstMs) / (numTokens - 1) };
}

/** Poisson arrivals for one window. */
async function interactive(ratePerMs, seed) {
  const draw = drawer(seed);
  const beganMs = performance.now();
  const asked = [];
  for (let atMs = -Math.log(1 - draw()) / ratePerMs; atMs < windowMs; atMs += -Math.log(1 - draw()) / ratePerMs) {
    await wait(Math.max(0, beganMs + atMs - performance.now()));
    asked.push(ask(draw));
  }
  await wait(Math.max(0, beganMs + windowMs - performance.now()));
  return await Promise.all(asked);
}

/** Share of the window with at least one request in progress. */
function busyShare(requests) {
  const sorted = [...requests].sort((a, b) => a.startMs - b.startMs);
  let [busy, until] = [0, Number.NEGATIVE_INFINITY];
  for (const { startMs, endMs } of sorted) {
    busy += Math.max(0, endMs - Math.max(startMs, until));
    until = Math.max(until, endMs);
  }
  return busy / windowMs;
}

let numBatches = 0;
async function startBatch() {
  const draw = drawer(++numBatches * 7919);
  const line = (i) =>
    JSON.stringify({ custom_id: `${i}`, method: "POST", url: "/v1/chat/completions", body: bodyOf(draw) });
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", new Blob([Array.from({ length: LINES }, (_, i) => line(i)).join("\n")]), "in.jsonl");
  const { id: fileId } = await call("/v1/files", form);
  const batch = { input_file_id: fileId, endpoint: "/v1/chat/completions", completion_window: "24h" };
  const { id } = await call("/v1/batches", batch);
  while ((await call(`/v1/batches/${id}`, undefined, "GET")).request_counts.completed === 0) await wait(50);
  return id;
}

const doneTokens = async (id) => {
  const { usage } = await call(`/v1/batches/${id}`, undefined, "GET");
  return { outputs: usage.output_tokens, atMs: performance.now() };
};

async function endBatch(id) {
  await call(`/v1/batches/${id}/cancel`);
  while ((await call(`/v1/batches/${id}`, undefined, "GET")).status !== "cancelled") await wait(50);
}

/** A batch's tokens per second while `beside` runs. */
async function besideBatch(beside) {
  const id = await startBatch();
  const before = await doneTokens(id);
  const result = await beside();
  const after = await doneTokens(id);
  await endBatch(id);
  return { result, tokensPerS: ((after.outputs - before.outputs) / (after.atMs - before.atMs)) * 1000 };
}

const quantile = (values, q) => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
};

/** 95 % interval of a ratio of quantiles, by resampling requests. */
function ratioInterval(a, b, q) {
  const draw = drawer(1);
  const again = (values) => values.map(() => values[Math.floor(draw() * values.length)]);
  const ratios = Array.from({ length: 1000 }, () => quantile(again(b), q) / quantile(again(a), q));
  return [quantile(ratios, 0.025), quantile(ratios, 0.975)];
}

const warm = drawer(3);
for (let i = 0; i < 10; i++) await ask(warm);
const alone = [];
for (let i = 0; i < 30; i++) alone.push(await ask(warm));
const requestMs = quantile(
  alone.map(({ startMs, endMs }) => endMs - startMs),
  0.5,
);
let rate = load / requestMs;
for (let i = 0; i < 2; i++) {
  // Isolated requests take a different time from consecutive ones: the rate follows the measured time.
  const requests = await interactive(rate, 99);
  const meanMs = requests.reduce((sum, { startMs, endMs }) => sum + endMs - startMs, 0) / requests.length;
  rate = -Math.log(1 - load) / meanMs;
}
await besideBatch(() => interactive(rate, 99));
// Our engine leaves time free for a while after the last interactive request: idle capacity is the batch's speed
// without any.
await wait(6000);
const { tokensPerS: batchAlone } = await besideBatch(() => wait(windowMs));
const [without, beside, tokensBeside, shares] = [[], [], [], []];
for (let pair = 0; pair < numPairs; pair++) {
  const quiet = async () => {
    const requests = await interactive(rate, pair + 100);
    without.push(...requests);
    shares.push(busyShare(requests));
  };
  const loaded = async () => {
    const { result, tokensPerS } = await besideBatch(() => interactive(rate, pair + 100));
    beside.push(...result);
    tokensBeside.push(tokensPerS);
  };
  for (const run of pair % 2 === 0 ? [quiet, loaded] : [loaded, quiet]) await run();
}
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const busy = mean(shares);
const idleCapacity = batchAlone * (1 - busy);
const report = {
  cpu: `${cpus().length} × ${cpus()[0].model}`,
  load,
  requestAloneMs: requestMs,
  requests: without.length,
  busyShare: busy,
  batchAloneTokensPerS: batchAlone,
  idleCapacityTokensPerS: idleCapacity,
  batchBesideTokensPerS: mean(tokensBeside),
  shareOfIdleCapacity: mean(tokensBeside) / idleCapacity,
};
for (const field of ["ttftMs", "tpotMs"]) {
  for (const [name, q] of [
    ["p50", 0.5],
    ["p99", 0.99],
  ]) {
    const [a, b] = [without, beside].map((requests) => requests.map((each) => each[field]));
    report[`${field} ${name}`] = {
      without: quantile(a, q),
      beside: quantile(b, q),
      ratio: quantile(b, q) / quantile(a, q),
      interval: ratioInterval(a, b, q),
    };
  }
}
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
if (args.json !== undefined) writeFileSync(args.json, `${JSON.stringify(report, null, 2)}\n`);
