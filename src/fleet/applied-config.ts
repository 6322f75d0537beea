/**
 * The configuration in effect (the file's, plus the models loaded beside it), and the effect of its changes on the
 * parts of the fleet.
 */
import type { Logger } from "pino";
import { availableMemory } from "../core/available-memory.js";
import type { FoundModel, ServableModel } from "../core/model-library.js";
import { OneAtATime } from "../core/one-at-a-time.js";
import type { FleetConfig, ModelEntry } from "./config/schema.js";
import { versionWords } from "./gateway/cache-policies.js";
import type { GatewayParts } from "./gateway/gateway-parts.js";
import type { ModelVersions } from "./gateway/model-versions.js";
import { LoadedModels, usesOf } from "./loaded-models.js";
import { type FleetMachine, type PlannedModel, planModels } from "./plan-models.js";
import { warnOfPlan } from "./plan-warnings.js";
import { changesOf, type Reload } from "./reload.js";
import type { PromptKeys } from "./routing/prompt-keys.js";
import type { Keeper } from "./scaling/keeper.js";
import { DEFAULT_RESIDENCE } from "./scaling/on-demand.js";
import type { Supervisor } from "./supervision/supervisor.js";
import type { NamedPool } from "./upstream/named-pool.js";

/** The parts to notify of a change, in this order. */
interface ConfiguredParts {
  readonly gateway: () => GatewayParts;
  readonly pool: NamedPool;
  readonly versions: ModelVersions;
  readonly keeper: Keeper;
  readonly promptKeys: PromptKeys;
  readonly supervisor: Supervisor;
  readonly logger: Logger;
  /** Runs a task that may outlast the change, and logs its failure. */
  inBackground(what: string, task: Promise<void>): void;
}

export class AppliedConfig {
  readonly #loaded = new LoadedModels();
  readonly #changes = new OneAtATime();
  readonly #freeBytes = availableMemory();
  #config: FleetConfig;
  #planned: readonly PlannedModel[] = [];
  /** Texts that name the model files of stopping processes. */
  #stopping: readonly string[] = [];

  /** @param file configuration of the file */
  constructor(
    private readonly parts: ConfiguredParts,
    private file: FleetConfig,
    private machine: FleetMachine,
  ) {
    this.#config = file;
  }

  /** The file's configuration, plus the models loaded beside it. */
  get config(): FleetConfig {
    return this.#config;
  }

  get planned(): readonly PlannedModel[] {
    return this.#planned;
  }

  /** @param name any name by which clients may ask for the model */
  plannedOf(name: string): PlannedModel | undefined {
    const model = this.parts.pool.modelOf(name);
    return this.#planned.find(({ spec }) => spec.name === model);
  }

  /** Texts that name the files of models that run, may start at any time, or are stopping. */
  uses(): readonly string[] {
    const { supervisor } = this.parts;
    const isUsed = (entry: ModelEntry) =>
      !this.#loaded.isOnDemand(entry) || supervisor.upstreams(entry.name).length > 0;
    return [...usesOf({ models: this.#config.models.filter(isUsed) }), ...this.#stopping];
  }

  isLoaded(name: string): boolean {
    return this.#loaded.has(name);
  }

  /** Applies the file at the start. @param found models on the disk to load on demand */
  async start(found: readonly ServableModel[]): Promise<void> {
    this.#loaded.serveOnDemand(found);
    await this.#changes.run(() => this.#apply(this.file, this.machine));
  }

  /** Loads models from the disk on demand, and no others. @param find called while no other change is running */
  async serveOnDemand(find: () => Promise<readonly ServableModel[]>): Promise<void> {
    await this.#changes.run(async () => {
      const before = this.#loaded.onDemand;
      if (!this.#loaded.serveOnDemand(await find())) return;
      try {
        await this.#apply(this.file, this.machine);
      } catch (thrown) {
        this.#loaded.restoreOnDemand(before);
        throw thrown;
      }
    });
  }

  /** Applies the differences; running requests go on. */
  reload(file: FleetConfig, machine: FleetMachine): Promise<Reload> {
    return this.#changes.run(async () => {
      const reload = await this.#apply(file, machine);
      this.file = file;
      this.machine = machine;
      return reload;
    });
  }

