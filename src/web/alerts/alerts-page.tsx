/** Active alerts, all alerts from the newest, and silences. */
import { useSignal } from "@preact/signals";
import { getJson } from "../api/client.js";
import { Allowed } from "../parts/allowed.js";
import { useLoaded } from "../parts/load.js";
import { Pager } from "../parts/pager.js";
import { Table } from "../parts/table.js";
import { useTimeText } from "../parts/time-text.js";
import { type Alert, aboutText, newestOfEach, type SilenceWish, sentText, wishFor } from "./alert-view.js";
import { NO_WISH, Silences } from "./silences.js";

interface AlertList {
  readonly data: readonly Alert[];
  readonly next_cursor: number | null;
}

const PAGE = 50;
const EVERY_MS = 10_000;

interface RowsProps {
  readonly alerts: readonly Alert[];
  silence(alert: Alert): void;
}

function AlertTable({ alerts, silence }: RowsProps) {
  const timeText = useTimeText();
  const time = (iso: string): string => timeText(Date.parse(iso) / 1000);
  return (
    <Table columns={["Found", "Alert", "Metric", "About", "Ended", "Webhook", "Do"]}>
      {alerts.map((alert) => (
        <tr key={alert.id}>
          <td>{time(alert.found)}</td>
          <td>{alert.text}</td>
          <td>{alert.metric}</td>
          <td>{aboutText(alert)}</td>
          <td>{alert.resolved === null ? "–" : time(alert.resolved)}</td>
          <td>{sentText(alert, time)}</td>
          <td>
            <Allowed least="operator">
              <button type="button" class="plain" aria-label={`Silence: ${alert.text}`} onClick={() => silence(alert)}>
                Silence
              </button>
            </Allowed>
          </td>
        </tr>
      ))}
    </Table>
  );
}

function Lists() {
  const wish = useSignal<SilenceWish>(NO_WISH);
  const fills = useSignal(0);
  const silence = (alert: Alert) => {
    wish.value = wishFor(alert);
    fills.value++;
  };
  const after = useSignal<readonly string[]>([]);
  const cursor = after.value.at(-1);
  const path = `admin/alerts?limit=${PAGE}${cursor === undefined ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
  const load = async () => ({
    all: await getJson<AlertList>(path, "operator"),
    open: newestOfEach((await getJson<AlertList>("admin/alerts?open=true&limit=500", "operator")).data),
  });
  const { data, error } = useLoaded(load, { when: [path], everyMs: EVERY_MS });
  if (data === undefined) return error === undefined ? null : <p class="hint">{error}</p>;
  const { all, open } = data;
  const isFirst = after.value.length === 0;
  return (
    <>
      {error !== undefined && <p class="error">{error}</p>}
      <section>
        <h3>Now</h3>
        {open.length === 0 && (
          <p class="hint">Nothing: no instance is down, no circuit breaker is open, and no soft budget is passed.</p>
        )}
        {open.length > 0 && <AlertTable alerts={open} silence={silence} />}
      </section>
      <section>
        <h3>All</h3>
        {all.data.length === 0 && isFirst && (
          <p class="hint">
            No alerts. Each hour of each key is judged when it is over: spend, tokens, errors, refusals, retries, cut
            answers and hits of caches; and with quality checks, drifts.
          </p>
        )}
        {all.data.length > 0 && <AlertTable alerts={all.data} silence={silence} />}
        <Pager after={after} last={all.next_cursor === null ? undefined : String(all.next_cursor)} />
      </section>
      <Silences wish={wish} fills={fills} />
    </>
  );
}

export function AlertsPage() {
  return (
    <div class="page">
      <h2>Alerts</h2>
      <Lists />
    </div>
  );
}
