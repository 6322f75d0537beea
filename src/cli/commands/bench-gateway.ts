/**
 * `millrace bench gateway`: measures the time that the proxy adds to a mock server, and its throughput. The machine
 * should be idle.
 */

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
  "! a negative figure: rounds differ by more than the added time. Close other programs, or use more --rounds and --stream-requests";

export function benchGatewayCommand(): Command {
  return new Command("gateway")
    .description(
      "Measure the time that the gateway adds to the first token of many streams, its requests per second, and its memory over many requests.",
    )
    .option("--streams <n>", "streams at once", integerIn("--streams", 1, 4096), 64)
    .option(
      "--stream-requests <n>",
      "streams measured in each round",
      integerIn("--stream-requests", 100, 1 << 20),
      640,
    )
    .option(
      "--requests <n>",
      "small requests, for throughput and memory",
      integerIn("--requests", 100, 1 << 24),
      200_000,
    )
    .option(
      "--peer <command>",
      "command that starts another gateway on {port} in front of {upstream}, to measure it too",
    )
    .option(
      "--peer-requests <n>",
      "small requests for the other gateway",
      integerIn("--peer-requests", 100, 1 << 24),
      5000,
    )
    .option("--rounds <n>", "rounds, each with the gateway and without it", integerIn("--rounds", 1, 100), 3)
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
    "CPU per request",
    "memory: start, 1/4, 1/2, end",
  ];
  const isNegative = measured.some(({ addedMs }) => Math.min(addedMs.p50, addedMs.p99) < 0);
  const lines = [
    `${numStreams} streams at once, then ${numStreams} clients with small requests`,
    formatTable([titles, ...rows]),
    "added: the difference to the server itself in the same round, median over rounds",
  ];
  if (isNegative) lines.push(LESS_THAN_NOISE);
  return `${lines.join("\n")}\n`;
}
