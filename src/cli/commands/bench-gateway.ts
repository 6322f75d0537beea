/** `millrace bench gateway`: what the proxy adds to a server whose timings are known, and how much it takes. Nothing else should run meanwhile. */

import { Command } from "commander";
import type { FirstByte, RunningGateway, Throughput } from "../../bench/gateway/measure.js";
import { formatBytes } from "../../core/quantities.js";
import { integerIn } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import { exitOnSignals } from "../process/measure-servers.js";

interface GatewayFlags {
  readonly streams: number;
  readonly streamRequests: number;
  readonly requests: number;
  readonly peerRequests: number;
  readonly rounds: number;
  readonly peer?: string;
  readonly json?: boolean;
}

/** A gateway, or the server itself without one. */
interface Measured {
  readonly name: string;
  /** One a round. */
  readonly streams: readonly FirstByte[];
  /** Medians over rounds of what it adds to the server itself. */
  readonly addedMs: { readonly p50: number; readonly p99: number };
  readonly requests: Throughput;
}

interface GatewayReport {
  readonly numStreams: number;
  /** The server itself first. */
  readonly measured: readonly Measured[];
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
  const [{ STREAM_TIMINGS, firstByte, startGateway, startPeerGateway, throughput }, { startMock }, { LoadGenerator }] =
    await Promise.all([
      import("../../bench/gateway/measure.js"),
      import("../../bench/mock/start-mock.js"),
      import("../../bench/load/generator.js"),
    ]);
  const [{ median }, { machineInfo, versions }] = await Promise.all([
    import("../../core/statistics.js"),
    import("../../bench/results/machine.js"),
  ]);
  const mock = await startMock(STREAM_TIMINGS);
  const gateways: RunningGateway[] = [];
  const generator = await LoadGenerator.start(1);
  try {
    gateways.push(await startGateway(mock.url));
    if (flags.peer !== undefined) gateways.push(await startPeerGateway(flags.peer, mock.url));
    const servers = [{ name: "the server itself", url: mock.url, pid: mock.pid }, ...gateways];
    const streams = (url: string) => firstByte(generator, url, flags.streams, flags.streamRequests);
    // Connections are made and code is compiled.
    for (const { url } of servers) await streams(url);
    const rounds: FirstByte[][] = [];
    for (let i = 0; i < flags.rounds; i++) {
      const round: FirstByte[] = [];
      for (const { url } of servers) round.push(await streams(url));
      rounds.push(round);
      process.stderr.write(`  round ${i + 1} of ${flags.rounds}\n`);
    }
    const measured: Measured[] = [];
    for (const [index, { name, url, pid }] of servers.entries()) {
      const added = (value: (each: FirstByte) => number) =>
        median(rounds.map((round) => value(round[index]!) - value(round[0]!)));
      const numRequests = [Math.ceil(flags.requests / 10), flags.requests, flags.peerRequests][index]!;
      measured.push({
        name,
        streams: rounds.map((round) => round[index]!),
        addedMs: { p50: added(({ p50Ms }) => p50Ms), p99: added(({ p99Ms }) => p99Ms) },
        requests: await throughput(url, pid, flags.streams, numRequests),
      });
    }
    const report: GatewayReport = { numStreams: flags.streams, measured };
    const about = { machine: machineInfo(), versions: versions() };
    process.stdout.write(flags.json ? `${jsonText({ ...report, ...about })}\n` : textOf(report));
  } finally {
    generator.close();
    for (const gateway of gateways) await gateway.stop();
    await mock.stop();
  }
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
