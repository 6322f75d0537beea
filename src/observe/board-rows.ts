/** The content of a dashboard: rows of panels with their queries, independent of Grafana's format. */
import { firstTokenMetric, modelLabel, tenantsJob, type Watched } from "./watched.js";

interface Query {
  readonly expr: string;
  readonly legend: string;
}

export interface PanelSpec {
  readonly title: string;
  /** The panel's meaning, and when to act on it. */
  readonly about: string;
  readonly unit: Unit;
  readonly queries: readonly Query[];
  /** Drawn as a line. */
  readonly limit?: number;
  readonly isStacked?: boolean;
}

interface RowSpec {
  readonly title: string;
  readonly panels: readonly PanelSpec[];
}

/** Grafana's unit names. */
type Unit = "short" | "s" | "percentunit" | "reqps" | "bytes" | "tokens/s" | "currencyUSD";

const WINDOW = "$__rate_interval";

/** Rows of panels; `test/e2e/observe-prometheus.test.ts` sends each query to a real Prometheus. */
export function rowsOf(watched: Watched): readonly RowSpec[] {
  if (watched.kind === "server") return serverRows(watched);
  return watched.tenantsKeyFile === undefined ? fleetRows(watched) : [...fleetRows(watched), tenantsRow(watched)];
}

const percentiles = (metric: string, of: string, by: string): Query[] =>
  [0.5, 0.95, 0.99].map((share) => ({
    expr: `histogram_quantile(${share}, sum by (le, ${by}) (rate(${metric}_bucket{${of}}[${WINDOW}])))`,
    legend: `p${100 * share} {{${by}}}`,
  }));

function serverRows(watched: Watched): readonly RowSpec[] {
  const by = modelLabel(watched);
  const of = `job="$job",${by}=~"$model"`;
  const sum = (name: string): string => `sum by (${by}) (millrace:${name}{${of}})`;
  const rate = (name: string): string => `sum by (${by}) (rate(millrace:${name}{${of}}[${WINDOW}]))`;
  const one = (expr: string, legend: string): Query => ({ expr, legend: `${legend} {{${by}}}` });
  return [
    {
      title: "Load",
      panels: [
        {
          title: "Tokens a second",
          about: "Prompt tokens processed, those of the prefix cache included, and tokens generated.",
          unit: "tokens/s",
          queries: [one(rate("prompt_tokens_total"), "prompt"), one(rate("generation_tokens_total"), "generated")],
        },
        {
          title: "Requests",
          about: "In the batch, and waiting for a seat. A queue that grows needs seats, memory or an instance.",
          unit: "short",
          queries: [one(sum("num_requests_running"), "running"), one(sum("num_requests_waiting"), "waiting")],
        },
        {
          title: "Ended requests a second",
          about: "By reason: stop, length, abort, error.",
          unit: "reqps",
          queries: [
            {
              expr: `sum by (finished_reason) (rate(millrace:request_success_total{${of}}[${WINDOW}]))`,
              legend: "{{finished_reason}}",
            },
          ],
        },
      ],
    },
    {
      title: "Latency",
      panels: [
        {
          title: "Time to first token",
          about: "Arrival to first token. The line is the limit of the alerts.",
          unit: "s",
          queries: percentiles(firstTokenMetric(watched), of, by),
          limit: watched.ttftSeconds,
        },
        {
          title: "Time per output token",
          about: "Of each request, after its first token.",
          unit: "s",
          queries: percentiles("millrace:request_time_per_output_token_seconds", of, by),
        },
        {
          title: "Queue time",
          about: "Arrival at the engine to a seat.",
          unit: "s",
          queries: percentiles("millrace:request_queue_time_seconds", of, by),
        },
        {
          title: "Whole request",
          about: "Arrival to last token.",
          unit: "s",
          queries: percentiles("millrace:e2e_request_latency_seconds", of, by),
        },
      ],
    },
    {
      title: "Memory and caches",
      panels: [
        {
          title: "KV memory",
          about: "Share that sequences use. Near 1 with a queue is the earliest sign of overload.",
          unit: "percentunit",
          queries: [{ expr: `max by (${by}) (millrace:kv_cache_usage_perc{${of}})`, legend: `{{${by}}}` }],
          limit: 0.9,
        },
        {
          title: "Preemptions a second",
          about: "Requests that gave their memory back and are computed again.",
          unit: "reqps",
          queries: [one(rate("num_preemptions_total"), "")],
        },
        {
          title: "Prompt tokens from the prefix cache",
          about: "Share of the prompts' tokens. It falls when prompts differ early: try millrace prompts audit.",
          unit: "percentunit",
          queries: [one(`${rate("prefix_cache_hits_total")} / ${rate("prefix_cache_queries_total")}`, "")],
        },
      ],
    },
    {
      title: "Engine",
      panels: [
        {
          title: "Right drafts",
          about: "Share of the drafted tokens that the model confirmed.",
          unit: "percentunit",
          queries: [
            one(`${rate("spec_decode_num_accepted_tokens_total")} / ${rate("spec_decode_num_draft_tokens_total")}`, ""),
          ],
        },
        {
          title: "Time of steps",
          about: "Seconds a second inside the kernels, and outside of them: scheduling, sampling, masks.",
          unit: "percentunit",
          queries: [
            one(rate("engine_kernel_seconds_total"), "kernels"),
            one(`${rate("engine_step_seconds_total")} - ${rate("engine_kernel_seconds_total")}`, "host"),
          ],
          isStacked: true,
        },
        {
          title: "Tokens a step",
          about: "Generated tokens for each step: how full the batch is, drafts included.",
          unit: "short",
          queries: [one(`${rate("generation_tokens_total")} / ${rate("engine_steps_total")}`, "")],
        },
      ],
    },
  ];
}

