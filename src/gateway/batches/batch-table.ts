/** The rows of files, batches and idempotency keys in the gateway's database. Every write is one transaction. */
import type { Database, Statement } from "../store/database.js";
import { type BatchKind, type BatchRecord, type FileRecord, isOver } from "./record.js";

const TABLES = `
CREATE TABLE IF NOT EXISTS batch_files (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, filename TEXT NOT NULL, purpose TEXT NOT NULL,
  bytes INTEGER NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER);
CREATE INDEX IF NOT EXISTS batch_files_by_tenant ON batch_files (tenant, seq);
CREATE TABLE IF NOT EXISTS batches (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL,
  is_over INTEGER NOT NULL, over_at INTEGER, record TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS batches_by_tenant ON batches (tenant, kind, seq);
CREATE INDEX IF NOT EXISTS batches_open ON batches (is_over);
CREATE TABLE IF NOT EXISTS batch_idempotency (
  tenant TEXT NOT NULL, operation TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL, id TEXT NOT NULL, created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant, operation, key)) WITHOUT ROWID;
`;

/** One page of a list. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly hasMore: boolean;
}

export interface PageQuery {
  readonly limit: number;
  /** The page begins after the item with this id, in the list's order. */
  readonly after?: string | undefined;
  /** The page ends before the item with this id. */
  readonly before?: string | undefined;
  readonly isAscending?: boolean | undefined;
}

/** The file or batch that an Idempotency-Key stands for. */
export interface KeyedResource {
  readonly tenant: string;
  /** files, batches or messages: the same key for two operations is two keys. */
  readonly operation: string;
  readonly key: string;
  /** Hash of the request's content. */
  readonly fingerprint: string;
  readonly id: string;
}

type Row = Readonly<Record<string, unknown>>;

export class BatchTable {
  readonly #statements = new Map<string, Statement>();

  constructor(private readonly database: Database.Database) {
    database.exec(TABLES);
  }

