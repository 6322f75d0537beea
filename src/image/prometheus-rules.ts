/** Alerts on problems that users notice, from the fleet's own metrics. The same rules serve a plain Prometheus and the operator's object. */

const SUMMARIES = {
  MillraceDown: "No millrace pod answers Prometheus.",
  MillraceFull:
    "More than 80 % of all seats have been taken for ten minutes: the autoscaler is at its limit, or pods do not start.",
  MillraceErrors: "More than 5 % of requests fail.",
  MillraceSlowFirstToken: "One request in twenty waits more than ten seconds for its first byte.",
  MillraceEngineRestarts: "An engine was restarted three times within a quarter of an hour.",
} as const;

type Alert = keyof typeof SUMMARIES;

const rule = (alert: Alert, severity: "critical" | "warning", duration: string, expr: string) => ({
  alert,
  expr,
  for: duration,
  labels: { severity },
  annotations: { summary: SUMMARIES[alert] },
});

/** @param seats number of seats per instance */
export function alertRules(job: string, seats: number, hasSharedEngines: boolean): object[] {
  const of = `{job="${job}"}`;
  const failed = `{job="${job}",outcome=~"failed|broken"}`;
  const taken = `sum(millrace_fleet:queue_depth${of}) + sum(millrace_fleet:in_flight${of})`;
  const ready = `sum(millrace_fleet:instance_state{job="${job}",state="ready"})`;
  // Gateways that share engines all count the same ones.
  const numInstances = hasSharedEngines ? `(${ready} / count(up${of} == 1))` : ready;
  const requests = "millrace_fleet:requests_total";
  return [
    {
      name: "millrace",
      rules: [
        rule("MillraceDown", "critical", "2m", `absent(up${of} == 1)`),
        rule("MillraceFull", "warning", "10m", `${taken} > 0.8 * ${seats} * ${numInstances}`),
        rule(
          "MillraceErrors",
          "critical",
          "5m",
          `sum(rate(${requests}${failed}[5m])) / sum(rate(${requests}${of}[5m])) > 0.05`,
        ),
        rule(
          "MillraceSlowFirstToken",
          "warning",
          "10m",
          `histogram_quantile(0.95, sum by (le) (rate(millrace_fleet:time_to_first_byte_seconds_bucket${of}[5m]))) > 10`,
        ),
        rule("MillraceEngineRestarts", "warning", "0m", `max(delta(millrace_fleet:instance_starts${of}[15m])) >= 3`),
      ],
    },
  ];
}
