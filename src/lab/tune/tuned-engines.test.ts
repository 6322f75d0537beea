import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { repositoryRoot } from "../../../test/helpers/fixtures.js";
import { snapshotOf } from "../../bench/measure/process-usage.js";
import { parseMetrics, serverMetrics } from "../../bench/measure/prometheus.js";
import { launchServer } from "../../bench/run/launch.js";
import { findingsOf } from "./bottleneck.js";
import { type Configuration, instancesOf } from "./configuration.js";
import type { Evidence } from "./evidence.js";
import { proposalsFor } from "./proposals.js";
import { fleetYaml } from "./report.js";
import { serveWords } from "./server-bench.js";
import { TUNED_ENGINES, type TunedEngine, tunedServer } from "./tuned-engines.js";

describe("vLLM's flags", () => {
  const drafts = (config: object) => ({ "speculative-config": JSON.stringify(config) });

  test.each([
    ["seats", { "max-num-seqs": "16" }, { "max-num-seqs": "16" }],
    ["a default", { "no-enable-prefix-caching": undefined }, { "no-enable-prefix-caching": undefined }],
    ["no drafts, which is the default", drafts({ method: "none" }), { "speculative-config": undefined }],
    [
      "drafts of n-grams, whose length it needs",
      drafts({ method: "ngram", num_speculative_tokens: 4 }),
      drafts({ method: "ngram", num_speculative_tokens: 4, prompt_lookup_max: 4 }),
    ],
  ])("say %s", (_, edit, expected) => expect(TUNED_ENGINES.vllm.editFor(edit)).toEqual(expected));

  test.each([
    ["drafts of suffixes", drafts({ method: "suffix", num_speculative_tokens: 8 })],
    ["time limits of steps", { "max-step-ms": "auto" }],
    ["half a change", { "max-num-seqs": "16", "activation-dtype": "int8" }],
  ])("cannot say %s", (_, edit) => expect(TUNED_ENGINES.vllm.editFor(edit)).toBeUndefined());
});

const choice = { engine: "vllm", program: "/opt/vllm" } as const;

test("the server of another engine is started with the configuration's flags, and so is the winner", () => {
  const server = tunedServer(choice, { name: "present", path: "/models/a", numThreads: 2 }, { "max-num-seqs": "4" });
  expect(server.command(9, undefined).slice(0, 3)).toEqual(["/opt/vllm", "serve", "/models/a"]);
  expect(server.command(9, undefined).slice(-2)).toEqual(["--max-num-seqs", "4"]);
  expect(server.env).toMatchObject({ OMP_NUM_THREADS: "2" });
  const best = { "max-num-seqs": "4" };
  expect(serveWords(choice, best, "/models/a")).toEqual(["/opt/vllm", "serve", "/models/a", "--max-num-seqs", "4"]);
  expect(fleetYaml({ name: "a", path: "/models/a" }, choice, best)).toBe(
    'models:\n  - name: a\n    model: /models/a\n    engine: vllm\n    program:\n      - /opt/vllm\n      - serve\n    args:\n      - --max-num-seqs\n      - "4"\n',
  );
});

test("several instances share the cores behind one port, are all ready at the start, and count together", async () => {
  const configuration = { instances: "2", "max-num-seqs": "3", "kv-cache-memory-bytes": "16777216" };
  const place = { name: "changed", path: join(repositoryRoot(), "models/mill-base.gguf"), numThreads: 2 };
  const server = await launchServer(tunedServer({ engine: "millrace" }, place, configuration));
  try {
    const before = parseMetrics(await (await fetch(`${server.url}/metrics`)).text());
    await Promise.all([1, 2, 3, 4].map(() => complete(server.url)));
    // The gateway reads its instances' metrics once a second.
    const after = await vi.waitFor(async () => {
      const now = parseMetrics(await (await fetch(`${server.url}/metrics`)).text());
      expect(now.get("millrace:request_queue_time_seconds_count")).toEqual({ sum: 4, numSeries: 2 });
      return now;
    }, 10_000);
    expect(serverMetrics(before, after, [after])).toMatchObject({ kernelShare: expect.any(Number), preemptions: 0 });
    expect(snapshotOf(server.pid)!.memoryBytes).toBeGreaterThan(100e6);
  } finally {
    await server.stop();
  }
  await expect(fetch(`${server.url}/health`)).rejects.toThrow();
}, 120_000);