function fleetRows(watched: Watched): readonly RowSpec[] {
  const of = `job="$job",model=~"$model"`;
  const fleetRate = (name: string, by: string): Query => ({
    expr: `sum by (${by}) (rate(millrace_fleet:${name}{${of}}[${WINDOW}]))`,
    legend: by
      .split(", ")
      .map((label) => `{{${label}}}`)
      .join(" "),
  });
  const engineRate = (name: string): string => `sum by (model) (rate(millrace:${name}{${of}}[${WINDOW}]))`;
  const perInstance = (expr: string): Query => ({ expr, legend: "{{model}} {{instance}}" });
  return [
    {
      title: "Requests",
      panels: [
        {
          title: "Requests a second",
          about: "By outcome. Broken ones ended in the middle of an answer.",
          unit: "reqps",
          queries: [fleetRate("requests_total", "outcome")],
          isStacked: true,
        },
        {
          title: "Time to first byte",
          about: "Arrival at the gateway to the first byte. The line is the limit of the alerts.",
          unit: "s",
          queries: percentiles(firstTokenMetric(watched), of, "model"),
          limit: watched.ttftSeconds,
        },
        {
          title: "Whole request",
          about: "Arrival to last byte.",
          unit: "s",
          queries: percentiles("millrace_fleet:request_duration_seconds", of, "model"),
        },
        {
          title: "Waiting and in flight",
          about: "Requests that wait for an instance, and sequences at instances.",
          unit: "short",
          queries: [
            { expr: `sum by (model) (millrace_fleet:queue_depth{${of}})`, legend: "waiting {{model}}" },
            { expr: `sum by (model) (millrace_fleet:in_flight{${of}})`, legend: "in flight {{model}}" },
          ],
        },
      ],
    },
    {
      title: "Instances",
      panels: [
        {
          title: "KV memory",
          about: "Share in use, by instance. Near 1 with a queue is the earliest sign of overload.",
          unit: "percentunit",
          queries: [perInstance(`max by (model, instance, gateway, pod) (millrace:kv_cache_usage_perc{${of}})`)],
          limit: 0.9,
        },
        {
          title: "Ready instances",
          about: "Instances that take requests.",
          unit: "short",
          queries: [
            { expr: `sum by (model) (millrace_fleet:instance_state{${of},state="ready"})`, legend: "{{model}}" },
          ],
        },
        {
          title: "Starts",
          about: "Times each process was started: a step is a restart.",
          unit: "short",
          queries: [perInstance(`max by (model, instance, gateway, pod) (millrace_fleet:instance_starts{${of}})`)],
        },
        {
          title: "Routed prefix",
          about: "Mean share of the prompt that the chosen instance was believed to have cached.",
          unit: "percentunit",
          queries: [
            {
              expr: `sum by (model) (rate(millrace_fleet:prefix_matched_fraction_sum{${of}}[${WINDOW}])) / sum by (model) (rate(millrace_fleet:prefix_matched_fraction_count{${of}}[${WINDOW}]))`,
              legend: "{{model}}",
            },
          ],
        },
      ],
    },
    {
      title: "Tokens",
      panels: [
        {
          title: "Tokens a second",
          about: "Of all instances of a model.",
          unit: "tokens/s",
          queries: [
            { expr: engineRate("prompt_tokens_total"), legend: "prompt {{model}}" },
            { expr: engineRate("generation_tokens_total"), legend: "generated {{model}}" },
          ],
        },
        {
          title: "Prompt tokens from prefix caches",
          about: "Share of the prompts' tokens that instances had cached.",
          unit: "percentunit",
          queries: [
            {
              expr: `${engineRate("prefix_cache_hits_total")} / ${engineRate("prefix_cache_queries_total")}`,
              legend: "{{model}}",
            },
          ],
        },
      ],
    },
  ];
}

/** Figures from a path that only operators may read. A request counts at its end. */
function tenantsRow({ ttftSeconds }: Watched): RowSpec {
  const of = `job="${tenantsJob("$job")}"`;
  const rate = (name: string): string => `sum by (tenant) (rate(millrace_tenant:${name}{${of}}[${WINDOW}]))`;
  const one = (expr: string, legend = ""): Query => ({ expr, legend: `${legend} {{tenant}}` });
  return {
    title: "Tenants",
    panels: [
      {
        title: "Requests a second",
        about: "Ended requests by tenant, those that were refused among them.",
        unit: "reqps",
        queries: [one(rate("requests_total"))],
        isStacked: true,
      },
      {
        title: "Tokens a second",
        about: "Of prompts, those of caches included, and of answers.",
        unit: "tokens/s",
        queries: [one(rate("prompt_tokens_total"), "prompt"), one(rate("generation_tokens_total"), "generated")],
      },
      {
        title: "Time to first token, p95",
        about: "Arrival at the gateway to the first byte of a stream. The line is the limit of the alerts.",
        unit: "s",
        queries: [
          one(
            `histogram_quantile(0.95, sum by (le, tenant) (rate(millrace_tenant:time_to_first_token_seconds_bucket{${of}}[${WINDOW}])))`,
          ),
        ],
        limit: ttftSeconds,
      },
      {
        title: "Dollars an hour",
        about: "What requests cost, and what caches and cascades saved.",
        unit: "currencyUSD",
        queries: [
          one(`3600 * ${rate("cost_dollars_total")}`, "cost"),
          one(`3600 * ${rate("saved_dollars_total")}`, "saved"),
        ],
      },
    ],
  };
}
