/**
 * The tables of kept answers, and their changes as jobs. Jobs run in a thread (see answer-thread.ts), since the
 * statements for an answer take longer than the gateway's own work for the request.
 */
import type Database from "libsql";
import { type ErrorRecord, errorToRecord, toMillraceError } from "../../core/errors.js";
import type { Statement } from "../store/database.js";
import type { PurgeFilter } from "./answer-store.js";
import { bytesOf, formOf, type StoredAnswer, seal, writeForm } from "./stored-answer.js";

/** The tables of one database: one for each policy that keeps answers in it. */
export type AnswerTableName = "cache_exact" | "idempotency";

interface KeptAnswer {
  readonly id: string;
  /** Bytes that count towards the store's size limit. */
  readonly numBytes: number;
  readonly expiresMs: number;
  readonly model: string;
  readonly tenant: string;
  readonly tags: readonly string[];
  /** Size of the answer's form (see stored-answer.ts). */
  readonly formBytes: number;
}

interface Keep {
  readonly kind: "keep";
  readonly nowMs: number;
  /** Ids of answers that were used. */
  readonly used: readonly string[];
  readonly answers: readonly KeptAnswer[];
  /** The forms of the answers one after another, without their checksums. */
  readonly forms: ArrayBuffer;
}

interface Purge {
  readonly kind: "purge";
  readonly filter: PurgeFilter;
}

export type PlainJob = Keep | Purge;
export type AnswerJob = PlainJob & { readonly table: AnswerTableName; readonly maxBytes: number };

export interface TableSize {
  readonly entries: number;
  readonly bytes: number;
}

export type AnswerDone =
  /** `gone`: ids of the answers that made room. */
  | { readonly kind: "kept"; readonly gone: readonly string[]; readonly size: TableSize }
  | { readonly kind: "purged"; readonly numPurged: number; readonly size: TableSize }
  | { readonly kind: "failed"; readonly error: ErrorRecord };

/** The job that writes answers together. */
export function keepJob(answers: ReadonlyMap<string, StoredAnswer>, used: Iterable<string>, nowMs: number): Keep {
  const forms = [...answers.values()].map(formOf);
  // Its own memory, which moves to the thread without a copy.
  const bytes = Buffer.allocUnsafeSlow(forms.reduce((sum, { numBytes }) => sum + numBytes, 0));
  let end = 0;
  for (const form of forms) end = writeForm(form, bytes, end);
  const kept = [...answers].map(([id, answer], i): KeptAnswer => {
    const { expiresMs, model, tenant, tags } = answer;
    return { id, numBytes: bytesOf(answer), expiresMs, model, tenant, tags, formBytes: forms[i]!.numBytes };
  });
  return { kind: "keep", nowMs, used: [...used], answers: kept, forms: bytes.buffer as ArrayBuffer };
}

const MAX_BLOBS = 1000;
/** Rows that are read together to make room. */
const NUM_OLDEST = 64;
/**
 * Share of the bound that stays when the tenant with the most bytes makes room: finding that tenant costs more than
 * deleting its rows, so more of them go at once.
 */
const KEPT_SHARE = 15 / 16;

interface Row {
  /** Text: libsql returns the blobs of several rows as ArrayBuffers, which it does not accept as values. */
  readonly id: string;
  readonly bytes: number;
}

/**
 * Statements get their values as one list: libsql takes a single value that is an object for named parameters, and ends
 * the process. Clients' texts are stored as blobs, since libsql cuts a text at a NUL.
 */
export class AnswerTable {
  readonly #statements: Readonly<Record<keyof ReturnType<typeof statementsOf>, Statement>>;
  readonly #blobs = new Map<string, Buffer>();
  /** Undefined: to be counted again, since a transaction was undone. */
  #size: TableSize | undefined;

  constructor(
    private readonly database: Database.Database,
    private readonly table: AnswerTableName,
    private readonly maxBytes: number,
  ) {
    const statements = Object.entries(statementsOf(table)).map(([name, sql]) => [name, database.prepare(sql)]);
    this.#statements = Object.fromEntries(statements);
  }

