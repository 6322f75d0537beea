/** `millrace bench gateway`: what the proxy adds to a server whose timings are known, and how much it takes. Nothing else should run meanwhile. */

import { Command } from "commander";
import type { GatewayBenchSpec, GatewayReport } from "../../bench/gateway/gateway-bench.js";
import { formatBytes } from "../../core/quantities.js";
import { integerIn } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import { exitOnSignals } from "../process/measure-servers.js";

interface GatewayFlags extends GatewayBenchSpec {
  readonly json?: boolean;
}

const LESS_THAN_NOISE =
  "! a negative figure says that rounds differ by more than the gateway adds: close other programs, or take more --rounds and --stream-requests";

export function benchGatewayCommand(): Command {
  return new Command("gateway")
    .description(
      "Measure what the gateway adds to the first byte among many streams, its requests a second, and its memory over very many.",
    )
    .option("--streams <n>", "streams at once", integerIn("--streams", 1, 4096), 64)
    .option(
      "--stream-requests <n>",
      "streams measured in each round",
      integerIn("--stream-requests", 100, 1 << 20),
      640,
    )
    .option("--requests <n>", "small requests for speed and memory", integerIn("--requests", 100, 1 << 24), 200_000)
    .option(
      "--peer <command>",
      "starts another gateway on {port} in front of {upstream}, to be measured beside this one",
    )
    .option("--peer-requests <n>", "small requests for it", integerIn("--peer-requests", 100, 1 << 24), 5000)
    .option("--rounds <n>", "rounds, each with and without the gateway", integerIn("--rounds", 1, 100), 3)
    .option("--json", "print one JSON object instead of tables")
    .action(runBenchGateway);
}

async function runBenchGateway(flags: GatewayFlags): Promise<void> {
  exitOnSignals();
  const [{ benchGateway }, { machineInfo, versions }] = await Promise.all([
    import("../../bench/gateway/gateway-bench.js"),
    import("../../bench/results/machine.js"),
  ]);
  const report = await benchGateway(flags, (round) => {
    process.stderr.write(`  round ${round} of ${flags.rounds}\n`);
  });
  const about = { machine: machineInfo(), versions: versions() };
  process.stdout.write(flags.json ? `${jsonText({ ...report, ...about })}\n` : textOf(report));
}

function textOf({ numStreams, measured }: GatewayReport): string {
  const ms = (value: number) => `${value.toFixed(2)} ms`;
  const range = (values: readonly number[]) =>
    values.length < 2 ? ms(values[0]!) : `${ms(Math.min(...values))} to ${ms(Math.max(...values))}`;
  const rows = measured.map(({ name, streams, addedMs, requests }, index) => {
    const memory = requests.memoryBytes;
    const at = (share: number) => formatBytes(memory[Math.floor(share * (memory.length - 1))]!);
    return [
      name,
      range(streams.map(({ p50Ms }) => p50Ms)),
      range(streams.map(({ p99Ms }) => p99Ms)),
      index === 0 ? "" : `${ms(addedMs.p50)}, ${ms(addedMs.p99)}`,
      `${requests.requestsPerSecond.toFixed(0)}/s`,
      requests.cpuMicrosPerRequest === undefined ? "?" : `${requests.cpuMicrosPerRequest.toFixed(0)} µs`,
      `${at(0)}, ${at(0.25)}, ${at(0.5)}, ${at(1)}`,
    ];
  });
  const titles = [
    "",
    "first token p50",
    "p99",
    "added p50, p99",
    "small requests",
    "CPU of its process each",
    "memory: start, 1/4, 1/2, end",
  ];
  const isNegative = measured.some(({ addedMs }) => Math.min(addedMs.p50, addedMs.p99) < 0);
  const lines = [
    `${numStreams} streams at once, then ${numStreams} clients with small requests`,
    formatTable([titles, ...rows]),
    "added: the median over rounds of the difference to the server itself in the same round",
  ];
  if (isNegative) lines.push(LESS_THAN_NOISE);
  return `${lines.join("\n")}\n`;
}
