/** The models on this machine's disk and on the hub: lists, pulls, compares with the memory, and removes them. */
import { statfs } from "node:fs/promises";
import { dirname, join, resolve, sep } from "node:path";
import { availableMemory } from "../core/available-memory.js";
import { cacheFolder } from "../core/cache-folder.js";
import { MillraceError } from "../core/errors.js";
import type { FoundModel, ModelLibrary, Pull, ServableModel } from "../core/model-library.js";
import { OneAtATime } from "../core/one-at-a-time.js";
import { runningServers } from "../core/server-registry.js";
import type { HubOptions } from "../formats/hub/access.js";
import { withRemoteHeader } from "../formats/hub/remote-header.js";
import { type HubSearch, hubVariants, searchHub } from "../formats/hub/search.js";
import { hubFolder, hubSpecFrom, parseHubSpec } from "../formats/hub/spec.js";
import { listStored, removeStored, type StoredModel } from "../formats/hub/stored.js";
import { findOnDisk } from "../formats/hub.js";
import { listBundled } from "../formats/locate-model.js";
import { type MemoryNeed, memoryNeed } from "../plan/memory.js";
import type { PlannedModel } from "../plan/planned-model.js";
import { readPlannedModel } from "../plan/read-model.js";
import { factsOf } from "./model-facts.js";
import { Pulls } from "./pulls.js";

export interface LibraryOptions {
  /** Texts in this server's configuration that may hold file paths or names on the hub. Called at each check. */
  readonly uses: () => readonly string[];
  readonly cacheDir?: string;
  readonly hub?: HubOptions;
}

/** Tokens of one sequence, if the caller gives no number. */
const USUAL_CONTEXT = 8192;

export class Library implements Omit<ModelLibrary, "app"> {
  readonly pulls: Pulls;
  readonly #cacheDir: string;
  /** Models that are being loaded, which no configuration names yet. */
  readonly #held = new Set<FoundModel>();
  /** Finding and removing models take turns, so that no found model loses its files. */
  readonly #turns = new OneAtATime();

