import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RequestStart } from "../proxy/observer.js";
import { parseTraceparent, startTelemetry } from "./telemetry.js";

interface Attribute {
  readonly key: string;
  readonly value: Record<string, unknown>;
}
interface Received {
  readonly path: string;
  readonly body: Record<string, never>;
}

/** What a collector does with OTLP over HTTP, as far as we need it. */
const received: Received[] = [];
let collector: Server;
let endpoint: string;
beforeAll(async () => {
  collector = createServer((incoming, outgoing) => {
    let text = "";
    incoming.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    incoming.on("end", () => {
      received.push({ path: incoming.url ?? "", body: JSON.parse(text) as Record<string, never> });
      outgoing.setHeader("content-type", "application/json").end("{}");
    });
  });
  await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
  endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}/`;
});
afterAll(() => {
  collector.close();
  collector.closeAllConnections();
});

/** Everything called `name` in what was received. */
function find(value: unknown, name: string): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => [...(key === name ? [each] : []), ...find(each, name)]);
}

const attributesOf = (all: readonly Attribute[]) =>
  Object.fromEntries(all.map(({ key, value }) => [key, Object.values(value)[0]]));

const TRACE = "0af7651916cd43dd8448eb211c80319c";

test("spans and metrics reach a collector under the GenAI names, without keys", async () => {
  const telemetry = await startTelemetry({ endpoint, serviceName: "fleet", engineOf: () => "vllm" });
  const start: RequestStart = {
    ...{ requestId: "r1", path: "/v1/chat/completions", model: "m", tenant: "t", isStream: true },
    headers: { traceparent: `00-${TRACE}-b7ad6b7169203331-01`, authorization: "Bearer sk-secret" },
  };
  const good = telemetry.started(start);
  expect(good.traceparent).toMatch(new RegExp(`^00-${TRACE}-(?!b7ad6b7169203331)[0-9a-f]{16}-01$`));
  good.routed("m-0", 0.5);
  good.retried("m-0", "refused");
  good.routed("m-1", 0);
  good.firstByte();
  good.ended("answered", 200, undefined);
  const bad = telemetry.started({ ...start, path: "/v1/embeddings", headers: {} });
  bad.ended("failed", 503, "no_instance_ready");
  await telemetry.close();

  expect(received.map(({ path }) => path).sort()).toEqual(["/v1/metrics", "/v1/traces"]);
  expect(JSON.stringify(received)).not.toContain("sk-secret");
  type Span = {
    name: string;
    traceId: string;
    parentSpanId?: string;
    attributes: Attribute[];
    events: unknown[];
    status: { code?: number };
  };
  const spans = find(received, "spans").flat() as Span[];
  const [chat, embeddings] = ["chat m", "embeddings m"].map((name) => spans.find((span) => span.name === name)!);
  expect(chat).toMatchObject({ traceId: TRACE, parentSpanId: "b7ad6b7169203331" });
  expect(attributesOf(chat!.attributes)).toMatchObject({
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "vllm",
    "gen_ai.request.model": "m",
    "millrace.instance": "m-1",
    "millrace.tenant": "t",
  });
  expect(chat!.events).toHaveLength(2);
  expect(embeddings!.status.code).toBe(2);
  expect(attributesOf(embeddings!.attributes)).toMatchObject({ "error.type": "no_instance_ready" });

  type Metric = { name: string; histogram: { dataPoints: { count: number; attributes: Attribute[] }[] } };
  const metrics = find(received, "metrics").flat() as Metric[];
  const points = (name: string) => metrics.find((metric) => metric.name === name)!.histogram.dataPoints;
  expect(points("gen_ai.server.time_to_first_token")).toHaveLength(1);
  const durations = points("gen_ai.server.request.duration").map(({ attributes }) => attributesOf(attributes));
  expect(durations).toContainEqual({
    ...{ "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.provider.name": "vllm" },
  });
  expect(durations).toContainEqual(expect.objectContaining({ "error.type": "no_instance_ready" }));
});

test("a collector that is not there stops nothing", async () => {
  const telemetry = await startTelemetry({
    endpoint: "http://127.0.0.1:9",
    serviceName: "fleet",
    engineOf: () => undefined,
    closeTimeoutMs: 20,
  });
  telemetry
    .started({ requestId: "r", path: "/v1/x", model: "m", tenant: "", isStream: false, headers: {} })
    .ended("answered", 200, undefined);
  await telemetry.close();
});

test.each([
  "",
  "00-0-0-00",
  `00-${"0".repeat(32)}-b7ad6b7169203331-01`,
  `01-${TRACE}-b7ad6b7169203331-01`,
])("the trace header %j is nobody's", (header) => {
  expect(parseTraceparent(header)).toBeUndefined();
});
