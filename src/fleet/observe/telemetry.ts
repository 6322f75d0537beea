/**
 * Sends spans and metrics of requests to an OpenTelemetry collector by OTLP/HTTP (JSON). Names follow OpenTelemetry's
 * GenAI conventions, which are still marked Development, in the version given below. This file is loaded only if an
 * endpoint is configured.
 */
import type { Attributes, Context, Span, SpanContext } from "@opentelemetry/api";
import { packageVersion } from "../../core/package-root.js";
import type { TokenUsage } from "../../gateway/api/usage.js";
import type { Outcome, ProxyObserver, RequestObserver, RequestStart } from "../../gateway/observer.js";

/** The version of github.com/open-telemetry/semantic-conventions-genai with these names. */
const GENAI_CONVENTIONS = "development-2026-08";

export interface TelemetryOptions {
  /** Base URL, to which /v1/traces and /v1/metrics are appended. */
  readonly endpoint: string;
  readonly serviceName: string;
  /** The engine of an instance; spans name it as the provider. */
  readonly engineOf: (instanceId: string) => string | undefined;
  /** A tenant's name in metrics, which have a bounded number of tenants. */
  readonly tenantOf: (tenant: string) => string;
  readonly metricsIntervalMs?: number;
  /** Longest time that an unreachable collector may delay the shutdown. */
  readonly closeTimeoutMs?: number;
}

export interface Telemetry extends ProxyObserver {
  /** Sends the remaining data; gives up after the close timeout. */
  close(): Promise<void>;
}

/** Attribute of spans and metrics without a name in the conventions. */
const TENANT = "millrace.tenant";

/** The conventions' buckets for durations of model calls. */
const DURATION_BUCKETS_S = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const PER_TOKEN_BUCKETS_S = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5];
const FIRST_TOKEN_BUCKETS_S = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** The conventions' buckets for token counts. */
const TOKEN_BUCKETS = Array.from({ length: 14 }, (_, i) => 4 ** i);

const OPERATIONS: Readonly<Record<string, string>> = {
  "/v1/chat/completions": "chat",
  "/v1/responses": "chat",
  "/v1/messages": "chat",
  "/v1/completions": "text_completion",
  "/v1/embeddings": "embeddings",
};

/** Paths without an operation in the conventions (tokenize, rerank) use the last part of the path. */
const operationOf = (path: string): string => OPERATIONS[path] ?? path.split("/").at(-1)!;

/** Parses the W3C traceparent header, version 00. */
export function parseTraceparent(header: string | string[] | undefined): SpanContext | undefined {
  const match = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(typeof header === "string" ? header : "");
  const [, traceId = "", spanId = "", flags = "0"] = match ?? [];
  if (/^0*$/.test(traceId) || /^0*$/.test(spanId)) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
}

