/**
 * The state of each alert's delivery to each webhook. Webhooks have their own retries, so that none waits for another.
 */
import type { Database } from "../store/database.js";

/** An alert that is due at a webhook, as it was when read. */
interface Due {
  readonly seq: number;
  readonly resolvedMs: number | null;
}

const AS_READ = "seq = ? AND receiver = ? AND (SELECT resolved_ms FROM alerts WHERE alerts.seq = ?) IS ?";

/**
 * Receivers are numbered in the order of the configuration, so a webhook whose address is corrected still gets the
 * alerts that wait for it.
 */
export class Deliveries {
  constructor(private readonly database: Database.Database) {
    database.exec(`CREATE TABLE IF NOT EXISTS alert_deliveries (
      seq INTEGER REFERENCES alerts (seq) ON DELETE CASCADE, receiver INTEGER, due_ms INTEGER,
      tries INTEGER NOT NULL DEFAULT 0, delivered_ms INTEGER, PRIMARY KEY (seq, receiver)) WITHOUT ROWID;
      CREATE INDEX IF NOT EXISTS alert_deliveries_due ON alert_deliveries (receiver, due_ms) WHERE due_ms IS NOT NULL`);
  }

  /** Copies the state of the one webhook that the table of an earlier version has. */
  migrate(): void {
    this.database.exec(`INSERT OR IGNORE INTO alert_deliveries
      SELECT seq, 0, due_ms, tries, delivered_ms FROM alerts WHERE due_ms IS NOT NULL OR tries > 0`);
  }

  /** Plans a delivery, due now, to each of the first `numReceivers` webhooks. */
  plan(seq: number, numReceivers: number, nowMs: number): void {
    const insert = this.database.prepare(`INSERT INTO alert_deliveries (seq, receiver, due_ms) VALUES (?, ?, ?)
      ON CONFLICT DO UPDATE SET due_ms = excluded.due_ms, tries = 0`);
    for (let receiver = 0; receiver < numReceivers; receiver++) insert.run([seq, receiver, nowMs]);
  }

  cancel(seq: number): void {
    this.database.prepare("UPDATE alert_deliveries SET due_ms = NULL WHERE seq = ?").run(seq);
  }

  delivered({ seq, resolvedMs }: Due, receiver: number, atMs: number): void {
    const sql = `UPDATE alert_deliveries SET due_ms = NULL, delivered_ms = ?, tries = tries + 1 WHERE ${AS_READ}`;
    this.database.prepare(sql).run([atMs, seq, receiver, seq, resolvedMs]);
  }

  /** @param nextMs when to try again; undefined: never. An alert that has ended since it was read stays due. */
  failed({ seq, resolvedMs }: Due, receiver: number, nextMs: number | undefined): void {
    const sql = `UPDATE alert_deliveries SET due_ms = ?, tries = tries + 1 WHERE ${AS_READ}`;
    this.database.prepare(sql).run([nextMs ?? null, seq, receiver, seq, resolvedMs]);
  }
}
