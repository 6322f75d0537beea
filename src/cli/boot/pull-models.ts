/** Brings a fleet's models from the hub before it starts, with progress, once for all who share the cache. */
import { existsSync, mkdirSync, rmdirSync, statSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { cacheFolder } from "../../core/cache-folder.js";
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
  if (config.models.every((model) => hubSpecOf(model) === undefined)) return config;
  const unlock = await lockFolder(join(cacheFolder(), "pull.lock"), () =>
    startStage("model").note("another process is pulling; waiting for it"),
  );
  try {
    const models: ModelConfig[] = [];
    for (const model of config.models) {
      const spec = hubSpecOf(model);
      models.push(spec === undefined ? model : { ...model, model: (await locateModel(spec, startStage)).path });
    }
    return { ...config, models };
  } finally {
    unlock();
  }
}

const BEAT_MS = 10_000;
/** Whoever has not touched its lock for so long is gone. */
const STALE_MS = 6 * BEAT_MS;

/** A folder as lock works on network file systems too; machines that share one have no process numbers in common, hence the beat. */
async function lockFolder(folder: string, onWait: () => void): Promise<() => void> {
  mkdirSync(cacheFolder(), { recursive: true });
  for (let numTries = 0; ; numTries++) {
    try {
      mkdirSync(folder);
      break;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown;
    }
    if (numTries === 0) onWait();
    const touchedMs = statSync(folder, { throwIfNoEntry: false })?.mtimeMs;
    if (touchedMs !== undefined && Date.now() - touchedMs > STALE_MS) remove(folder);
    else await wait(1000);
  }
  const beat = setInterval(() => utimesSync(folder, new Date(), new Date()), BEAT_MS);
  beat.unref();
  return () => {
    clearInterval(beat);
    remove(folder);
  };
}

function remove(folder: string): void {
  try {
    rmdirSync(folder);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ENOENT") throw thrown;
  }
}
