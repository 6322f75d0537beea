/**
 * Models of the disk beside those of the file. Models that an administrator loads survive reloads of the file and end
 * with the process; all others load on demand, if the file asks for that.
 */
import { MillraceError } from "../core/errors.js";
import type { FoundModel, ServableModel } from "../core/model-library.js";
import { isCanaryName } from "../gateway/canary/canary-name.js";
import { configSchema, type FleetConfig, type ModelEntry } from "./config/schema.js";

export class LoadedModels {
  #entries: readonly ModelEntry[] = [];
  #onDemand: readonly ModelEntry[] = [];

  /** The file's configuration with these models; if a name is in the file too, it stands for the file's model. */
  addTo(config: FleetConfig): FleetConfig {
    const models = [...config.models];
    for (const entry of [...this.#entries, ...this.#onDemand]) {
      const names = namesOf(models);
      if (names.includes(entry.name)) continue;
      const aliases = entry.aliases.filter((alias) => !names.includes(alias));
      models.push(aliases.length === entry.aliases.length ? entry : { ...entry, aliases });
    }
    return { ...config, models };
  }

  /**
   * Serves these models of the disk on demand, and no others.
   * @returns whether the list differs from the one before
   */
  serveOnDemand(found: readonly ServableModel[]): boolean {
    const entries = onDemandEntries(found);
    const before = this.#onDemand.map(({ name, model }) => `${name} ${model}`);
    const isChanged = entries.map(({ name, model }) => `${name} ${model}`).join("\n") !== before.join("\n");
    if (isChanged) this.#onDemand = entries;
    return isChanged;
  }

  /** Undoes a change. @param before the earlier models */
  restoreOnDemand(before: readonly ModelEntry[]): void {
    this.#onDemand = before;
  }

  get onDemand(): readonly ModelEntry[] {
    return this.#onDemand;
  }

  isOnDemand({ name, model }: ModelEntry): boolean {
    return this.#onDemand.some((entry) => entry.name === name && entry.model === model);
  }

  /** Whether an administrator has loaded the model. Canaries end by themselves. */
  has(name: string): boolean {
    return !isCanaryName(name) && this.#entries.some((entry) => entry.name === name);
  }

  /** Throws already_exists, memory_budget and invalid_parameter. @param config with all present models */
  add(found: FoundModel, name: string, config: FleetConfig): void {
    if (namesOf(config.models).includes(name)) {
      throw new MillraceError("already_exists", `expected a name that no model has, got ${JSON.stringify(name)}`, {
        hint: "give another in ?name=, or scale the model that is there",
      });
    }
    const { neededBytes, freeBytes } = found;
    if (neededBytes !== undefined && neededBytes > freeBytes) {
      throw new MillraceError(
        "memory_budget",
        `expected ${Math.ceil(neededBytes)} bytes of free memory for ${found.name}, got ${freeBytes}`,
        { hint: "unload another model first, or load a smaller quantisation" },
      );
    }
    if (isCanaryName(name)) {
      const message = `name: expected one that is no canary's, got ${JSON.stringify(name.slice(0, 80))}`;
      throw new MillraceError("invalid_parameter", message, { param: "name" });
    }
    const parsed = configSchema({}).safeParse({ models: [{ name, model: found.path }] });
    if (!parsed.success) {
      const message = `name: expected one without spaces, got ${JSON.stringify(name.slice(0, 80))}`;
      throw new MillraceError("invalid_parameter", message, { param: "name" });
    }
    this.addEntry(parsed.data.models[0]!);
  }

  addEntry(entry: ModelEntry): void {
    this.#entries = [...this.#entries, entry];
  }

  remove(name: string): void {
    this.#entries = this.#entries.filter((entry) => entry.name !== name);
  }
}

/**
 * Each name has the repository and the file, so that further files of the repository rename nothing; the first file
 * also
 * answers to the repository's name. Names with spaces are left out, since a request cannot have them.
 */
function onDemandEntries(found: readonly ServableModel[]): ModelEntry[] {
  const full = found.map(({ name }) => name.replace(/^hf:/, "").replace(/@[^:]*/, ""));
  const taken = new Set(full);
  return found.flatMap(({ name, path }, index) => {
    const short = servedName(name);
    const aliases = taken.has(short) ? [] : [short];
    taken.add(short);
    const entry = { name: full[index], aliases, model: path, load: "on-demand" };
    const parsed = configSchema({}).safeParse({ models: [entry] });
    return parsed.success ? parsed.data.models : [];
  });
}

/** @example servedName("hf:org/repo@v2:file.gguf") // "org/repo" */
export const servedName = (model: string): string => model.replace(/^hf:/, "").split(/[:@]/)[0]!;

const namesOf = (models: readonly ModelEntry[]): readonly string[] =>
  models.flatMap(({ name, aliases }) => [name, ...aliases]);

/** Texts that name the files that models have open or will open. */
export function usesOf({ models }: Pick<FleetConfig, "models">): readonly string[] {
  return models.flatMap(({ model, args, options }) => [model ?? "", ...args, JSON.stringify(options)]);
}
