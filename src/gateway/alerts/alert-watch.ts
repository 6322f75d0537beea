/** Judges each hour of each key, and of all together, when it is over, and spend also before; stores what it finds, and has it sent. */
import { setImmediate as turn } from "node:timers/promises";
import type { RequestLogger } from "../../core/request-logger.js";
import { HOUR_MS } from "../ledger/hour-sums.js";
import type { Database } from "../store/database.js";
import { type Alert, AlertStore } from "./alert-store.js";
import { activeSeries, hoursOf, type Series } from "./hours.js";
import { type AlertRules, type Finding, judgeHour, judgeSpend, type Metric } from "./judge-hour.js";
import { HISTORY_WEEKS } from "./level-alarm.js";
import { Webhook, type WebhookTarget } from "./webhook.js";

interface AlertOptions extends AlertRules {
  readonly database: Database.Database;
  readonly logger: RequestLogger;
  readonly webhook: WebhookTarget | undefined;
  readonly coolDownMs: number;
  /** Told of each new alert that no silence fits. */
  readonly onAlert?: ((alert: Alert) => void) | undefined;
  readonly epochMs: () => number;
}

/** Something about an instance that is not as it should be. */
export interface Condition extends Required<Pick<Alert, "metric" | "model" | "instance" | "text">> {}

/** Keys that are judged each hour: the dearest. */
const MAX_SERIES = 500;
const HISTORY_HOURS = HISTORY_WEEKS * 168 + 1;

export class AlertWatch {
  readonly store: AlertStore;
  readonly #webhook: Webhook | undefined;
  /** The hour that is judged next; undefined before the first. */
  #nextHourMs: number | undefined;
  #looking: Promise<void> | undefined;
  #isClosed = false;

  constructor(private readonly options: AlertOptions) {
    const { database, webhook, epochMs, logger } = options;
    this.store = new AlertStore(database, options.onAlert);
    const onFailure = (alert: Alert, err: string, isLast: boolean): void =>
      logger.warn({ alert: alert.id, err }, isLast ? "an alert could not be sent" : "an alert could not be sent yet");
    this.#webhook = webhook && new Webhook({ store: this.store, ...webhook, epochMs, onFailure });
  }

  /** Call about once a minute. Never rejects; while one look runs, further calls wait for it. */
  look(): Promise<void> {
    this.#looking ??= this.#look()
      .catch((thrown: unknown) => this.options.logger.error({ err: thrown }, "the search for alerts failed"))
      .finally(() => {
        this.#looking = undefined;
      });
    return this.#looking;
  }

  /**
   * Alerts on what lasts, each from its begin to its end; repeated after the cool-down while it lasts.
   *
   * @param bad what is not as it should be now
   * @param isUnsure whether nothing can be said of an instance yet: its alerts stay as they are
   */
  judgeNow(bad: readonly Condition[], isUnsure: (instance: string) => boolean): void {
    const { coolDownMs, logger, epochMs } = this.options;
    const [nowMs, isDue] = [epochMs(), this.#webhook !== undefined];
    const keyOf = ({ metric, instance = "" }: Pick<Alert, "metric" | "instance">): string => `${metric} ${instance}`;
    for (const condition of bad) {
      const id = `${keyOf(condition)} ${new Date(nowMs).toISOString()}`;
      const times = { foundMs: nowMs, hourMs: nowMs - (nowMs % HOUR_MS) };
      const alert = { ...condition, ...times, id, tenant: "", key: "", value: 1, expected: 0 };
      if (this.store.add(alert, coolDownMs, isDue)) logger.warn({ alert: id }, condition.text);
    }
    const badKeys = new Set(bad.map(keyOf));
    // The newest of repetitions ends them all.
    const open = new Map(this.store.open().map((each) => [keyOf(each.alert), each]));
    for (const [key, each] of open) {
      if (!badKeys.has(key) && !isUnsure(each.alert.instance!)) this.store.resolve(each, nowMs, isDue);
    }
    void this.#webhook?.sendDue();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#webhook?.close();
    await this.#looking;
  }

  async #look(): Promise<void> {
    const now = this.options.epochMs();
    const current = now - (now % HOUR_MS);
    // After a pause, only the last hour that is over: older news is none.
    if (this.#nextHourMs === undefined || this.#nextHourMs < current) {
      await this.#judgeAll(current - HOUR_MS, judgeHour);
      this.#nextHourMs = current;
    }
    await this.#judgeAll(current, (hours, rules) => [judgeSpend(hours, rules)].filter((each) => each !== undefined));
    await this.#webhook?.sendDue();
  }

  async #judgeAll(
    hourMs: number,
    judge: (hours: ReturnType<typeof hoursOf>, rules: AlertRules) => Finding[],
  ): Promise<void> {
    const { database } = this.options;
    const series = activeSeries(database, hourMs, MAX_SERIES);
    // One key alone is everybody.
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
    if (this.store.add(alert, coolDownMs, this.#webhook !== undefined)) {
      logger.warn({ metric: finding.metric, tenant, key, value: finding.value, expected: finding.expected }, text);
    }
  }
}

const dollars = (value: number): string => `$${value.toFixed(2)}`;
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
