import { expect, test } from "vitest";
import type { RequestStart } from "../../gateway/observer.js";
import type { EngineMetrics } from "../upstream/engine.js";
import type { Upstream, UpstreamPool } from "../upstream/upstream.js";
import { createFleetMetrics } from "./metrics.js";

const scraped: EngineMetrics = {
  numRunning: 3,
  numWaiting: 1,
  kvUsage: 0.25,
  promptTokens: 100,
  generationTokens: 50,
  prefixQueries: undefined,
  prefixHits: undefined,
  preemptions: undefined,
  draftTokens: undefined,
  acceptedTokens: undefined,
  interTokenTimes: { buckets: [[Number.POSITIVE_INFINITY, 9]], sumSeconds: 0.5 },
  queueTimes: {
    buckets: [
      [0.5, 3],
      [Number.POSITIVE_INFINITY, 4],
    ],
    sumSeconds: 1.25,
  },
};
const instance = (id: string, metrics: EngineMetrics | undefined): Upstream => ({
  id,
  model: "m",
  engine: "vllm",
  state: "ready",
  isComing: false,
  target: undefined,
  starts: 2,
  metrics,
  capacity: { seats: 4, kvTokens: undefined, blockSize: undefined },
});

let upstreams: Upstream[] = [instance("m-0", scraped), instance("m-1", undefined)];
const pool: UpstreamPool = {
  models: () => ["m"],
  upstreams: () => upstreams,
  onChange: () => () => {},
  reportFailure: async () => {},
};
const start: RequestStart = {
  requestId: "r",
  path: "/v1/chat/completions",
  model: "alias",
  tenant: "t",
  isStream: false,
  headers: {},
};
const create = () =>
  createFleetMetrics(pool, {
    numWaiting: () => 7,
    numInFlight: ({ id }) => (id === "m-0" ? 3 : 0),
    breakerState: ({ id }) => (id === "m-0" ? "open" : "closed"),
    modelOf: (name) => (name === "alias" || name === "m" ? "m" : undefined),
  });

test("an instance has its seats, its own engine's figures, and the memory of its processes", async () => {
  const before = upstreams;
  const figures = { stepSeconds: 4, promptSeconds: 1, kernelSeconds: 3, evictedTokens: 2, residentBytes: 5_000_000 };
  upstreams = [
    instance("m-0", { ...scraped, ...figures }),
    { ...instance("m-1", undefined), pid: process.pid, state: "starting" },
    instance("m-2", scraped),
  ];
  const text = await create().render();
  upstreams = before;
  const figureOf = (name: string, id: string): number | undefined => {
    const found = new RegExp(`^${name}\\{model="m",instance="${id}",engine="vllm"\\} (\\S+)$`, "m").exec(text)?.[1];
    return found === undefined ? undefined : Number(found);
  };
  const seats = ["m-0", "m-1", "m-2"].map((id) => figureOf("millrace_fleet:instance_seats", id));
  expect(seats).toEqual([4, undefined, 4]);
  const memory = (id: string) => figureOf("millrace_fleet:instance_resident_memory_bytes", id);
  // The fleet's own reading for a process that it started, otherwise the attached server's report.
  expect(memory("m-0")).toBe(5_000_000);
  expect(memory("m-1")).toBeGreaterThan(10_000_000);
  expect(memory("m-2")).toBeUndefined();
  const names = ["engine_step_seconds", "engine_prompt_seconds", "engine_kernel_seconds", "kv_evicted_tokens"];
  expect(names.map((name) => figureOf(`millrace:${name}_total`, "m-0"))).toEqual([4, 1, 3, 2]);
  expect(figureOf("millrace:engine_step_seconds_total", "m-2")).toBeUndefined();
  expect(Number(/^process_resident_memory_bytes (\S+)$/m.exec(text)?.[1])).toBeGreaterThan(10_000_000);
});