async function complete(url: string): Promise<void> {
  const body = JSON.stringify({ model: "mill-base", prompt: "One and", max_tokens: 4 });
  const answer = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  expect(answer.status).toBe(200);
}

const EVIDENCE: Evidence = {
  numClients: 16,
  seats: 64,
  threads: 4,
  cores: 4,
  cpuCores: 2,
  ttftMs: 100,
  tpotMs: 20,
  queueShare: 0,
  maxRunning: 16,
  maxKvUsage: 0.2,
  preemptionsPerRequest: 0,
  repeatedShare: 0,
  movedShare: 0,
  cacheHitShare: 0,
  acceptance: undefined,
  rejectedPerToken: 0,
  prefillShare: 0.2,
  kernelShare: 0.3,
  interference: 1,
  clientUtilization: 0.1,
  isVoid: false,
  isServerKnown: true,
};

describe("instances × cores", () => {
  const alternatives = { engine: TUNED_ENGINES.millrace, weights: [], freeBytes: 1e9 };
  const namesFor = (start: Configuration, evidence: Evidence, engine: TunedEngine = TUNED_ENGINES.millrace) =>
    proposalsFor(findingsOf(evidence, "throughput"), start, evidence, { ...alternatives, engine })
      .filter(({ edit }) => "instances" in edit)
      .map(({ name, predicted, isExact }) => [name, Number(predicted.toFixed(2)), isExact]);

  test("are proposed where the host is the bottleneck, not where the kernels are, nor for an engine that has none", () => {
    // Kernels take 0.3, of which a third reads the weights: 1 ÷ (0.3 × 4/3 + 0.7 ÷ 2), and 1 ÷ (0.3 × 2 + 0.7 ÷ 4).
    expect(namesFor({}, EVIDENCE)).toEqual([
      ["2 instances", 1.33, true],
      ["4 instances", 1.29, true],
    ]);
    expect(namesFor({}, { ...EVIDENCE, kernelShare: 0.9 })).toEqual([]);
    expect(namesFor({}, EVIDENCE, TUNED_ENGINES.vllm)).toEqual([]);
    expect(namesFor({}, { ...EVIDENCE, numClients: 1 })).toEqual([]);
  });

  test.each([
    [7, ["2 instances", "4 instances"]],
    [31, ["4 instances", "2 instances", "8 instances"]],
  ])("need no whole share of %d cores", (cores, expected) => {
    const evidence = { ...EVIDENCE, cores, threads: cores, kernelShare: 0.2, numClients: 32 };
    expect(namesFor({}, evidence).map(([name]) => name)).toEqual(expected);
  });

  test("are given up where the weights are read once for each", () => {
    const busy = { ...EVIDENCE, maxRunning: 2, kernelShare: 0.95 };
    expect(namesFor({ instances: "4" }, busy).map(([name]) => name)).toEqual(["without --instances"]);
  });

  test("have seats each, and are written as the fleet's file and command have them", () => {
    const evidence = { ...EVIDENCE, kernelShare: 0.9, queueShare: 0.5, seats: 4, maxRunning: 4 };
    const [first] = proposalsFor(findingsOf(evidence, "throughput"), { instances: "2" }, evidence, alternatives);
    expect(first).toMatchObject({ name: "16 seats", edit: { "max-num-seqs": "8" } });
    const best = { instances: "2", "max-num-seqs": "8" };
    expect(fleetYaml({ name: "m", path: "/m.gguf" }, { engine: "millrace" }, best)).toBe(
      'models:\n  - name: m\n    model: /m.gguf\n    instances: 2\n    args:\n      - --max-num-seqs\n      - "8"\n',
    );
    expect(serveWords({ engine: "millrace" }, best, undefined).slice(0, 3)).toEqual(["millrace", "--instances", "2"]);
    expect(() => instancesOf({ instances: "auto" })).toThrow(/a number with --instances/);
    expect(TUNED_ENGINES.vllm.instances({ instances: "auto" })).toBe(1);
  });
});
