/** Kept answers in the gateway's database, with those used last in memory too. They outlast the process. */
import type Database from "libsql";
import type { Statement } from "../store/database.js";
import { type GroupCommit, groupCommitOf } from "../store/group-commit.js";
import type { AnswerStore, PurgeFilter, StoreStats } from "./answer-store.js";
import { KeyFilter } from "./key-filter.js";
import { MemoryStore } from "./memory-store.js";
import { bytesOf, decodeAnswer, encodeAnswer, type StoredAnswer } from "./stored-answer.js";

interface EmbeddedStoreOptions {
  /** Name of its tables, so that several stores can share a database. */
  readonly table: "cache_exact" | "idempotency";
  readonly maxBytes: number;
  /** Bound of the part in memory. */
  readonly maxMemoryBytes: number;
}

/** Kept answers are written together: a transaction costs more than a row, and memory has them until then. */
const WAIT_MS = 50;
/** So many are written at once, so that no turn takes long. */
const MAX_COMING = 32;
/** Uses of answers that are noted together, since a write costs more than a read. */
const MAX_NOTED_USES = 256;
const MAX_BLOBS = 1000;
/** Rows that are looked at together where room is made. */
const NUM_OLDEST = 64;
/**
 * Share of the bytes that stay where the tenant with the most gives room, since finding it costs more than deleting its
 * rows.
 */
const KEPT_SHARE = 15 / 16;

/** Keys as text: libsql gives the blobs of several rows as ArrayBuffers, which it does not take back. */
const ROW = "lower(hex(key)) AS id, bytes";

interface Row {
  readonly id: string;
  readonly bytes: number;
}

/** Answers that are written together, which the database does not have yet. */
interface Group {
  readonly answers: Map<string, StoredAnswer>;
  readonly written: Promise<void>;
}

/**
 * Statements get their values as one list: libsql takes a single value that is an object for named parameters, and ends
 * the process. Texts of clients are stored as blobs, since libsql cuts a text at a NUL.
 */
export class EmbeddedStore implements AnswerStore {
  readonly #memory: MemoryStore;
  readonly #commits: GroupCommit;
  readonly #statements: Readonly<Record<keyof ReturnType<typeof statementsOf>, Statement>>;
  readonly #used = new Set<string>();
  readonly #keys = new KeyFilter();
  readonly #blobs = new Map<string, Buffer>();
  #coming: Group | undefined;
  #numBytes = 0;
  #numEntries = 0;

  constructor(
    private readonly database: Database.Database,
    private readonly options: EmbeddedStoreOptions,
    private readonly now: () => number = Date.now,
  ) {
    this.#memory = new MemoryStore(options.maxMemoryBytes, now);
    for (const sql of tablesOf(options.table)) database.exec(sql);
    this.#commits = groupCommitOf(database);
    const statements = Object.entries(statementsOf(options.table)).map(([name, sql]) => [name, database.prepare(sql)]);
    this.#statements = Object.fromEntries(statements);
    this.#count();
    this.#keys.addAll(this.#statements.starts.get([]) as { starts: string });
  }

