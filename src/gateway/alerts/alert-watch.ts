/**
 * Judges each past hour of each key and of all keys together, and the spend of the current hour; stores the alerts and
 * sends them.
 */
import { setImmediate as turn } from "node:timers/promises";
import type { RequestLogger } from "../../core/request-logger.js";
import { HOUR_MS } from "../ledger/hour-sums.js";
import type { BudgetUnit, BudgetWindow } from "../scope.js";
import type { Database } from "../store/database.js";
import { type Alert, AlertStore } from "./alert-store.js";
import { activeSeries, hoursOf, type Series } from "./hours.js";
import { type AlertRules, type Finding, judgeHour, judgeSpend, type Metric } from "./judge-hour.js";
import { HISTORY_WEEKS } from "./level-alarm.js";
import { Webhook, type WebhookTarget } from "./webhook.js";

interface AlertOptions extends AlertRules {
  readonly database: Database.Database;
  readonly logger: RequestLogger;
  readonly webhooks: readonly WebhookTarget[];
  readonly coolDownMs: number;
  /** Called with each new alert that no silence fits. */
  readonly onAlert?: ((alert: Alert) => void) | undefined;
  readonly epochMs: () => number;
}

/** A fault of an instance, such as a crash loop. */
export interface Condition extends Required<Pick<Alert, "metric" | "model" | "instance" | "text">> {}

/** A soft budget that is exceeded in a window. */
interface SoftBudget {
  readonly kind: string;
  readonly id: string;
  readonly unit: BudgetUnit;
  readonly window: BudgetWindow;
  /** The budget's name, such as `team/acme/search/month`. */
  readonly budget: string;
  readonly startMs: number;
  /** Undefined: never. */
  readonly endsMs: number | undefined;
  /** The caller's name; "": the budget does not belong to one caller. */
  readonly tenant: string;
  readonly key: string;
  /** Dollars or tokens: spent or reserved, and the soft limit. */
  readonly value: number;
  readonly expected: number;
}

/** Keys judged each hour: those with the highest cost. */
const MAX_SERIES = 500;
const HISTORY_HOURS = HISTORY_WEEKS * 168 + 1;

export class AlertWatch {
  readonly store: AlertStore;
  readonly #webhooks: readonly Webhook[];
  /** The hour that is judged next; undefined before the first. */
  #nextHourMs: number | undefined;
  #looking: Promise<void> | undefined;
  #isClosed = false;

