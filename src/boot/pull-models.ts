/** Brings a fleet's models from the hub before it starts, with progress, once for all who share the cache. */

import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";
import { MillraceError } from "../core/errors.js";
import type { StartStage } from "../core/stages.js";
import type { FleetConfig, ModelEntry } from "../fleet/config/schema.js";
import { locateModel } from "../formats/locate-model.js";

/** Engines that take the folder of a hub's repository in place of its name. */
const TAKE_FOLDERS: readonly ModelEntry["engine"][] = ["vllm", "sglang"];

/** Where the hub has it; undefined: it is here already, or the engine's own business. */
export function hubSpecOf({ engine, model }: Pick<ModelEntry, "engine" | "model">): string | undefined {
  if (model === undefined) return undefined;
  if (model.startsWith("hf:")) return model;
  const isRepository = TAKE_FOLDERS.includes(engine) && /^[\w.-]+\/[\w.-]+$/.test(model);
  return isRepository && !existsSync(model) ? `hf:${model}` : undefined;
}

/** Engines whose model is always a file of this machine, unless the hub has it. */
const READ_FILES: readonly ModelEntry["engine"][] = ["millrace", "llama-server"];

/** Throws file_unreadable: an engine that cannot find its model would only be started again and again. */
function assertHere({ name, engine, model }: ModelEntry): void {
  if (model === undefined || existsSync(model)) return;
  if (!READ_FILES.includes(engine) && !isAbsolute(model)) return;
  throw new MillraceError("file_unreadable", `expected the model of ${name} at ${model}, got nothing there`, {
    hint: "put the file there, or write model: hf:org/repo:Q4_K_M in the configuration",
  });
}

/** @returns the configuration with paths in place of the hub's names. Throws file_unreadable where a model is neither here nor on the hub. */
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