function formatTraceparent({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
}

/** The instruments that each request records to. */
interface Instruments {
  readonly startSpan: (name: string, attributes: Attributes, parent: SpanContext | undefined) => Span;
  readonly duration: { record(seconds: number, attributes: Attributes): void };
  readonly firstToken: { record(seconds: number, attributes: Attributes): void };
  readonly perToken: { record(seconds: number, attributes: Attributes): void };
  readonly tokens: { record(tokens: number, attributes: Attributes): void };
  readonly engineOf: TelemetryOptions["engineOf"];
  readonly tenantOf: TelemetryOptions["tenantOf"];
}

class ObservedRequest implements RequestObserver {
  readonly traceparent: string;
  readonly #beganMs = performance.now();
  readonly #span: Span;
  #firstSeconds: number | undefined;
  #outputTokens = 0;
  #attributes: Attributes;
  /** For metrics, with a bounded number of tenants; the span always has the tenant's name. */
  readonly #tenant: Attributes;

  constructor(
    private readonly instruments: Instruments,
    private readonly start: RequestStart,
  ) {
    const { path, model, tenant, isStream, headers, requestId } = start;
    this.#attributes = { "gen_ai.operation.name": operationOf(path), "gen_ai.request.model": model };
    const own = { [TENANT]: tenant, "millrace.request.id": requestId, "gen_ai.request.stream": isStream };
    this.#tenant = { [TENANT]: instruments.tenantOf(tenant) };
    const name = `${operationOf(path)} ${model}`;
    const parent = parseTraceparent(headers.traceparent);
    this.#span = instruments.startSpan(name, { ...this.#attributes, ...own, "url.path": path }, parent);
    this.traceparent = formatTraceparent(this.#span.spanContext());
  }

  routed(instanceId: string, matchedFraction: number): void {
    const provider = this.instruments.engineOf(instanceId) ?? "millrace";
    this.#attributes = { ...this.#attributes, "gen_ai.provider.name": provider };
    this.#span.setAttributes({
      "gen_ai.provider.name": provider,
      "millrace.instance": instanceId,
      "millrace.prefix.matched_fraction": matchedFraction,
    });
  }

  retried(instanceId: string, reason: string): void {
    this.#span.addEvent("retry", { "millrace.instance": instanceId, "millrace.retry.reason": reason });
  }

  firstByte(): void {
    this.#span.addEvent("first byte");
    this.#firstSeconds ??= this.#seconds();
    this.instruments.firstToken.record(this.#firstSeconds, { ...this.#attributes, ...this.#tenant });
  }

  /** An arrow function, since callers detach it from its object. */
  readonly used = ({ inputTokens, outputTokens }: TokenUsage): void => {
    this.#outputTokens = outputTokens ?? 0;
    for (const [type, count] of Object.entries({ input: inputTokens, output: outputTokens })) {
      if (count === undefined) continue;
      this.instruments.tokens.record(count, { ...this.#attributes, ...this.#tenant, "gen_ai.token.type": type });
      this.#span.setAttribute(`gen_ai.usage.${type}_tokens`, count);
    }
  };

  ended(outcome: Outcome, status: number, code: string | undefined): void {
    const errorType = code ?? (outcome === "answered" ? (status >= 400 ? String(status) : undefined) : outcome);
    const attributes = errorType === undefined ? this.#attributes : { ...this.#attributes, "error.type": errorType };
    this.#span.setAttributes({ ...attributes, "http.response.status_code": status });
    // 2 is SpanStatusCode.ERROR of the API, which this file does not load. Errors below 500 are the client's, so the
    // span itself succeeds.
    if (errorType !== undefined && status >= 500) this.#span.setStatus({ code: 2 });
    this.#span.end();
    const seconds = this.#seconds();
    this.instruments.duration.record(seconds, { ...attributes, ...this.#tenant });
    if (errorType === undefined) this.#recordPerToken(seconds);
  }

  /** Only for complete streams: in any other answer, the first byte comes with the last. */
  #recordPerToken(seconds: number): void {
    if (!this.start.isStream || this.#firstSeconds === undefined || this.#outputTokens < 2) return;
    const perToken = (seconds - this.#firstSeconds) / (this.#outputTokens - 1);
    this.instruments.perToken.record(perToken, { ...this.#attributes, ...this.#tenant });
  }

  #seconds(): number {
    return (performance.now() - this.#beganMs) / 1000;
  }
}

/**
 * @example const telemetry = await startTelemetry({ endpoint: "http://127.0.0.1:4318", serviceName: "millrace",
 *   engineOf })
 */
export async function startTelemetry(options: TelemetryOptions): Promise<Telemetry> {
  const [api, traces, metrics, traceExport, metricExport, resources] = await Promise.all([
    import("@opentelemetry/api"),
    import("@opentelemetry/sdk-trace-base"),
    import("@opentelemetry/sdk-metrics"),
    import("@opentelemetry/exporter-trace-otlp-http"),
    import("@opentelemetry/exporter-metrics-otlp-http"),
    import("@opentelemetry/resources"),
  ]);
  const base = options.endpoint.replace(/\/+$/, "");
  const version = packageVersion();
  const resource = resources.resourceFromAttributes({
    "service.name": options.serviceName,
    "service.version": version,
    "millrace.genai_conventions": GENAI_CONVENTIONS,
  });
  const exporter = new traceExport.OTLPTraceExporter({ url: `${base}/v1/traces` });
  const tracers = new traces.BasicTracerProvider({
    resource,
    spanProcessors: [new traces.BatchSpanProcessor(exporter)],
  });
  const reader = new metrics.PeriodicExportingMetricReader({
    exporter: new metricExport.OTLPMetricExporter({ url: `${base}/v1/metrics` }),
    exportIntervalMillis: options.metricsIntervalMs ?? 60_000,
    exportTimeoutMillis: Math.min(options.metricsIntervalMs ?? 60_000, 10_000),
  });
  const meters = new metrics.MeterProvider({ resource, readers: [reader] });
  const tracer = tracers.getTracer("millrace", version);
  const meter = meters.getMeter("millrace", version);
  const histogram = (name: string, description: string, explicitBucketBoundaries: number[]) =>
    meter.createHistogram(name, { description, unit: "s", advice: { explicitBucketBoundaries } });
  const contextOf = (parent: SpanContext | undefined): Context =>
    parent === undefined ? api.ROOT_CONTEXT : api.trace.setSpanContext(api.ROOT_CONTEXT, parent);
  const instruments: Instruments = {
    engineOf: options.engineOf,
    tenantOf: options.tenantOf,
    tokens: meter.createHistogram("gen_ai.client.token.usage", {
      description: "Tokens of a request, as reported in its answer",
      unit: "{token}",
      advice: { explicitBucketBoundaries: TOKEN_BUCKETS },
    }),
    startSpan: (name, attributes, parent) =>
      tracer.startSpan(name, { kind: api.SpanKind.SERVER, attributes }, contextOf(parent)),
    duration: histogram("gen_ai.server.request.duration", "Request to last byte", DURATION_BUCKETS_S),
    perToken: histogram(
      "gen_ai.server.time_per_output_token",
      "First to last byte of a stream, divided by the tokens after the first",
      PER_TOKEN_BUCKETS_S,
    ),
    firstToken: histogram("gen_ai.server.time_to_first_token", "Request to first byte", FIRST_TOKEN_BUCKETS_S),
  };
  return {
    started: (start) => new ObservedRequest(instruments, start),
    refused: () => {},
    close: async () => {
      const sent = Promise.allSettled([tracers.shutdown(), meters.shutdown()]);
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, options.closeTimeoutMs ?? 3000);
      });
      await Promise.race([sent, late]);
      clearTimeout(timer);
    },
  };
}