  /** Does all of a job or nothing. Never throws. */
  run(job: PlainJob): AnswerDone {
    try {
      this.#size ??= sizeOf(this.database, this.table);
      this.database.exec("BEGIN IMMEDIATE");
      const done = job.kind === "keep" ? this.#keep(job) : this.#purge(job.filter);
      this.database.exec("COMMIT");
      return { ...done, size: this.#size };
    } catch (thrown) {
      this.#size = undefined;
      if (this.database.inTransaction) this.#rollBack();
      return { kind: "failed", error: errorToRecord(toMillraceError(thrown)) };
    }
  }

  #rollBack(): void {
    try {
      this.database.exec("ROLLBACK");
    } catch {
      // The caller gets the failure that led here.
    }
  }

  #keep({ nowMs, used, answers, forms }: Keep) {
    const gone: string[] = [];
    for (const id of used) this.#statements.touch.run([nowMs, keyOf(id)]);
    let start = 0;
    for (const answer of answers) {
      const form = Buffer.from(forms, start, answer.formBytes);
      seal(form);
      this.#insert(answer, form, nowMs, gone);
      start += answer.formBytes;
    }
    return { kind: "kept", gone } as const;
  }

  #insert(answer: KeptAnswer, form: Buffer, nowMs: number, gone: string[]): void {
    const { id, numBytes, expiresMs, model, tenant, tags } = answer;
    const { size, insert, insertTag } = this.#statements;
    const key = keyOf(id);
    const before = size.get([key]) as { readonly bytes: number } | undefined;
    if (before !== undefined) this.#delete({ id, bytes: before.bytes });
    if (numBytes > this.maxBytes) return;
    // Before the insertion, so that the new answer does not go itself if its tenant has no other.
    this.#makeRoom(numBytes, nowMs, gone);
    insert.run([key, numBytes, nowMs, expiresMs, this.#blob(model), this.#blob(tenant), form]);
    for (const tag of tags) insertTag.run([Buffer.from(tag), key]);
    this.#count(1, numBytes);
  }

  /** The text's blob; kept, since most answers share model and tenant with others. */
  #blob(text: string): Buffer {
    const known = this.#blobs.get(text);
    if (known !== undefined) return known;
    if (this.#blobs.size >= MAX_BLOBS) this.#blobs.clear();
    const blob = Buffer.from(text);
    this.#blobs.set(text, blob);
    return blob;
  }

  /**
   * Makes room: expired answers go first, then the least recently used; of idempotent answers, which clients count on,
   * those of the tenant with the most bytes.
   */
  #makeRoom(numBytes: number, nowMs: number, gone: string[]): void {
    if (this.#size!.bytes + numBytes <= this.maxBytes) return;
    this.#deleteAll("expires_ms <= ?", [nowMs]);
    const keptBytes = (isFair(this.table) ? KEPT_SHARE : 1) * this.maxBytes - numBytes;
    while (this.#size!.bytes > keptBytes) {
      const oldest = this.#statements.oldest.all([]) as Row[];
      if (oldest.length === 0) break;
      for (const row of oldest) {
        if (this.#size!.bytes <= keptBytes) break;
        this.#delete(row);
        gone.push(row.id);
      }
    }
  }

  #purge(filter: PurgeFilter) {
    const { where, values } = conditionOf(filter, this.table);
    return { kind: "purged", numPurged: this.#deleteAll(where, values) } as const;
  }

  /** @returns the number of deleted rows */
  #deleteAll(where: string, values: readonly unknown[]): number {
    const { table } = this;
    const run = (sql: string) => this.database.prepare(sql).run([...values]);
    const { entries, bytes } = sizeOf(this.database, table, where, values);
    // Tags last, since the condition may read them.
    run(`CREATE TEMP TABLE purged AS SELECT key FROM ${table} WHERE ${where}`);
    this.database.exec(`DELETE FROM ${table} WHERE key IN (SELECT key FROM purged);
      DELETE FROM ${table}_tag WHERE key IN (SELECT key FROM purged); DROP TABLE purged`);
    this.#count(-entries, -bytes);
    return entries;
  }

  #delete({ id, bytes }: Row): void {
    this.#statements.delete.run([keyOf(id)]);
    this.#statements.deleteTags.run([keyOf(id)]);
    this.#count(-1, -bytes);
  }

  #count(more: number, moreBytes: number): void {
    const { entries, bytes } = this.#size!;
    this.#size = { entries: entries + more, bytes: bytes + moreBytes };
  }
}