  constructor(private readonly options: AlertOptions) {
    const { database, webhooks, epochMs, logger } = options;
    this.store = new AlertStore(database, options.onAlert);
    this.#webhooks = webhooks.map((target, receiver) => {
      const onFailure = (alert: Alert, err: string, isLast: boolean): void => {
        const what = isLast ? "an alert could not be sent" : "an alert could not be sent yet";
        logger.warn({ alert: alert.id, webhook: receiver + 1, err }, what);
      };
      const onProblem = (err: unknown): void => logger.error({ webhook: receiver + 1, err }, "sending alerts failed");
      return new Webhook({ store: this.store, ...target, receiver, epochMs, onProblem, onFailure });
    });
  }

  /**
   * Call about once a minute. Never rejects; while one search runs, further calls wait for it. A slow webhook delays
   * neither the next search nor another webhook.
   */
  async look(): Promise<void> {
    this.#looking ??= this.#look()
      .catch((thrown: unknown) => this.options.logger.error({ err: thrown }, "the search for alerts failed"))
      .finally(() => {
        this.#looking = undefined;
      });
    await this.#looking;
    await this.#send();
  }

  /** Alerts that a soft budget is exceeded, once for each window. */
  softBudget({ kind, id, unit, window, budget, startMs, endsMs, tenant, key, value, expected }: SoftBudget): void {
    const { logger, epochMs } = this.options;
    const nowMs = epochMs();
    const text = unit === "money" ? dollars : (tokens: number) => `${tokens} tokens`;
    const [when, since] =
      window === "total"
        ? ["in total", `of ${text(expected)}`]
        : [`this ${window}`, new Date(startMs).toISOString().slice(0, 13)];
    const alert = {
      metric: "soft_budget",
      id: `soft_budget ${budget} ${since}`,
      foundMs: nowMs,
      hourMs: nowMs - (nowMs % HOUR_MS),
      ...(endsMs === undefined ? {} : { endsMs }),
      budget,
      tenant,
      key,
      model: kind === "model" ? id : "",
      value,
      expected,
      text: `${kind} ${id}: ${text(value)} spent or reserved ${when}, above the soft budget of ${text(expected)}`,
    };
    try {
      // The alert's id is unique to its window, so it needs no cool-down.
      if (this.store.add(alert, 0, this.#webhooks.length)) logger.warn({ alert: alert.id }, alert.text);
      void this.#send();
    } catch (err) {
      // The request that exceeded the budget goes on.
      logger.error({ err }, "an alert on a soft budget could not be stored");
    }
  }

  /**
   * Raises an alert when a condition begins, repeats it after each cool-down while the condition lasts, and ends it
   * with the condition.
   *
   * @param bad the conditions that hold now
   * @param isUnsure whether the state of an instance is not known yet: its alerts stay open
   */
  judgeNow(bad: readonly Condition[], isUnsure: (instance: string) => boolean): void {
    const { coolDownMs, logger, epochMs } = this.options;
    const [nowMs, numReceivers] = [epochMs(), this.#webhooks.length];
    const keyOf = ({ metric, instance = "" }: Pick<Alert, "metric" | "instance">): string => `${metric} ${instance}`;
    for (const condition of bad) {
      const id = `${keyOf(condition)} ${new Date(nowMs).toISOString()}`;
      const times = { foundMs: nowMs, hourMs: nowMs - (nowMs % HOUR_MS) };
      const alert = { ...condition, ...times, id, tenant: "", key: "", value: 1, expected: 0 };
      if (this.store.add(alert, coolDownMs, numReceivers)) logger.warn({ alert: id }, condition.text);
    }
    const badKeys = new Set(bad.map(keyOf));
    // Ending the newest repetition ends the earlier ones too.
    const open = new Map(this.store.open().map((each) => [keyOf(each.alert), each]));
    for (const [key, each] of open) {
      if (!badKeys.has(key) && !isUnsure(each.alert.instance!)) this.store.resolve(each, nowMs, numReceivers);
    }
    void this.#send();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#webhooks.map((webhook) => webhook.close()));
    await this.#looking;
  }

  async #look(): Promise<void> {
    const now = this.options.epochMs();
    const current = now - (now % HOUR_MS);
    // After a pause, only the last complete hour is judged: alerts about older hours would come too late to help.
    if (this.#nextHourMs === undefined || this.#nextHourMs < current) {
      await this.#judgeAll(current - HOUR_MS, judgeHour);
      this.#nextHourMs = current;
    }
    await this.#judgeAll(current, (hours, rules) => [judgeSpend(hours, rules)].filter((each) => each !== undefined));
    for (const each of this.store.over(now)) this.store.resolve(each, now, this.#webhooks.length);
  }

  async #send(): Promise<void> {
    if (this.#isClosed) return;
    await Promise.all(this.#webhooks.map((webhook) => webhook.sendDue()));
  }

  async #judgeAll(
    hourMs: number,
    judge: (hours: ReturnType<typeof hoursOf>, rules: AlertRules) => Finding[],
  ): Promise<void> {
    const { database } = this.options;
    const series = activeSeries(database, hourMs, MAX_SERIES);
    // With a single key, its hours equal those of all keys together, and are judged once.
    for (const each of series.length === 1 ? series : [undefined, ...series]) {
      if (this.#isClosed) return;
      const hours = hoursOf(database, each, hourMs, HISTORY_HOURS);
      for (const finding of judge(hours, this.options)) this.#add(finding, each, hourMs);
      await turn();
    }
  }

  #add(finding: Finding, series: Series | undefined, hourMs: number): void {
    const { epochMs, coolDownMs, logger } = this.options;
    const { tenant, key } = series ?? { tenant: "", key: "" };
    const hour = new Date(hourMs).toISOString().slice(0, 13);
    const whose = series === undefined ? "all" : [tenant, key].filter((part) => part !== "").join("/") || "all";
    const text = `${whose}: ${SAYINGS[finding.metric](finding)} in the hour from ${hour.slice(11)}:00 UTC`;
    const alert = {
      ...finding,
      id: `${finding.metric} ${whose} ${hour}`,
      foundMs: epochMs(),
      hourMs,
      tenant,
      key,
      model: "",
      text,
    };
    if (this.store.add(alert, coolDownMs, this.#webhooks.length)) {
      logger.warn({ metric: finding.metric, tenant, key, value: finding.value, expected: finding.expected }, text);
    }
  }
}

/** Two decimals; below one cent, two significant digits. */
const dollars = (value: number): string =>
  `$${value > 0 && value < 0.01 ? value.toFixed(1 - Math.floor(Math.log10(value))) : value.toFixed(2)}`;
const percent = (value: number): string => `${(100 * value).toFixed(1)} %`;

const SAYINGS: Readonly<Record<Metric, (finding: Finding) => string>> = {
  spend: ({ value, expected }) => `${dollars(value)} spent, about ${dollars(expected)} is usual,`,
  tokens_per_request: ({ value, expected }) =>
    `${Math.round(value)} tokens a request, about ${Math.round(expected)} are usual,`,
  error_share: ({ value, expected }) => `${percent(value)} of requests failed, ${percent(expected)} is usual,`,
  refusal_share: ({ value, expected }) => `${percent(value)} of requests were refused, ${percent(expected)} is usual,`,
  retry_share: ({ value, expected }) => `${percent(value)} of attempts were repeated, ${percent(expected)} is usual,`,
  truncated_share: ({ value, expected }) =>
    `${percent(value)} of answers were cut by max_tokens, ${percent(expected)} is usual,`,
  hit_share: ({ value, expected }) => `${percent(value)} of requests came from a cache, ${percent(expected)} is usual,`,
};
