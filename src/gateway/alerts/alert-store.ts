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
}

export interface StoredAlert {
  readonly seq: number;
  readonly alert: Alert;
  readonly tries: number;
  readonly deliveredMs: number | null;
  /** Id of the silence because of which it was not sent. */
  readonly silence: string | null;
}

const MAX_ALERTS = 10_000;
const LATER_COLUMNS = [
  ["model", "TEXT NOT NULL DEFAULT ''"],
  ["silence", "TEXT"],
] as const;

export class AlertStore {
  readonly silences: SilenceStore;
  readonly #insert: Statement;
  readonly #last: Statement;

  constructor(private readonly database: Database.Database) {
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
      "INSERT OR IGNORE INTO alerts VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, NULL, ?, ?)",
    );
    this.#last = database.prepare(
      "SELECT max(found_ms) AS ms FROM alerts WHERE tenant = ? AND key = ? AND metric = ? AND model = ?",
    );
  }

  /**
   * @param coolDownMs since the last alert of the same series and metric, within which this one is dropped
   * @param isDue whether a webhook is to get it
   * @returns whether it is new
   */
  add(alert: Alert, coolDownMs: number, isDue: boolean): boolean {
    const { id, foundMs, hourMs, tenant, key, model, metric, value, expected, text } = alert;
    const last = (this.#last.get([tenant, key, metric, model]) as { readonly ms: number | null }).ms;
    if (last !== null && foundMs - last < coolDownMs) return false;
    const silence = this.silences.idFor(alert, foundMs) ?? null;
    const due = isDue && silence === null ? foundMs : null;
    const columnsOf = [id, foundMs, hourMs, tenant, key, metric, value, expected, text, due, model, silence];
    const { changes } = this.#insert.run(columnsOf);
    this.database.prepare("DELETE FROM alerts WHERE seq <= (SELECT max(seq) FROM alerts) - ?").run(MAX_ALERTS);
    return changes > 0;
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

  delivered(seq: number, atMs: number): void {
    this.database
      .prepare("UPDATE alerts SET due_ms = NULL, delivered_ms = ?, tries = tries + 1 WHERE seq = ?")
      .run(atMs, seq);
  }

  /** @param nextMs when to try again; undefined: not any more */
  failed(seq: number, nextMs: number | undefined): void {
    this.database.prepare("UPDATE alerts SET due_ms = ?, tries = tries + 1 WHERE seq = ?").run(nextMs ?? null, seq);
  }

  /** From the newest to the oldest. */
  page(before: number, limit: number): StoredAlert[] {
    const sql = "SELECT * FROM alerts WHERE seq < ? ORDER BY seq DESC LIMIT ?";
    return (this.database.prepare(sql).all(before, limit) as AlertColumns[]).map(stored);
  }
}

function stored(row: AlertColumns): StoredAlert {
  const { seq, id, found_ms: foundMs, hour_ms: hourMs, tenant, key, model, metric, value, expected, text } = row;
  const alert = { id, foundMs, hourMs, tenant, key, model, metric, value, expected, text };
  return { seq, alert, tries: row.tries, deliveredMs: row.delivered_ms, silence: row.silence };
}
