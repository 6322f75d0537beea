/** Alerts in the gateway's database: each is stored once, and stays due until the webhook has taken it. */
import type { Database, Statement } from "../store/database.js";
import { SilenceStore } from "./silences.js";

export interface Alert {
  /** A metric of an hour, or `quality_` and the name of a check. */
  readonly metric: string;
  readonly value: number;
  readonly expected: number;
  /** Unique; the webhook's receiver tells repetitions by it. */
  readonly id: string;
  /** Milliseconds since 1970: when it was found, and the first of the hour that it is about. */
  readonly foundMs: number;
  readonly hourMs: number;
  /** "" where it is about everybody. */
  readonly tenant: string;
  readonly key: string;
  /** "" where it is about no model. */
  readonly model: string;
  /** Of the fleet; absent where it is about none. Such alerts end, others are about a time that is over. */
  readonly instance?: string;
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
  readonly tries: number;
  readonly due_ms: number | null;
  readonly delivered_ms: number | null;
  readonly silence: string | null;
  readonly instance: string;
  readonly resolved_ms: number | null;
}

export interface StoredAlert {
  readonly seq: number;
  readonly alert: Alert;
  readonly tries: number;
  readonly deliveredMs: number | null;
  /** Id of the silence because of which it was not sent. */
  readonly silence: string | null;
  readonly resolvedMs: number | null;
}

const MAX_ALERTS = 10_000;
/** An instance that fails again so soon after it was well again is no news before the cool-down. */
const CALM_MS = 300_000;
const LATER_COLUMNS = [
  ["model", "TEXT NOT NULL DEFAULT ''"],
  ["silence", "TEXT"],
  ["instance", "TEXT NOT NULL DEFAULT ''"],
  ["resolved_ms", "INTEGER"],
] as const;

export class AlertStore {
  readonly silences: SilenceStore;
  readonly #insert: Statement;
  readonly #last: Statement;

