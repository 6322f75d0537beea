/** Prometheus' alerts for a server or a fleet: effects that users notice, and their early signs. */
import { firstTokenMetric, modelLabel, tenantsJob, untilBucket, type Watched } from "./watched.js";

interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly for: string;
  readonly labels: { readonly severity: "critical" | "warning" | "info" };
  readonly annotations: { readonly summary: string };
}

export interface RuleGroup {
  readonly name: string;
  readonly rules: readonly AlertRule[];
}

type Severity = AlertRule["labels"]["severity"];

export const rule = (
  alert: string,
  severity: Severity,
  duration: string,
  expr: string,
  summary: string,
): AlertRule => ({
  alert,
  expr,
  for: duration,
  labels: { severity },
  annotations: { summary },
});

/** Share of requests that may exceed the time to the first token, and share that may fail. */
const LATE_BUDGET = 0.05;
const ERROR_BUDGET = 0.01;

/**
 * A budget of 30 days is watched over two pairs of windows (Google's SRE workbook, chapter 5): 14.4 times the allowed
 * rate uses 2 % of it in an hour, 6 times uses 5 % in six hours. The short window ends the alert soon after its cause.
 */
const BURNS = [
  { factor: 14.4, windows: ["1h", "5m"], severity: "critical" },
  { factor: 6, windows: ["6h", "30m"], severity: "warning" },
] as const;

const burns = (shareOver: (window: string) => string, budget: number, alert: string, what: string): AlertRule[] =>
  BURNS.map(({ factor, windows, severity }) => {
    const limit = Number((factor * budget).toPrecision(6));
    const expr = windows.map((window) => `(${shareOver(window)}) > ${limit}`).join(" and ");
    return rule(`${alert}${severity === "critical" ? "Fast" : "Slow"}`, severity, "2m", expr, what);
  });

/** Labels of a series' source, since instances of several gateways or pods share names. */
const PLACE = "instance, gateway, pod";

/** All alerts for the server or fleet under watch. */
export function ruleGroups(watched: Watched): RuleGroup[] {
  const { kind, job, ttftSeconds } = watched;
  const of = `{job="${job}"}`;
  const model = modelLabel(watched);
  const perModel = `${model}, ${PLACE}`;
  const first = firstTokenMetric(watched);
  const counted = (window: string) => `sum(rate(${first}_count${of}[${window}]))`;
  const inTime = (window: string) => `sum(rate(${first}_bucket{job="${job}",${untilBucket(ttftSeconds)}}[${window}]))`;
  const common = [
    rule("MillraceDown", "critical", "2m", `absent(up${of} == 1)`, "No millrace of this job answers Prometheus."),
    rule("MillraceTargetDown", "warning", "2m", `up${of} == 0`, "One millrace of this job does not answer Prometheus."),
    rule(
      "MillraceFirstTokenLate",
      "warning",
      "10m",
      `histogram_quantile(0.95, sum by (le) (rate(${first}_bucket${of}[10m]))) > ${ttftSeconds}`,
      `One request in twenty waits longer than ${1000 * ttftSeconds} ms for its first token.`,
    ),
    rule(
      "MillraceKvPressure",
      "warning",
      "5m",
      `max by (${perModel}) (millrace:kv_cache_usage_perc${of}) > 0.9 and sum by (${perModel}) (millrace:num_requests_waiting${of}) > 0`,
      "KV memory is full and requests wait: the earliest sign of overload. Give more KV memory, a smaller KV type, or an instance.",
    ),
    rule(
      "MillracePreemptions",
      "warning",
      "10m",
      `sum by (${model}) (rate(millrace:num_preemptions_total${of}[10m])) > 0.1`,
      "Running requests give their KV memory back more than once in ten seconds, and are computed again.",
    ),
    rule(
      "MillraceAcceptanceDrop",
      "info",
      "30m",
      `${acceptance(of, model, "1h")} < 0.7 * ${acceptance(of, model, "1d")}`,
      "Drafts are right less often than over the day: the traffic has changed, or the drafter no longer fits the model.",
    ),
    rule(
      "MillraceTokenSurge",
      "warning",
      "15m",
      // Before a full week has passed, the mean would be too small.
      `${tokenRate(of, model, "1h")} > 3 * ${tokenRate(of, model, "7d")} and sum by (${model}) (millrace:prompt_tokens_total${of} offset 6d) > 0`,
      "Three times as many tokens in an hour as in the week's average hour: what costs per token costs three times as much.",
    ),
    ...burns(
      (window) => `1 - ${inTime(window)} / ${counted(window)}`,
      LATE_BUDGET,
      "MillraceFirstToken",
      `Too many requests wait longer than ${1000 * ttftSeconds} ms for their first token.`,
    ),
  ];
  return [
    { name: "millrace", rules: [...common, ...(kind === "server" ? serverRules(of, model) : fleetRules(watched))] },
  ];
}

