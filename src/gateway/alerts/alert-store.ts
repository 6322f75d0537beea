/** Alerts in the gateway's database: each is stored once, and stays due until each webhook has taken it. */
import type { Database, Statement } from "../store/database.js";
import { Deliveries } from "./deliveries.js";
import { SilenceStore } from "./silences.js";

export interface Alert {
  /** Name of an hour's metric, or `quality_` and the name of a check. */
  readonly metric: string;
  readonly value: number;
  readonly expected: number;
  /** Unique, so that a webhook's receiver recognises repetitions. */
  readonly id: string;
  /** Milliseconds since 1970: the time of the finding, and the start of the hour in question. */
  readonly foundMs: number;
  readonly hourMs: number;
  /** Empty: the alert is about all callers together. */
  readonly tenant: string;
  readonly key: string;
  /** Empty: the alert is about no single model. */
  readonly model: string;
  /**
   * Instance of the fleet; absent: the alert is about no instance. Alerts on instances, and alerts with `endsMs`, end
   * later; every other alert is about an hour in the past.
   */
  readonly instance?: string;
  /** The budget in question, such as `team/acme/search/month`, or `…/month-tokens`. */
  readonly budget?: string;
  /** Milliseconds since 1970. */
  readonly endsMs?: number;
  readonly text: string;
}

interface AlertColumns {
  readonly seq: number;
  readonly id: string;
  readonly found_ms: number;
  readonly hour_ms: number;
  readonly tenant: string;
  readonly key: string;
  readonly model: string;
  readonly metric: string;
  readonly value: number;
  readonly expected: number;
  readonly text: string;
  readonly silence: string | null;
  readonly instance: string;
  readonly resolved_ms: number | null;
  readonly budget: string;
  readonly ends_ms: number | null;
  readonly tries: number | null;
  readonly delivered_ms: number | null;
}

export interface StoredAlert {
  readonly seq: number;
  readonly alert: Alert;
  /** Attempts to reach the webhook; in a list, the most of any webhook. */
  readonly tries: number;
  /** When the last webhook took the alert; null: a webhook has not taken it yet. */
  readonly deliveredMs: number | null;
  /** Id of the silence that kept the alert from being sent. */
  readonly silence: string | null;
  readonly resolvedMs: number | null;
}

const MAX_ALERTS = 10_000;
/**
 * An instance that fails again within this time after its recovery counts as still failing, so the cool-down applies.
 */
const CALM_MS = 300_000;
const LATER_COLUMNS = [
  ["model", "TEXT NOT NULL DEFAULT ''"],
  ["silence", "TEXT"],
  ["instance", "TEXT NOT NULL DEFAULT ''"],
  ["resolved_ms", "INTEGER"],
  ["budget", "TEXT NOT NULL DEFAULT ''"],
  ["ends_ms", "INTEGER"],
] as const;

export class AlertStore {
  readonly silences: SilenceStore;
  readonly deliveries: Deliveries;
  readonly #insert: Statement;
  readonly #last: Statement;