  /** Adds a file, unless its id exists: a batch's own files are added again after a crash. */
  addFile(file: FileRecord, key?: KeyedResource): void {
    this.#inTransaction(() => {
      this.#insertFile(file);
      if (key !== undefined) this.#addKey(key, file.createdAt);
    });
  }

  /** Undefined also for another tenant's file. */
  file(tenant: string, id: string): FileRecord | undefined {
    const row = this.#get("SELECT * FROM batch_files WHERE tenant = ? AND id = ?", [tenant, id]);
    return row === undefined ? undefined : fileOf(row);
  }

  hasFile(id: string): boolean {
    return this.#get("SELECT 1 FROM batch_files WHERE id = ?", [id]) !== undefined;
  }

  /** Without the results of Anthropic's batches, which their clients do not see as files. */
  files(tenant: string, query: PageQuery, purpose?: string): Page<FileRecord> {
    const also = purpose === undefined ? "" : " AND purpose = ?";
    const values = purpose === undefined ? [tenant] : [tenant, purpose];
    const page = this.#page("batch_files", `tenant = ? AND purpose <> 'message_results'${also}`, values, query);
    return { ...page, items: page.items.map(fileOf) };
  }

  removeFile(id: string): void {
    this.#inTransaction(() => {
      this.#run("DELETE FROM batch_files WHERE id = ?", [id]);
      this.#run("DELETE FROM batch_idempotency WHERE id = ?", [id]);
    });
  }

  expiredFiles(nowSeconds: number): readonly FileRecord[] {
    return this.#all("SELECT * FROM batch_files WHERE expires_at <= ? LIMIT 1000", [nowSeconds]).map(fileOf);
  }

  /** Number and bytes of a tenant's files. */
  usedBy(tenant: string): { readonly numFiles: number; readonly numBytes: number } {
    const row = this.#get("SELECT count(*) AS n, coalesce(sum(bytes), 0) AS b FROM batch_files WHERE tenant = ?", [
      tenant,
    ]);
    return { numFiles: Number(row?.n), numBytes: Number(row?.b) };
  }

  addBatch(batch: BatchRecord, key?: KeyedResource): void {
    this.#inTransaction(() => {
      this.#run("INSERT INTO batches (id, tenant, kind, state, is_over, record) VALUES (?, ?, ?, ?, 0, ?)", [
        batch.id,
        batch.owner.tenant,
        batch.kind,
        batch.state,
        JSON.stringify(batch),
      ]);
      if (key !== undefined) this.#addKey(key, batch.createdAt);
    });
  }

  /** Replaces a batch's row, and adds the files that it has made, in one transaction. */
  updateBatch(batch: BatchRecord, files: readonly FileRecord[] = []): void {
    const overAt = isOver(batch.state) ? (batch.times[batch.state] ?? null) : null;
    this.#inTransaction(() => {
      for (const file of files) this.#insertFile(file);
      this.#run("UPDATE batches SET state = ?, is_over = ?, over_at = ?, record = ? WHERE id = ?", [
        batch.state,
        isOver(batch.state) ? 1 : 0,
        overAt,
        JSON.stringify(batch),
        batch.id,
      ]);
    });
  }

  /** Undefined also for a batch of another tenant or of the other API. */
  batch(tenant: string, kind: BatchKind, id: string): BatchRecord | undefined {
    const row = this.#get("SELECT record FROM batches WHERE tenant = ? AND kind = ? AND id = ?", [tenant, kind, id]);
    return row === undefined ? undefined : batchOf(row);
  }

  batches(tenant: string, kind: BatchKind, query: PageQuery): Page<BatchRecord> {
    const page = this.#page("batches", "tenant = ? AND kind = ?", [tenant, kind], query);
    return { ...page, items: page.items.map(batchOf) };
  }

  /** A batch of any tenant and API, for operators. */
  batchOfAll(id: string): BatchRecord | undefined {
    const row = this.#get("SELECT record FROM batches WHERE id = ?", [id]);
    return row === undefined ? undefined : batchOf(row);
  }

  /** Batches of all tenants and both APIs. */
  batchesOfAll(query: PageQuery): Page<BatchRecord> {
    const page = this.#page("batches", "1 = 1", [], query);
    return { ...page, items: page.items.map(batchOf) };
  }

  /** Batches that are not over, oldest first. */
  openBatches(): readonly BatchRecord[] {
    return this.#all("SELECT record FROM batches WHERE is_over = 0 ORDER BY seq", []).map(batchOf);
  }

  numOpen(tenant: string): number {
    return Number(this.#get("SELECT count(*) AS n FROM batches WHERE is_over = 0 AND tenant = ?", [tenant])?.n);
  }

  overBefore(nowSeconds: number): readonly BatchRecord[] {
    return this.#all("SELECT record FROM batches WHERE is_over = 1 AND over_at <= ? LIMIT 1000", [nowSeconds]).map(
      batchOf,
    );
  }

  removeBatch(id: string): void {
    this.#inTransaction(() => {
      this.#run("DELETE FROM batches WHERE id = ?", [id]);
      this.#run("DELETE FROM batch_idempotency WHERE id = ?", [id]);
    });
  }

  keyed(
    tenant: string,
    operation: string,
    key: string,
  ): { readonly id: string; readonly fingerprint: string } | undefined {
    const row = this.#get(
      "SELECT id, fingerprint FROM batch_idempotency WHERE tenant = ? AND operation = ? AND key = ?",
      [tenant, operation, key],
    );
    return row as { readonly id: string; readonly fingerprint: string } | undefined;
  }

  forgetKeysBefore(seconds: number): void {
    this.#run("DELETE FROM batch_idempotency WHERE created_at < ?", [seconds]);
  }

  #insertFile({ id, tenant, filename, purpose, bytes, createdAt, expiresAt }: FileRecord): void {
    this.#run(
      "INSERT INTO batch_files (id, tenant, filename, purpose, bytes, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
      [id, tenant, filename, purpose, bytes, createdAt, expiresAt ?? null],
    );
  }

  #addKey({ tenant, operation, key, fingerprint, id }: KeyedResource, createdAt: number): void {
    this.#run(
      "INSERT INTO batch_idempotency (tenant, operation, key, fingerprint, id, created_at) VALUES (?, ?, ?, ?, ?, ?)",
      [tenant, operation, key, fingerprint, id, createdAt],
    );
  }

  /** @param table fixed text, as is `where`: neither comes from a client */
  #page(table: string, where: string, values: readonly unknown[], query: PageQuery): Page<Row> {
    const { limit, after, before, isAscending = false } = query;
    const isBackward = before !== undefined && after === undefined;
    const seqOf = (id: string | undefined): number | undefined => {
      const row =
        id === undefined ? undefined : this.#get(`SELECT seq FROM ${table} WHERE ${where} AND id = ?`, [...values, id]);
      return row === undefined ? undefined : Number(row.seq);
    };
    const cursor = seqOf(isBackward ? before : after);
    // The item is gone or another tenant's, so nothing can follow it.
    if (cursor === undefined && (after ?? before) !== undefined) return { items: [], hasMore: false };
    const isUp = isAscending !== isBackward;
    const bound = cursor === undefined ? "" : ` AND seq ${isUp ? ">" : "<"} ?`;
    const rows = this.#all(
      `SELECT * FROM ${table} WHERE ${where}${bound} ORDER BY seq ${isUp ? "ASC" : "DESC"} LIMIT ?`,
      [...values, ...(cursor === undefined ? [] : [cursor]), limit + 1],
    );
    const items = rows.slice(0, limit);
    return { items: isBackward ? items.reverse() : items, hasMore: rows.length > limit };
  }

  #inTransaction(write: () => void): void {
    this.#run("BEGIN IMMEDIATE", []);
    try {
      write();
      this.#run("COMMIT", []);
    } catch (thrown) {
      // With a full disk, SQLite has already ended the transaction.
      if (this.database.inTransaction) this.#run("ROLLBACK", []);
      throw thrown;
    }
  }

  #prepared(sql: string): Statement {
    const known = this.#statements.get(sql) ?? this.database.prepare(sql);
    this.#statements.set(sql, known);
    return known;
  }

  #run(sql: string, values: readonly unknown[]): void {
    this.#prepared(sql).run(values);
  }

  #get(sql: string, values: readonly unknown[]): Row | undefined {
    return this.#prepared(sql).get(values) as Row | undefined;
  }

  #all(sql: string, values: readonly unknown[]): readonly Row[] {
    return this.#prepared(sql).all(values) as Row[];
  }
}

function fileOf(row: Row): FileRecord {
  return {
    id: String(row.id),
    tenant: String(row.tenant),
    filename: String(row.filename),
    purpose: row.purpose as FileRecord["purpose"],
    bytes: Number(row.bytes),
    createdAt: Number(row.created_at),
    expiresAt: row.expires_at === null ? undefined : Number(row.expires_at),
  };
}

/** JSON leaves out undefined members, which the record's type allows in each of these. */
function batchOf(row: Row): BatchRecord {
  return JSON.parse(String(row.record)) as BatchRecord;
}
