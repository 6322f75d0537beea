/**
 * The tenants of a gateway, as configured: managed keys in the database, tokens of an identity provider, and GET
 * /v1/key.
 */
import { createHash, createHmac } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Hono } from "hono";
import type Database from "libsql";
import type { Logger } from "pino";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { OPENAI } from "../../gateway/api/dialect.js";
import type { CallerIdentity } from "../../gateway/caller-identity.js";
import type { Caller } from "../../gateway/request.js";
import { createTenantsApp } from "../../gateway/tenants/admin-app.js";
import { ORG_TENANT_PREFIX } from "../../gateway/tenants/key-index.js";
import { modelFilter } from "../../gateway/tenants/model-globs.js";
import { isToken, OidcTokens, type TokenClaims } from "../../gateway/tenants/oidc.js";
import { OWN_KEY_PATH, ownKey, type UsageOf } from "../../gateway/tenants/own-key.js";
import { TenantStore } from "../../gateway/tenants/tenant-store.js";
import type { FleetConfig } from "../config/schema.js";
import { logFailure, respondJson, respondWithError } from "../proxy/respond.js";
import {
  authorizeWith,
  type CallerSources,
  fileCallers,
  hasTenants,
  needsKeys,
  shared,
  tenantsApart,
} from "./authorize.js";

interface TenantsOptions {
  /** Configuration at the start: `managed-keys` and `oidc` stay fixed. */
  readonly config: FleetConfig;
  /** Opened only if the configuration has tenants in the database. */
  readonly database: () => Database.Database;
  readonly logger: Logger;
  /** Called with managed keys that end, within the transaction that ends them; at the start, with all ended ones. */
  readonly onKeysEnded?: (keyIds: readonly string[]) => void;
  /** Reads the use of scopes; undefined while use is not counted. */
  readonly usageOf?: UsageOf | undefined;
}

/** Prefix of tenants that exist only in tokens; tenants of the configuration have no prefix. */
const TOKEN_TENANT_PREFIX = "oidc:";
const TOKEN_SECRET = "token-cache-scope";

export class Tenants {
  readonly #store: TenantStore | undefined;
  readonly #sources: CallerSources;
  readonly #tokens: OidcTokens | undefined;
  readonly #tokenSecret: Promise<string> | undefined;
  #authorize: ReturnType<typeof authorizeWith>;
  #fileCaller: ReturnType<typeof fileCallers>;
  #isApart: boolean;
  /** Tenants of the file's keys. */
  #ofFile: ReadonlySet<string>;

