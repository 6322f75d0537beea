/** Cost as the objective, on a simulated server with a price per hour. */
import { expect, test } from "vitest";
import { QUIET, SETTINGS, SimulatedBench, World } from "../../../test/helpers/simulated-bench.js";
import { MACHINE, simulate } from "../../../test/helpers/simulated-server.js";
import { closed, randomTraffic } from "../../../test/helpers/simulated-traffic.js";
import { costByList } from "../../bench/measure/cost.js";
import { geometricMean } from "../../bench/measure/intervals.js";
import { diagnose, type Tuning, tune } from "./loop.js";
import { costRows, htmlOf, markdownOf, moneyRows, summaryLines } from "./report.js";
import { measuredOf } from "./server-bench.js";
import { TUNED_ENGINES } from "./tuned-engines.js";

const PRICE = { usd: 3.6, date: "2026-01", source: "--price-per-hour" };
const ABOUT = {
  model: "m",
  load: "chats",
  objective: "cost",
  machine: "four cores",
  numRounds: 3,
  price: PRICE,
} as const;

async function tuned(price: number | undefined, start = {}, maxTrials = 12): Promise<Tuning> {
  const world = new World(MACHINE, randomTraffic(64, 64, closed(16), 64), price ? "cost" : "throughput", price);
  const bench = new SimulatedBench(world, { seed: 1, ofRun: 0.01, ofRound: 0.1 });
  const settings = { ...SETTINGS, start, maxTrials, objective: world.objective };
  return tune(settings, bench, QUIET, { trials: [] }, new AbortController().signal);
}

test("a million tokens cost less after the change, by the figure that is the gain", async () => {
  const tuning = await tuned(PRICE.usd, { "max-num-seqs": "2" });
  const { before, after } = tuning.costs!;
  const [was, is] = [before, after!].map((costs) => geometricMean(costs.map((cost) => cost.perMillionOutput))!);
  expect(was!.value / is!.value).toBeCloseTo(tuning.total!.value, 6);
  expect(tuning.total!.low).toBeGreaterThan(1.2);
  // A second costs a thousandth of a dollar: 1000 ÷ dollars per million is the tokens per second.
  expect(1000 / is!.value).toBeGreaterThan(20);
  expect(1000 / is!.value).toBeLessThan(1000);
  const rows = costRows(tuning, ABOUT);
  expect(rows.map(([name]) => name)).toEqual([
    "cost at $3.60 an hour",
    "1M output tokens",
    "1M tokens of prompts and answers",
    "1,000 requests",
  ]);
  for (const [, ...cells] of rows.slice(1)) {
    for (const cell of cells) expect(cell).toMatch(/^\$[\d.,]+ \(\$[\d.,]+ to \$[\d.,]+\)$/);
  }
  expect(summaryLines(tuning, ABOUT)[0]).toMatch(/^tokens per dollar \d\.\d\d × /);
  const markdown = markdownOf(tuning, ABOUT, "millrace");
  expect(markdown).toContain("$3.60 an hour (--price-per-hour, 2026-01)");
  expect(markdown).toContain(`| ${rows[1]!.join(" | ")} |`);
  expect(htmlOf(tuning, ABOUT, "millrace")).toContain("<h2>Cost</h2>");
});

test("where nothing is kept, the cost is the first configuration's; without a price there is none", async () => {
  const unchanged = await tuned(PRICE.usd, {}, 0);
  const [, output] = costRows(unchanged, ABOUT);
  expect(output).toEqual(["1M output tokens", expect.stringMatching(/^\$.* to /), "unchanged"]);
  const free = await tuned(undefined, {}, 0);
  expect(free.costs).toBeUndefined();
  expect(costRows(free, { price: undefined })).toEqual([]);
});

test("a server that runs already is measured once, and what would be tried is told with its cost", async () => {
  const world = new World(MACHINE, randomTraffic(64, 64, closed(16), 64), "throughput", PRICE.usd);
  const bench = new SimulatedBench(world, { seed: 1, ofRun: 0.01, ofRound: 0.1 });
  const alternatives = { ...SETTINGS.alternatives, freeBytes: undefined };
  const start = { "max-num-seqs": "2" };
  const { findings, proposals, baseline } = await diagnose({ ...SETTINGS, start, alternatives }, bench);
  expect(bench.numRuns).toBe(SETTINGS.numRounds);
  expect([findings[0]!.bottleneck, findings.at(-1)!.bottleneck]).toEqual(["seats", "bandwidth"]);
  expect(proposals.slice(0, 2).map(({ name }) => name)).toEqual(["8 seats", "4 seats"]);
  // The memory of another machine is unknown.
  expect(proposals.filter(({ edit }) => "kv-cache-memory-bytes" in edit)).toEqual([]);
  expect(moneyRows([baseline.costs!])[0]).toEqual(["1M output tokens", expect.stringMatching(/^\$.* to /)]);
});

test("of a server without figures of its own nothing is asserted, and no flags are told", async () => {
  const traffic = randomTraffic(64, 64, closed(16), 64);
  const run = await simulate(MACHINE, traffic, {});
  if (typeof run === "string") throw new Error(run);
  const terms = { cores: 4, objective: "throughput", engine: TUNED_ENGINES.millrace, pricePerHour: undefined } as const;
  const { server: _, metrics, ...bare } = run;
  const told = (cachedTokens: number) => {
    const runs = [{ ...bare, metrics: { ...metrics, cachedTokens, promptTokens: 1000 } }];
    return diagnose({ ...SETTINGS }, { measure: async () => [measuredOf(runs, {}, traffic, terms)] });
  };
  const unknown = await told(0);
  expect(unknown).toMatchObject({ proposals: [], evidence: { cacheHitShare: undefined } });
  expect(unknown.findings).toEqual([
    { bottleneck: "unknown", because: "no /metrics: queue, memory and cache are not known" },
  ]);
  const cached = await told(250);
  expect(cached).toMatchObject({ proposals: [], evidence: { cacheHitShare: 0.25 } });
  expect(cached.findings[0]!.because).toBe("no /metrics: queue and memory are not known");
});

test("an API's tokens cost its list price, cached ones theirs, long prompts theirs, failed requests nothing", () => {
  const price = (dollars: number) => BigInt(dollars) * 1_000_000_000n;
  const own = { version: "v", fresh: price(2), cacheRead: price(1), cacheWrite: price(2), output: price(10) };
  const tiered = { ...own, above: { promptTokens: 1000, price: { ...own, version: "long", fresh: price(4) } } };
  const sent = { session: 0, turn: 0, intendedMs: 0, sentMs: 0, lastMs: 1, chunks: 1 };
  const requests = [
    { ...sent, prompt: 500, cached: 100, output: 50 },
    { ...sent, prompt: 2000, cached: 0, output: 50 },
    { ...sent, prompt: 500, cached: 0, output: 0, failure: "status" as const },
  ];
  // In millionths of a dollar: 400 × 2 + 100 + 500, and 2000 × 4 + 500.
  const cost = costByList({ requests }, tiered)!;
  expect(cost.perMillionOutput).toBeCloseTo(9900 / 100, 9);
  expect(cost.perMillionTotal).toBeCloseTo(9900 / 2600, 9);
  expect(cost.perThousandRequests).toBeCloseTo((1000 * 9900e-6) / 2, 9);
  expect(costByList({ requests: requests.slice(2) }, tiered)).toBeUndefined();
});
