/**
 * Measures the cost of the gateway's policies: the time to the first token of streams and small requests per second,
 * without policies, with the exact cache (which misses), and with ledger, limits, budget and cache together,
 * alternating with the server itself; then the time of a cache hit. A mock server answers, and dist/ must be built. The
 * machine should be idle; CPU time per request stays valid on a busy one, within some percent.
 *
 * --parts also measures the ledger and the limits alone. --against takes the folder of another built checkout, whose
 * gateways alternate with this one's. --profile takes a folder, to which each gateway writes a profile of its CPU time.
 *
 *   node scripts/bench-policies.js [--rounds 5] [--streams 64] [--stream-requests 640] [--requests 5000] [--hits 3000] [--redis URL] [--postgresql URL] [--parts] [--against FOLDER] [--profile FOLDER]
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { firstByte, STREAM_TIMINGS, throughput } from "../dist/src/bench/gateway/measure.js";
import { LoadGenerator } from "../dist/src/bench/load/generator.js";
import { snapshotOf } from "../dist/src/bench/measure/process-usage.js";
import { MOCK_FACTS } from "../dist/src/bench/mock/self-test.js";
import { startMock } from "../dist/src/bench/mock/start-mock.js";

const { values: args } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    streams: { type: "string", default: "64" },
    "stream-requests": { type: "string", default: "640" },
    requests: { type: "string", default: "5000" },
    hits: { type: "string", default: "3000" },
    redis: { type: "string" },
    postgresql: { type: "string" },
    parts: { type: "boolean", default: false },
    against: { type: "string" },
    profile: { type: "string" },
  },
});
const [rounds, streams, streamRequests, numRequests, numHits] = [
  args.rounds,
  args.streams,
  args["stream-requests"],
  args.requests,
  args.hits,
].map(Number);

const folder = mkdtempSync(join(tmpdir(), "millrace-bench-cache-"));
const mock = await startMock(STREAM_TIMINGS);
const children = [];
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    for (const child of children) child.kill("SIGKILL");
    process.exit(1);
  });
}

/** @param more keys of the configuration @param ofModel keys of its model @param root the checkout whose build runs */
async function startGateway(name, more = {}, ofModel = {}, root = ".") {
  const dataFolder = join(folder, `${children.length}`);
  const config = {
    port: 0,
    "log-level": "warn",
    "data-folder": dataFolder,
    ...more,
    models: [{ name: MOCK_FACTS.model, engine: "openai", attach: [{ url: mock.url }], ...ofModel }],
  };
  const file = `${dataFolder}.yaml`;
  writeFileSync(file, JSON.stringify(config));
  const profiling =
    args.profile === undefined
      ? []
      : [
          "--cpu-prof",
          `--cpu-prof-dir=${args.profile}`,
          `--cpu-prof-name=${name.replaceAll(/[^a-z]+/g, "-")}.cpuprofile`,
        ];
  const command = [...profiling, join(root, "bin/millrace.js"), "serve", "--config", file];
  const child = spawn(process.execPath, command, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const url = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (more) => {
      text += more;
      const [, found] = /^ {2}ready +(http\S+)/m.exec(text) ?? [];
      if (found !== undefined) resolve(found);
    });
    child.once("exit", () => reject(new Error(`expected a gateway, got:\n${text}`)));
  });
  return { name, url, pid: child.pid };
}

const agent = new Agent({ keepAlive: true, maxSockets: 1 });

/** @returns milliseconds to the end of the answer, and its cache header */
function ask(url, body) {
  const text = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const beginMs = performance.now();
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    const sent = request(`${url}/v1/chat/completions`, { agent, method: "POST", headers });
    sent.on("error", reject).on("response", (response) => {
      response
        .resume()
        .on("end", () => resolve({ ms: performance.now() - beginMs, cache: response.headers["x-millrace-cache"] }));
    });
    sent.end(text);
  });
}

const quantile = (values, share) => values.toSorted((a, b) => a - b)[Math.floor(values.length * share)];
const cpuSecondsOf = (pid) => (pid === undefined ? undefined : snapshotOf(pid)?.cpuSeconds) ?? Number.NaN;
const shown = (ms) => `${ms.toFixed(3)} ms`.padStart(10);

let numAsked = 0;
/** A request that is in no cache. */
const newRequest = () =>
  JSON.stringify({ model: MOCK_FACTS.model, prompt: `Say word ${numAsked++}.`, max_tokens: 1, stream: false });

