/**
 * Samples in the gateway's database: a row each, texts in another table, and sums by the day. Texts go when they exceed
 * a number of bytes, rows and sums when they are old.
 */
import type { Database, Statement } from "../store/database.js";
import { type GroupCommit, SOON_MS } from "../store/group-commit.js";
import { type Row, sideOf } from "../store/side-connection.js";
import type { KeptText } from "./check-job.js";
import type { Verdicts } from "./checks/checks.js";

export const DAY_MS = 86_400_000;
const MAX_ROWS = 1_000_000;
/** Rows that one sample may delete: keeps transactions short. */
const AT_ONCE = 100;
/** The least time between two searches for old rows. */
const SWEEP_MS = 60_000;
const MAX_ID_CHARACTERS = 200;

export interface KeptSample {
  readonly atMs: number;
  readonly requestId: string;
  readonly tenant: string;
  readonly key: string;
  readonly model: string;
  /** Version of the model that answered; "": unknown. */
  readonly version: string;
  readonly path: string;
  /** Inverse of the chance to be sampled. */
  readonly weight: number;
  readonly verdicts: Verdicts;
  readonly text: KeptText | undefined;
}

/** One addend of the sums: a verdict of a check, or a client's feedback. */
export interface Judged {
  readonly atMs: number;
  readonly tenant: string;
  readonly model: string;
  readonly version: string;
  readonly name: string;
  readonly weight: number;
  readonly badness: number;
  readonly isFailing: boolean;
}

interface Feedback {
  readonly atMs: number;
  readonly requestId: string;
  readonly tenant: string;
  readonly model: string;
  /** From −1, bad, to 1, good. */
  readonly score: number;
  readonly correction: string | undefined;
  readonly comment: string | undefined;
}

interface SampleFilter {
  readonly isFailing?: boolean | undefined;
  /** Only samples that fail this check, or, for "feedback", have bad feedback. */
  readonly check?: string | undefined;
  readonly model?: string | undefined;
  readonly tenant?: string | undefined;
  readonly fromMs?: number | undefined;
}

interface Retention {
  /** Bytes of texts, of samples and of feedback together; 0: no texts are kept. */
  readonly textBytes: number;
  readonly days: number;
}

const TABLES = `
  CREATE TABLE IF NOT EXISTS quality_samples (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER, request_id TEXT, tenant TEXT, key TEXT, model TEXT, version TEXT, path TEXT, weight REAL,
    failing TEXT, verdicts TEXT);
  CREATE INDEX IF NOT EXISTS quality_samples_of ON quality_samples (request_id);
  CREATE INDEX IF NOT EXISTS quality_samples_at ON quality_samples (at_ms);
  CREATE TABLE IF NOT EXISTS quality_texts (seq INTEGER PRIMARY KEY, text TEXT, bytes INTEGER);
  CREATE TABLE IF NOT EXISTS quality_feedback (
    tenant TEXT, request_id TEXT, at_ms INTEGER, model TEXT, score REAL, correction TEXT, comment TEXT, PRIMARY KEY (tenant, request_id)) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS quality_feedback_at ON quality_feedback (at_ms);
  CREATE INDEX IF NOT EXISTS quality_feedback_texts ON quality_feedback (at_ms) WHERE correction IS NOT NULL OR comment IS NOT NULL;
  CREATE TABLE IF NOT EXISTS quality_days (
    day INTEGER, model TEXT, version TEXT, tenant TEXT, name TEXT, judged INTEGER, failing INTEGER, badness REAL, weight REAL, weighted_failing REAL,
    PRIMARY KEY (day, model, version, tenant, name)) WITHOUT ROWID`;

const FEEDBACK_BYTES = "(coalesce(length(CAST(correction AS BLOB)), 0) + coalesce(length(CAST(comment AS BLOB)), 0))";

/** The sequence number of a sample's text, or none; time; bytes; tenant and request of a feedback's texts, or none. */
type OldText = readonly [number | null, number, number, string | null, string | null];