export const keyOf = (id: string): Buffer => Buffer.from(id, "hex");

export function sizeOf(
  database: Database.Database,
  table: AnswerTableName,
  where = "1",
  values: readonly unknown[] = [],
): TableSize {
  const sql = `SELECT coalesce(sum(bytes), 0) AS bytes, count(*) AS entries FROM ${table} WHERE ${where}`;
  // libsql adds a member of its own to a row.
  const { entries, bytes } = database.prepare(sql).get([...values]) as TableSize;
  return { entries, bytes };
}

export function schemaOf(table: AnswerTableName): readonly string[] {
  const byTenant = `CREATE INDEX IF NOT EXISTS ${table}_tenant ON ${table} (tenant, used_ms, bytes)`;
  return [
    `CREATE TABLE IF NOT EXISTS ${table} (key BLOB PRIMARY KEY, bytes INTEGER NOT NULL, used_ms INTEGER NOT NULL,
      expires_ms INTEGER NOT NULL, model BLOB NOT NULL, tenant BLOB NOT NULL, answer BLOB NOT NULL)`,
    `CREATE INDEX IF NOT EXISTS ${table}_used ON ${table} (used_ms, bytes)`,
    `CREATE INDEX IF NOT EXISTS ${table}_expires ON ${table} (expires_ms)`,
    `CREATE TABLE IF NOT EXISTS ${table}_tag (tag BLOB NOT NULL, key BLOB NOT NULL, PRIMARY KEY (tag, key)) WITHOUT ROWID`,
    `CREATE INDEX IF NOT EXISTS ${table}_tag_key ON ${table}_tag (key)`,
    ...(isFair(table) ? [byTenant] : []),
  ];
}

/**
 * Whether no tenant can drive out another's answers, as clients count on their idempotent ones. The index for it takes
 * time with each new answer, so the cache has none.
 */
export const isFair = (table: AnswerTableName): boolean => table === "idempotency";

function statementsOf(table: AnswerTableName) {
  const largest = `(SELECT tenant FROM ${table} GROUP BY tenant ORDER BY sum(bytes) DESC LIMIT 1)`;
  return {
    size: `SELECT bytes FROM ${table} WHERE key = ?`,
    oldest: `SELECT lower(hex(key)) AS id, bytes FROM ${table} ${isFair(table) ? `WHERE tenant = ${largest}` : ""} ORDER BY used_ms, rowid LIMIT ${NUM_OLDEST}`,
    insert: `INSERT INTO ${table} (key, bytes, used_ms, expires_ms, model, tenant, answer) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    insertTag: `INSERT OR IGNORE INTO ${table}_tag (tag, key) VALUES (?, ?)`,
    delete: `DELETE FROM ${table} WHERE key = ?`,
    deleteTags: `DELETE FROM ${table}_tag WHERE key = ?`,
    touch: `UPDATE ${table} SET used_ms = ? WHERE key = ?`,
  };
}

function conditionOf({ id, model, tenant, tag, tagPrefix }: PurgeFilter, table: AnswerTableName) {
  const conditions: string[] = ["1"];
  const values: unknown[] = [];
  const add = (condition: string, ...more: readonly unknown[]) => {
    conditions.push(condition);
    values.push(...more);
  };
  if (id !== undefined) add("key = ?", keyOf(id));
  if (model !== undefined) add("model = ?", Buffer.from(model));
  if (tenant !== undefined) add("tenant = ?", Buffer.from(tenant));
  if (tag !== undefined) add(`key IN (SELECT key FROM ${table}_tag WHERE tag = ?)`, Buffer.from(tag));
  if (tagPrefix !== undefined) {
    // Tags are ASCII, so 0xff follows all of them.
    const last = Buffer.concat([Buffer.from(tagPrefix), Buffer.from([0xff])]);
    add(`key IN (SELECT key FROM ${table}_tag WHERE tag >= ? AND tag < ?)`, Buffer.from(tagPrefix), last);
  }
  return { where: conditions.join(" AND "), values };
}
