/**
 * The gateway of a running fleet: its policies with their databases, its tenants, ledger and batches, and their paths.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Hono } from "hono";
import type Database from "libsql";
import type { Logger } from "pino";
import { MillraceError } from "../../core/errors.js";
import type { Alert } from "../../gateway/alerts/alert-store.js";
import type { AlertWatch } from "../../gateway/alerts/alert-watch.js";
import type { BatchService } from "../../gateway/batches/service.js";
import { LimitsPolicy } from "../../gateway/budget/limits-policy.js";
import { ExactCache } from "../../gateway/cache/exact-cache.js";
import type { RouteCounts } from "../../gateway/cascade/cascade-report.js";
import type { RequestRow } from "../../gateway/ledger/ledger-rows.js";
import type { Policy } from "../../gateway/pipeline.js";
import type { Caller } from "../../gateway/request.js";
import { createSemanticApp } from "../../gateway/semantic/admin-app.js";
import { OWN_TENANT, SemanticCache } from "../../gateway/semantic/policy.js";
import { type CacheKind, openCacheDatabase, openDatabase } from "../../gateway/store/database.js";
import { sideOf } from "../../gateway/store/side-connection.js";
import type { FleetConfig } from "../config/schema.js";
import { promptFactsOf } from "../proxy/fleet-info.js";
import type { RunningProxy } from "../proxy/proxy.js";
import type { EngineName } from "../upstream/engine.js";
import type { NamedPool } from "../upstream/named-pool.js";
import { fleetBatches } from "./batches.js";
import { lostCharges } from "./budget-policy.js";
import { createCacheApp } from "./cache-admin.js";
import { cachePathsHandler } from "./cache-paths.js";
import type { Canaries } from "./canaries.js";
import { createCanaryApp } from "./canary-app.js";
import { createCascadeApp } from "./cascade-app.js";
import { ConversationsPart } from "./conversations.js";
import { defaultDataFolder } from "./data-folder.js";
import { Ledger } from "./ledger.js";
import { lockLedger } from "./ledger-lock.js";
import type { ModelVersions } from "./model-versions.js";
import { createPolicies, type HandedPolicies } from "./policies.js";
import type { PolicyContext } from "./policy-context.js";
import { QualityPart } from "./quality-part.js";
import { Tenants } from "./tenants.js";
import { VirtualModels } from "./virtual-models.js";

interface GatewayOptions {
  /** The current configuration; a reload replaces it. */
  readonly config: () => FleetConfig;
  readonly pool: NamedPool;
  /** Engine of a model, by the model's own name. */
  readonly engineOf: (model: string) => EngineName | undefined;
  readonly versions: ModelVersions;
  readonly counts: RouteCounts;
  readonly metrics: PolicyContext["metrics"];
  readonly proxy: () => RunningProxy;
  readonly onAlert: (alert: Alert) => void;
  /** Called with each row of the ledger. */
  readonly onRow: (row: RequestRow) => void;
  readonly canaries: Canaries;
  readonly logger: Logger;
}

/** @returns whether the handler serves the request's path */
type HandlePath = (incoming: IncomingMessage, outgoing: ServerResponse, requestId: string) => boolean;

export class GatewayParts {
  readonly virtual: VirtualModels;
  readonly quality: QualityPart;
  readonly #tenants: Tenants;
  readonly #conversations: ConversationsPart;
  readonly #ledger: Ledger;
  readonly #batches: BatchService;
  readonly #dataFolder: string;
  readonly #modelOf: (name: string) => string;
  #policies: readonly Policy[] = [];
  #handed: HandedPolicies | undefined;
  #database: Database.Database | undefined;
  readonly #cacheDatabases = new Map<CacheKind, Database.Database>();
  #unlockLedger = () => {};

