/**
 * A running fleet: creates its parts, connects them, and starts and ends them in order. applied-config.ts applies a
 * changed configuration to them.
 */
import type { Logger } from "pino";
import { availableMemory } from "../core/available-memory.js";
import { certificateFilesOf } from "../core/certificate.js";
import { pagePolicy } from "../core/cors.js";
import { MillraceError } from "../core/errors.js";
import type { ModelLibrary } from "../core/model-library.js";
import { sessionAuthorization } from "../core/sign-in/session-cookie.js";
import { Sessions } from "../core/sign-in/sessions.js";
import type { LiveFeed } from "../observe/live/feed.js";
import { requestLogOf } from "../observe/live/request-log.js";
import { adminHandler, type Scaled } from "./admin.js";
import { AppliedConfig, residenceRules } from "./applied-config.js";
import type { FleetConfig } from "./config/schema.js";
import { operatorsOf } from "./config/sections/operators.js";
import { needsKeys } from "./gateway/authorize.js";
import { Canaries } from "./gateway/canaries.js";
import { GatewayParts } from "./gateway/gateway-parts.js";
import { ModelVersions } from "./gateway/model-versions.js";
import { LibraryModels } from "./library-models.js";
import { servedName } from "./loaded-models.js";
import { FleetWatch } from "./observe/fleet-watch.js";
import { Inspector } from "./observe/inspector.js";
import { LedgerFigures } from "./observe/ledger-figures.js";
import { createFleetMetrics, type FleetMetrics } from "./observe/metrics.js";
import { observeAll } from "./observe/observe-all.js";
import { createQualityMetrics } from "./observe/quality-metrics.js";
import { createRouteMetrics } from "./observe/route-metrics.js";
import { createSemanticMetrics } from "./observe/semantic-metrics.js";
import type { Telemetry } from "./observe/telemetry.js";
import { assertRole, operatorOf } from "./operators/admit.js";
import type { FleetMachine } from "./plan-models.js";
import { sharesProvider } from "./plan-warnings.js";
import { cachesPrefixes } from "./proxy/isolation.js";
import { type RunningProxy, startProxy } from "./proxy/proxy.js";
import { proxyLimits, proxyTimeouts, routingOf } from "./proxy-settings.js";
import type { Reload } from "./reload.js";
import type { KeySource } from "./routing/key-source.js";
import { type LoadPromptReader, PromptKeys } from "./routing/prompt-keys.js";
import { Keeper } from "./scaling/keeper.js";
import { residentBytes } from "./scaling/memory.js";
import type { InstanceStatus } from "./supervision/instance-status.js";
import { Supervisor } from "./supervision/supervisor.js";
import type { ModelSpec } from "./upstream/model-spec.js";
import { NamedPool } from "./upstream/named-pool.js";

export interface FleetOptions {
  readonly config: FleetConfig;
  readonly machine: FleetMachine;
  readonly logger: Logger;
  readonly logFolder: string;
  /** Opens the prompt reader of a model; absent: routing uses the text of requests. */
  readonly loadPromptReader?: LoadPromptReader;
  /** File of the page at /report, which may be written later. */
  readonly reportFile?: string;
  /** The models on this machine's disk, for the administrator. */
  readonly library?: ModelLibrary;
}

export interface FleetStatus extends InstanceStatus {
  readonly inFlight: number;
}

/** Time between two evaluations of the scaling policies. */
const TICK_MS = 1000;

export class Fleet {
  readonly #supervisor: Supervisor;
  readonly #pool: NamedPool;
  readonly #keeper: Keeper;
  readonly #metrics: FleetMetrics;
  readonly #promptKeys: PromptKeys;
  readonly #versions: ModelVersions;
  readonly #gateway: GatewayParts;
  readonly #inspector: Inspector;
  readonly #watch: FleetWatch;
  readonly #knownModel = (name: string) =>
    this.#pool.modelOf(name) ?? (this.#gateway.virtual.has(name) ? name : undefined);
  readonly #figures = new LedgerFigures(this.#knownModel);
  readonly #applied: AppliedConfig;
  readonly #library: LibraryModels;
  readonly #canaries: Canaries;
  readonly #sessions = new Sessions();
  #proxy: RunningProxy | undefined;
  #telemetry: Telemetry | undefined;
  #timer: NodeJS.Timeout | undefined;

