/** Downloads a fleet's models before the start, with progress, and once for all processes that share the cache. */

import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";
import { MillraceError } from "../core/errors.js";
import type { StartStage } from "../core/stages.js";
import type { FleetConfig, ModelEntry } from "../fleet/config/schema.js";
import { locateModel } from "../formats/locate-model.js";

/** Engines that accept a repository's folder in place of its name. */
const TAKE_FOLDERS: readonly ModelEntry["engine"][] = ["vllm", "sglang"];

/** The model's hf: name; undefined for a local model, and for a model that the engine itself finds. */
export function hubSpecOf({ engine, model }: Pick<ModelEntry, "engine" | "model">): string | undefined {
  if (model === undefined) return undefined;
  if (model.startsWith("hf:")) return model;
  const isRepository = TAKE_FOLDERS.includes(engine) && /^[\w.-]+\/[\w.-]+$/.test(model);
  return isRepository && !existsSync(model) ? `hf:${model}` : undefined;
}

/** Engines that read their model from a local file. */
const READ_FILES: readonly ModelEntry["engine"][] = ["millrace", "llama-server"];

/** Throws file_unreadable: without its model, an engine would restart forever. */
function assertHere({ name, engine, model }: ModelEntry): void {
  if (model === undefined || existsSync(model)) return;
  if (!READ_FILES.includes(engine) && !isAbsolute(model)) return;
  throw new MillraceError("file_unreadable", `expected the model of ${name} at ${model}, got nothing there`, {
    hint: "put the file there, or write model: hf:org/repo:Q4_K_M in the configuration",
  });
}

/**
 * @returns the configuration with paths in place of hub names. Throws file_unreadable for a model that is neither local
 * nor on the hub.
 */
export async function pullModels(config: FleetConfig, startStage: StartStage): Promise<FleetConfig> {
  for (const model of config.models) if (hubSpecOf(model) === undefined) assertHere(model);
  const models: ModelEntry[] = [];
  for (const model of config.models) {
    const spec = hubSpecOf(model);
    const isWhole = TAKE_FOLDERS.includes(model.engine);
    models.push(spec === undefined ? model : { ...model, model: (await locateModel(spec, startStage, isWhole)).path });
  }
  return { ...config, models };
}
