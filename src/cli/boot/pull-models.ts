/** Brings a fleet's models from the hub before it starts, with progress, once for all who share the cache. */
import { existsSync } from "node:fs";
import type { FleetConfig, ModelConfig } from "../../fleet/config/schema.js";
import { locateModel } from "../model.js";
import type { StartStage } from "../stages.js";

/** Engines that take the folder of a hub's repository in place of its name. */
const TAKE_FOLDERS: readonly ModelConfig["engine"][] = ["vllm", "sglang"];

/** Where the hub has it; undefined: it is here already, or the engine's own business. */
export function hubSpecOf({ engine, model }: Pick<ModelConfig, "engine" | "model">): string | undefined {
  if (model === undefined) return undefined;
  if (model.startsWith("hf:")) return model;
  const isRepository = TAKE_FOLDERS.includes(engine) && /^[\w.-]+\/[\w.-]+$/.test(model);
  return isRepository && !existsSync(model) ? `hf:${model}` : undefined;
}

/** @returns the configuration with paths in place of the hub's names */
export async function pullModels(config: FleetConfig, startStage: StartStage): Promise<FleetConfig> {
  const models: ModelConfig[] = [];
  for (const model of config.models) {
    const spec = hubSpecOf(model);
    const isWhole = TAKE_FOLDERS.includes(model.engine);
    models.push(spec === undefined ? model : { ...model, model: (await locateModel(spec, startStage, isWhole)).path });
  }
  return { ...config, models };
}
