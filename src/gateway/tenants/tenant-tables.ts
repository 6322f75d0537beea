/** The tables of organisations, teams and keys, and their statements. The rules are elsewhere. */
import type Database from "libsql";
import type { ScopeKind } from "../scope.js";
import type { KeySecret, ScopeRecord } from "./records.js";
import { settingsSchema } from "./settings.js";

/** Number of the newest rows of the audit that are kept. */
const MAX_AUDIT_ROWS = 1_000_000;

const SCHEMA = `
CREATE TABLE IF NOT EXISTS tenant_scopes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  org TEXT,
  team TEXT,
  settings TEXT NOT NULL,
  cache_scope TEXT,
  created_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  UNIQUE (kind, id)
);
CREATE INDEX IF NOT EXISTS tenant_scopes_org ON tenant_scopes (org, kind);
CREATE TABLE IF NOT EXISTS tenant_key_secrets (
  id TEXT PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  hint TEXT NOT NULL,
  previous_hash TEXT UNIQUE,
  previous_until_ms INTEGER,
  expires_ms INTEGER,
  last_used_ms INTEGER
);
CREATE TABLE IF NOT EXISTS tenant_audit (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms INTEGER NOT NULL,
  actor TEXT NOT NULL,
  request_id TEXT NOT NULL,
  action TEXT NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  detail TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS tenant_facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
`;

const COLUMNS = `s.seq, s.kind, s.id, s.org, s.team, s.settings, s.cache_scope, s.created_ms, s.ended_ms,
  k.hash, k.hint, k.previous_hash, k.previous_until_ms, k.expires_ms, k.last_used_ms`;
const FROM = "FROM tenant_scopes s LEFT JOIN tenant_key_secrets k ON s.kind = 'key' AND k.id = s.id";

type Row = Readonly<Record<string, string | number | null>>;

export interface AuditEntry {
  readonly atMs: number;
  readonly actor: string;
  readonly requestId: string;
  readonly action: string;
  readonly kind: ScopeKind;
  readonly id: string;
  readonly detail: object;
}

export interface ListQuery {
  readonly kind: ScopeKind;
  readonly org?: string | undefined;
  readonly team?: string | undefined;
  readonly withEnded: boolean;
  /** Lists rows older than that of this id; absent: from the newest. */
  readonly after?: string | undefined;
  readonly limit: number;
}

export class TenantTables {
  readonly #find;
  readonly #insert;
  readonly #update;
  readonly #writeSecret;
  readonly #writeUse;
  readonly #audit;
  readonly #trimAudit;
  readonly #readFact;
  readonly #writeFact;