  constructor(private readonly options: TenantsOptions) {
    const { config, database, logger } = options;
    const onFailure = (what: string, err: unknown) => logger.error({ err }, `${what} failed`);
    const now = () => Date.now();
    if (hasTenants(config)) {
      this.#store = new TenantStore({ database: database(), now, onFailure, onKeysEnded: options.onKeysEnded });
      this.#tokenSecret = config.oidc === undefined ? undefined : this.#store.sharedSecret(TOKEN_SECRET);
      this.#tokenSecret?.catch((thrown: unknown) => onFailure("reading the secret of cache scopes", thrown));
    }
    const { oidc, managedKeys } = config;
    if (oidc !== undefined) {
      const { clockSkew: clockSkewMs, ...rest } = oidc;
      this.#tokens = new OidcTokens({ ...rest, clockSkewMs }, { now, onFailure });
    }
    this.#sources = {
      managed: managedKeys ? (text) => this.#store?.index.callerOf(text) : undefined,
      tokens: oidc === undefined ? undefined : (text) => this.#callerOfToken(text),
    };
    this.#authorize = authorizeWith(config, this.#sources);
    this.#fileCaller = fileCallers(config);
    this.#isApart = tenantsApart(config);
    this.#ofFile = tenantsOfFile(config);
  }

  /** Takes over the keys of a reloaded file. */
  configure({ apiKeys, isolateApiKeys }: FleetConfig): void {
    const config = { ...this.options.config, apiKeys, isolateApiKeys };
    this.#authorize = authorizeWith(config, this.#sources);
    this.#fileCaller = fileCallers(config);
    this.#isApart = tenantsApart(config);
    this.#ofFile = tenantsOfFile(config);
  }

  /** Whether a tenant is in the file, is a known organisation, or exists only in tokens. */
  has(tenant: string): boolean {
    if (tenant.startsWith(ORG_TENANT_PREFIX))
      return this.#store?.index.hasOrg(tenant.slice(ORG_TENANT_PREFIX.length)) === true;
    return this.#ofFile.has(tenant) || (this.#tokens !== undefined && tenant.startsWith(TOKEN_TENANT_PREFIX));
  }

  /** Throws, or rejects with, a MillraceError if the caller is unknown. */
  authorize(headers: IncomingHttpHeaders): Caller | Promise<Caller> {
    return this.#authorize(headers);
  }

  /** See CallerOf. */
  callerOf(identity: CallerIdentity): Caller | Promise<Caller> {
    const caller = this.#managedCaller(identity) ?? this.#fileCaller(identity);
    if (caller === undefined) {
      throw new MillraceError("invalid_api_key", "expected a key that is still valid, got one that is gone", {
        hint: "the key was revoked or has expired since the work began",
      });
    }
    return this.#isApart ? caller : shared(caller);
  }

  /** The administrator's paths of organisations, teams, keys and the audit; undefined without managed keys. */
  adminApp(): Hono | undefined {
    const store = this.#store;
    return store === undefined || !this.options.config.managedKeys
      ? undefined
      : createTenantsApp(() => store, this.options.usageOf);
  }

  /** Answers GET /v1/key. @returns whether the request has this path */
  handle(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): boolean {
    if ((incoming.url ?? "").split("?", 1)[0] !== OWN_KEY_PATH) return false;
    Promise.resolve()
      .then(async () => {
        if (incoming.method !== "GET" && incoming.method !== "HEAD") {
          throw new MillraceError("method_not_allowed", `expected GET ${OWN_KEY_PATH}, got ${incoming.method}`);
        }
        const caller = await this.#authorize(incoming.headers);
        respondJson(outgoing, 200, requestId, await ownKey(caller, this.#store, this.options.usageOf));
      })
      .catch((thrown: unknown) => {
        const error = toMillraceError(thrown);
        logFailure(this.options.logger, error, requestId, OWN_KEY_PATH);
        respondWithError(outgoing, error, OPENAI, requestId);
      });
    return true;
  }

  async close(): Promise<void> {
    await this.#store?.close();
  }

  /** The caller of a managed key or token. @returns undefined if the key is the file's, or has ended */
  #managedCaller({ tenant, keyId, scopes, tokenModels }: CallerIdentity): Caller | Promise<Caller> | undefined {
    const index = this.#store?.index;
    if (tenant.startsWith(TOKEN_TENANT_PREFIX) && this.#tokens !== undefined) {
      return this.#outsider(tenant.slice(TOKEN_TENANT_PREFIX.length), tokenModels);
    }
    if (index === undefined) return undefined;
    if (keyId !== undefined) {
      const caller = index.callerOfId(keyId);
      if (caller === undefined && index.isBroken) throw storeUnavailable();
      return caller;
    }
    const [org, team] = scopes ?? [];
    if (!tenant.startsWith(ORG_TENANT_PREFIX) || org === undefined) return undefined;
    return withTokenModels(index.callerOfTeam(org, team?.slice(org.length + 1)), tokenModels);
  }

  #callerOfToken(text: string): Caller | Promise<Caller> | undefined {
    if (this.#tokens === undefined || !isToken(text)) return undefined;
    const claims = this.#tokens.claimsOf(text);
    return claims instanceof Promise ? claims.then((each) => this.#callerOf(each)) : this.#callerOf(claims);
  }

  #callerOf(claims: TokenClaims): Caller | Promise<Caller> {
    const { tenant, team, models } = claims;
    const holder = holderOf(claims);
    if (!this.options.config.managedKeys) {
      return this.#outsider(tenant, models).then((caller) => ({ ...caller, holder }));
    }
    const caller = this.#store?.index.callerOfTeam(tenant, team);
    if (caller === undefined) {
      const got = team === undefined ? tenant : `${tenant}/${team}`;
      throw new MillraceError("forbidden", `expected a token of a known organisation and team, got ${got}`, {
        hint: `the administrator makes them: millrace orgs create ${tenant}`,
      });
    }
    return { ...withTokenModels(caller, models), holder };
  }

  /** Without managed organisations, each organisation of the provider's tokens is a tenant. */
  async #outsider(tenant: string, models: readonly string[] | undefined): Promise<Caller> {
    const secret = await this.#tokenSecret?.catch(() => undefined);
    if (secret === undefined) throw storeUnavailable();
    // Naming the scope takes the secret.
    const cacheScope = createHmac("sha256", secret).update(tenant).digest("hex").slice(0, 32);
    return withTokenModels({ tenant: `${TOKEN_TENANT_PREFIX}${tenant}`, cacheScope, isKeyHidden: true }, models);
  }
}

/** On a gateway without keys, all requests belong to the nameless tenant. */
const tenantsOfFile = (config: Pick<FleetConfig, "apiKeys" | "managedKeys" | "oidc">): ReadonlySet<string> =>
  new Set(needsKeys(config) ? config.apiKeys.map(({ tenant }) => tenant) : [""]);

/** The person within the tenant: providers may give one `sub` to people in several organisations. */
function holderOf({ tenant, subject }: TokenClaims): string | undefined {
  if (subject === undefined) return undefined;
  return `oidc:${createHash("sha256")
    .update(JSON.stringify([tenant, subject]))
    .digest("hex")}`;
}

/** @param models patterns that the caller's token allows; undefined: all models */
function withTokenModels<T extends Caller | undefined>(caller: T, models: readonly string[] | undefined): T {
  const own = modelFilter([models]);
  if (caller === undefined || own === undefined) return caller;
  const { allowsModel } = caller;
  return {
    ...caller,
    tokenModels: models,
    allowsModel: (model: string) => own(model) && (allowsModel?.(model) ?? true),
  };
}

function storeUnavailable(): MillraceError {
  return new MillraceError("key_store_unavailable", "expected a working database, got a failure", {
    retryAfterSeconds: 5,
  });
}
