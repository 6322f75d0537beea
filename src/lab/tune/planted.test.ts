/** Bottlenecks planted in a simulated server, and the tuner's findings. */
import { expect, test } from "vitest";
import { QUIET, SETTINGS, SimulatedBench, World } from "../../../test/helpers/simulated-bench.js";
import { MACHINE, type Machine } from "../../../test/helpers/simulated-server.js";
import { closed, randomTraffic, type Traffic } from "../../../test/helpers/simulated-traffic.js";
import { writeTable } from "../../../test/helpers/written-table.js";
import { type Bottleneck, type Finding, findingsOf, type Objective } from "./bottleneck.js";
import type { Configuration } from "./configuration.js";
import { tune } from "./loop.js";

interface Planted {
  /** @example "two seats for sixteen clients" */
  readonly fault: string;
  readonly bottleneck: Bottleneck;
  readonly machine?: Partial<Machine>;
  readonly traffic: Traffic;
  readonly start?: Configuration;
  readonly objective?: Objective;
}

const kvBytesFor = (numTokens: number): string => String(numTokens * MACHINE.kvBytesPerToken);
const CHATS = randomTraffic(64, 64, closed(16), 64);
const POLICY = Array.from({ length: 24 }, (_, i) => `Rule ${i} of the house says what nobody may do here.`).join(" ");
/** The changing part comes before the part that all prompts share. */
const DATED: Traffic = {
  workload: {
    kind: "entries",
    entries: Array.from({ length: 48 }, (_, i) => ({
      prompt: `It is ${i} minutes past noon. ${POLICY} Question ${i}: what now?`,
      outputTokens: 32,
    })),
  },
  load: closed(8),
  numRequests: 48,
};

const CASES: readonly Planted[] = [
  {
    fault: "KV memory for a quarter of sixteen clients",
    bottleneck: "kv memory",
    traffic: randomTraffic(256, 128, closed(16), 48),
    start: { "kv-cache-memory-bytes": kvBytesFor(1200) },
  },
  {
    fault: "KV memory reserved for the longest request",
    bottleneck: "kv memory",
    traffic: CHATS,
    start: { "kv-layout": "contiguous", "kv-cache-memory-bytes": kvBytesFor(12_500) },
  },
  { fault: "two seats for sixteen clients", bottleneck: "seats", traffic: CHATS, start: { "max-num-seqs": "2" } },
  {
    fault: "prompts of 1,024 tokens, answers of 16",
    bottleneck: "prefill",
    traffic: randomTraffic(1024, 16, closed(8), 32),
  },
  {
    fault: "the same, in steps of 64 tokens",
    bottleneck: "prefill",
    traffic: randomTraffic(1024, 16, closed(8), 32),
    start: { "max-num-batched-tokens": "64" },
  },
  { fault: "two clients, short prompts", bottleneck: "bandwidth", traffic: randomTraffic(32, 128, closed(2), 12) },
  {
    fault: "prompts of 1,024 tokens whole, beside streams",
    bottleneck: "interference",
    traffic: randomTraffic({ min: 32, max: 2048 }, 128, closed(6), 32),
    start: { "max-num-batched-tokens": "1024" },
    objective: "tpot",
  },
  { fault: "100 ms a step outside the kernels", bottleneck: "host", machine: { hostStepMs: 100 }, traffic: CHATS },
  {
    fault: "a client that reads 50 arrivals a second",
    bottleneck: "client",
    machine: { clientMs: 20 },
    traffic: CHATS,
  },
  {
    fault: "a request every ten seconds",
    bottleneck: "client",
    traffic: randomTraffic(64, 64, { kind: "open", ratePerS: 0.1, burstiness: 1 }, 32),
  },
  { fault: "one thread on four cores", bottleneck: "threads", traffic: CHATS, start: { threads: "1" } },
  {
    fault: "no cache for a shared prefix of 448 tokens",
    bottleneck: "cache",
    traffic: randomTraffic(512, 64, closed(8), 48, 448),
    start: { "no-enable-prefix-caching": "" },
  },
  { fault: "the minute before a shared prefix", bottleneck: "cache", traffic: DATED },
  {
    fault: "eight documents in turns, a cache for five",
    bottleneck: "cache",
    traffic: {
      workload: { kind: "documents", numDocuments: 8, documentTokens: 1024, outputTokens: 32 },
      load: closed(2),
      numRequests: 48,
    },
    start: { "kv-cache-memory-bytes": kvBytesFor(6000) },
  },
  {
    fault: "eight drafted tokens a step, one in five right",
    bottleneck: "drafts",
    traffic: randomTraffic(64, 64, closed(4), 32),
    start: { "speculative-config": '{"method":"ngram","num_speculative_tokens":8,"adaptive":false}' },
  },
];

/** The step costs of other machines: a tenth of the time, and four times the cores. */
const MACHINES: readonly Partial<Machine>[] = [
  {},
  { readMs: 10, rowMs: 1.2, attentionMs: 0.4, hostStepMs: 0.2, hostRowMs: 0.005 },
  { cores: 16, readers: 8, readMs: 200, rowMs: 24, attentionMs: 8 },
];

async function namedIn(
  { machine, traffic, start = {}, objective = "throughput" }: Planted,
  base: Partial<Machine>,
): Promise<Finding> {
  const world = new World({ ...MACHINE, ...base, ...machine }, traffic, objective);
  const { evidence } = await world.measured(start);
  return findingsOf(evidence!, objective)[0]!;
}

test("every planted bottleneck is named, on three machines (UPDATE_DOCS=1 writes the table)", async () => {
  const rows = [["planted", "bottleneck", "named", "evidence on the first machine"]];
  for (const planted of CASES) {
    const findings: Finding[] = [];
    for (const machine of MACHINES) findings.push(await namedIn(planted, machine));
    const numRight = findings.filter(({ bottleneck }) => bottleneck === planted.bottleneck).length;
    rows.push([planted.fault, planted.bottleneck, `${numRight} of ${findings.length}`, findings[0]!.because]);
    expect
      .soft(
        findings.map(({ bottleneck }) => bottleneck),
        planted.fault,
      )
      .toEqual(findings.map(() => planted.bottleneck));
  }
  writeTable("docs/background/benchmarks/tuning.md", "planted", rows);
  expect(new Set(CASES.map(({ bottleneck }) => bottleneck)).size).toBe(10);
}, 120_000);

test("flags of which one alone gains nothing are found by trying the defaults", async () => {
  const start = { "max-num-seqs": "4", "max-num-batched-tokens": "64" };
  const world = new World(MACHINE, randomTraffic(1024, 32, closed(8), 32));
  const speedOf = async (configuration: Configuration) => (await world.measured(configuration)).values[0]!;
  expect(await speedOf({ ...start, "max-num-seqs": "8" })).toBeCloseTo(await speedOf(start), 2);
  const bench = new SimulatedBench(world, { seed: 1, ofRun: 0.01, ofRound: 0.1 });
  const { best, trials } = await tune(
    { ...SETTINGS, start },
    bench,
    QUIET,
    { trials: [] },
    new AbortController().signal,
  );
  expect(trials[0]).toMatchObject({ proposal: { name: "the server's defaults" }, outcome: "kept" });
  expect(await speedOf(best)).toBeGreaterThan(1.1 * (await speedOf({})));
});