  /** Adds a model from the disk. @param name for its clients */
  async load(found: FoundModel, name: string): Promise<void> {
    await this.#add(name, () => this.#loaded.add(found, name, this.#config));
  }

  /** Adds a model beside those of the file. */
  async add(entry: ModelEntry): Promise<void> {
    await this.#add(entry.name, () => this.#loaded.addEntry(entry));
  }

  async #add(name: string, add: () => void): Promise<void> {
    await this.#changes.run(async () => {
      add();
      try {
        await this.#apply(this.file, this.machine);
      } catch (thrown) {
        this.#loaded.remove(name);
        throw thrown;
      }
    });
  }

  /** Stops a loaded model after its requests end. */
  async unload(name: string): Promise<void> {
    await this.#changes.run(async () => {
      this.#loaded.remove(name);
      await this.#apply(this.file, this.machine);
    });
  }

  async #apply(file: FleetConfig, machine: FleetMachine): Promise<Reload> {
    const gateway = this.parts.gateway();
    const { pool, versions, keeper, promptKeys, supervisor, logger, inBackground } = this.parts;
    const config = this.#loaded.addTo(file);
    // Throws before anything changes if a router's file is unreadable.
    gateway.virtual.configure(config);
    const planned = planModels(config, machine);
    const { added, removed, replaced, turned, needRestart } = changesOf(
      { config: this.#config, planned: this.#planned },
      { config, planned },
    );
    this.#stopping = usesOf(this.#config);
    this.#config = config;
    gateway.configureTenants(config);
    this.#planned = planned;
    pool.configure(new Map(planned.map(({ spec, names }) => [spec.name, names])));
    versions.configure(
      planned.map(({ spec }) => spec),
      versionWords(config),
    );
    keeper.configure(
      planned.flatMap(({ kept }) => kept ?? []),
      residenceRules(config, this.#freeBytes),
    );
    warnOfPlan(config, planned, logger);
    for (const name of [...removed, ...replaced.map(({ spec }) => spec.name)]) promptKeys.forget(name);
    for (const { spec } of added) supervisor.addModel(spec);
    for (const { spec } of turned) {
      const count = keeper.target(spec.name) ?? 0;
      inBackground(`scaling ${spec.name}`, supervisor.setInstances(spec.name, count));
    }
    await Promise.all([
      ...removed.map((name) => supervisor.removeModel(name)),
      ...replaced.map(({ spec }) => this.#replace(spec.name)),
    ]);
    this.#stopping = [];
    const namesOf = (all: readonly PlannedModel[]) => all.map(({ spec }) => spec.name);
    return { added: namesOf(added), removed, replaced: namesOf(replaced), needRestart };
  }

  /** Running requests finish on the old processes; new ones wait for the new processes. */
  async #replace(name: string): Promise<void> {
    const { supervisor, keeper } = this.parts;
    await supervisor.removeModel(name);
    const spec = this.#planned.find((each) => each.spec.name === name)?.spec;
    if (spec !== undefined) supervisor.addModel({ ...spec, instances: keeper.target(name) ?? spec.instances });
  }
}

/** Share of the free memory for models of the disk; the rest is left to other programs. */
const FREE_SHARE = 0.8;

/** @param freeBytes the machine's free memory before any model was loaded */
export function residenceRules({ memoryBudget, serveLibrary }: FleetConfig, freeBytes: number) {
  const most = serveLibrary ? FREE_SHARE * freeBytes : Number.POSITIVE_INFINITY;
  return { ...DEFAULT_RESIDENCE, budgetBytes: memoryBudget ?? most };
}