export class QualityStore {
  readonly #insert: Statement;
  readonly #insertText: Statement;
  readonly #addToDay: Statement;
  readonly #oldestTexts: Statement;
  readonly #deleteText: Statement;
  readonly #clearFeedback: Statement;
  readonly #bytesOfText: Statement;
  readonly #oldSamples: Statement;
  readonly #tooManySamples: Statement;
  readonly #deleteSample: Statement;
  readonly #deleteFeedback: Statement;
  readonly #deleteDays: Statement;
  #textBytes: number;
  #sweptMs = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly database: Database.Database,
    private readonly commits: GroupCommit,
    private readonly retention: Retention,
  ) {
    database.exec(TABLES);
    this.#insert =
      database.prepare(`INSERT INTO quality_samples (at_ms, request_id, tenant, key, model, version, path, weight, failing, verdicts)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
    this.#insertText = database.prepare("INSERT INTO quality_texts (seq, text, bytes) VALUES (?, ?, ?)");
    this.#addToDay = database.prepare(
      `INSERT INTO quality_days
         (day, model, version, tenant, name, judged, failing, badness, weight, weighted_failing)
       VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET judged = judged + 1,
       failing = failing + excluded.failing, badness = badness + excluded.badness, weight = weight + excluded.weight,
       weighted_failing = weighted_failing + excluded.weighted_failing`,
    );
    this.#oldestTexts = database.prepare(
      `SELECT * FROM (SELECT t.seq, s.at_ms, t.bytes, NULL AS tenant, NULL AS request_id FROM quality_texts t
       LEFT JOIN quality_samples s ON s.seq = t.seq ORDER BY t.seq LIMIT ${AT_ONCE})
       UNION ALL SELECT * FROM (SELECT NULL, at_ms, ${FEEDBACK_BYTES}, tenant, request_id FROM quality_feedback
       WHERE correction IS NOT NULL OR comment IS NOT NULL ORDER BY at_ms LIMIT ${AT_ONCE}) ORDER BY 2 LIMIT ${AT_ONCE}`,
    );
    this.#clearFeedback = database.prepare(
      "UPDATE quality_feedback SET correction = NULL, comment = NULL WHERE tenant = ? AND request_id = ?",
    );
    this.#deleteText = database.prepare("DELETE FROM quality_texts WHERE seq = ?");
    this.#bytesOfText = database.prepare("SELECT bytes FROM quality_texts WHERE seq = ?");
    // Two statements, since one with OR would read the whole table.
    this.#oldSamples = database.prepare(
      `SELECT seq FROM quality_samples WHERE at_ms < ? ORDER BY at_ms LIMIT ${AT_ONCE}`,
    );
    this.#tooManySamples = database.prepare(
      `SELECT seq FROM quality_samples WHERE seq <= (SELECT max(seq) FROM quality_samples) - ${MAX_ROWS} ORDER BY seq LIMIT ${AT_ONCE}`,
    );
    this.#deleteSample = database.prepare("DELETE FROM quality_samples WHERE seq = ?");
    this.#deleteFeedback = database.prepare("DELETE FROM quality_feedback WHERE at_ms < ?");
    this.#deleteDays = database.prepare("DELETE FROM quality_days WHERE day < ?");
    const sum = database.prepare("SELECT coalesce(sum(bytes), 0) AS bytes FROM quality_texts").get([]);
    this.#textBytes = (sum as { readonly bytes: number }).bytes + this.#feedbackBytes("true", []);
    // The limit may be smaller than it was before the start.
    if (this.#textBytes > retention.textBytes) commits.alone(() => this.#trimTexts());
  }

  /** Bytes of the kept texts. */
  get textBytes(): number {
    return this.#textBytes;
  }

  /** Resolves when the sample is in the database. Rejects if the write fails, as on a full disk. */
  add(sample: KeptSample): Promise<void> {
    return this.#write(() => this.#add(sample), { waitMs: SOON_MS });
  }

  /** Later feedback on the same request replaces the earlier one. @returns whether it is the first */
  addFeedback({ atMs, requestId, tenant, model, score, correction, comment }: Feedback): Promise<boolean> {
    const id = requestId.slice(0, MAX_ID_CHARACTERS);
    const write = (): boolean => {
      const ofRequest = "tenant = ? AND request_id = ?";
      const known = this.database.prepare(`SELECT 1 FROM quality_feedback WHERE ${ofRequest}`).get([tenant, id]);
      const bytes = Buffer.byteLength(`${correction ?? ""}${comment ?? ""}`);
      const [keptCorrection, keptComment] = bytes > this.retention.textBytes ? [] : [correction, comment];
      this.#textBytes -= this.#feedbackBytes(ofRequest, [tenant, id]);
      this.database
        .prepare(
          `INSERT OR REPLACE INTO quality_feedback (tenant, request_id, at_ms, model, score, correction, comment)
           VALUES (?, ?, ?, ?, ?, ?, ?)`,
        )
        .run([tenant, id, atMs, model, score, keptCorrection ?? null, keptComment ?? null]);
      this.#textBytes += this.#feedbackBytes(ofRequest, [tenant, id]);
      this.#trimTexts();
      this.#sweep(atMs);
      return known === undefined;
    };
    return this.#write(write);
  }

  /** Adds to the sums of the day. */
  addJudged(judged: Judged): Promise<void> {
    return this.commits.run(() => this.#addJudged(judged), { waitMs: SOON_MS });
  }

  /** The newest sample of a request. */
  sampleOf(requestId: string, tenant: string): { readonly model: string; readonly version: string } | undefined {
    const sql =
      "SELECT model, version FROM quality_samples WHERE request_id = ? AND tenant = ? ORDER BY seq DESC LIMIT 1";
    const row = this.database.prepare(sql).get([requestId.slice(0, MAX_ID_CHARACTERS), tenant]);
    return row as { readonly model: string; readonly version: string } | undefined;
  }

  /** Sums of the days since `fromMs`, by model and check, and optionally by tenant and version. */
  async sums(fromMs: number, groups: readonly ("tenant" | "version")[]): Promise<readonly Row[]> {
    const columns = ["model", "name", ...groups].join(", ");
    const sql = `SELECT ${columns}, sum(judged) AS judged, sum(failing) AS failing, sum(badness) AS badness, sum(weight) AS weight,
      sum(weighted_failing) AS weighted_failing FROM quality_days WHERE day >= ? GROUP BY ${columns} ORDER BY ${columns}`;
    return await sideOf(this.database).read(sql, [Math.floor(fromMs / DAY_MS)]);
  }

  /** Samples from the newest to the oldest, with their texts and feedback, if any. */
  async page(filter: SampleFilter, before: number, limit: number): Promise<readonly Row[]> {
    const { isFailing, check, model, tenant, fromMs = 0 } = filter;
    const where = ["s.seq < ?", "s.at_ms >= ?"];
    const values: unknown[] = [before, fromMs];
    const add = (condition: string, value?: unknown): void => {
      where.push(condition);
      if (value !== undefined) values.push(value);
    };
    if (model !== undefined) add("s.model = ?", model);
    if (tenant !== undefined) add("s.tenant = ?", tenant);
    if (check === "feedback") add("f.score < 0");
    else if (check !== undefined) add("instr(s.failing, ?) > 0", `|${check}|`);
    if (isFailing === true) add("(s.failing != '' OR f.score < 0)");
    const sql = `SELECT s.seq, s.at_ms, s.request_id, s.tenant, s.key, s.model, s.version, s.path, s.weight, s.verdicts, t.text,
      f.score, f.correction, f.comment FROM quality_samples s LEFT JOIN quality_texts t ON t.seq = s.seq
      LEFT JOIN quality_feedback f ON f.tenant = s.tenant AND f.request_id = s.request_id
      WHERE ${where.join(" AND ")} ORDER BY s.seq DESC LIMIT ?`;
    return await sideOf(this.database).read(sql, [...values, limit]);
  }

  /** Deletes samples, with texts and feedback; the sums of days stay. @returns the number of samples */
  forget(tenant: string, requestId: string | undefined): Promise<number> {
    const where = requestId === undefined ? "tenant = ?" : "tenant = ? AND request_id = ?";
    const values = requestId === undefined ? [tenant] : [tenant, requestId.slice(0, MAX_ID_CHARACTERS)];
    const write = (): number => {
      const of = `SELECT seq FROM quality_samples WHERE ${where}`;
      const { bytes } = this.database
        .prepare(`SELECT coalesce(sum(bytes), 0) AS bytes FROM quality_texts WHERE seq IN (${of})`)
        .get(values) as { readonly bytes: number };
      this.#textBytes -= this.#feedbackBytes(where, values);
      this.database.prepare(`DELETE FROM quality_texts WHERE seq IN (${of})`).run(values);
      this.database.prepare(`DELETE FROM quality_feedback WHERE ${where}`).run(values);
      const { changes } = this.database.prepare(`DELETE FROM quality_samples WHERE ${where}`).run(values);
      this.#textBytes -= bytes;
      return changes;
    };
    return this.#write(write);
  }

  /** Runs a write that may change the sum of the texts' bytes: if it is rolled back, so is the sum. */
  async #write<T>(write: () => T, { waitMs = 0 } = {}): Promise<T> {
    let change = 0;
    const counted = (): T => {
      const before = this.#textBytes;
      try {
        return write();
      } finally {
        change = this.#textBytes - before;
      }
    };
    try {
      return await this.commits.run(counted, { waitMs, isWhole: true });
    } catch (thrown) {
      this.#textBytes -= change;
      throw thrown;
    }
  }

  #add({ atMs, requestId, tenant, key, model, version, path, weight, verdicts, text }: KeptSample): void {
    const entries = Object.entries(verdicts);
    const failing = entries.flatMap(([name, { isFailing }]) => (isFailing ? [name] : []));
    const { lastInsertRowid: seq } = this.#insert.run([
      atMs,
      requestId.slice(0, MAX_ID_CHARACTERS),
      tenant,
      key,
      model,
      version,
      path,
      weight,
      failing.length === 0 ? "" : `|${failing.join("|")}|`,
      JSON.stringify(verdicts),
    ]);
    for (const [name, { badness, isFailing }] of entries) {
      this.#addJudged({ atMs, tenant, model, version, name, weight, badness, isFailing });
    }
    if (text !== undefined) this.#addText(Number(seq), JSON.stringify(text));
    this.#sweep(atMs);
  }

  #addJudged({ atMs, model, version, tenant, name, weight, badness, isFailing }: Judged): void {
    const day = Math.floor(atMs / DAY_MS);
    const failing = Number(isFailing);
    this.#addToDay.run([day, model, version, tenant, name, failing, badness, weight, weight * failing]);
  }

  #addText(seq: number, json: string): void {
    const bytes = Buffer.byteLength(json);
    if (bytes > this.retention.textBytes) return;
    this.#insertText.run([seq, json, bytes]);
    this.#textBytes += bytes;
    this.#trimTexts();
  }

  /** Deletes the oldest texts until the rest is within the limit. */
  #trimTexts(): void {
    while (this.#textBytes > this.retention.textBytes) {
      const oldest = this.#oldestTexts.raw().all([]) as OldText[];
      if (oldest.length === 0) break;
      for (const [seq, , bytes, tenant, requestId] of oldest) {
        if (this.#textBytes <= this.retention.textBytes) break;
        if (seq === null) this.#clearFeedback.run([tenant, requestId]);
        else this.#deleteText.run([seq]);
        this.#textBytes -= bytes;
      }
    }
  }

  #feedbackBytes(where: string, values: readonly unknown[]): number {
    const sql = `SELECT coalesce(sum(${FEEDBACK_BYTES}), 0) AS bytes FROM quality_feedback WHERE ${where}`;
    return (this.database.prepare(sql).get([...values]) as { readonly bytes: number }).bytes;
  }

  #sweep(nowMs: number): void {
    if (nowMs - this.#sweptMs < SWEEP_MS) return;
    this.#trimTexts();
    const oldMs = nowMs - this.retention.days * DAY_MS;
    const old = this.#oldSamples.all([oldMs]) as { readonly seq: number }[];
    const tooMany = old.length < AT_ONCE ? (this.#tooManySamples.all([]) as { readonly seq: number }[]) : [];
    const seqs = new Set([...old, ...tooMany].map(({ seq }) => seq));
    for (const seq of seqs) {
      const text = this.#bytesOfText.get([seq]) as { readonly bytes: number } | undefined;
      this.#textBytes -= text?.bytes ?? 0;
      this.#deleteText.run([seq]);
      this.#deleteSample.run([seq]);
    }
    this.#textBytes -= this.#feedbackBytes("at_ms < ?", [oldMs]);
    this.#deleteFeedback.run([oldMs]);
    this.#deleteDays.run([Math.floor(oldMs / DAY_MS)]);
    // Old rows are left: the next sample continues.
    if (seqs.size < AT_ONCE) this.#sweptMs = nowMs;
  }
}
