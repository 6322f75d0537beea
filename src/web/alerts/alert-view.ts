/** Alerts and silences in the page's terms, and the silence that a form describes. */
import { oneLine } from "../text/one-line.js";

export interface Alert {
  readonly id: string;
  readonly text: string;
  readonly metric: string;
  readonly tenant: string;
  readonly key: string;
  readonly model: string;
  readonly instance: string;
  readonly budget: string;
  readonly found: string;
  readonly resolved: string | null;
  readonly tries: number;
  readonly delivered: string | null;
  /** Id of the silence that kept the alert from the webhook. */
  readonly silence: string | null;
}

export interface Silence {
  readonly id: string;
  readonly state: "pending" | "active" | "ended";
  readonly metric?: string;
  readonly tenant?: string;
  readonly key?: string;
  readonly model?: string;
  readonly starts: string;
  readonly ends: string;
  readonly comment: string;
  readonly author: string;
}

export const METRICS: readonly string[] = [
  "spend",
  "tokens_per_request",
  "error_share",
  "refusal_share",
  "retry_share",
  "truncated_share",
  "hit_share",
  "instance_down",
  "breaker_open",
  "soft_budget",
];

const SUBJECTS = ["tenant", "key", "model", "instance", "budget"] as const;
const MATCHED = ["metric", "tenant", "key", "model"] as const;

/** @example aboutText({ tenant: "acme", model: "m" }) // "tenant acme, model m" */
export const aboutText = (alert: Partial<Pick<Alert, (typeof SUBJECTS)[number]>>): string =>
  SUBJECTS.flatMap((name) => (alert[name] ? [`${name} ${alert[name]}`] : [])).join(", ") || "all";

/**
 * The newest of each alert, since an alert on an instance repeats while it lasts.
 * @param alerts from the newest to the oldest
 */
export function newestOfEach(alerts: readonly Alert[]): readonly Alert[] {
  const seen = new Set<string>();
  return alerts.filter((alert) => {
    const subject = JSON.stringify([alert.metric, alert.instance, alert.budget]);
    if (seen.has(subject)) return false;
    seen.add(subject);
    return true;
  });
}

/** @param timeText formats an ISO time */
export function sentText({ delivered, silence, tries }: Alert, timeText: (iso: string) => string): string {
  if (silence !== null) return "silenced";
  if (delivered !== null) return `sent ${timeText(delivered)}`;
  return tries === 0 ? "not sent" : `not sent, tried ${tries} times`;
}

/** @example fitsText({ metric: "spend", tenant: "" }) // "metric spend, no tenant" */
export const fitsText = (silence: Pick<Silence, (typeof MATCHED)[number]>): string =>
  MATCHED.flatMap((name) => {
    const value = silence[name];
    return value === undefined || value === null ? [] : [value === "" ? `no ${name}` : `${name} ${oneLine(value)}`];
  }).join(", ");

/** The fields of the form. */
export interface SilenceWish {
  readonly metric: string;
  readonly tenant: string;
  readonly key: string;
  readonly model: string;
  readonly hours: string;
  readonly comment: string;
}

const HOUR_MS = 3_600_000;

/** The body of the request; an empty field matches everything. @returns a text if something is missing */
export function silenceOf(wish: SilenceWish, nowMs: number): Record<string, string> | string {
  const matcher = MATCHED.flatMap((name) => (wish[name].trim() === "" ? [] : [[name, wish[name].trim()] as const]));
  if (matcher.length === 0) return "Give a metric, a tenant, a key or a model: a silence of everything is refused.";
  const ends = new Date(nowMs + Number(wish.hours) * HOUR_MS).toISOString();
  return { ...Object.fromEntries(matcher), ends, comment: wish.comment.trim() };
}

/** Form fields for a silence of alerts like this one. */
export const wishFor = ({ metric, tenant, key, model }: Alert): SilenceWish => ({
  metric,
  tenant,
  key,
  model,
  hours: "2",
  comment: "",
});
