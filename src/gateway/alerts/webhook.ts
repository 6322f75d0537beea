/** Sends alerts to a web server, and tries again until it takes them. */
import { createHash } from "node:crypto";
import { request } from "undici";
import type { Alert, AlertStore, StoredAlert } from "./alert-store.js";

const TIMEOUT_MS = 10_000;
const AT_ONCE = 10;
const FIRST_RETRY_MS = 60_000;
const LAST_RETRY_MS = 3_600_000;
/** About a day. */
const MAX_TRIES = 30;

/** Of what is sent: our own JSON, that of Prometheus' Alertmanager (version 4 of its webhooks), or a message for Slack and its likes. */
export const WEBHOOK_FORMATS = ["millrace", "alertmanager", "slack"] as const;
export type WebhookFormat = (typeof WEBHOOK_FORMATS)[number];

export interface WebhookTarget {
  readonly url: string;
  readonly format: WebhookFormat;
}

interface WebhookOptions extends WebhookTarget {
  readonly store: AlertStore;
  readonly epochMs: () => number;
  readonly onFailure: (alert: Alert, reason: string, isLast: boolean) => void;
}

export class Webhook {
  #sending: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(private readonly options: WebhookOptions) {}

  /** Ends what is being sent, which stays due. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#sending;
  }

  /** Sends what is due; while that runs, further calls wait for it. Never rejects. */
  sendDue(): Promise<void> {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
    return this.#sending;
  }

  async #sendAll(): Promise<void> {
    const { store, epochMs } = this.options;
    for (const due of store.due(epochMs(), AT_ONCE)) {
      if (this.#closing.signal.aborted) return;
      await this.#send(due);
    }
  }

  async #send({ seq, alert, tries }: StoredAlert): Promise<void> {
    const { store, url, format, epochMs, onFailure } = this.options;
    try {
      const { statusCode, body } = await request(url, {
        method: "POST",
        headers: { "content-type": "application/json", "x-millrace-alert-id": alert.id, "user-agent": "millrace" },
        body: JSON.stringify(BODIES[format](alert)),
        headersTimeout: TIMEOUT_MS,
        bodyTimeout: TIMEOUT_MS,
        signal: AbortSignal.any([AbortSignal.timeout(2 * TIMEOUT_MS), this.#closing.signal]),
      });
      await body.dump();
      if (statusCode >= 200 && statusCode < 300) {
        store.delivered(seq, epochMs());
        return;
      }
      throw new Error(`status ${statusCode}`);
    } catch (thrown) {
      if (this.#closing.signal.aborted) return;
      const isLast = tries + 1 >= MAX_TRIES;
      const waitMs = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** tries);
      store.failed(seq, isLast ? undefined : epochMs() + waitMs);
      onFailure(alert, (thrown as Error).message, isLast);
    }
  }
}

const BODIES: Readonly<Record<WebhookFormat, (alert: Alert) => object>> = {
  millrace: shownAlert,
  alertmanager: alertmanagerBody,
  slack: ({ text }) => ({ text }),
};

/** Go's zero time: an alert without an end. */
const NO_END = "0001-01-01T00:00:00Z";

/** One alert in a group of its own. It fires and is never resolved, since it is about an hour that is over. */
function alertmanagerBody(alert: Alert): object {
  const { metric, tenant, key, model, text, value, expected, foundMs } = alert;
  const labels = Object.fromEntries(
    Object.entries({ alertname: metric, tenant, key, model }).filter(([, each]) => each !== ""),
  );
  const annotations = { summary: text, value: String(value), expected: String(expected) };
  const fingerprint = createHash("sha256").update(JSON.stringify(labels)).digest("hex").slice(0, 16);
  return {
    version: "4",
    groupKey: alert.id,
    truncatedAlerts: 0,
    status: "firing",
    receiver: "millrace",
    groupLabels: { alertname: metric },
    commonLabels: labels,
    commonAnnotations: annotations,
    externalURL: "",
    alerts: [
      {
        status: "firing",
        labels,
        annotations,
        startsAt: new Date(foundMs).toISOString(),
        endsAt: NO_END,
        generatorURL: "",
        fingerprint,
      },
    ],
  };
}

/** As it is listed, and sent in our own format. */
export function shownAlert({ id, foundMs, hourMs, tenant, key, model, metric, value, expected, text }: Alert) {
  const [found, hour] = [new Date(foundMs).toISOString(), new Date(hourMs).toISOString()];
  return { id, text, metric, tenant, key, model, hour, value, expected, found };
}
