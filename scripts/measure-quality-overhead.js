/**
 * Measures the CPU seconds of a gateway and its engine with and without quality checks of every answer: the two give
 * the share of the server's CPU time that sampling takes.
 *
 *   node scripts/measure-quality-overhead.js [--requests 300] [--rounds 4] [--model models/mill-base.gguf]
 *
 * Runs with and without checks alternate, each with its own server. Prints a Markdown table.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chatAt, families, readMixture } from "../dist/models/corpus/families.js";

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: "300" },
    rounds: { type: "string", default: "4" },
    model: { type: "string", default: "models/mill-base.gguf" },
    port: { type: "string", default: "8391" },
  },
});
const [numRequests, numRounds, port] = ["requests", "rounds", "port"].map((name) => Number(values[name]));
const SAMPLE = 0.02;
const CLIENTS = 8;
const MAX_TOKENS = 200;
const SEED = 5_000_000;
const TICKS_PER_S = 100;
/** Time in which the checks' thread finishes its queue. */
const SETTLE_MS = 3000;

const mixture = readMixture(families.map(({ name }) => name).join(","));
const bodies = Array.from({ length: numRequests }, (_, index) =>
  JSON.stringify({
    messages: chatAt(SEED, index, mixture).messages.slice(0, -1),
    max_tokens: MAX_TOKENS,
    temperature: 0,
  }),
);

/** CPU seconds of the process and of its descendants. */
function cpuSeconds(pid) {
  const stats = readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const fields = readFileSync(`/proc/${name}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .split(" ");
      return [{ pid: Number(name), parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) }];
    } catch {
      return [];
    }
  });
  const family = new Set([pid]);
  for (let size = 0; size < family.size; ) {
    size = family.size;
    for (const each of stats) if (family.has(each.parent)) family.add(each.pid);
  }
  return stats.filter((each) => family.has(each.pid)).reduce((sum, { ticks }) => sum + ticks / TICKS_PER_S, 0);
}

async function send(url, count) {
  let next = 0;
  const client = async () => {
    while (next < count) {
      const body = bodies[next++];
      const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", body });
      if (!answer.ok) throw new Error(`expected an answer, got ${answer.status}: ${await answer.text()}`);
      await answer.text();
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
}

/** @returns CPU seconds of the requests, and the number of checked samples */
async function measure(isChecked) {
  const folder = mkdtempSync(join(tmpdir(), "millrace-overhead-"));
  const config = join(folder, "millrace.yaml");
  writeFileSync(
    config,
    [
      `port: ${port}`,
      "data-folder: ./data",
      "ledger: {}",
      ...(isChecked ? ["quality: { sample: 100% }"] : []),
      "models:",
      `  - { name: mill, model: ${resolve(values.model)} }`,
      "",
    ].join("\n"),
  );
  const bin = fileURLToPath(new URL("../bin/millrace.js", import.meta.url));
  const server = spawn(process.execPath, [bin, "serve", "--config", config], { stdio: "ignore" });
  const url = `http://127.0.0.1:${port}`;
  try {
    while (!(await fetch(`${url}/health`).catch(() => undefined))?.ok) await sleep(100);
    await send(url, 2 * CLIENTS);
    await sleep(SETTLE_MS);
    const before = cpuSeconds(server.pid);
    await send(url, numRequests);
    await sleep(SETTLE_MS);
    const seconds = cpuSeconds(server.pid) - before;
    const metrics = await (await fetch(`${url}/metrics`)).text();
    const sum = (name) =>
      [...metrics.matchAll(new RegExp(`^${name}(?:{[^}]*})? ([0-9.e+]+)$`, "gm"))].reduce(
        (s, m) => s + Number(m[1]),
        0,
      );
    return {
      seconds,
      sampled: sum("millrace_fleet:quality_samples_total"),
      dropped: sum("millrace_fleet:quality_dropped_total"),
    };
  } finally {
    server.kill();
    await new Promise((ended) => server.once("close", ended));
    rmSync(folder, { recursive: true, force: true });
  }
}

const runs = { true: [], false: [] };
for (let round = 0; round < numRounds; round++) {
  for (const isChecked of round % 2 === 0 ? [false, true] : [true, false]) {
    const run = await measure(isChecked);
    runs[isChecked].push(run);
    process.stderr.write(`round ${round + 1}, ${isChecked ? "checked" : "plain"}: ${JSON.stringify(run)}\n`);
  }
}
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const perRequest = (all) => all.map(({ seconds }) => (1000 * seconds) / numRequests);
const [plain, checked] = [perRequest(runs.false), perRequest(runs.true)];
const shares = checked.map((each, index) => (100 * SAMPLE * (each - plain[index])) / plain[index]);
process.stdout.write(
  [
    "| | CPU time of a request |",
    "| --- | --- |",
    `| no checks | ${median(plain).toFixed(2)} ms |`,
    `| every answer checked | ${median(checked).toFixed(2)} ms |`,
    `| 2 % checked: more CPU seconds | ${median(shares).toFixed(3)} % (${Math.min(...shares).toFixed(3)} to ${Math.max(...shares).toFixed(3)}) |`,
    "",
  ].join("\n"),
);
