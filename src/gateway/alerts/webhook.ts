/** Sends alerts to a web server, and tries again until it takes them. */
import { createHash, createHmac } from "node:crypto";
import { request } from "undici";
import type { Secret } from "../../core/config-values.js";
import type { Alert, AlertStore, StoredAlert } from "./alert-store.js";

const TIMEOUT_MS = 10_000;
const AT_ONCE = 10;
const FIRST_RETRY_MS = 60_000;
const LAST_RETRY_MS = 3_600_000;
/** With the waits between them, the tries take about a day. */
const MAX_TRIES = 30;

/**
 * The forms of a webhook's messages: our own JSON, Prometheus' Alertmanager's JSON (version 4 of its webhooks), or a
 * message for Slack and its likes.
 */
export const WEBHOOK_FORMATS = ["millrace", "alertmanager", "slack"] as const;
export type WebhookFormat = (typeof WEBHOOK_FORMATS)[number];

export interface WebhookTarget {
  readonly url: string;
  readonly format: WebhookFormat;
  /** Signs each message; absent: messages are not signed. */
  readonly secret?: Secret | undefined;
}

interface WebhookOptions extends WebhookTarget {
  /** The webhook's index in the configuration. */
  readonly receiver: number;
  readonly store: AlertStore;
  readonly epochMs: () => number;
  readonly onProblem: (thrown: unknown) => void;
  readonly onFailure: (alert: Alert, reason: string, isLast: boolean) => void;
}

export class Webhook {
  #sending: Promise<void> | undefined;
  /** Whether `sendDue` was called since the last look for due messages. */
  #isAsked = false;
  readonly #closing = new AbortController();

  constructor(private readonly options: WebhookOptions) {}

  /** Aborts the messages under way, which stay due. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#sending;
  }

  /** Sends all due messages, and looks again if it is called meanwhile. Never rejects. */
  sendDue(): Promise<void> {
    this.#isAsked = true;
    this.#sending ??= this.#sendAll()
      // If the database fails, due messages stay due.
      .catch((thrown: unknown) => this.options.onProblem(thrown))
      .finally(() => {
        this.#sending = undefined;
      });
    return this.#sending;
  }

  async #sendAll(): Promise<void> {
    const { store, receiver, epochMs } = this.options;
    while (this.#isAsked) {
      this.#isAsked = false;
      for (const due of store.due(receiver, epochMs(), AT_ONCE)) {
        if (this.#closing.signal.aborted) return;
        await this.#send(due);
      }
    }
  }

  async #send(due: StoredAlert): Promise<void> {
    const { alert, tries } = due;
    const { store, receiver, url, format, epochMs, onFailure } = this.options;
    const text = JSON.stringify(BODIES[format](due));
    try {
      const { statusCode, body } = await request(url, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          // Names of instances may have characters that a header cannot have.
          "x-millrace-alert-id": encodeURI(alert.id).replaceAll("%20", " "),
          "user-agent": "millrace",
          ...this.#signature(text),
        },
        body: text,
        headersTimeout: TIMEOUT_MS,
        bodyTimeout: TIMEOUT_MS,
        signal: AbortSignal.any([AbortSignal.timeout(2 * TIMEOUT_MS), this.#closing.signal]),
      });
      await body.dump();
      if (statusCode >= 200 && statusCode < 300) {
        store.deliveries.delivered(due, receiver, epochMs());
        return;
      }
      throw new Error(`status ${statusCode}`);
    } catch (thrown) {
      if (this.#closing.signal.aborted) return;
      const isLast = tries + 1 >= MAX_TRIES;
      const waitMs = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** tries);
      store.deliveries.failed(due, receiver, isLast ? undefined : epochMs() + waitMs);
      onFailure(alert, (thrown as Error).message, isLast);
    }
  }

  /** HMAC-SHA256 of the time, a dot and the body: the time lets a receiver refuse a copy that is sent again. */
  #signature(text: string): Record<string, string> {
    const { secret, epochMs } = this.options;
    if (secret === undefined) return {};
    const seconds = String(Math.floor(epochMs() / 1000));
    const digest = createHmac("sha256", secret.reveal()).update(`${seconds}.${text}`).digest("hex");
    return { "x-millrace-timestamp": seconds, "x-millrace-signature": `sha256=${digest}` };
  }
}

const BODIES: Readonly<Record<WebhookFormat, (due: StoredAlert) => object>> = {
  millrace: shownAlert,
  alertmanager: alertmanagerBody,
  slack: ({ alert: { text }, resolvedMs }) => ({
    text: `${resolvedMs === null ? "" : "Resolved: "}${slackText(text)}`,
  }),
};

const SLACK_ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };

/** Slack reads links and calls to everybody between angle brackets, which a model's name may contain. */
function slackText(text: string): string {
  return text.replace(/[&<>]/g, (mark) => SLACK_ENTITIES[mark]!);
}

/** Go's zero time: an alert without an end. */
const NO_END = "0001-01-01T00:00:00Z";

/** One alert in a group of its own. An alert about a past hour fires and is never resolved. */
function alertmanagerBody({ alert, resolvedMs }: StoredAlert): object {
  const { metric, tenant, key, model, instance = "", budget = "", text, value, expected, foundMs } = alert;
  const status = resolvedMs === null ? "firing" : "resolved";
  const labels = Object.fromEntries(
    Object.entries({ alertname: metric, tenant, key, model, instance, budget }).filter(([, each]) => each !== ""),
  );
  const annotations = { summary: text, value: String(value), expected: String(expected) };
  const fingerprint = createHash("sha256").update(JSON.stringify(labels)).digest("hex").slice(0, 16);
  return {
    version: "4",
    // The key of an instance's alert stays the same until the alert ends, however often it is sent.
    groupKey: instance === "" ? alert.id : `${metric} ${instance}`,
    truncatedAlerts: 0,
    status,
    receiver: "millrace",
    groupLabels: { alertname: metric },
    commonLabels: labels,
    commonAnnotations: annotations,
    externalURL: "",
    alerts: [
      {
        status,
        labels,
        annotations,
        startsAt: new Date(foundMs).toISOString(),
        endsAt: resolvedMs === null ? NO_END : new Date(resolvedMs).toISOString(),
        generatorURL: "",
        fingerprint,
      },
    ],
  };
}

/** An alert as the list shows it and our own format sends it. */
export function shownAlert({ alert, resolvedMs }: StoredAlert) {
  const { id, foundMs, hourMs, tenant, key, model, instance = "", budget = "", metric, value, expected, text } = alert;
  const [found, hour] = [new Date(foundMs).toISOString(), new Date(hourMs).toISOString()];
  const resolved = resolvedMs === null ? null : new Date(resolvedMs).toISOString();
  return { id, text, metric, tenant, key, model, instance, budget, hour, value, expected, found, resolved };
}
