/** `millrace bench gateway`: what the proxy adds to a server whose timings are known, and how much it takes. Nothing else should run meanwhile. */
import { Command } from "commander";
import { formatBytes, formatTable } from "../format.js";
import type { FirstByte, Throughput } from "../gateway-bench/measure.js";
import { integerIn } from "../option-values.js";

interface GatewayFlags {
  readonly streams: number;
  readonly streamRequests: number;
  readonly requests: number;
  readonly rounds: number;
  readonly json?: boolean;
}

interface Round {
  readonly direct: FirstByte;
  readonly proxied: FirstByte;
}

interface GatewayReport {
  readonly streams: number;
  readonly rounds: readonly Round[];
  /** Medians over rounds, proxied − direct. */
  readonly addedMs: { readonly p50: number; readonly p99: number };
  readonly direct: Throughput;
  readonly proxied: Throughput;
}

export function benchGatewayCommand(): Command {
  return new Command("gateway")
    .description(
      "What the gateway adds to the first byte among many streams, requests a second, memory over very many.",
    )
    .option("--streams <n>", "streams at once", integerIn("--streams", 1, 4096), 64)
    .option(
      "--stream-requests <n>",
      "streams measured in each round",
      integerIn("--stream-requests", 100, 1 << 20),
      640,
    )
    .option("--requests <n>", "small requests for speed and memory", integerIn("--requests", 100, 1 << 24), 200_000)
    .option("--rounds <n>", "rounds, each with and without the gateway", integerIn("--rounds", 1, 100), 3)
    .option("--json", "print one JSON object instead of tables")
    .action(runBenchGateway);
}

async function runBenchGateway(flags: GatewayFlags): Promise<void> {
  const [{ STREAM_TIMINGS, firstByte, startGateway, throughput }, { startMock }, { LoadGenerator }] = await Promise.all(
    [
      import("../gateway-bench/measure.js"),
      import("../../bench/mock/start-mock.js"),
      import("../../bench/load/generator.js"),
    ],
  );
  const [{ median }, { machineInfo, versions }] = await Promise.all([
    import("../../bench/statistics.js"),
    import("../../bench/machine.js"),
  ]);
  const mock = await startMock(STREAM_TIMINGS);
  const gateway = await startGateway(mock.url);
  const generator = await LoadGenerator.start(1);
  try {
    const streams = (url: string) => firstByte(generator, url, flags.streams, flags.streamRequests);
    // Connections are made and code is compiled.
    await streams(mock.url);
    await streams(gateway.url);
    const rounds: Round[] = [];
    for (let i = 0; i < flags.rounds; i++) {
      rounds.push({ direct: await streams(mock.url), proxied: await streams(gateway.url) });
      process.stderr.write(`  round ${i + 1} of ${flags.rounds}\n`);
    }
    const added = (value: (each: FirstByte) => number) =>
      median(rounds.map(({ direct, proxied }) => value(proxied) - value(direct)));
    const report: GatewayReport = {
      ...{ streams: flags.streams, rounds },
      addedMs: { p50: added(({ p50Ms }) => p50Ms), p99: added(({ p99Ms }) => p99Ms) },
      direct: await throughput(mock.url, mock.pid, flags.streams, Math.ceil(flags.requests / 10)),
      proxied: await throughput(gateway.url, gateway.pid, flags.streams, flags.requests),
    };
    const about = { machine: machineInfo(), versions: versions() };
    process.stdout.write(flags.json ? `${JSON.stringify({ ...report, ...about })}\n` : textOf(report, flags.requests));
  } finally {
    generator.close();
    await gateway.stop();
    await mock.stop();
  }
}

function textOf({ streams, rounds, addedMs, direct, proxied }: GatewayReport, numRequests: number): string {
  const ms = (value: number) => `${value.toFixed(2)} ms`;
  const rows = rounds.map((round, i) => [
    String(i + 1),
    ...[ms(round.direct.p50Ms), ms(round.proxied.p50Ms), ms(round.direct.p99Ms), ms(round.proxied.p99Ms)],
  ]);
  const latency = formatTable([["round", "p50 direct", "p50 gateway", "p99 direct", "p99 gateway"], ...rows]);
  const speed = [direct, proxied].map((each, i) => [
    i === 0 ? "the server itself" : "through the gateway",
    `${each.requestsPerSecond.toFixed(0)}/s`,
    each.cpuMicrosPerRequest === undefined ? "?" : `${each.cpuMicrosPerRequest.toFixed(0)} µs`,
  ]);
  const memory = proxied.memoryBytes;
  const at = (share: number) => formatBytes(memory[Math.floor(share * (memory.length - 1))]!);
  return [
    `Time to the first token, ${streams} streams at once`,
    latency,
    `added: p50 ${ms(addedMs.p50)}, p99 ${ms(addedMs.p99)}`,
    "",
    formatTable([["small requests", "speed", "CPU of its process each"], ...speed]),
    "",
    `Resident memory of the gateway over ${numRequests} requests: ${at(0)} at the start, ${at(0.25)} after a quarter, ${at(0.5)} half way, ${at(1)} at the end`,
    "",
  ].join("\n");
}
