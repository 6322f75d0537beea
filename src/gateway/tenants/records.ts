/** Organisations, teams and keys as they are stored, and as the admin API shows them. */
import type { ScopeKind } from "../scope.js";
import type { Settings } from "./settings.js";

export interface ScopeRecord {
  readonly kind: ScopeKind;
  readonly id: string;
  /** Organisation of a team or a key. */
  readonly org: string | undefined;
  /** Team of a key that belongs to one. */
  readonly team: string | undefined;
  readonly settings: Settings;
  readonly createdMs: number;
  /** Time of its deletion or revocation; undefined: it is in use. */
  readonly endedMs: number | undefined;
  /** For an organisation: the cache scope of its requests. */
  readonly cacheScope: string | undefined;
  /** Secret of a key. */
  readonly secret: KeySecret | undefined;
}

/** Times are milliseconds since 1970. */
export interface KeySecret {
  readonly hash: string;
  readonly hint: string;
  /** Hash of the text before the last rotation, valid until `previousUntilMs`. */
  readonly previousHash: string | undefined;
  readonly previousUntilMs: number | undefined;
  readonly expiresMs: number | undefined;
  readonly lastUsedMs: number | undefined;
}

const secondsOf = (ms: number | undefined): number | null => (ms === undefined ? null : Math.floor(ms / 1000));

/** Times are seconds since 1970, as in OpenAI's API. */
export function shownScope({ kind, id, org, team, settings, createdMs, endedMs, secret }: ScopeRecord): object {
  const { name, models, budgets, token_budgets: tokenBudgets, metadata, ...limits } = settings;
  return {
    object: kind,
    id,
    name,
    ...(kind === "org" ? {} : { org }),
    ...(kind === "key" ? { team: team ?? null } : {}),
    models: models ?? null,
    requests_per_minute: limits.requests_per_minute ?? null,
    tokens_per_minute: limits.tokens_per_minute ?? null,
    concurrent_requests: limits.concurrent_requests ?? null,
    budgets: budgets ?? {},
    token_budgets: tokenBudgets ?? {},
    metadata: metadata ?? {},
    created_at: secondsOf(createdMs),
    ...(secret === undefined ? { deleted_at: secondsOf(endedMs) } : shownSecret(secret, endedMs)),
  };
}

function shownSecret(secret: KeySecret, endedMs: number | undefined): object {
  return {
    hint: secret.hint,
    expires_at: secondsOf(secret.expiresMs),
    previous_valid_until: secondsOf(secret.previousUntilMs),
    last_used_at: secondsOf(secret.lastUsedMs),
    revoked_at: secondsOf(endedMs),
  };
}