test("requests are counted by model, instance and outcome, under the model's own name", async () => {
  const metrics = create();
  const request = metrics.started(start);
  request.routed("m-0", 0.75);
  request.retried("m-0", "refused");
  request.routed("m-1", 0);
  request.hedged?.("m-2");
  request.routed("m-2", 0);
  request.firstByte();
  request.ended("answered", 200, undefined);
  metrics.started({ ...start, model: "made up" }).ended("failed", 404, "model_not_found");
  metrics.refused("/v1/chat/completions", "invalid_api_key");
  const text = await metrics.render();
  for (const line of [
    'millrace_fleet:requests_total{model="m",instance="m-2",outcome="answered"} 1',
    'millrace_fleet:hedges_total{model="m",instance="m-2"} 1',
    'millrace_fleet:hedges_won_total{model="m",instance="m-2"} 1',
    'millrace_fleet:requests_total{model="unknown",instance="",outcome="failed"} 1',
    'millrace_fleet:refused_total{code="invalid_api_key"} 1',
    'millrace_fleet:retries_total{model="m",instance="m-0"} 1',
    'millrace_fleet:time_to_first_byte_seconds_count{model="m",instance="m-2"} 1',
    'millrace_fleet:request_duration_seconds_count{model="m"} 1',
    'millrace_fleet:prefix_matched_fraction_sum{model="m"} 0.75',
    'millrace_fleet:queue_depth{model="m"} 7',
    'millrace_fleet:in_flight{model="m",instance="m-0",engine="vllm"} 3',
    'millrace_fleet:instance_state{model="m",instance="m-0",engine="vllm",state="ready"} 1',
    'millrace_fleet:instance_state{model="m",instance="m-0",engine="vllm",state="failed"} 0',
    'millrace_fleet:instance_breaker{model="m",instance="m-0",engine="vllm",state="open"} 1',
    'millrace_fleet:instance_breaker{model="m",instance="m-0",engine="vllm",state="half-open"} 0',
    'millrace_fleet:instance_breaker{model="m",instance="m-1",engine="vllm",state="closed"} 1',
    'millrace_fleet:instance_starts{model="m",instance="m-1",engine="vllm"} 2',
  ]) {
    expect(text.split("\n")).toContain(line);
  }
});

test("metrics of all engines have the same names, and disappear with their instance", async () => {
  const metrics = create();
  const text = await metrics.render();
  expect(text).toContain('millrace:num_requests_running{model="m",instance="m-0",engine="vllm"} 3');
  expect(text).toContain('millrace:generation_tokens_total{model="m",instance="m-0",engine="vllm"} 50');
  expect(text).not.toMatch(/prefix_cache_hits_total\{/);
  expect(text).not.toMatch(/millrace:num_requests_running\{[^}]*m-1/);
  const labels = 'model="m",instance="m-0",engine="vllm"';
  expect(text).toContain(`millrace:inter_token_latency_seconds_count{${labels}} 9`);
  expect(text).toContain(`# TYPE millrace:request_queue_time_seconds histogram
millrace:request_queue_time_seconds_bucket{le="0.5",${labels}} 3
millrace:request_queue_time_seconds_bucket{le="+Inf",${labels}} 4
millrace:request_queue_time_seconds_sum{${labels}} 1.25
millrace:request_queue_time_seconds_count{${labels}} 4
`);
  upstreams = [instance("m-1", scraped)];
  expect(await metrics.render()).not.toContain('instance="m-0"');
});

test("a bucket has the trace of its last request that somebody keeps", async () => {
  const metrics = create();
  const accept = "application/openmetrics-text; version=1.0.0";
  const asked = (trace: string, flags: string) => {
    const request = metrics.started(start, `00-${trace.repeat(32)}-${"b".repeat(16)}-${flags}`);
    request.routed("m-0", 0);
    request.ended("answered", 200, undefined);
  };
  asked("1", "01");
  asked("2", "00");
  const { text, contentType } = await metrics.answer(accept);
  expect(contentType).toContain("openmetrics");
  expect(text).toContain(`trace_id="${"1".repeat(32)}"`);
  expect(text).not.toContain("2".repeat(32));
  expect((await metrics.answer("text/plain")).text).not.toContain("trace_id");
});
