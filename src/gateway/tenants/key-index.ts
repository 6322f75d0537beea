/**
 * All keys in use, in memory: a request finds its caller without the database, and a revoked key stops working at once.
 */
import { MillraceError } from "../../core/errors.js";
import { type Caller, keyHolder } from "../request.js";
import type { Scope } from "../scope.js";
import { hashOf, isKeyText } from "./key-text.js";
import { modelFilter } from "./model-globs.js";
import type { KeySecret, ScopeRecord } from "./records.js";
import { limitsOf } from "./settings.js";

interface KeyEntry {
  readonly record: ScopeRecord;
  readonly secret: KeySecret;
  lastUsedMs: number | undefined;
  /** The caller as of `version`, since it also depends on the organisation and the team. */
  caller: Caller | undefined;
  version: number;
}

/** Prefix of groups of callers who share nothing: tenants in the configuration have no such prefix. */
export const ORG_TENANT_PREFIX = "org:";

export class KeyIndex {
  readonly #orgs = new Map<string, ScopeRecord>();
  readonly #teams = new Map<string, ScopeRecord>();
  readonly #keys = new Map<string, KeyEntry>();
  readonly #byHash = new Map<string, KeyEntry>();
  #used = new Set<KeyEntry>();
  /** Counts changes of organisations and teams. */
  #version = 0;
  #isBroken = false;

  /** @param now milliseconds since 1970 */
  constructor(private readonly now: () => number) {}

  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** Replaces all keys. */
  load(records: readonly ScopeRecord[]): void {
    const uses = new Map([...this.#keys].map(([id, { lastUsedMs }]) => [id, lastUsedMs]));
    for (const map of [this.#orgs, this.#teams, this.#keys, this.#byHash]) map.clear();
    for (const record of records) this.put(record);
    for (const [id, entry] of this.#keys) entry.lastUsedMs = uses.get(id) ?? entry.lastUsedMs;
    this.#used = new Set([...this.#used].flatMap(({ record }) => this.#keys.get(record.id) ?? []));
    this.#isBroken = false;
  }

  /** Notes that the store cannot be read: it may have keys that are unknown here. */
  break(): void {
    this.#isBroken = true;
  }

  put(record: ScopeRecord): void {
    if (record.kind !== "key") {
      (record.kind === "org" ? this.#orgs : this.#teams).set(record.id, record);
      this.#version++;
      return;
    }
    const { secret } = record;
    if (secret === undefined) return;
    const before = this.#keys.get(record.id);
    if (before !== undefined) this.#forget(before);
    const lastUsedMs = before?.lastUsedMs ?? secret.lastUsedMs;
    const entry: KeyEntry = { record, secret, lastUsedMs, caller: undefined, version: -1 };
    this.#keys.set(record.id, entry);
    this.#byHash.set(secret.hash, entry);
    if (secret.previousHash !== undefined) this.#byHash.set(secret.previousHash, entry);
    if (before !== undefined && this.#used.delete(before)) this.#used.add(entry);
  }

  remove({ kind, id }: Pick<ScopeRecord, "kind" | "id">): void {
    this.#version++;
    if (kind === "org") this.#orgs.delete(id);
    else if (kind === "team") this.#teams.delete(id);
    else {
      const entry = this.#keys.get(id);
      if (entry === undefined) return;
      this.#forget(entry);
      this.#keys.delete(id);
      this.#used.delete(entry);
    }
  }

  /**
   * The caller with a key. Throws key_store_unavailable if the key is unknown and the store broken, invalid_api_key if
   * the key has expired.
   * @returns undefined if the text is not a managed key
   */
  callerOf(text: string): Caller | undefined {
    if (!isKeyText(text)) return undefined;
    const hash = hashOf(text);
    const entry = this.#byHash.get(hash);
    if (entry === undefined) {
      if (!this.#isBroken) return undefined;
      throw new MillraceError(
        "key_store_unavailable",
        "expected a working store of keys, got one that cannot be read",
        {
          hint: "the key may be valid; try again",
          retryAfterSeconds: 5,
        },
      );
    }
    const nowMs = this.now();
    const { expiresMs, previousUntilMs } = entry.secret;
    if (expiresMs !== undefined && nowMs >= expiresMs) throw expired("an expired one");
    // The key's text before the last rotation.
    if (hash !== entry.secret.hash && nowMs >= (previousUntilMs ?? 0)) throw expired("one that was rotated");
    entry.lastUsedMs = nowMs;
    this.#used.add(entry);
    return this.#callerOf(entry);
  }

  /**
   * The caller that a key's id stands for, for work that goes on after the request.
   * @returns undefined if the key is no longer valid
   */
  callerOfId(keyId: string): Caller | undefined {
    const entry = this.#keys.get(keyId);
    const expiresMs = entry?.secret.expiresMs ?? Number.POSITIVE_INFINITY;
    return entry === undefined || this.now() >= expiresMs ? undefined : this.#callerOf(entry);
  }

  hasOrg(id: string): boolean {
    return this.#orgs.has(id);
  }

  /**
   * The caller that an organisation and one of its teams stand for, without a key.
   * @param team the team's name within the organisation
   * @returns undefined if either is unknown
   */
  callerOfTeam(orgId: string, team: string | undefined): Caller | undefined {
    const org = this.#orgs.get(orgId);
    const teamRecord = team === undefined ? undefined : this.#teams.get(`${orgId}/${team}`);
    if (org === undefined || (team !== undefined && teamRecord === undefined)) return undefined;
    return callerWithin([org, ...(teamRecord === undefined ? [] : [teamRecord])], org);
  }

  /** Keys used since the last call, with the time of their last use. */
  takeUses(): ReadonlyMap<string, number> {
    const uses = new Map([...this.#used].map(({ record, lastUsedMs }) => [record.id, lastUsedMs ?? 0]));
    this.#used = new Set();
    return uses;
  }

  lastUsedMs(keyId: string): number | undefined {
    return this.#keys.get(keyId)?.lastUsedMs;
  }

  #callerOf(entry: KeyEntry): Caller {
    if (entry.caller !== undefined && entry.version === this.#version) return entry.caller;
    const { org: orgId = "", team: teamId } = entry.record;
    const org = this.#orgs.get(orgId);
    const team = teamId === undefined ? undefined : this.#teams.get(teamId);
    if (org === undefined || (teamId !== undefined && team === undefined)) throw expired("one of a deleted owner");
    const records = [org, ...(team === undefined ? [] : [team]), entry.record];
    const { id } = entry.record;
    entry.caller = { ...callerWithin(records, org), keyId: id, holder: keyHolder(id) };
    entry.version = this.#version;
    return entry.caller;
  }

  #forget({ secret }: KeyEntry): void {
    this.#byHash.delete(secret.hash);
    if (secret.previousHash !== undefined) this.#byHash.delete(secret.previousHash);
  }
}

function callerWithin(records: readonly ScopeRecord[], org: ScopeRecord): Caller {
  return {
    tenant: `${ORG_TENANT_PREFIX}${org.id}`,
    cacheScope: org.cacheScope,
    isKeyHidden: true,
    scopes: records.map(({ kind, id, settings }): Scope => ({ kind, id, limits: limitsOf(settings) })),
    allowsModel: modelFilter(records.map(({ settings }) => settings.models)),
  };
}

function expired(got: string): MillraceError {
  return new MillraceError("invalid_api_key", `expected a valid API key, got ${got}`, {
    hint: "ask the administrator for another",
  });
}
