/** The tenants of a gateway as its configuration asks for them: managed keys in the database, tokens of an identity provider, and GET /v1/key. */
import { createHmac } from "node:crypto";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Hono } from "hono";
import type Database from "libsql";
import type { Logger } from "pino";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { OPENAI } from "../../gateway/api/dialect.js";
import type { Caller } from "../../gateway/request.js";
import { createTenantsApp } from "../../gateway/tenants/admin-app.js";
import { modelFilter } from "../../gateway/tenants/model-globs.js";
import { isToken, OidcTokens, type TokenClaims } from "../../gateway/tenants/oidc.js";
import { OWN_KEY_PATH, ownKey, type UsageOf } from "../../gateway/tenants/own-key.js";
import { TenantStore } from "../../gateway/tenants/tenant-store.js";
import type { FleetConfig } from "../config/schema.js";
import { logFailure, respondJson, respondWithError } from "../proxy/respond.js";
import { authorizeWith, type CallerSources, hasTenants } from "./authorize.js";

interface TenantsOptions {
  /** As of the start: `managed-keys` and `oidc` do not change. */
  readonly config: FleetConfig;
  /** Opened only if the configuration asks for tenants. */
  readonly database: () => Database.Database;
  readonly logger: Logger;
  /** What scopes have used; undefined while nothing counts. */
  readonly usageOf?: UsageOf | undefined;
}

const TOKEN_SECRET = "token-cache-scope";

export class Tenants {
  readonly #store: TenantStore | undefined;
  readonly #sources: CallerSources;
  readonly #tokens: OidcTokens | undefined;
  readonly #tokenSecret: Promise<string> | undefined;
  #authorize: ReturnType<typeof authorizeWith>;

  constructor(private readonly options: TenantsOptions) {
    const { config, database, logger } = options;
    const onFailure = (what: string, err: unknown) => logger.error({ err }, `${what} failed`);
    const now = () => Date.now();
    if (hasTenants(config)) {
      this.#store = new TenantStore({ database: database(), now, onFailure });
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
  }

  /** Takes over the keys of a file that was read again. */
  configure({ apiKeys, isolateApiKeys }: FleetConfig): void {
    this.#authorize = authorizeWith({ ...this.options.config, apiKeys, isolateApiKeys }, this.#sources);
  }

  /** Throws, or rejects with, a MillraceError if the caller is not known. */
  authorize(headers: IncomingHttpHeaders): Caller | Promise<Caller> {
    return this.#authorize(headers);
  }

  /** The caller that a managed key's id stands for now. @returns undefined if it is no longer valid */
  callerOfKeyId(keyId: string): Caller | undefined {
    return this.#store?.index.callerOfId(keyId);
  }

  /** Organisations, teams, keys and the audit for the administrator; undefined without managed keys. */
  adminApp(): Hono | undefined {
    const store = this.#store;
    return store === undefined || !this.options.config.managedKeys ? undefined : createTenantsApp(() => store);
  }

  /** Answers GET /v1/key. @returns whether the request is that */
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

  #callerOfToken(text: string): Caller | Promise<Caller> | undefined {
    if (this.#tokens === undefined || !isToken(text)) return undefined;
    const claims = this.#tokens.claimsOf(text);
    return claims instanceof Promise ? claims.then((each) => this.#callerOf(each)) : this.#callerOf(claims);
  }

  #callerOf(claims: TokenClaims): Caller | Promise<Caller> {
    if (!this.options.config.managedKeys) return this.#outsider(claims);
    const { tenant, team, models } = claims;
    const caller = this.#store?.index.callerOfTeam(tenant, team);
    if (caller === undefined) {
      const got = team === undefined ? tenant : `${tenant}/${team}`;
      throw new MillraceError("forbidden", `expected a token of a known organisation and team, got ${got}`, {
        hint: `the administrator makes them: millrace orgs create ${tenant}`,
      });
    }
    const own = modelFilter([models]);
    if (own === undefined) return caller;
    const { allowsModel } = caller;
    return { ...caller, allowsModel: (model) => own(model) && (allowsModel?.(model) ?? true) };
  }

  /** Without managed organisations, those of the provider's tokens are tenants as they are. */
  async #outsider({ tenant, models }: TokenClaims): Promise<Caller> {
    const secret = await this.#tokenSecret?.catch(() => undefined);
    if (secret === undefined)
      throw new MillraceError("key_store_unavailable", "expected a working database, got a failure");
    // Nobody without the secret can name the scope.
    const cacheScope = createHmac("sha256", secret).update(tenant).digest("hex").slice(0, 32);
    return { tenant: `oidc:${tenant}`, cacheScope, isKeyHidden: true, allowsModel: modelFilter([models]) };
  }
}