  constructor(private readonly options: LibraryOptions) {
    this.#cacheDir = options.cacheDir ?? cacheFolder();
    this.pulls = new Pulls({ ...options.hub, cacheDir: this.#cacheDir });
  }

  async list() {
    const isUsed = await this.#usage();
    const stored = await listStored(this.#cacheDir);
    const models = [...stored.map((model) => [model, false] as const), ...listBundled().map((m) => [m, true] as const)];
    const rows: object[] = [];
    // One after another: reading a header blocks, and requests can run between two.
    for (const [model, isBundled] of models) rows.push(await this.#row(model, isBundled, isUsed(model)));
    const disk = await this.#freeDisk();
    return {
      folder: join(this.#cacheDir, "hub"),
      freeDiskBytes: disk,
      freeMemoryBytes: availableMemory(),
      models: rows,
    };
  }

  async servable(): Promise<readonly ServableModel[]> {
    const models: ServableModel[] = [];
    for (const model of await listStored(this.#cacheDir)) {
      if (model.isComplete && typeof (await factsOf(model)) !== "string") models.push(model);
    }
    return models;
  }

  async #row(model: StoredModel, isBundled: boolean, isInUse: boolean) {
    const { name, format, numBytes, lastUsedMs, isComplete } = model;
    const row = {
      name,
      format,
      bytes: numBytes,
      lastUsedAt: Math.floor(lastUsedMs / 1000),
      isComplete,
      isBundled,
      isInUse,
    };
    if (!isComplete) return { ...row, resumes: model.resumes ?? name };
    const facts = await factsOf(model);
    if (typeof facts === "string") return { ...row, problem: facts };
    const { family, quantization, numParameters, planned } = facts;
    const about = { ...row, family, quantization, parameters: numParameters };
    if (planned === undefined) return about;
    const { contextLength } = planned;
    return { ...about, contextLength, memory: memoryNeed(planned, Math.min(contextLength, USUAL_CONTEXT)) };
  }

  search(search: HubSearch) {
    return searchHub(search, this.options.hub ?? {});
  }

  /** The models in a repository, with present ones marked. @param name org/repo[@revision] */
  async variants(name: string) {
    const variants = await hubVariants(hubSpecFrom(name), this.options.hub ?? {});
    const here = new Set((await listStored(this.#cacheDir)).flatMap((each) => (each.isComplete ? [each.name] : [])));
    return variants.map(({ numBytes, ...each }) => ({ ...each, bytes: numBytes, isOnDisk: here.has(each.name) }));
  }

  /**
   * The memory need, from the model's header on disk, otherwise from its header on the hub, otherwise from its
   * config.json
   * there.
   */
  async need(name: string, contextTokens: number | undefined) {
    const found = await this.#onDisk(name);
    const planned = await (found === undefined ? this.#planRemote(hubSpecFrom(name)) : readPlannedModel(found.path));
    const tokens = contextTokens ?? Math.min(planned.contextLength, USUAL_CONTEXT);
    if (tokens > planned.contextLength) {
      const message = `context: expected at most ${planned.contextLength} tokens, got ${tokens}`;
      throw new MillraceError("invalid_parameter", message, { param: "context" });
    }
    const need: MemoryNeed = memoryNeed(planned, tokens);
    const freeMemoryBytes = availableMemory();
    const fits = need.totalBytes <= freeMemoryBytes;
    return {
      model: found?.name ?? hubSpecFrom(name),
      contextLength: planned.contextLength,
      ...need,
      freeMemoryBytes,
      fits,
    };
  }

  async #planRemote(spec: string): Promise<PlannedModel> {
    const { hub = {} } = this.options;
    return (await withRemoteHeader(spec, hub, (path) => readPlannedModel(path))) ?? (await readPlannedModel(spec, hub));
  }

  pull(name: string): Pull {
    return this.pulls.start(hubSpecFrom(name));
  }

  remove(name: string): Promise<void> {
    return this.#turns.run(() => this.#remove(name));
  }

  async #remove(name: string): Promise<void> {
    if (listBundled().some((each) => each.name === name)) {
      throw new MillraceError("model_in_use", `expected a downloaded model, got ${name}, which is bundled`);
    }
    const spec = hubSpecFrom(name);
    const { repo, revision } = parseHubSpec(spec);
    const repository = `hf:${repo}${revision === "main" ? "" : `@${revision}`}`;
    const isUsed = await this.#usage();
    const stored = await listStored(this.#cacheDir);
    const wanted = spec === repository ? spec : ((await this.#onDisk(spec))?.name ?? spec);
    const exact = stored.filter(({ name: each }) => each === wanted && wanted !== repository);
    // If only the files determine the name, any model of the repository may be meant.
    const ofRepository = stored.filter(({ name: each }) => each === repository || each.startsWith(`${repository}:`));
    if ((exact.length > 0 ? exact : ofRepository).some(isUsed))
      throw inUse(wanted, "which a server on this machine is configured with or loads");
    await removeStored(wanted, this.#cacheDir, () => {
      throw inUse(wanted, "which is being downloaded");
    });
  }

  async hold<T>(name: string, use: (found: FoundModel) => Promise<T>): Promise<T> {
    const found = await this.#turns.run(async () => {
      const model = await this.#find(name);
      this.#held.add(model);
      return model;
    });
    try {
      return await use(found);
    } finally {
      this.#held.delete(found);
    }
  }

  async #find(name: string): Promise<FoundModel> {
    const found = await this.#onDisk(name);
    if (found === undefined) {
      throw new MillraceError(
        "model_not_found",
        `expected a model on this machine's disk, got ${JSON.stringify(name.slice(0, 200))}`,
        {
          hint: "pull it first",
        },
      );
    }
    const facts = await factsOf(found);
    const planned = typeof facts === "string" ? undefined : facts.planned;
    const need = planned && memoryNeed(planned, Math.min(planned.contextLength, USUAL_CONTEXT));
    return { name: found.name, path: found.path, neededBytes: need?.totalBytes, freeBytes: availableMemory() };
  }

  /** A complete model, by its name or an equivalent one. */
  async #onDisk(name: string): Promise<StoredModel | undefined> {
    const bundled = listBundled().find((each) => each.name === name);
    if (bundled !== undefined) return bundled;
    const found = await findOnDisk(hubSpecFrom(name), this.#cacheDir);
    return found && (await listStored(this.#cacheDir)).find(({ path }) => path === found.path);
  }

  async #freeDisk(): Promise<number | undefined> {
    // The cache may not exist yet.
    for (const folder of [this.#cacheDir, dirname(this.#cacheDir)]) {
      const stats = await statfs(folder).catch(() => undefined);
      if (stats !== undefined) return stats.bavail * stats.bsize;
    }
    return undefined;
  }

  /** Whether this server or another on this machine is configured with a model or is loading it. */
  async #usage(): Promise<(model: StoredModel) => boolean> {
    const others = runningServers(this.#cacheDir).flatMap(({ uses = [] }) => uses);
    const held = [...this.#held].map(({ path }) => path);
    const texts = [...this.options.uses(), ...held, ...others];
    const paths: string[] = texts.map((text) => resolve(text));
    for (const [spec] of texts.flatMap((text) => [...text.matchAll(/hf:[\w./@:-]+/g)])) {
      try {
        const found = await findOnDisk(spec, this.#cacheDir);
        // For a running download, or a name that only the hub can resolve, the complete repository counts.
        paths.push(...(found?.files ?? [hubFolder(this.#cacheDir, parseHubSpec(spec))]));
      } catch {
        // The text is not a model's name.
      }
    }
    return ({ path, format }) =>
      texts.some((text) => text.includes(path)) ||
      paths.some((each) => each === path || isWithin(each, path) || (format === "GGUF" && isWithin(path, each)));
  }
}

const isWithin = (path: string, folder: string): boolean => path.startsWith(folder + sep);

const inUse = (name: string, why: string): MillraceError =>
  new MillraceError("model_in_use", `expected a model that nobody uses, got ${name}, ${why}`, {
    hint: "unload it, or end the server or the download first",
  });
