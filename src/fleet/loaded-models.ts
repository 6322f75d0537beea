/**
 * Models of the disk that an administrator has loaded beside those of the file. They stay over reloads of the file, and
 * go with the process.
 */
import { MillraceError } from "../core/errors.js";
import type { FoundModel } from "../core/model-library.js";
import { isCanaryName } from "../gateway/canary/canary-name.js";
import { configSchema, type FleetConfig, type ModelEntry } from "./config/schema.js";

export class LoadedModels {
  #entries: readonly ModelEntry[] = [];

  /** The file's configuration with these models; a name of the file's stands for the file's model. */
  addTo(config: FleetConfig): FleetConfig {
    const names = namesOf(config.models);
    return { ...config, models: [...config.models, ...this.#entries.filter(({ name }) => !names.includes(name))] };
  }

  /** Whether an administrator has loaded the model. A canary ends by itself. */
  has(name: string): boolean {
    return !isCanaryName(name) && this.#entries.some((entry) => entry.name === name);
  }

  /** Throws already_exists, memory_budget and invalid_parameter. @param config with the models that there are */
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

/** @example servedName("hf:org/repo@v2:file.gguf") // "org/repo" */
export const servedName = (model: string): string => model.replace(/^hf:/, "").split(/[:@]/)[0]!;

const namesOf = (models: readonly ModelEntry[]): readonly string[] =>
  models.flatMap(({ name, aliases }) => [name, ...aliases]);

/** Texts that name files which the models have open, or will have. */
export function usesOf({ models }: Pick<FleetConfig, "models">): readonly string[] {
  return models.flatMap(({ model, args, options }) => [model ?? "", ...args, JSON.stringify(options)]);
}
