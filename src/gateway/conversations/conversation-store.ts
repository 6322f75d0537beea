/**
 * Conversations in the gateway's database: a row each, under the client whose key wrote it. A write names the revision
 * that it replaces, so that two pages cannot overwrite each other. Older conversations of the same client make room for
 * newer ones, never those of others. Each tenant has a share of the whole, so that others have room when one has filled
 * its own.
 */
import { MillraceError } from "../../core/errors.js";
import type { Database, Statement } from "../store/database.js";
import type { GroupCommit } from "../store/group-commit.js";
import { type KeptConversation, noSuchConversation } from "./conversation-form.js";

interface ConversationBounds {
  readonly perClient: number;
  /** Upper bound of all conversations of one client. */
  readonly bytesPerClient: number;
  /** Upper bound of all conversations of a tenant's clients. */
  readonly bytesPerTenant: number;
  /** Upper bound of all clients' conversations together. */
  readonly maxBytes: number;
  readonly keepMs: number;
}

export interface ConversationRow {
  readonly id: string;
  readonly revision: number;
  readonly updated_ms: number;
  readonly title: string;
  readonly bytes: number;
}

/** The owners of a conversation. */
interface ConversationOwner {
  /** The client, by its key. */
  readonly holder: string;
  /** The tenant whose share holds the conversation. */
  readonly tenant: string;
}

interface KeptRow extends ConversationRow {
  /** The tenant of the last write; empty: an earlier version wrote the row without a tenant. */
  readonly tenant: string;
}

interface Sum {
  readonly rows: number;
  readonly bytes: number;
}

const TABLES = `
  CREATE TABLE IF NOT EXISTS conversations (
    seq INTEGER PRIMARY KEY, owner TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, updated_ms INTEGER NOT NULL, written_ms INTEGER NOT NULL,
    title TEXT NOT NULL, bytes INTEGER NOT NULL, json TEXT NOT NULL, UNIQUE (owner, id));
  CREATE INDEX IF NOT EXISTS conversations_of ON conversations (owner, updated_ms, bytes);
  CREATE INDEX IF NOT EXISTS conversations_written ON conversations (written_ms);
  CREATE TABLE IF NOT EXISTS conversation_bytes (one INTEGER PRIMARY KEY CHECK (one = 1), bytes INTEGER NOT NULL);
  INSERT OR REPLACE INTO conversation_bytes SELECT 1, coalesce(sum(bytes), 0) FROM conversations`;

const HAS_TENANT = "SELECT 1 FROM pragma_table_info('conversations') WHERE name = 'tenant'";
const ADD_TENANT = "ALTER TABLE conversations ADD COLUMN tenant TEXT NOT NULL DEFAULT ''";
const TENANTS = `
  DROP TABLE IF EXISTS conversation_tenants;
  CREATE TABLE conversation_tenants (tenant TEXT PRIMARY KEY, bytes INTEGER NOT NULL);
  INSERT INTO conversation_tenants SELECT tenant, sum(bytes) FROM conversations GROUP BY tenant`;
/** Spares a walk over each row's JSON, which precedes the column. */
const TENANT_INDEX = "CREATE INDEX IF NOT EXISTS conversations_of_tenant ON conversations (tenant, bytes)";

/** Room on the disk beside the JSON: the row's other fields and its places in the indexes. */
const ROW_BYTES = 512;
/** Rows that one transaction deletes when they are old. */
const AT_ONCE = 100;

const COLUMNS = "id, revision, updated_ms, title, bytes";
const KEPT_COLUMNS = `${COLUMNS}, tenant`;

export class ConversationStore {
  readonly #list: Statement;
  readonly #row: Statement;
  readonly #json: Statement;
  readonly #tenant: Statement;
  readonly #older: Statement;
  readonly #sum: Statement;
  readonly #total: Statement;
  readonly #addTotal: Statement;
  readonly #ofTenant: Statement;
  readonly #addTenant: Statement;
  readonly #write: Statement;
  readonly #delete: Statement;