  constructor(private readonly options: GatewayOptions) {
    const { config, pool, versions, counts, proxy, onAlert, onRow, canaries, logger } = options;
    const atStart = config();
    const database = () => this.#openDatabase();
    const modelOf = (name: string) => pool.modelOf(name) ?? name;
    const authorize = (headers: IncomingHttpHeaders) => this.authorize(headers);
    this.#dataFolder = atStart.dataFolder ?? defaultDataFolder(atStart.port);
    this.#modelOf = modelOf;
    this.virtual = new VirtualModels({
      logger,
      database,
      counts,
      hasCanary: (model) => canaries.hasCanary(model),
    });
    this.#conversations = new ConversationsPart({ config: atStart, database, logger, authorize });
    this.#tenants = new Tenants({
      config: atStart,
      database,
      logger,
      onKeysEnded: (keyIds) => this.#conversations.forgetKeys(keyIds),
      usageOf: async (scope) => await this.#limits().usageOf(scope),
    });
    const lostCharge = lostCharges(atStart, database);
    this.#ledger = new Ledger({ config, database, logger, modelOf, authorize, lostCharge, onAlert, onRow });
    this.quality = new QualityPart({
      config: atStart,
      database,
      logger,
      modelOf: (name) => pool.modelOf(name) ?? (this.virtual.has(name) ? name : undefined),
      versionOf: (model) => versions.of(model),
      sessionHeader: () => config().routing.sessionHeader,
      authorize,
      onAlert,
    });
    this.#batches = fleetBatches({
      prices: this.#ledger.prices,
      dataFolder: this.#dataFolder,
      database,
      config,
      authorize,
      callerOf: (identity) => this.#tenants.callerOf(identity),
      pool,
      nameOf: modelOf,
      virtualModels: () => this.virtual.names(),
      proxy,
      handed: () => this.#handed,
      logger,
    });
  }

  /** Creates the policies. @returns them in order: the first sees a request first */
  async start(): Promise<readonly Policy[]> {
    const { config, pool, engineOf, versions, metrics, proxy, logger } = this.options;
    if (this.hasLedger) {
      this.#openDatabase();
      this.#unlockLedger = await lockLedger(this.#dataFolder, logger);
      this.#ledger.open();
    }
    const { all, handed } = await createPolicies({
      config,
      dataFolder: this.#dataFolder,
      database: () => this.#openDatabase(),
      cacheDatabase: (kind) => this.#openCacheDatabase(kind),
      models: {
        resolve: (name) => pool.modelOf(name),
        engine: engineOf,
        promptFacts: (names) => promptFactsOf(names, pool),
        version: (model) => versions.of(model),
      },
      metrics,
      observing: [...this.#ledger.policies(), ...this.quality.policies()],
      ledger: this.#ledger,
      submit: (request, sink) => proxy().submit(request, sink),
      virtual: this.virtual,
      canary: this.options.canaries.policy,
      logger,
    });
    this.#policies = all;
    this.#handed = handed;
    return all;
  }

  /** Resumes the batches. Call it once requests can be answered. */
  startBatches(): void {
    this.#batches.start();
  }

  authorize(headers: IncomingHttpHeaders): Caller | Promise<Caller> {
    return this.#tenants.authorize(headers);
  }

  /** Takes over the keys of a reloaded configuration. */
  configureTenants(config: FleetConfig): void {
    this.#tenants.configure(config);
  }

  /** Whether a tenant still belongs to this gateway. The semantic cache asks models as its own tenant. */
  hasTenant(tenant: string): boolean {
    return tenant === OWN_TENANT || this.#tenants.has(tenant);
  }

  /** Whether the gateway keeps rows of requests, from which it counts figures by tenant. */
  get hasLedger(): boolean {
    return this.#ledger.isKept;
  }

  get alerts(): AlertWatch | undefined {
    return this.#ledger.alerts;
  }

  exactCache(): ExactCache | undefined {
    return this.#policies.find((policy) => policy instanceof ExactCache);
  }

  semanticCache(): SemanticCache | undefined {
    return this.#policies.find((policy) => policy instanceof SemanticCache);
  }

  /** Handles client paths that no instance serves. */
  pathHandler(): HandlePath {
    const authorize = (headers: IncomingHttpHeaders) => this.authorize(headers);
    const cache = cachePathsHandler({ authorize, semanticCache: () => this.semanticCache() });
    const parts = [this.#tenants, this.#conversations, this.#ledger, this.quality, this.#batches];
    return (...request) => cache(...request) || parts.some((part) => part.handle(...request));
  }

  /** Paths under /admin. Call it after `start`. */
  adminParts(): readonly Hono[] {
    const semanticCache = this.semanticCache();
    const parts = [
      createCascadeApp(this.virtual),
      createCanaryApp(this.options.canaries),
      createCacheApp(this.exactCache(), this.#modelOf),
      this.#tenants.adminApp(),
      this.#ledger.adminApp(),
      this.quality.adminApp(),
      this.#batches.adminApp(),
      semanticCache === undefined ? undefined : createSemanticApp(semanticCache),
    ];
    return parts.filter((part) => part !== undefined);
  }

  /** Begins no more lines of batches. */
  leave(): void {
    this.#batches.leave();
  }

  /** Stops the parts that make their own requests. Call it before the proxy closes. */
  async closeBatches(): Promise<void> {
    await this.#batches.close();
  }

  /** Call it when no request is running. */
  async close(): Promise<void> {
    await Promise.all(this.#policies.map((policy) => this.#end(async () => await policy.close?.())));
    for (const part of [this.quality, this.#ledger, this.#tenants, this.#conversations]) {
      await this.#end(async () => await part.close());
    }
    const database = this.#database;
    if (database !== undefined) await this.#end(() => sideOf(database).close());
    this.#database?.close();
    this.#database = undefined;
    for (const cache of this.#cacheDatabases.values()) cache.close();
    this.#cacheDatabases.clear();
    this.#unlockLedger();
  }

  /** Ends one part; logs its error, so that the others still end. */
  async #end(close: () => Promise<void>): Promise<void> {
    await close().catch((err: unknown) => this.options.logger.error({ err }, "a part of the gateway did not end well"));
  }

  #limits(): LimitsPolicy {
    const limits = this.#policies.find((policy) => policy instanceof LimitsPolicy);
    if (limits === undefined) throw new MillraceError("internal_error", "expected a started gateway, got none");
    return limits;
  }

  #openDatabase(): Database.Database {
    if (this.#database === undefined) {
      this.#database = openDatabase(this.#dataFolder);
      sideOf(this.#database);
    }
    return this.#database;
  }

  #openCacheDatabase(kind: CacheKind): Database.Database {
    const opened = this.#cacheDatabases.get(kind) ?? openCacheDatabase(this.#dataFolder, kind);
    this.#cacheDatabases.set(kind, opened);
    return opened;
  }
}
