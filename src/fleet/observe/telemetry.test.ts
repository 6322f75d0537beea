import { expect, test } from "vitest";
import { attributesOf, startCollector } from "../../../test/helpers/otlp-collector.js";
import type { RequestStart } from "../../gateway/observer.js";
import { parseTraceparent, startTelemetry } from "./telemetry.js";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";

const start: RequestStart = {
  requestId: "r1",
  path: "/v1/chat/completions",
  model: "m",
  tenant: "t",
  isStream: true,
  headers: { traceparent: `00-${TRACE}-${PARENT}-01`, authorization: "Bearer sk-secret" },
};

test("spans and metrics reach a collector under the GenAI names, without keys", async () => {
  await using collector = await startCollector();
  const telemetry = await startTelemetry({
    endpoint: `${collector.url}/`,
    serviceName: "fleet",
    engineOf: () => "vllm",
    tenantOf: (tenant) => `${tenant}, bounded`,
  });
  const good = telemetry.started(start);
  expect(good.traceparent).toMatch(new RegExp(`^00-${TRACE}-(?!${PARENT})[0-9a-f]{16}-01$`));
  good.routed("m-0", 0.5);
  good.retried("m-0", "refused");
  good.routed("m-1", 0);
  good.firstByte();
  good.used?.({ inputTokens: 40, outputTokens: 7 });
  good.ended("answered", 200, undefined);
  for (const [isStream, outputTokens] of [
    [false, 7],
    [true, 1],
  ] as const) {
    const other = telemetry.started({ ...start, isStream, model: "other", tenant: "o" });
    other.firstByte();
    other.used?.({ inputTokens: undefined, outputTokens });
    other.ended("answered", 200, undefined);
  }
  const bad = telemetry.started({ ...start, path: "/v1/embeddings", headers: {} });
  bad.ended("failed", 503, "no_instance_ready");
  await telemetry.close();

  expect(collector.received.map(({ path }) => path).sort()).toEqual(["/v1/metrics", "/v1/traces"]);
  expect(JSON.stringify(collector.received)).not.toContain("sk-secret");
  const [chat, embeddings] = ["chat m", "embeddings m"].map((name) =>
    collector.spans().find((span) => span.name === name),
  );
  expect(chat).toMatchObject({ traceId: TRACE, parentSpanId: PARENT });
  expect(chat?.events).toHaveLength(2);
  expect(attributesOf(chat?.attributes ?? [])).toMatchObject({
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "vllm",
    "gen_ai.request.model": "m",
    "millrace.instance": "m-1",
    "millrace.tenant": "t",
  });
  expect(embeddings?.status.code).toBe(2);
  expect(attributesOf(embeddings?.attributes ?? [])).toMatchObject({ "error.type": "no_instance_ready" });

  const points = (name: string) =>
    collector.metrics().flatMap((metric) => (metric.name === name ? metric.histogram.dataPoints : []));
  expect(points("gen_ai.server.time_to_first_token")).toHaveLength(2);
  // Only streams have a time to the first token, and only answers of several tokens a time per token.
  const perToken = points("gen_ai.server.time_per_output_token");
  expect(perToken).toMatchObject([{ count: 1 }]);
  expect(attributesOf(perToken[0]!.attributes)["millrace.tenant"]).toBe("t, bounded");
  const tokens = points("gen_ai.client.token.usage").filter(
    ({ attributes }) => attributesOf(attributes)["gen_ai.request.model"] === "m",
  );
  for (const { attributes } of [...tokens, ...points("gen_ai.server.request.duration")])
    expect(attributesOf(attributes)["millrace.tenant"]).toMatch(/^[to], bounded$/);
  expect(tokens.map(({ attributes }) => attributesOf(attributes)["gen_ai.token.type"])).toEqual(["input", "output"]);
  expect(tokens).toMatchObject([
    { count: 1, sum: 40 },
    { count: 1, sum: 7 },
  ]);
  expect(attributesOf(tokens[0]!.attributes)).toMatchObject({
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.provider.name": "vllm",
  });
  const durations = points("gen_ai.server.request.duration").map(({ attributes }) => attributesOf(attributes));
  expect(durations).toContainEqual({
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.provider.name": "vllm",
    "millrace.tenant": "t, bounded",
  });
  expect(durations).toContainEqual(expect.objectContaining({ "error.type": "no_instance_ready" }));
});

test("a missing collector holds up neither a request nor the end", async () => {
  const options = {
    endpoint: "http://127.0.0.1:9",
    serviceName: "fleet",
    engineOf: () => undefined,
    tenantOf: (tenant: string) => tenant,
    closeTimeoutMs: 20,
  };
  const telemetry = await startTelemetry(options);
  expect(() => telemetry.started(start).ended("answered", 200, undefined)).not.toThrow();
  await expect(telemetry.close()).resolves.toBeUndefined();
});

test.each([
  "",
  "00-0-0-00",
  `00-${"0".repeat(32)}-${PARENT}-01`,
  `01-${TRACE}-${PARENT}-01`,
])("the invalid trace header %j is ignored", (header) => {
  expect(parseTraceparent(header)).toBeUndefined();
});
