/** Measures a mock server directly and through gateways: rounds of streams in turn, then small requests. */
import { median } from "../../core/statistics.js";
import { LoadGenerator } from "../load/generator.js";
import { startMock } from "../mock/start-mock.js";
import {
  type FirstByte,
  firstByte,
  type RunningGateway,
  STREAM_TIMINGS,
  startGateway,
  startPeerGateway,
  type Throughput,
  throughput,
} from "./measure.js";

export interface GatewayBenchSpec {
  /** Concurrent streams. */
  readonly streams: number;
  /** Number of streams per round. */
  readonly streamRequests: number;
  /** Number of small requests, through this gateway and through the other one. */
  readonly requests: number;
  readonly peerRequests: number;
  readonly rounds: number;
  /** Command that starts another gateway, with {port} and {upstream}. */
  readonly peer?: string;
}

/** One gateway's figures, or those of the server without a gateway. */
interface MeasuredGateway {
  readonly name: string;
  /** One figure per round. */
  readonly streams: readonly FirstByte[];
  /** Medians over rounds of the time added to the server's own. */
  readonly addedMs: { readonly p50: number; readonly p99: number };
  readonly requests: Throughput;
}

export interface GatewayReport {
  readonly numStreams: number;
  /** The first entry is the server without a gateway. */
  readonly measured: readonly MeasuredGateway[];
}

type Server = Pick<RunningGateway, "name" | "url" | "pid">;

/** @param onRound called with the number of rounds done */
export async function benchGateway(spec: GatewayBenchSpec, onRound: (round: number) => void): Promise<GatewayReport> {
  const mock = await startMock(STREAM_TIMINGS);
  const gateways: RunningGateway[] = [];
  const generator = await LoadGenerator.start(1);
  try {
    gateways.push(await startGateway(mock.url));
    if (spec.peer !== undefined) gateways.push(await startPeerGateway(spec.peer, mock.url));
    const servers = [{ name: "the server itself", url: mock.url, pid: mock.pid }, ...gateways];
    const rounds = await streamRounds(generator, servers, spec, onRound);
    return { numStreams: spec.streams, measured: await measureAll(servers, rounds, spec) };
  } finally {
    generator.close();
    for (const gateway of gateways) await gateway.stop();
    await mock.stop();
  }
}

/** @returns for each round, one figure for each server */
async function streamRounds(
  generator: LoadGenerator,
  servers: readonly Server[],
  { streams, streamRequests, rounds: numRounds }: GatewayBenchSpec,
  onRound: (round: number) => void,
): Promise<FirstByte[][]> {
  const measure = ({ url }: Server) => firstByte(generator, url, streams, streamRequests);
  // The warm-up opens connections and compiles code.
  for (const server of servers) await measure(server);
  const rounds: FirstByte[][] = [];
  for (let round = 1; round <= numRounds; round++) {
    const figures: FirstByte[] = [];
    for (const server of servers) figures.push(await measure(server));
    rounds.push(figures);
    onRound(round);
  }
  return rounds;
}

async function measureAll(
  servers: readonly Server[],
  rounds: readonly (readonly FirstByte[])[],
  { streams, requests, peerRequests }: GatewayBenchSpec,
): Promise<MeasuredGateway[]> {
  const measured: MeasuredGateway[] = [];
  for (const [index, { name, url, pid }] of servers.entries()) {
    const added = (value: (each: FirstByte) => number) =>
      median(rounds.map((round) => value(round[index]!) - value(round[0]!)));
    const numRequests = [Math.ceil(requests / 10), requests, peerRequests][index]!;
    measured.push({
      name,
      streams: rounds.map((round) => round[index]!),
      addedMs: { p50: added(({ p50Ms }) => p50Ms), p99: added(({ p99Ms }) => p99Ms) },
      requests: await throughput(url, pid, streams, numRequests),
    });
  }
  return measured;
}