const acceptance = (of: string, model: string, window: string): string =>
  `(sum by (${model}) (rate(millrace:spec_decode_num_accepted_tokens_total${of}[${window}])) / sum by (${model}) (rate(millrace:spec_decode_num_draft_tokens_total${of}[${window}])))`;

const tokenRate = (of: string, model: string, window: string): string =>
  `(sum by (${model}) (rate(millrace:prompt_tokens_total${of}[${window}])) + sum by (${model}) (rate(millrace:generation_tokens_total${of}[${window}])))`;

function serverRules(of: string, model: string): AlertRule[] {
  return [
    rule(
      "MillraceStalled",
      "critical",
      "2m",
      `sum by (${model}, ${PLACE}) (millrace:num_requests_running${of}) > 0 and sum by (${model}, ${PLACE}) (rate(millrace:engine_steps_total${of}[2m])) == 0`,
      "The engine has requests and makes no step.",
    ),
    rule(
      "MillraceQueue",
      "warning",
      "10m",
      `histogram_quantile(0.95, sum by (le, ${model}) (rate(millrace:request_queue_time_seconds_bucket${of}[10m]))) > 5`,
      "One request in twenty waits more than five seconds for a seat.",
    ),
  ];
}

/** Rules for a path that only operators may read. */
function costRules(job: string): AlertRule[] {
  const of = `{job="${tenantsJob(job)}"}`;
  const dollars = "millrace_model:cost_dollars_total";
  const costRate = (window: string): string => `sum by (model) (rate(${dollars}${of}[${window}]))`;
  return [
    rule(
      "MillraceCostAnomaly",
      "warning",
      "15m",
      // Before a full week has passed, the mean would be too small.
      `${costRate("1h")} > 3 * ${costRate("7d")} and sum by (model) (${dollars}${of} offset 6d) > 0`,
      "A model costs three times as much in an hour as in the week's average hour; millrace spend has by whom.",
    ),
  ];
}

function fleetRules({ job, tenantsKeyFile }: Watched): AlertRule[] {
  const of = `{job="${job}"}`;
  const requests = "millrace_fleet:requests_total";
  const failed = `${requests}{job="${job}",outcome=~"failed|broken"}`;
  return [
    rule(
      "MillraceErrors",
      "critical",
      "5m",
      `sum(rate(${failed}[5m])) / sum(rate(${requests}${of}[5m])) > 0.05`,
      "More than one request in twenty fails.",
    ),
    ...burns(
      (window) => `sum(rate(${failed}[${window}])) / sum(rate(${requests}${of}[${window}]))`,
      ERROR_BUDGET,
      "MillraceErrors",
      "Requests fail faster than one in a hundred a month allows.",
    ),
    rule(
      "MillraceBreakerOpen",
      "warning",
      "5m",
      `max by (model, ${PLACE}) (millrace_fleet:instance_breaker{job="${job}",state=~"open|half-open"}) == 1`,
      "An instance has failed so often that it gets no requests.",
    ),
    rule(
      "MillraceEngineRestarts",
      "warning",
      "0m",
      `max by (model, ${PLACE}) (delta(millrace_fleet:instance_starts${of}[15m])) >= 3`,
      "An engine was restarted three times within a quarter of an hour.",
    ),
    rule(
      "MillraceCascadeClosed",
      "warning",
      "0m",
      `min by (cascade) (millrace_fleet:cascade_open${of}) == 0`,
      "A cascade's small model lost more than allowed: every request goes to the large one.",
    ),
    rule(
      "MillraceSemanticCacheDisabled",
      "warning",
      "0m",
      `max by (model) (millrace_fleet:semantic_cache_disabled${of}) == 1`,
      "Audits contradict the semantic cache's allowed error: it serves no hits.",
    ),
    rule(
      "MillraceQualityDrift",
      "warning",
      "0m",
      `max by (model, check) (millrace_fleet:quality_drifted${of}) == 1`,
      "A check of sampled answers fails more often than is usual; millrace quality report has since when, and what was changed.",
    ),
    ...(tenantsKeyFile === undefined ? [] : costRules(job)),
  ];
}
