/**
 * What an OpenTelemetry collector does with OTLP over HTTP in JSON, as far as our tests ask: it takes everything and
 * keeps it.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

interface Span {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: readonly Attribute[];
  readonly events: readonly unknown[];
  readonly status: { readonly code?: number };
}

interface Metric {
  readonly name: string;
  readonly histogram: {
    readonly dataPoints: readonly {
      readonly count: number;
      readonly sum: number;
      readonly attributes: readonly Attribute[];
    }[];
  };
}

interface OtlpCollector extends AsyncDisposable {
  readonly url: string;
  /** Paths and bodies as they came. */
  readonly received: readonly { readonly path: string; readonly body: unknown }[];
  spans(): readonly Span[];
  metrics(): readonly Metric[];
}

/** Everything called `name`, however deep. */
function find(value: unknown, name: string): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => [...(key === name ? [each] : []), ...find(each, name)]);
}

export const attributesOf = (all: readonly Attribute[]): Readonly<Record<string, unknown>> =>
  Object.fromEntries(all.map(({ key, value }) => [key, Object.values(value)[0]]));

export async function startCollector(): Promise<OtlpCollector> {
  const received: { path: string; body: unknown }[] = [];
  const server = createServer((incoming, outgoing) => {
    let text = "";
    incoming.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    incoming.on("end", () => {
      received.push({ path: incoming.url ?? "", body: JSON.parse(text) });
      outgoing.setHeader("content-type", "application/json").end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    spans: () => find(received, "spans").flat() as Span[],
    metrics: () => find(received, "metrics").flat() as Metric[],
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
