/**
 * Changes of organisations, teams and keys. Each change is one transaction with its row of the audit, is synced before
 * it is answered, and then changes the index by which requests find their keys.
 */
import type Database from "libsql";
import { MillraceError } from "../../core/errors.js";
import type { ScopeKind } from "../scope.js";
import { type GroupCommit, groupCommitOf } from "../store/group-commit.js";
import { KeyIndex } from "./key-index.js";
import { hashOf, hintOf, newCacheScope, newId, newKeyText } from "./key-text.js";
import type { ScopeRecord } from "./records.js";
import { mergePatch, parseFields, type Settings, settingsSchema } from "./settings.js";
import { type AuditEntry, type ListQuery, TenantTables } from "./tenant-tables.js";

/** The author of a change, for the audit. */
export interface Actor {
  readonly name: string;
  readonly requestId: string;
}

/** A key with its text, which nothing stores. */
export interface NewKey {
  readonly record: ScopeRecord;
  readonly key: string;
}

/** Created with the tables, so that keys need no organisation of their own. */
export const DEFAULT_ORG = "default";

/** Interval of a look for changes: another gateway may share the database. */
const REFRESH_MS = 1000;
const FLUSH_USES_MS = 30_000;
const VERSION = "version";

interface TenantStoreOptions {
  readonly database: Database.Database;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly onFailure: (what: string, thrown: unknown) => void;
  /** Called with keys that end, within the transaction that ends them, and at the start with all ended keys. */
  readonly onKeysEnded?: ((keyIds: readonly string[]) => void) | undefined;
}

export class TenantStore {
  readonly index: KeyIndex;
  readonly #tables: TenantTables;
  readonly #commits: GroupCommit;
  readonly #timers: readonly NodeJS.Timeout[];
  #version = "";
  #isLoaded = false;

  constructor(private readonly options: TenantStoreOptions) {
    this.#tables = new TenantTables(options.database);
    this.#commits = groupCommitOf(options.database);
    this.index = new KeyIndex(options.now);
    this.refresh();
    // A process that died may have ended keys without removing their data.
    options.onKeysEnded?.(this.#tables.endedKeys());
    this.#timers = [
      setInterval(() => this.refresh(), REFRESH_MS).unref(),
      setInterval(() => void this.flushUses(), FLUSH_USES_MS).unref(),
    ];
  }