  /** @param onAdded told of each new alert that no silence fits */
  constructor(
    private readonly database: Database.Database,
    private readonly onAdded: (alert: Alert) => void = () => {},
  ) {
    database.exec(`CREATE TABLE IF NOT EXISTS alerts (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, found_ms INTEGER, hour_ms INTEGER, tenant TEXT, key TEXT,
      metric TEXT, value REAL, expected REAL, text TEXT, tries INTEGER, due_ms INTEGER, delivered_ms INTEGER);
      CREATE INDEX IF NOT EXISTS alerts_of ON alerts (tenant, key, metric, found_ms);
      CREATE INDEX IF NOT EXISTS alerts_due ON alerts (due_ms) WHERE due_ms IS NOT NULL`);
    const columns = database.pragma("table_info(alerts)") as readonly { readonly name: string }[];
    // Tables of earlier versions lack these.
    for (const [column, type] of LATER_COLUMNS) {
      if (columns.some(({ name }) => name === column)) continue;
      database.exec(`ALTER TABLE alerts ADD COLUMN ${column} ${type}`);
    }
    this.silences = new SilenceStore(database);
    this.#insert = database.prepare(
      "INSERT OR IGNORE INTO alerts VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, NULL, ?, ?, ?, NULL)",
    );
    this.#last = database.prepare(
      `SELECT max(found_ms) AS ms FROM alerts WHERE tenant = ? AND key = ? AND metric = ? AND model = ? AND instance = ?
       AND (resolved_ms IS NULL OR resolved_ms > ?)`,
    );
  }

  /**
   * @param coolDownMs since the last alert of the same series and metric, within which this one is dropped
   * @param isDue whether a webhook is to get it
   * @returns whether it is new
   */
  add(alert: Alert, coolDownMs: number, isDue: boolean): boolean {
    const { id, foundMs, hourMs, tenant, key, model, instance = "", metric, value, expected, text } = alert;
    const calmSince = foundMs - CALM_MS;
    const last = (this.#last.get([tenant, key, metric, model, instance, calmSince]) as { readonly ms: number | null })
      .ms;
    if (last !== null && foundMs - last < coolDownMs) return false;
    const silence = this.silences.idFor(alert, foundMs) ?? null;
    const due = isDue && silence === null ? foundMs : null;
    const columnsOf = [id, foundMs, hourMs, tenant, key, metric, value, expected, text, due, model, silence, instance];
    const { changes } = this.#insert.run(columnsOf);
    this.database.prepare("DELETE FROM alerts WHERE seq <= (SELECT max(seq) FROM alerts) - ?").run(MAX_ALERTS);
    if (changes > 0 && silence === null) this.onAdded(alert);
    return changes > 0;
  }

  /** Those of instances that have not ended, the newest of each metric and instance last. */
  open(): StoredAlert[] {
    const sql = "SELECT * FROM alerts WHERE instance != '' AND resolved_ms IS NULL ORDER BY seq";
    return (this.database.prepare(sql).all() as AlertColumns[]).map(stored);
  }

  /** Ends an alert and its repetitions before it: the webhook gets that once, unless a silence kept the alert from it. */
  resolve({ seq, alert: { metric, instance = "" }, silence }: StoredAlert, nowMs: number, isDue: boolean): void {
    this.database
      .prepare(
        `UPDATE alerts SET resolved_ms = ?, tries = 0, due_ms = CASE WHEN seq = ? THEN ? END
         WHERE metric = ? AND instance = ? AND resolved_ms IS NULL`,
      )
      .run([nowMs, seq, isDue && silence === null ? nowMs : null, metric, instance]);
  }

  /** Alerts that the webhook is to get now, the oldest first; those silenced since they were found are taken out. */
  due(nowMs: number, atMost: number): StoredAlert[] {
    const sql = "SELECT * FROM alerts WHERE due_ms <= ? ORDER BY due_ms LIMIT ?";
    const rows = (this.database.prepare(sql).all(nowMs, atMost) as AlertColumns[]).map(stored);
    return rows.filter(({ seq, alert }) => {
      const silence = this.silences.idFor(alert, nowMs);
      if (silence === undefined) return true;
      this.database.prepare("UPDATE alerts SET due_ms = NULL, silence = ? WHERE seq = ?").run(silence, seq);
      return false;
    });
  }

  delivered({ seq, resolvedMs }: StoredAlert, atMs: number): void {
    this.database
      .prepare(
        "UPDATE alerts SET due_ms = NULL, delivered_ms = ?, tries = tries + 1 WHERE seq = ? AND resolved_ms IS ?",
      )
      .run([atMs, seq, resolvedMs]);
  }

  /** @param nextMs when to try again; undefined: not any more. An alert that has ended since it was read stays due. */
  failed({ seq, resolvedMs }: StoredAlert, nextMs: number | undefined): void {
    this.database
      .prepare("UPDATE alerts SET due_ms = ?, tries = tries + 1 WHERE seq = ? AND resolved_ms IS ?")
      .run([nextMs ?? null, seq, resolvedMs]);
  }

  /** From the newest to the oldest. */
  page(before: number, limit: number): StoredAlert[] {
    const sql = "SELECT * FROM alerts WHERE seq < ? ORDER BY seq DESC LIMIT ?";
    return (this.database.prepare(sql).all(before, limit) as AlertColumns[]).map(stored);
  }
}

function stored(row: AlertColumns): StoredAlert {
  const { seq, id, found_ms: foundMs, hour_ms: hourMs, tenant, key, model, instance, metric, value, expected } = row;
  const about = { id, foundMs, hourMs, tenant, key, model, metric, value, expected, text: row.text };
  const alert = instance === "" ? about : { ...about, instance };
  const { tries, delivered_ms: deliveredMs, silence, resolved_ms: resolvedMs } = row;
  return { seq, alert, tries, deliveredMs, silence, resolvedMs };
}