const sampled = { sampled: true };
/** Limits and a budget that are never reached: every request reserves and settles. */
const limited = {
  price: { input: 1, output: 2 },
  limits: { budget: { day: 1_000_000 }, "requests-per-minute": 100_000_000, "concurrent-requests": 10_000 },
};
const all = { ledger: {}, cache: sampled };
const withRedis = { cache: { ...sampled, store: "redis", "redis-url": args.redis } };
const setups = [["no policy"], ["cache", { cache: sampled }], ["all, embedded", all, limited]];
if (args.parts) {
  setups.push(["ledger", { ledger: {} }, { price: limited.price }]);
  setups.push(["limits, embedded", {}, limited]);
}
if (args.redis !== undefined) {
  setups.push(["cache, redis", withRedis]);
  setups.push(["all, redis", { ...all, budgets: { store: "redis", url: args.redis } }, limited]);
}
if (args.postgresql !== undefined) {
  setups.push(["all, postgresql", { ...all, budgets: { store: "postgresql", url: args.postgresql } }, limited]);
}
const gateways = [];
for (const [name, more, ofModel] of setups) {
  gateways.push(await startGateway(name, more, ofModel));
  if (args.against !== undefined) gateways.push(await startGateway(`${name}, there`, more, ofModel, args.against));
}
const servers = [{ name: "the server itself", url: mock.url }, ...gateways];
const generator = await LoadGenerator.start(1);
try {
  const figures = servers.map(() => []);
  for (let round = 0; round <= rounds; round++) {
    for (const [i, { url, pid }] of servers.entries()) {
      const before = cpuSecondsOf(pid);
      const figure = await firstByte(generator, url, streams, streamRequests, round + 1);
      const cpuMs = (1000 * (cpuSecondsOf(pid) - before)) / (streamRequests + streams);
      // The first round warms up.
      if (round > 0) figures[i].push({ ...figure, cpuMs });
    }
  }
  console.log(
    `time to the first token, ${streams} streams; medians of ${rounds} rounds in turns, added to the server's own`,
  );
  for (const [i, { name, pid }] of servers.entries()) {
    const added = (key) =>
      quantile(
        figures[i].map((figure, round) => figure[key] - figures[0][round][key]),
        0.5,
      );
    const cpuMs = quantile(
      figures[i].map((figure) => figure.cpuMs),
      0.5,
    );
    const cpu = pid === undefined ? "" : `; ${cpuMs.toFixed(2)} ms of CPU a stream`;
    console.log(`  ${name.padEnd(22)} p50 ${shown(added("p50Ms"))}  p99 ${shown(added("p99Ms"))}${cpu}`);
  }
  console.log(
    `small requests, none like another, ${streams} at once (${numRequests}); medians of ${rounds} rounds in turns`,
  );
  const rates = gateways.map(() => []);
  const cpuTimes = gateways.map(() => []);
  for (let round = 0; round <= rounds; round++) {
    for (const [i, { url, pid }] of gateways.entries()) {
      const { requestsPerSecond, cpuMicrosPerRequest } = await throughput(url, pid, streams, numRequests, newRequest);
      if (round === 0) continue;
      rates[i].push(requestsPerSecond);
      cpuTimes[i].push(cpuMicrosPerRequest ?? Number.NaN);
    }
  }
  for (const [i, { name }] of gateways.entries()) {
    const rate = quantile(rates[i], 0.5);
    const cpu = quantile(cpuTimes[i], 0.5);
    // With --against, every second gateway is the other checkout's.
    const none = args.against === undefined ? 0 : i % 2;
    const share = (rate / quantile(rates[none], 0.5)).toFixed(2);
    console.log(
      `  ${name.padEnd(22)} ${Math.round(rate)} requests/s, ${share} of none; ${cpu.toFixed(0)} µs of CPU a request`,
    );
  }
  console.log(`hits, one after another (${numHits})`);
  for (const { name, url } of gateways.filter((gateway) => gateway.name.startsWith("cache"))) {
    for (const stream of [false, true]) {
      const body = {
        model: MOCK_FACTS.model,
        messages: [{ role: "user", content: "Say a word." }],
        max_tokens: 64,
        temperature: 0,
        stream,
      };
      for (let i = 0; i < 200; i++) await ask(url, body);
      const times = [];
      for (let i = 0; i < numHits; i++) {
        const { ms, cache } = await ask(url, body);
        if (cache !== "hit") throw new Error(`expected a hit, got ${cache}`);
        times.push(ms);
      }
      console.log(
        `  ${`${name}, ${stream ? "streamed" : "whole"}`.padEnd(20)} p50 ${shown(quantile(times, 0.5))}  p99 ${shown(quantile(times, 0.99))}`,
      );
    }
  }
} finally {
  generator.close();
  agent.destroy();
  for (const child of children) child.kill("SIGTERM");
  await Promise.all(
    children.map(
      (child) => new Promise((resolve) => (child.exitCode === null ? child.once("exit", resolve) : resolve())),
    ),
  );
  await mock.stop();
  rmSync(folder, { recursive: true, force: true });
}
