/**
 * A server with a fleet, to be killed by a test: prints a JSON line with the process ids once all instances are ready.
 *
 *   node fleet-server.mjs <folder for logs> <stand-in's path>
 */
import { readFileSync } from "node:fs";
import { pino } from "pino";
import { Supervisor } from "../../dist/src/fleet/supervision/supervisor.js";

const [logFolder, standIn] = process.argv.slice(2);
const supervisor = new Supervisor({ logger: pino({ level: "silent" }), logFolder });
const model = {
  engine: "vllm",
  options: { model: "a-model" },
  args: [],
  env: { STAND_IN_WORKER: "1" },
  host: "127.0.0.1",
  program: [process.execPath, standIn, "vllm"],
  instances: 2,
};
supervisor.addModel({ ...model, name: "ready" });
supervisor.addModel({
  ...model,
  name: "starting",
  instances: 1,
  env: { ...model.env, STAND_IN_READY_AFTER_MS: "3600000" },
});

const workerOf = ({ logFile }) => {
  try {
    return Number(/worker (\d+)/.exec(readFileSync(logFile, "utf8"))?.[1]);
  } catch {
    return Number.NaN;
  }
};

const timer = setInterval(() => {
  const instances = supervisor.instances();
  const pids = [...instances.map(({ pid }) => pid), ...instances.map(workerOf)];
  const areReady = supervisor.upstreams("ready").every(({ state }) => state === "ready");
  if (!areReady || pids.length !== 6 || !pids.every((pid) => pid > 0)) return;
  clearInterval(timer);
  process.stdout.write(`${JSON.stringify({ pids })}\n`);
}, 20);