  /** Reads everything again if another gateway has changed the tables, or if an earlier read failed. Never throws. */
  refresh(): void {
    try {
      const version = this.#tables.fact(VERSION) ?? "0";
      if (version === this.#version && this.#isLoaded) return;
      if (this.#tables.find("org", DEFAULT_ORG) === undefined) this.#createDefaultOrg();
      this.index.load(this.#tables.inUse());
      this.#version = version;
      this.#isLoaded = true;
    } catch (thrown) {
      if (this.#isLoaded || !this.index.isBroken) this.options.onFailure("reading the keys", thrown);
      this.#isLoaded = false;
      // An unknown key may be in the unreadable database.
      this.index.break();
    }
  }

  find(kind: ScopeKind, id: string): ScopeRecord {
    const record = this.#reading(() => this.#tables.find(kind, id));
    if (record !== undefined) return this.#withUse(record);
    throw notFound(kind, id);
  }

  list(query: ListQuery): readonly ScopeRecord[] {
    return this.#reading(() => this.#tables.list(query)).map((record) => this.#withUse(record));
  }

  audit(after: number | undefined, limit: number): readonly (AuditEntry & { readonly seq: number })[] {
    return this.#reading(() => this.#tables.auditRows(after, limit));
  }

  /** A secret of this gateway, created once. */
  async sharedSecret(name: string): Promise<string> {
    return await this.#commits.run(() => {
      const known = this.#tables.fact(name);
      if (known !== undefined) return known;
      const made = newCacheScope();
      this.#tables.writeFact(name, made);
      return made;
    });
  }

  async createOrg(id: string, settings: Settings, actor: Actor): Promise<ScopeRecord> {
    const record = { ...this.#fresh("org", id, settings), cacheScope: newCacheScope() };
    return await this.#insert(record, actor);
  }

  /** @param name the team's id is that of the organisation, a slash, and this name */
  async createTeam(org: string, name: string, settings: Settings, actor: Actor): Promise<ScopeRecord> {
    return await this.#insert({ ...this.#fresh("team", `${org}/${name}`, settings), org }, actor);
  }

  /** @param owner a team's id names its organisation */
  async createKey(
    owner: { readonly org: string; readonly team: string | undefined },
    settings: Settings,
    expiresMs: number | undefined,
    actor: Actor,
  ): Promise<NewKey> {
    const key = newKeyText();
    const secret = { ...NO_SECRET, hash: hashOf(key), hint: hintOf(key), expiresMs };
    const record = await this.#insert({ ...this.#fresh("key", newId("key"), settings), ...owner, secret }, actor);
    return { record, key };
  }

  /** Merges a JSON Merge Patch into the settings. @param expiresMs of a key; null: never; undefined: unchanged */
  async update(
    kind: ScopeKind,
    id: string,
    patch: Readonly<Record<string, unknown>>,
    expiresMs: number | null | undefined,
    actor: Actor,
  ): Promise<ScopeRecord> {
    return await this.#change(
      () => {
        const before = this.#inUse(kind, id);
        const settings = parseFields(settingsSchema, mergePatch(before.settings, patch));
        const { secret } = before;
        const isMoved = secret !== undefined && expiresMs !== undefined;
        const after = {
          ...before,
          settings,
          secret: isMoved ? { ...secret, expiresMs: expiresMs ?? undefined } : secret,
        };
        this.#tables.update(after);
        const detail = expiresMs === undefined ? patch : { ...patch, expires_ms: expiresMs };
        this.#audit("update", after, detail, actor);
        return after;
      },
      (after) => this.index.put(after),
    );
  }

  /**
   * Gives a key another text.
   * @param graceMs time for which the last text stays valid; texts before it end now
   */
  async rotate(id: string, graceMs: number, actor: Actor): Promise<NewKey> {
    const key = newKeyText();
    const record = await this.#change(
      () => {
        const before = this.#inUse("key", id);
        const { secret } = before;
        if (secret === undefined) throw notFound("key", id);
        const rotated = {
          ...secret,
          hash: hashOf(key),
          hint: hintOf(key),
          previousHash: graceMs === 0 ? undefined : secret.hash,
          previousUntilMs: graceMs === 0 ? undefined : this.options.now() + graceMs,
        };
        const after = { ...before, secret: rotated };
        this.#tables.update(after);
        this.#audit("rotate", after, { grace_ms: graceMs }, actor);
        return after;
      },
      (after) => this.index.put(after),
    );
    return { record, key };
  }

  /** Revokes a key, or deletes an organisation or a team with everything in it. Takes effect before this resolves. */
  async end(kind: ScopeKind, id: string, actor: Actor): Promise<ScopeRecord> {
    const endedMs = this.options.now();
    const ended = await this.#change(
      () => {
        const record = this.#inUse(kind, id);
        if (kind === "org" && id === DEFAULT_ORG) {
          throw new MillraceError(
            "invalid_parameter",
            `expected an organisation that can be deleted, got ${DEFAULT_ORG}`,
            {
              hint: "revoke its keys instead",
            },
          );
        }
        const inside = kind === "key" ? [] : this.#tables.within(kind, id).map((each) => this.#withUse(each));
        const all = [record, ...inside].map((each) => ({ ...each, endedMs }));
        for (const each of all) {
          this.#tables.update(each);
          this.#audit(each.kind === "key" ? "revoke" : "delete", each, {}, actor);
        }
        this.options.onKeysEnded?.(all.filter((each) => each.kind === "key").map((each) => each.id));
        return all;
      },
      (all) => {
        for (const each of all) this.index.remove(each);
      },
    );
    return ended[0]!;
  }

