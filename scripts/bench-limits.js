/**
 * What limits and budgets cost: the time to the first token of streams behind gateways with limits of every kind, beside a gateway without any and the
 * server itself, in turns. All in front of a mock server, with the build of dist/. The machine should be idle.
 *
 *   node scripts/bench-limits.js [--rounds 5] [--streams 64] [--stream-requests 640] [--redis URL] [--postgresql URL]
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { firstByte, STREAM_TIMINGS } from "../dist/src/bench/gateway/measure.js";
import { LoadGenerator } from "../dist/src/bench/load/generator.js";
import { MOCK_FACTS } from "../dist/src/bench/mock/self-test.js";
import { startMock } from "../dist/src/bench/mock/start-mock.js";

const { values: args } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    streams: { type: "string", default: "64" },
    "stream-requests": { type: "string", default: "640" },
    redis: { type: "string" },
    postgresql: { type: "string" },
  },
});
const [rounds, streams, streamRequests] = [args.rounds, args.streams, args["stream-requests"]].map(Number);

const folder = mkdtempSync(join(tmpdir(), "millrace-bench-limits-"));
const mock = await startMock(STREAM_TIMINGS);
const children = [];
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    for (const child of children) child.kill("SIGKILL");
    process.exit(1);
  });
}

/** Seven meters, none of which is ever reached. */
const LIMITS = {
  "requests-per-minute": 1e9,
  "tokens-per-minute": 1e9,
  "concurrent-requests": 1e6,
  budget: { hour: 1e6, day: 1e6, month: 1e6 },
};

async function startGateway(name, { limits, ...more } = {}) {
  const model = {
    name: MOCK_FACTS.model,
    engine: "openai",
    attach: [{ url: mock.url }],
    price: { input: 1, output: 2 },
  };
  const config = {
    port: 0,
    "log-level": "warn",
    "data-folder": join(folder, name),
    ...more,
    models: [limits === undefined ? model : { ...model, limits }],
  };
  const file = join(folder, `${name}.yaml`);
  writeFileSync(file, JSON.stringify(config));
  const child = spawn(process.execPath, ["bin/millrace.js", "serve", "--config", file], {
    stdio: ["ignore", "pipe", "inherit"],
  });
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
  return { name, url };
}

const quantile = (values, share) => values.toSorted((a, b) => a - b)[Math.floor(values.length * share)];
const shown = (ms) => `${ms.toFixed(3)} ms`.padStart(10);

const shared = ["redis", "postgresql"].filter((store) => args[store] !== undefined);
const gateways = [
  await startGateway("no limits"),
  await startGateway("embedded", { limits: LIMITS }),
  await startGateway("embedded, ledger", { limits: LIMITS, ledger: {} }),
];
for (const store of shared)
  gateways.push(await startGateway(store, { limits: LIMITS, budgets: { store, url: args[store] } }));
const servers = [{ name: "the server itself", url: mock.url }, ...gateways];
const generator = await LoadGenerator.start(1);
try {
  const figures = servers.map(() => []);
  for (let round = 0; round <= rounds; round++) {
    for (const [i, { url }] of servers.entries()) {
      const figure = await firstByte(generator, url, streams, streamRequests);
      // The first round warms up.
      if (round > 0) figures[i].push(figure);
    }
  }
  console.log(
    `time to the first token, ${streams} streams; medians of ${rounds} rounds in turns, beyond the server's own`,
  );
  for (const [i, { name }] of servers.entries()) {
    const added = (key) =>
      quantile(
        figures[i].map((figure, round) => figure[key] - figures[0][round][key]),
        0.5,
      );
    console.log(`  ${name.padEnd(20)} p50 ${shown(added("p50Ms"))}  p99 ${shown(added("p99Ms"))}`);
  }
} finally {
  generator.close();
  for (const child of children) child.kill("SIGTERM");
  await Promise.all(
    children.map(
      (child) => new Promise((resolve) => (child.exitCode === null ? child.once("exit", resolve) : resolve())),
    ),
  );
  await mock.stop();
  rmSync(folder, { recursive: true, force: true });
}