  /** @param onAdded called for each new alert that no silence fits */
  constructor(
    private readonly database: Database.Database,
    private readonly onAdded: (alert: Alert) => void = () => {},
  ) {
    database.exec(`CREATE TABLE IF NOT EXISTS alerts (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, found_ms INTEGER, hour_ms INTEGER, tenant TEXT, key TEXT,
      metric TEXT, value REAL, expected REAL, text TEXT);
      CREATE INDEX IF NOT EXISTS alerts_of ON alerts (tenant, key, metric, found_ms)`);
    this.deliveries = new Deliveries(database);
    this.#bringUpToDate();
    this.silences = new SilenceStore(database);
    this.#insert = database.prepare(
      `INSERT OR IGNORE INTO alerts (id, found_ms, hour_ms, tenant, key, metric, value, expected, text, model, silence,
       instance, budget, ends_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#last = database.prepare(
      `SELECT max(found_ms) AS ms FROM alerts WHERE tenant = ? AND key = ? AND metric = ? AND model = ? AND instance = ?
       AND budget = ? AND (resolved_ms IS NULL OR resolved_ms > ?)`,
    );
  }

  /**
   * @param coolDownMs an alert of the same series and metric that is younger than this keeps the new one out
   * @param numReceivers number of webhooks that get the alert
   * @returns whether the alert was stored
   */
  add(alert: Alert, coolDownMs: number, numReceivers: number): boolean {
    // One transaction: an alert that is stored, but planned for no webhook, would never be sent.
    return this.database.transaction(() => this.#add(alert, coolDownMs, numReceivers))();
  }

  #add(alert: Alert, coolDownMs: number, numReceivers: number): boolean {
    const { id, foundMs, hourMs, tenant, key, model, instance = "", metric, value, expected, text } = alert;
    const { budget = "", endsMs = null } = alert;
    const last = this.#last.get([tenant, key, metric, model, instance, budget, foundMs - CALM_MS]) as {
      readonly ms: number | null;
    };
    if (last.ms !== null && foundMs - last.ms < coolDownMs) return false;
    const silence = this.silences.idFor(alert, foundMs) ?? null;
    const about = [id, foundMs, hourMs, tenant, key, metric, value, expected, text, model, silence, instance];
    const { changes, lastInsertRowid } = this.#insert.run([...about, budget, endsMs]);
    if (changes === 0) return false;
    if (silence === null) this.deliveries.plan(Number(lastInsertRowid), numReceivers, foundMs);
    this.database.prepare("DELETE FROM alerts WHERE seq <= (SELECT max(seq) FROM alerts) - ?").run(MAX_ALERTS);
    if (silence === null) this.onAdded(alert);
    return true;
  }

  /** Open alerts on instances, oldest first: of several on one metric and instance, the newest comes last. */
  open(): StoredAlert[] {
    return this.#read("instance != '' AND resolved_ms IS NULL ORDER BY seq", []);
  }

  /** Open alerts whose `endsMs` has passed. */
  over(nowMs: number): StoredAlert[] {
    return this.#read("ends_ms <= ? AND resolved_ms IS NULL ORDER BY seq", [nowMs]);
  }

  /**
   * Ends an alert and, for an instance, its earlier repetitions too. Each webhook is notified once, unless a silence
   * kept the alert from it.
   */
  resolve(alert: StoredAlert, nowMs: number, numReceivers: number): void {
    this.database.transaction(() => this.#resolve(alert, nowMs, numReceivers))();
  }

  #resolve({ seq, alert: { metric, instance = "" }, silence }: StoredAlert, nowMs: number, numReceivers: number): void {
    const all = this.database
      .prepare(
        "SELECT seq FROM alerts WHERE (seq = ? OR (instance != '' AND metric = ? AND instance = ?)) AND resolved_ms IS NULL",
      )
      .all([seq, metric, instance]) as { readonly seq: number }[];
    for (const each of all) {
      this.database.prepare("UPDATE alerts SET resolved_ms = ? WHERE seq = ?").run([nowMs, each.seq]);
      this.deliveries.cancel(each.seq);
    }
    if (silence === null) this.deliveries.plan(seq, numReceivers, nowMs);
  }

  /** Alerts to send to a webhook now, oldest first. Alerts that a silence fits by now are cancelled. */
  due(receiver: number, nowMs: number, atMost: number): StoredAlert[] {
    const sql = `SELECT alerts.*, due.tries, due.delivered_ms FROM alert_deliveries AS due JOIN alerts USING (seq)
      WHERE due.receiver = ? AND due.due_ms <= ? ORDER BY due.due_ms, seq LIMIT ?`;
    const rows = (this.database.prepare(sql).all(receiver, nowMs, atMost) as AlertColumns[]).map(stored);
    return rows.filter(({ seq, alert }) => {
      const silence = this.silences.idFor(alert, nowMs);
      if (silence === undefined) return true;
      this.database.prepare("UPDATE alerts SET silence = ? WHERE seq = ?").run([silence, seq]);
      this.deliveries.cancel(seq);
      return false;
    });
  }

  /**
   * Alerts from the newest to the oldest.
   * @param isOpen only alerts with an end that have not ended: on instances and soft budgets
   */
  page(before: number, limit: number, isOpen = false): StoredAlert[] {
    const where = isOpen ? "resolved_ms IS NULL AND (instance != '' OR budget != '') AND " : "";
    return this.#read(`${where}seq < ? ORDER BY seq DESC LIMIT ?`, [before, limit]);
  }

  #read(where: string, values: readonly unknown[]): StoredAlert[] {
    const sql = `SELECT alerts.*, (SELECT max(tries) FROM alert_deliveries AS own WHERE own.seq = alerts.seq) AS tries,
      (SELECT CASE WHEN count(*) = count(delivered_ms) THEN max(delivered_ms) END
       FROM alert_deliveries AS own WHERE own.seq = alerts.seq) AS delivered_ms
      FROM alerts WHERE ${where}`;
    return (this.database.prepare(sql).all([...values]) as AlertColumns[]).map(stored);
  }

  /**
   * Upgrades the table of an earlier version: adds missing columns, and moves the delivery columns of the one webhook
   * that such a version had.
   */
  #bringUpToDate(): void {
    const { database } = this;
    const columns = database.pragma("table_info(alerts)") as readonly { readonly name: string }[];
    const has = (column: string): boolean => columns.some(({ name }) => name === column);
    for (const [column, type] of LATER_COLUMNS)
      if (!has(column)) database.exec(`ALTER TABLE alerts ADD COLUMN ${column} ${type}`);
    if (!has("due_ms")) return;
    // If the process stops in between, the table stays as it was.
    database.transaction(() => {
      this.deliveries.migrate();
      database.exec("DROP INDEX IF EXISTS alerts_due");
      for (const column of ["tries", "due_ms", "delivered_ms"])
        database.exec(`ALTER TABLE alerts DROP COLUMN ${column}`);
    })();
  }
}

function stored(row: AlertColumns): StoredAlert {
  const { seq, id, found_ms: foundMs, hour_ms: hourMs, tenant, key, model, metric, value, expected, text } = row;
  const alert = {
    id,
    foundMs,
    hourMs,
    tenant,
    key,
    model,
    metric,
    value,
    expected,
    text,
    ...(row.instance === "" ? {} : { instance: row.instance }),
    ...(row.budget === "" ? {} : { budget: row.budget }),
    ...(row.ends_ms === null ? {} : { endsMs: row.ends_ms }),
  };
  const { tries, delivered_ms: deliveredMs, silence, resolved_ms: resolvedMs } = row;
  return { seq, alert, tries: tries ?? 0, deliveredMs, silence, resolvedMs };
}
