/** The configuration files for Prometheus, Grafana and OpenTelemetry. */
import { stringify } from "yaml";
import { dashboardOf } from "./dashboard.js";
import { ruleGroups } from "./rules.js";
import { COLLECTOR_PORT, tenantsJob, type Watched } from "./watched.js";

export interface ObserveFile {
  readonly path: string;
  readonly text: string;
  /** The way to use the file. */
  readonly use: string;
}

/** @param otlpEndpoint the address to which a collector forwards its data; undefined: no file for a collector */
export function renderObserve(watched: Watched, otlpEndpoint: string | undefined): ObserveFile[] {
  const yaml = (value: object): string => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
  const scrape = {
    job_name: watched.job,
    scrape_interval: "15s",
    // A gateway names its instances; otherwise Prometheus would replace the name by its own address.
    honor_labels: true,
    // Instances of several gateways share names.
    static_configs: watched.targets.map((target) =>
      watched.kind === "fleet" ? { targets: [target], labels: { gateway: target } } : { targets: [target] },
    ),
  };
  const { tenantsKeyFile } = watched;
  // Figures with tenants' names are for operators.
  const byTenant = {
    ...scrape,
    job_name: tenantsJob(watched.job),
    metrics_path: "/metrics/tenants",
    authorization: { credentials_file: tenantsKeyFile },
  };
  const scrapes = tenantsKeyFile === undefined ? [scrape] : [scrape, byTenant];
  const prometheus = {
    global: { scrape_interval: "15s", evaluation_interval: "30s" },
    rule_files: ["rules.yml"],
    scrape_configs: scrapes,
  };
  return [
    { path: "prometheus.yml", text: yaml(prometheus), use: "prometheus --config.file=prometheus.yml" },
    { path: "rules.yml", text: yaml({ groups: ruleGroups(watched) }), use: "promtool check rules rules.yml" },
    {
      path: "dashboard.json",
      text: `${JSON.stringify(dashboardOf(watched), null, 2)}\n`,
      use: "Grafana: Dashboards, New, Import",
    },
    ...(otlpEndpoint === undefined
      ? []
      : [
          {
            path: "otel-collector.yml",
            text: yaml(collectorOf(scrapes, otlpEndpoint)),
            use: "otelcol --config otel-collector.yml",
          },
        ]),
  ];
}

function collectorOf(scrapes: readonly object[], endpoint: string): object {
  const pipeline = { processors: ["memory_limiter", "batch"], exporters: ["otlphttp"] };
  return {
    receivers: {
      otlp: { protocols: { http: { endpoint: `0.0.0.0:${COLLECTOR_PORT}` } } },
      prometheus: { config: { scrape_configs: scrapes } },
    },
    processors: {
      memory_limiter: { check_interval: "1s", limit_percentage: 75, spike_limit_percentage: 20 },
      batch: {},
    },
    exporters: { otlphttp: { endpoint } },
    service: {
      pipelines: {
        traces: { receivers: ["otlp"], ...pipeline },
        metrics: { receivers: ["otlp", "prometheus"], ...pipeline },
      },
    },
  };
}