  get(id: string): StoredAnswer | undefined {
    const known = this.#memory.get(id) ?? this.#coming?.answers.get(id);
    if (known !== undefined) {
      if (known.expiresMs <= this.now()) return undefined;
      this.#noteUse(id);
      return known;
    }
    if (!this.#keys.mayHave(id)) return undefined;
    const row = this.#statements.get.get([keyOf(id)]) as { answer: Buffer; expires_ms: number } | undefined;
    if (row === undefined || row.expires_ms <= this.now()) return undefined;
    const answer = decodeAnswer(row.answer);
    if (answer === undefined) return undefined;
    this.#memory.put(id, answer);
    this.#noteUse(id);
    return answer;
  }

  put(id: string, answer: StoredAnswer): Promise<void> {
    // Most answers are never used again. An answer that is used comes into memory then.
    this.#memory.delete(id);
    this.#coming ??= this.#begin();
    const { answers, written } = this.#coming;
    answers.set(id, answer);
    if (answers.size >= MAX_COMING) this.#commits.hurry();
    return written;
  }

  #begin(): Group {
    const answers: Group["answers"] = new Map();
    const write = () => {
      this.#coming = undefined;
      this.#flushUses();
      for (const [id, answer] of answers) this.#insert(id, answer);
    };
    // A kept answer may be lost; a client that sends an idempotent request again after a crash counts on its own.
    const waitMs = this.options.table === "cache_exact" ? WAIT_MS : 0;
    const written = this.#commits.run(write, { waitMs, isWhole: true }).catch((thrown: unknown) => {
      // If the transaction could not begin, `write` has not taken the group.
      if (this.#coming?.answers === answers) this.#coming = undefined;
      // The transaction is undone, but the counters in memory are not.
      this.#count();
      throw thrown;
    });
    return { answers, written };
  }

  async purge(filter: PurgeFilter): Promise<number> {
    this.#commits.flush();
    this.#memory.purge(filter);
    const { where, values } = conditionOf(filter, this.options.table);
    return this.#commits.run(() => this.#deleteAll(where, values));
  }

  stats(): StoreStats {
    return { kind: "embedded", entries: this.#numEntries, bytes: this.#numBytes, maxBytes: this.options.maxBytes };
  }

  async close(): Promise<void> {
    if (this.#used.size > 0) this.#commits.run(() => this.#flushUses()).catch(() => {});
    this.#commits.flush();
    await this.#memory.close();
  }

  #insert(id: string, answer: StoredAnswer): void {
    const { insert, insertTag } = this.#statements;
    const key = keyOf(id);
    if (this.#keys.mayHave(id)) {
      const before = this.#statements.size.get([key]) as { readonly bytes: number } | undefined;
      if (before !== undefined) this.#deleteRow({ id, bytes: before.bytes });
    }
    const numBytes = bytesOf(answer);
    if (numBytes > this.options.maxBytes) return;
    // Before it comes in, so that it is not the one to go where its tenant has no other.
    this.#makeRoom(numBytes);
    const { model, tenant, tags, expiresMs } = answer;
    insert.run([key, numBytes, this.now(), expiresMs, this.#blob(model), this.#blob(tenant), encodeAnswer(answer)]);
    this.#keys.add(id);
    for (const tag of tags) insertTag.run([Buffer.from(tag), key]);
    this.#numBytes += numBytes;
    this.#numEntries++;
  }

  /** Most answers have the model and the tenant of others. */
  #blob(text: string): Buffer {
    const known = this.#blobs.get(text);
    if (known !== undefined) return known;
    if (this.#blobs.size >= MAX_BLOBS) this.#blobs.clear();
    const blob = Buffer.from(text);
    this.#blobs.set(text, blob);
    return blob;
  }

  /**
   * The expired ones go first, then the least recently used: of idempotent answers, which a client counts on, those of
   * the tenant with the most bytes.
   */
  #makeRoom(numBytes: number): void {
    if (this.#numBytes + numBytes <= this.options.maxBytes) return;
    this.#deleteAll("expires_ms <= ?", [this.now()]);
    const keptBytes = (isFair(this.options.table) ? KEPT_SHARE : 1) * this.options.maxBytes - numBytes;
    while (this.#numBytes > keptBytes) {
      const oldest = this.#statements.oldest.all([]) as Row[];
      if (oldest.length === 0) break;
      for (const row of oldest) if (this.#numBytes > keptBytes) this.#delete(row);
    }
  }

  /** @returns how many rows there were */
  #deleteAll(where: string, values: readonly unknown[]): number {
    const { table } = this.options;
    const rows = this.database.prepare(`SELECT ${ROW} FROM ${table} WHERE ${where}`).all([...values]) as Row[];
    for (const row of rows) this.#delete(row);
    return rows.length;
  }

  #delete(row: Row): void {
    this.#deleteRow(row);
    this.#memory.delete(row.id);
  }

  #deleteRow({ id, bytes }: Row): void {
    this.#statements.delete.run([keyOf(id)]);
    this.#statements.deleteTags.run([keyOf(id)]);
    this.#numBytes -= bytes;
    this.#numEntries--;
  }

  #count(): void {
    const { bytes, entries } = this.#statements.sum.get([]) as { bytes: number; entries: number };
    this.#numBytes = bytes;
    this.#numEntries = entries;
  }

  #noteUse(id: string): void {
    this.#used.add(id);
    if (this.#used.size >= MAX_NOTED_USES) this.#commits.run(() => this.#flushUses()).catch(() => {});
  }

  #flushUses(): void {
    const nowMs = this.now();
    for (const id of this.#used) this.#statements.touch.run([nowMs, keyOf(id)]);
    this.#used.clear();
  }
}

const keyOf = (id: string): Buffer => Buffer.from(id, "hex");

function tablesOf(table: EmbeddedStoreOptions["table"]): readonly string[] {
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
 * Whether no tenant can drive out another's answers. The index that this takes costs each new answer time, which the
 * cache has not.
 */
const isFair = (table: EmbeddedStoreOptions["table"]): boolean => table === "idempotency";

function statementsOf(table: EmbeddedStoreOptions["table"]) {
  const largest = `(SELECT tenant FROM ${table} GROUP BY tenant ORDER BY sum(bytes) DESC LIMIT 1)`;
  return {
    sum: `SELECT coalesce(sum(bytes), 0) AS bytes, count(*) AS entries FROM ${table}`,
    get: `SELECT answer, expires_ms FROM ${table} WHERE key = ?`,
    size: `SELECT bytes FROM ${table} WHERE key = ?`,
    starts: KeyFilter.startsOf(table),
    oldest: `SELECT ${ROW} FROM ${table} ${isFair(table) ? `WHERE tenant = ${largest}` : ""} ORDER BY used_ms, rowid LIMIT ${NUM_OLDEST}`,
    // Another gateway may have written the key since.
    insert: `INSERT OR REPLACE INTO ${table} (key, bytes, used_ms, expires_ms, model, tenant, answer) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    insertTag: `INSERT OR IGNORE INTO ${table}_tag (tag, key) VALUES (?, ?)`,
    delete: `DELETE FROM ${table} WHERE key = ?`,
    deleteTags: `DELETE FROM ${table}_tag WHERE key = ?`,
    touch: `UPDATE ${table} SET used_ms = ? WHERE key = ?`,
  };
}

function conditionOf({ id, model, tenant, tag, tagPrefix }: PurgeFilter, table: string) {
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