  constructor(private readonly database: Database.Database) {
    database.exec(SCHEMA);
    this.#find = database.prepare(`SELECT ${COLUMNS} ${FROM} WHERE s.kind = ? AND s.id = ?`);
    this.#insert = database.prepare(
      "INSERT INTO tenant_scopes (kind, id, org, team, settings, cache_scope, created_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
    );
    this.#update = database.prepare("UPDATE tenant_scopes SET settings = ?, ended_ms = ? WHERE kind = ? AND id = ?");
    this.#writeSecret = database.prepare(
      `INSERT INTO tenant_key_secrets (id, hash, hint, previous_hash, previous_until_ms, expires_ms, last_used_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET hash = excluded.hash, hint = excluded.hint, previous_hash = excluded.previous_hash,
       previous_until_ms = excluded.previous_until_ms, expires_ms = excluded.expires_ms,
       last_used_ms = coalesce(max(excluded.last_used_ms, last_used_ms), excluded.last_used_ms, last_used_ms)`,
    );
    this.#writeUse = database.prepare(
      "UPDATE tenant_key_secrets SET last_used_ms = max(?, coalesce(last_used_ms, 0)) WHERE id = ?",
    );
    this.#audit = database.prepare(
      "INSERT INTO tenant_audit (at_ms, actor, request_id, action, kind, id, detail) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING seq",
    );
    this.#trimAudit = database.prepare("DELETE FROM tenant_audit WHERE seq <= ?");
    this.#readFact = database.prepare("SELECT value FROM tenant_facts WHERE name = ?");
    this.#writeFact = database.prepare(
      "INSERT INTO tenant_facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    );
  }

  find(kind: ScopeKind, id: string): ScopeRecord | undefined {
    const row = this.#find.get(kind, id) as Row | undefined;
    return row === undefined ? undefined : recordOf(row);
  }

  insert({ kind, id, org, team, settings, cacheScope, createdMs, secret }: ScopeRecord): void {
    const json = JSON.stringify(settings);
    this.#insert.run(kind, id, org ?? null, team ?? null, json, cacheScope ?? null, createdMs);
    if (secret !== undefined) this.writeSecret(id, secret);
  }

  update({ kind, id, settings, endedMs, secret }: ScopeRecord): void {
    this.#update.run(JSON.stringify(settings), endedMs ?? null, kind, id);
    if (secret !== undefined) this.writeSecret(id, secret);
  }

  writeSecret(id: string, secret: KeySecret): void {
    const { hash, hint, previousHash, previousUntilMs, expiresMs, lastUsedMs } = secret;
    const optional = [previousHash, previousUntilMs, expiresMs, lastUsedMs].map((value) => value ?? null);
    this.#writeSecret.run(id, hash, hint, ...optional);
  }

  writeUse(id: string, lastUsedMs: number): void {
    this.#writeUse.run(lastUsedMs, id);
  }

  /** Every scope in use, organisations first. */
  inUse(): readonly ScopeRecord[] {
    const order = "CASE s.kind WHEN 'org' THEN 0 WHEN 'team' THEN 1 ELSE 2 END, s.seq";
    const rows = this.database.prepare(`SELECT ${COLUMNS} ${FROM} WHERE s.ended_ms IS NULL ORDER BY ${order}`).all();
    return (rows as Row[]).map(recordOf);
  }

  /** Ids of keys that have ended. */
  endedKeys(): readonly string[] {
    const rows = this.database
      .prepare("SELECT id FROM tenant_scopes WHERE kind = 'key' AND ended_ms IS NOT NULL")
      .all();
    return (rows as Row[]).map(({ id }) => String(id));
  }

  /** Teams and keys in use within an organisation, or keys within a team. */
  within(kind: "org" | "team", id: string): readonly ScopeRecord[] {
    const rows = this.database
      .prepare(`SELECT ${COLUMNS} ${FROM} WHERE s.ended_ms IS NULL AND s.${kind === "org" ? "org" : "team"} = ?`)
      .all(id);
    return (rows as Row[]).map(recordOf);
  }

  /** Scopes from the newest to the oldest. */
  list({ kind, org, team, withEnded, after, limit }: ListQuery): readonly ScopeRecord[] {
    const terms: string[] = ["s.kind = ?"];
    const values: (string | number)[] = [kind];
    const add = (term: string, value: string | undefined): void => {
      if (value === undefined) return;
      terms.push(term);
      values.push(value);
    };
    add("s.org = ?", org);
    add("s.team = ?", team);
    if (!withEnded) terms.push("s.ended_ms IS NULL");
    add(`s.seq < (SELECT seq FROM tenant_scopes WHERE kind = '${kind}' AND id = ?)`, after);
    const sql = `SELECT ${COLUMNS} ${FROM} WHERE ${terms.join(" AND ")} ORDER BY s.seq DESC LIMIT ?`;
    return (this.database.prepare(sql).all(...values, limit) as Row[]).map(recordOf);
  }

  audit({ atMs, actor, requestId, action, kind, id, detail }: AuditEntry): void {
    const values = [atMs, actor, requestId, action, kind, id, JSON.stringify(detail)];
    const { seq } = this.#audit.get(...values) as { readonly seq: number };
    if (seq > MAX_AUDIT_ROWS) this.#trimAudit.run(seq - MAX_AUDIT_ROWS);
  }

  /** Rows from the newest to the oldest. @param after only rows before this number; undefined: all */
  auditRows(after: number | undefined, limit: number): readonly (AuditEntry & { readonly seq: number })[] {
    const rows = this.database
      .prepare("SELECT * FROM tenant_audit WHERE seq < ? ORDER BY seq DESC LIMIT ?")
      .all(after ?? Number.MAX_SAFE_INTEGER, limit) as Row[];
    return rows.map((row) => ({
      seq: Number(row.seq),
      atMs: Number(row.at_ms),
      actor: String(row.actor),
      requestId: String(row.request_id),
      action: String(row.action),
      kind: row.kind as ScopeKind,
      id: String(row.id),
      detail: JSON.parse(String(row.detail)) as object,
    }));
  }

  fact(name: string): string | undefined {
    return (this.#readFact.get(name) as { readonly value: string } | undefined)?.value;
  }

  writeFact(name: string, value: string): void {
    this.#writeFact.run(name, value);
  }

  /** Syncs committed changes, so that a power cut cannot bring a revoked key back. */
  sync(): void {
    this.database.pragma("wal_checkpoint(PASSIVE)");
  }
}

/** Throws if the row is damaged. */
function recordOf(row: Row): ScopeRecord {
  const textOf = (value: string | number | null | undefined) => (value === null ? undefined : String(value));
  const timeOf = (value: string | number | null | undefined) => (value === null ? undefined : Number(value));
  const secret: KeySecret | undefined =
    row.hash === null
      ? undefined
      : {
          hash: String(row.hash),
          hint: String(row.hint),
          previousHash: textOf(row.previous_hash),
          previousUntilMs: timeOf(row.previous_until_ms),
          expiresMs: timeOf(row.expires_ms),
          lastUsedMs: timeOf(row.last_used_ms),
        };
  return {
    kind: row.kind as ScopeKind,
    id: String(row.id),
    org: textOf(row.org),
    team: textOf(row.team),
    settings: settingsSchema.parse(JSON.parse(String(row.settings))),
    createdMs: Number(row.created_ms),
    endedMs: timeOf(row.ended_ms),
    cacheScope: textOf(row.cache_scope),
    secret,
  };
}