  private constructor(private readonly options: FleetOptions) {
    const { config, logger, logFolder } = options;
    const inBackground = (what: string, task: Promise<void>): void => this.#inBackground(what, task);
    this.#supervisor = new Supervisor({ logger, logFolder, inFlight: (id) => this.#inFlightOf(id) });
    this.#supervisor.onChange((status) => this.#watch.onStatus(status));
    this.#pool = new NamedPool(this.#supervisor);
    this.#promptKeys = new PromptKeys(options.loadPromptReader ?? (async () => undefined), logger);
    this.#versions = new ModelVersions(this.#supervisor);
    this.#keeper = new Keeper(
      {
        instances: (model) => this.#supervisor.upstreams(model).filter(({ isAttached }) => !isAttached),
        numWaiting: this.#numWaiting,
        numInFlight: (model) =>
          this.#supervisor.upstreams(model).reduce((sum, { id }) => sum + this.#inFlightOf(id), 0),
        setInstances: (model, count) => inBackground(`scaling ${model}`, this.#supervisor.setInstances(model, count)),
        measure: (pid) => residentBytes(pid),
        now: () => performance.now(),
        epochMs: () => Date.now(),
        onScaled: (model, from, to, reason) => {
          logger.info({ model, from, to, reason }, "scaled");
          this.#watch.add("scale", `${model}: ${from} to ${to} instances: ${reason}`);
        },
      },
      residenceRules(config, availableMemory()),
    );
    const parts = {
      // A thunk, since the gateway reads the configuration when it is created, which is later.
      gateway: () => this.#gateway,
      pool: this.#pool,
      versions: this.#versions,
      keeper: this.#keeper,
      promptKeys: this.#promptKeys,
      supervisor: this.#supervisor,
      logger,
      inBackground,
    };
    this.#applied = new AppliedConfig(parts, config, options.machine);
    this.#library = new LibraryModels(options.library, this.#applied);
    this.#metrics = createFleetMetrics(this.#supervisor, {
      numWaiting: this.#numWaiting,
      numInFlight: ({ id }) => this.#inFlightOf(id),
      breakerState: ({ id }) => this.#proxy?.breakerState(id) ?? "closed",
      cacheStats: async () => await this.#gateway.exactCache()?.stats(),
      modelOf: this.#knownModel,
    });
    this.#watch = new FleetWatch({
      metrics: () => this.#metrics.render(),
      instances: () => this.#supervisor.instances(),
      breakerState: (id) => this.#proxy?.breakerState(id) ?? "closed",
      alerts: () => this.#gateway.alerts,
      tenants: () => (this.#gateway.hasLedger ? this.#figures.tenants : undefined),
      targets: () => this.#applied.config.slo,
      logger,
    });
    this.#canaries = new Canaries({
      entryOf: (name) => {
        const model = this.#pool.modelOf(name);
        return this.#applied.config.models.find((entry) => entry.name === model);
      },
      instances: (model) => this.#supervisor.instances().filter((instance) => instance.model === model),
      add: (entry) => this.#applied.add(entry),
      remove: (name) => this.#applied.unload(name),
      sessionHeader: () => this.#applied.config.routing.sessionHeader,
      onEvent: (text) => this.#watch.add("canary", text),
      logger,
    });
    this.#supervisor.onChange((status) => this.#canaries.onStatus(status));
    createQualityMetrics(this.#metrics.registry, () => this.#gateway.quality.counts());
    this.#inspector = new Inspector(
      () => this.#supervisor.models().flatMap((name) => this.#supervisor.upstreams(name)),
      requestLogOf(logger),
    );
    createSemanticMetrics(this.#metrics.registry, () => this.#gateway.semanticCache()?.status() ?? []);
    const counts = createRouteMetrics(this.#metrics.registry, () => this.#gateway.virtual.reports());
    this.#gateway = new GatewayParts({
      config: () => this.#applied.config,
      pool: this.#pool,
      engineOf: (model) => this.#applied.planned.find(({ spec }) => spec.name === model)?.spec.engine,
      versions: this.#versions,
      counts,
      metrics: this.#metrics,
      proxy: () => this.#running(),
      canaries: this.#canaries,
      // Events are public, so they name no tenant.
      onAlert: ({ metric, model, instance }) =>
        this.#watch.add("alert", [metric, instance ?? model].filter((part) => part !== "").join(" of ")),
      onRow: (row) => this.#figures.count(row),
      logger,
    });
  }

  /** Listens immediately; instances start in the background. */
  static async start(options: FleetOptions): Promise<Fleet> {
    const fleet = new Fleet(options);
    try {
      await fleet.#start();
      return fleet;
    } catch (thrown) {
      await fleet.close();
      throw thrown;
    }
  }

  get url(): string {
    return this.#running().url;
  }

  get port(): number {
    return this.#running().port;
  }

  instances(): readonly FleetStatus[] {
    return this.#supervisor.instances().map((status) => ({ ...status, inFlight: this.#inFlightOf(status.id) }));
  }

  /**
   * Resolves when no instance is in its first start, and each always-loaded model has a ready instance or has given up
   * on
   * all of them.
   *
   * @param onChange called with each change until then
   */
  whenStarted(onChange: (status: InstanceStatus) => void = () => {}): Promise<void> {
    return new Promise((resolve) => {
      const look = (status?: InstanceStatus): void => {
        if (status !== undefined) onChange(status);
        if (!this.#applied.planned.every(({ spec }) => this.#isStarted(spec))) return;
        stopListening();
        resolve();
      };
      const stopListening = this.#supervisor.onChange(look);
      look();
    });
  }

  /** Applies the differences; running requests go on. Reloads run one at a time. */
  async reload(config: FleetConfig, machine: FleetMachine): Promise<Reload> {
    const reload = await this.#applied.reload(config, machine);
    await this.#library.look();
    const { added, removed, replaced, needRestart } = reload;
    const changes = Object.entries({ added, removed, replaced, "needs a restart": needRestart });
    const words = changes.flatMap(([what, names]) => (names.length === 0 ? [] : [`${what}: ${names.join(", ")}`]));
    this.#watch.add("reload", `Configuration read again; ${words.join("; ") || "no instance changes"}`);
    return reload;
  }

  /** Texts that name the files of all models, including stopping ones. */
  uses(): readonly string[] {
    return this.#applied.uses();
  }

  /** Starts an instance of a model on the disk. @param name for its clients; undefined: its repository's name */
  async #load(spec: string, name: string | undefined): Promise<string> {
    const { library } = this.options;
    if (library === undefined) throw new MillraceError("not_found", "expected a gateway that manages models, got none");
    return await library.hold(spec, async (found) => {
      const chosen = name ?? servedName(found.name);
      await this.#applied.load(found, chosen);
      return chosen;
    });
  }

  /** Refuses new requests, waits for the running ones, then closes. */
  async drain(): Promise<void> {
    clearInterval(this.#timer);
    this.#gateway.leave();
    this.#watch.stop();
    await this.#proxy?.drain();
    await this.close();
  }

  /** Cuts off all requests and stops all instances. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#watch.stop();
    await this.#gateway.closeBatches();
    await this.#proxy?.close();
    this.#versions.close();
    await Promise.all([this.#supervisor.close({ now: true }), this.#telemetry?.close(), this.#gateway.close()]);
  }

  #isStarted({ name, instances }: ModelSpec): boolean {
    const all = this.#supervisor.upstreams(name);
    if (all.some(({ state, starts }) => state === "starting" && starts <= 1)) return false;
    // The fleet does not wait for attached servers, which it does not control.
    if (instances === 0 || all.some(({ state }) => state === "ready")) return true;
    return all.every(({ isAttached, isGivenUp }) => isAttached || isGivenUp);
  }

  async #start(): Promise<void> {
    const { config, logger } = this.options;
    await this.#startTelemetry();
    const observers = [
      ...(this.#telemetry === undefined ? [] : [this.#telemetry]),
      this.#metrics,
      this.#inspector,
      this.#canaries.observer,
    ];
    const policies = await this.#gateway.start();
    const administration = adminHandler(this.#adminTarget(this.#watch.start(config.dataFolder)));
    const handlePath = this.#gateway.pathHandler();
    const found = await this.#library.found();
    this.#proxy = await startProxy({
      pool: this.#pool,
      routing: () => routingOf(this.#applied.config),
      keySource: (name) => this.#keySource(name),
      authorize: (headers) => this.#gateway.authorize(headers),
      sessionAuthorization: (incoming) => sessionAuthorization(incoming, this.#sessions),
      pages: () => {
        const { allowedOrigins, host } = this.#applied.config;
        return pagePolicy(allowedOrigins, needsKeys(this.#applied.config), host);
      },
      limits: proxyLimits(() => this.#applied.config),
      timeouts: proxyTimeouts(() => this.#applied.config),
      observer: observeAll(observers),
      policies,
      virtualModels: () => this.#gateway.virtual.names(),
      canaries: () => this.#canaries.names(),
      schedulesByPriority: (name) => this.#applied.plannedOf(name)?.spec.options.schedulingPolicy === "priority",
      modelOf: (name) => this.#pool.modelOf(name) ?? name,
      demand: (name) => this.#keeper.demand(this.#pool.modelOf(name) ?? name),
      startsOnDemand: (name) => this.#keeper.startsOnDemand(this.#pool.modelOf(name) ?? name),
      cachesPrefixes: (name) => {
        const planned = this.#applied.plannedOf(name);
        if (planned === undefined) return true;
        return cachesPrefixes(planned.spec) && !sharesProvider(this.#applied.config, planned.spec);
      },
      library: ({ authorization, "x-api-key": apiKey }) => {
        const { library } = this.options;
        const key = typeof apiKey === "string" ? apiKey : undefined;
        assertRole(operatorOf(operatorsOf(this.#applied.config), authorization, key), "operator");
        return library;
      },
      handleOther: (...request) => administration(...request) || handlePath(...request),
      host: config.host,
      port: config.port,
      certificate: certificateFilesOf(config),
      logger,
    });
    await this.#applied.start(found);
    this.#gateway.startBatches();
    this.#timer = setInterval(() => {
      this.#keeper.tick();
      this.#canaries.look();
      this.#watch.look();
      if (this.#library.isDue()) this.#inBackground("looking for models of the disk", this.#library.look());
      this.#figures.tenants.look(Date.now(), (tenant) => this.#gateway.hasTenant(tenant));
    }, TICK_MS);
  }

  async #startTelemetry(): Promise<void> {
    const { otlpEndpoint, serviceName } = this.#applied.config.telemetry;
    const endpoint = otlpEndpoint ?? process.env.OTEL_EXPORTER_OTLP_ENDPOINT;
    if (endpoint === undefined || endpoint === "") return;
    const { startTelemetry } = await import("./observe/telemetry.js");
    const engineOf = (id: string) => this.#supervisor.instances().find((instance) => instance.id === id)?.engine;
    const tenantOf = (tenant: string) => this.#figures.tenants.placeFor(tenant, Date.now());
    this.#telemetry = await startTelemetry({ endpoint, serviceName, engineOf, tenantOf });
  }

  /** Only the policy `prefix` uses prompt keys. */
  #keySource(name: string): KeySource | undefined {
    const spec = this.#applied.plannedOf(name)?.spec;
    if (spec === undefined || this.#applied.config.routing.policy !== "prefix") return undefined;
    return this.#promptKeys.sourceFor(spec, this.#supervisor.upstreams(spec.name));
  }

  readonly #numWaiting = (model: string): number => this.#proxy?.numWaiting(model) ?? 0;

  #inFlightOf(id: string): number {
    return this.#proxy?.numInFlight(id) ?? 0;
  }

  #adminTarget(live: LiveFeed) {
    return {
      live,
      models: () => this.#running().models(),
      instances: () => this.instances(),
      drain: (id: string) => this.#supervisor.drain(id),
      restart: (id: string) => this.#supervisor.restart(id),
      scale: (model: string, instances: number) => this.#scale(model, instances),
      load: (spec: string, name: string | undefined) => this.#load(spec, name),
      unload: (name: string) => this.#applied.unload(name),
      isLoaded: (name: string) => this.#applied.isLoaded(name),
      library: this.options.library,
      metrics: (accept: string | undefined) => this.#metrics.answer(accept),
      tenantMetrics: this.#gateway.hasLedger ? () => this.#figures.text() : undefined,
      requests: (query: Parameters<Inspector["find"]>[0]) => this.#inspector.find(query),
      needsKeys: () => needsKeys(this.#applied.config),
      clientWith: (key: string) => this.#gateway.authorize({ authorization: `Bearer ${key}` }),
      keepsChats: this.#applied.config.conversations !== undefined,
      takesFeedback: this.#applied.config.quality !== undefined,
      sessions: this.#sessions,
      operators: () => operatorsOf(this.#applied.config),
      signIn: this.#applied.config.signIn,
      reportFile: this.options.reportFile,
      reports: this.#applied.config.reports,
      parts: this.#gateway.adminParts(),
      bodyTimeoutMs: () => this.#applied.config.timeouts.body,
      inBackground: (what: string, task: Promise<void>) => this.#inBackground(what, task),
    };
  }

  #scale(name: string, instances: number): Scaled {
    const planned = this.#applied.plannedOf(name);
    if (planned?.kept === undefined) {
      throw new MillraceError(
        "model_not_found",
        `expected a model with instances of the fleet, got ${JSON.stringify(name)}`,
      );
    }
    const { min, max } = planned.kept.rules;
    const count = Math.min(max, Math.max(min, instances));
    this.#keeper.scaleTo(planned.spec.name, count);
    return { instances: count, limitedBy: count < instances ? "max" : count > instances ? "min" : undefined };
  }

  #inBackground(what: string, task: Promise<void>): void {
    task.catch((thrown: unknown) => this.options.logger.error({ err: thrown }, `${what} failed`));
  }

  #running(): RunningProxy {
    if (this.#proxy === undefined) throw new MillraceError("internal_error", "expected a started fleet, got none");
    return this.#proxy;
  }
}