  /** @param now milliseconds since 1970 */
  constructor(
    private readonly database: Database.Database,
    private readonly commits: GroupCommit,
    private readonly bounds: ConversationBounds,
    private readonly now: () => number = Date.now,
  ) {
    database.exec(TABLES);
    if (database.prepare(HAS_TENANT).get([]) === undefined) database.exec(ADD_TENANT);
    database.exec(TENANT_INDEX);
    database.exec(TENANTS);
    this.#list = database.prepare(
      `SELECT ${COLUMNS} FROM conversations WHERE owner = ? ORDER BY updated_ms DESC, revision DESC`,
    );
    this.#row = database.prepare(`SELECT ${KEPT_COLUMNS} FROM conversations WHERE owner = ? AND id = ?`);
    this.#json = database.prepare("SELECT json FROM conversations WHERE owner = ? AND id = ?");
    this.#tenant = database.prepare("SELECT tenant FROM conversations WHERE owner = ? AND id = ?");
    this.#older = database.prepare(
      `SELECT ${COLUMNS} FROM conversations WHERE owner = ? AND updated_ms < ? AND id != ? ORDER BY updated_ms, revision`,
    );
    this.#sum = database.prepare(
      "SELECT count(*) AS rows, coalesce(sum(bytes), 0) AS bytes FROM conversations WHERE owner = ?",
    );
    this.#total = database.prepare("SELECT bytes FROM conversation_bytes");
    this.#addTotal = database.prepare("UPDATE conversation_bytes SET bytes = bytes + ?");
    this.#ofTenant = database.prepare("SELECT bytes FROM conversation_tenants WHERE tenant = ?");
    this.#addTenant = database.prepare(
      `INSERT INTO conversation_tenants (tenant, bytes) VALUES (?, ?)
       ON CONFLICT (tenant) DO UPDATE SET bytes = conversation_tenants.bytes + excluded.bytes`,
    );
    this.#write = database.prepare(
      `INSERT INTO conversations (owner, tenant, id, revision, updated_ms, written_ms, title, bytes, json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (owner, id) DO UPDATE SET revision = excluded.revision, updated_ms = excluded.updated_ms, written_ms = excluded.written_ms,
       title = excluded.title, bytes = excluded.bytes, json = excluded.json, tenant = excluded.tenant`,
    );
    this.#delete = database.prepare("DELETE FROM conversations WHERE owner = ? AND id = ?");
  }

  /** Bytes of all conversations. */
  get numBytes(): number {
    return (this.#total.get([]) as { readonly bytes: number }).bytes;
  }

  /** Conversations, the last changed one first. */
  list(owner: string): readonly ConversationRow[] {
    return this.#list.all([owner]) as readonly ConversationRow[];
  }

  /** Throws not_found. */
  read(owner: string, id: string): { readonly row: ConversationRow; readonly conversation: KeptConversation } {
    const found = this.#rowOf(owner, id);
    if (found === undefined) throw noSuchConversation(id);
    const { tenant: _, ...row } = found;
    const { json } = this.#json.get([owner, id]) as { readonly json: string };
    return { row, conversation: JSON.parse(json) as KeptConversation };
  }

  /**
   * Resolves when the conversation is in the database. Rejects with conversation_changed, if `revision` is not the
   * current one, and storage_quota, if older conversations of the client do not make enough room, or its tenant's share
   * is full.
   *
   * @param revision that this write replaces; 0: there is none yet
   * @returns the row, and the ids of the conversations that made room
   */
  write(
    { holder, tenant }: ConversationOwner,
    id: string,
    revision: number,
    conversation: KeptConversation,
  ): Promise<{ readonly row: ConversationRow; readonly removed: readonly string[] }> {
    const json = JSON.stringify(conversation);
    const bytes = Buffer.byteLength(json) + ROW_BYTES;
    const write = () => {
      const before = this.#rowOf(holder, id);
      assertRevision(revision, before);
      const nowMs = this.now();
      const { title } = conversation;
      const updatedMs = Math.min(conversation.updatedMs, nowMs);
      const removed = this.#makeRoom({ holder, tenant }, id, updatedMs, bytes, before);
      // By the clock, so that a conversation that is deleted and written again never reuses a revision.
      const next = Math.max(nowMs, (before?.revision ?? 0) + 1);
      this.#write.run([holder, tenant, id, next, updatedMs, nowMs, title, bytes, json]);
      if (before !== undefined) this.#addBytes(before.tenant, -before.bytes);
      this.#addBytes(tenant, bytes);
      return { row: { id, revision: next, updated_ms: updatedMs, title, bytes }, removed };
    };
    return this.commits.run(write, { isWhole: true });
  }

  /** Rejects with not_found and conversation_changed. @param revision undefined: any revision */
  remove(owner: string, id: string, revision: number | undefined): Promise<void> {
    const write = () => {
      const row = this.#rowOf(owner, id);
      if (row === undefined) throw noSuchConversation(id);
      if (revision !== undefined) assertRevision(revision, row);
      this.#drop(owner, row);
    };
    return this.commits.run(write, { isWhole: true });
  }

  /** Deletes all conversations of a client, within the open transaction. */
  forget(owner: string): void {
    const sql = "SELECT tenant, sum(bytes) AS bytes FROM conversations WHERE owner = ? GROUP BY tenant";
    const sums = this.database.prepare(sql).all([owner]) as readonly { tenant: string; bytes: number }[];
    for (const { tenant, bytes } of sums) this.#addBytes(tenant, -bytes);
    if (sums.length > 0) this.database.prepare("DELETE FROM conversations WHERE owner = ?").run([owner]);
  }

  /** Deletes conversations without recent changes, some at a time. @returns whether there may be more */
  sweep(): Promise<boolean> {
    const oldMs = this.now() - this.bounds.keepMs;
    const sql = `SELECT owner, ${COLUMNS} FROM conversations WHERE written_ms < ? ORDER BY written_ms LIMIT ${AT_ONCE}`;
    const write = () => {
      const old = this.database.prepare(sql).all([oldMs]) as readonly (ConversationRow & { readonly owner: string })[];
      for (const row of old) this.#drop(row.owner, row);
      return old.length === AT_ONCE;
    };
    return this.commits.run(write, { isWhole: true });
  }

  #rowOf(owner: string, id: string): KeptRow | undefined {
    // `get` adds a field of its own, `_metadata`, which clients would see.
    return this.#row.all([owner, id])[0] as KeptRow | undefined;
  }

  #drop(owner: string, { id, bytes }: ConversationRow): void {
    const { tenant } = this.#tenant.get([owner, id]) as Pick<KeptRow, "tenant">;
    this.#delete.run([owner, id]);
    this.#addBytes(tenant, -bytes);
  }

  #addBytes(tenant: string, bytes: number): void {
    this.#addTenant.run([tenant, bytes]);
    this.#addTotal.run([bytes]);
  }

  #bytesOf(tenant: string): number {
    return (this.#ofTenant.get([tenant]) as { readonly bytes: number } | undefined)?.bytes ?? 0;
  }

  /**
   * Deletes older conversations of the client until the written one is within the client's bounds. Throws
   * storage_quota.
   * @returns the ids of the deleted conversations
   */
  #makeRoom(
    { holder, tenant }: ConversationOwner,
    id: string,
    updatedMs: number,
    newBytes: number,
    before: KeptRow | undefined,
  ): readonly string[] {
    const { perClient, bytesPerClient, bytesPerTenant, maxBytes } = this.bounds;
    const own = this.#sum.get([holder]) as Sum;
    const grown = newBytes - (before?.bytes ?? 0);
    const [totalBefore, tenantBefore] = [this.numBytes, this.#bytesOf(tenant)];
    let [rows, bytes] = [own.rows + (before === undefined ? 1 : 0), own.bytes + grown];
    // After a bound was lowered, existing conversations may be changed as long as they do not grow.
    const mostRows = Math.max(perClient, before === undefined ? 0 : own.rows);
    const mostBytes = Math.max(bytesPerClient, before === undefined ? 0 : own.bytes);
    const isWithinOwn = (): boolean => rows <= mostRows && bytes <= mostBytes;
    const removed: string[] = [];
    for (const row of isWithinOwn() ? [] : (this.#older.all([holder, updatedMs, id]) as readonly ConversationRow[])) {
      if (isWithinOwn()) break;
      this.#drop(holder, row);
      removed.push(row.id);
      [rows, bytes] = [rows - 1, bytes - row.bytes];
    }
    if (!isWithinOwn()) {
      throw new MillraceError(
        "storage_quota",
        `expected at most ${perClient} conversations of ${bytesPerClient} bytes in all, got more`,
        { hint: "delete conversations; older ones than this make room by themselves, newer ones do not" },
      );
    }
    const ofTenant = this.#bytesOf(tenant) + newBytes - (before?.tenant === tenant ? before.bytes : 0);
    if (ofTenant > bytesPerTenant && ofTenant > tenantBefore) {
      throw new MillraceError(
        "storage_quota",
        `expected at most ${bytesPerTenant} bytes of all clients of a tenant, got more`,
        {
          hint: "delete conversations of this tenant's keys, or ask the operator for a larger conversations.bytes-per-tenant",
        },
      );
    }
    // If other clients have filled the disk, the write is refused; no conversation goes.
    const total = this.numBytes + grown;
    if (total > maxBytes && total > totalBefore) {
      throw new MillraceError("storage_quota", `expected at most ${maxBytes} bytes of all clients, got more`, {
        hint: "delete conversations, or ask the operator for a larger conversations.max-bytes",
      });
    }
    return removed;
  }
}

/** Throws conversation_changed. */
function assertRevision(expected: number, row: ConversationRow | undefined): void {
  const actual = row?.revision ?? 0;
  if (expected === actual) return;
  const got = actual === 0 ? "none: it was deleted" : `revision ${actual}`;
  throw new MillraceError("conversation_changed", `expected the conversation at revision ${expected}, got ${got}`, {
    hint: "another page or program has changed it: read it again, or keep yours under another id",
  });
}