  /** Writes the times at which keys were last used. */
  async flushUses(): Promise<void> {
    const uses = this.index.takeUses();
    if (uses.size === 0) return;
    try {
      await this.#commits.run(() => {
        for (const [id, lastUsedMs] of uses) this.#tables.writeUse(id, lastUsedMs);
      });
    } catch (thrown) {
      this.options.onFailure("writing when keys were used", thrown);
    }
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.flushUses();
  }

  #fresh(kind: ScopeKind, id: string, settings: Settings): ScopeRecord {
    const createdMs = this.options.now();
    const none = { org: undefined, team: undefined, endedMs: undefined, cacheScope: undefined, secret: undefined };
    return { kind, id, settings, createdMs, ...none };
  }

  #createDefaultOrg(): void {
    const org = this.#fresh("org", DEFAULT_ORG, { name: DEFAULT_ORG });
    this.#tables.insert({ ...org, cacheScope: newCacheScope() });
  }

  async #insert(record: ScopeRecord, actor: Actor): Promise<ScopeRecord> {
    const { kind, id, org, team } = record;
    return await this.#change(
      () => {
        if (org !== undefined) this.#inUse("org", org);
        if (team !== undefined) this.#inUse("team", team);
        if (this.#tables.find(kind, id) !== undefined) {
          throw new MillraceError("already_exists", `expected an id that no ${kind} has or had, got ${id}`, {
            param: "id",
            hint: `choose another id, or change the one there is with millrace ${kind}s update; an id that has been deleted is not given again`,
          });
        }
        this.#tables.insert(record);
        this.#audit("create", record, record.settings, actor);
        return record;
      },
      (made) => this.index.put(made),
    );
  }

  #inUse(kind: ScopeKind, id: string): ScopeRecord {
    const record = this.#tables.find(kind, id);
    if (record === undefined || record.endedMs !== undefined) throw notFound(kind, id);
    return this.#withUse(record);
  }

  #audit(action: string, { kind, id }: ScopeRecord, detail: object, { name, requestId }: Actor): void {
    this.#tables.audit({ atMs: this.options.now(), actor: name, requestId, action, kind, id, detail });
  }

  async #change<T>(write: () => T, apply: (result: T) => void): Promise<T> {
    let version = "";
    try {
      const change = () => {
        const done = write();
        version = String(Number(this.#tables.fact(VERSION) ?? "0") + 1);
        this.#tables.writeFact(VERSION, version);
        return done;
      };
      const result = await this.#commits.run(change, { isWhole: true });
      // A gap means that another gateway has made a change in between, which the next refresh reads.
      if (Number(version) === Number(this.#version) + 1) this.#version = version;
      apply(result);
      this.#tables.sync();
      return result;
    } catch (thrown) {
      throw unavailable(thrown);
    }
  }

  /** The index knows the uses that are not written yet, and the tables know the uses at other gateways. */
  #withUse(record: ScopeRecord): ScopeRecord {
    const { secret } = record;
    const unwritten = record.kind === "key" ? this.index.lastUsedMs(record.id) : undefined;
    if (unwritten === undefined || secret === undefined) return record;
    return { ...record, secret: { ...secret, lastUsedMs: Math.max(unwritten, secret.lastUsedMs ?? 0) } };
  }

  #reading<T>(read: () => T): T {
    try {
      return read();
    } catch (thrown) {
      throw unavailable(thrown);
    }
  }
}

const NO_SECRET = {
  previousHash: undefined,
  previousUntilMs: undefined,
  expiresMs: undefined,
  lastUsedMs: undefined,
} as const;

function notFound(kind: ScopeKind, id: string): MillraceError {
  return new MillraceError(
    "not_found",
    `expected the id of ${NAMES[kind]} in use, got ${JSON.stringify(id.slice(0, 200))}`,
    {
      hint: `millrace ${kind}s list shows those in use, and millrace ${kind}s create makes one${kind === "team" ? "; a team's id begins with its organisation's, such as acme/search" : ""}`,
    },
  );
}

const NAMES: Readonly<Record<ScopeKind, string>> = { org: "an organisation", team: "a team", key: "a key" };

/** Any error but a client's comes from the database. */
function unavailable(cause: unknown): MillraceError {
  if (cause instanceof MillraceError) return cause;
  return new MillraceError("key_store_unavailable", "expected a working store of keys, got a failure", {
    hint: "the server's log has the reason",
    retryAfterSeconds: 5,
    cause,
  });
}
