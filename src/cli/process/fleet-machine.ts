/** The machine's facts for a fleet: its cores, and measured splits for `instances: auto`. */
import { Command } from "commander";
import { cpusByCore } from "../../core/cpu.js";
import type { StartStage } from "../../core/stages.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "../../engine/api/options.js";
import { NO_SPECULATION } from "../../engine/api/speculative-config.js";
import type { FleetConfig, ModelEntry } from "../../fleet/config/schema.js";
import { type FleetMachine, specOfSplit } from "../../fleet/plan-models.js";
import type { Split } from "../../fleet/scaling/instance-plan.js";
import { addEngineOptions, type EngineFlags, engineSettingsFrom } from "../flags/engine-options.js";
import { writtenFlags } from "../flags/fleet-flags.js";

/**
 * Flags that measurements of splits leave out: the split determines the cores, and random prompts say nothing about
 * drafts.
 */
const NOT_MEASURED = ["--threads", "--cpu-affinity", "--speculative-config"];

/** The engine's settings, from the flags of a model's processes. */
function engineForModel({ options, args }: ModelEntry): (numSeqs: number) => Omit<EngineOptions, "modelPath"> {
  const { kvCacheDtype } = options;
  const command = addEngineOptions(new Command())
    .exitOverride()
    .configureOutput({ writeErr: () => {} });
  const words = writtenFlags(command, args)
    .filter(({ flag }) => !NOT_MEASURED.includes(flag))
    .flatMap(({ words: own }) => own);
  const ofType = kvCacheDtype === undefined ? [] : ["--kv-cache-dtype", kvCacheDtype];
  const flags = command.parse([...ofType, ...words], { from: "user" }).opts<EngineFlags>();
  return (numSeqs) => {
    const maxNumSeqs = Math.max(flags.maxNumSeqs, numSeqs);
    const { kvCacheDtype, ...settings } = engineSettingsFrom({ ...flags, maxNumSeqs }, NO_SPECULATION);
    // A type that is measured later hardly affects which split is fastest.
    return { ...settings, kvCacheDtype: kvCacheDtype === "measured" ? "f16" : kvCacheDtype };
  };
}

/** Fetches models from the hub here, with visible progress, and before several processes look for the same one. */
async function fetchModels(config: FleetConfig, startStage: StartStage): Promise<void> {
  const { locateModel } = await import("../../formats/locate-model.js");
  for (const { engine, model, load } of config.models) {
    const isFetched = engine === "millrace" && load !== "on-demand" && model?.startsWith("hf:") === true;
    if (isFetched) await locateModel(model, startStage);
  }
}

/** @param moment isServing: requests are being served, so nothing is measured */
export async function machineFor(
  config: FleetConfig,
  startStage: StartStage,
  { isServing }: { readonly isServing: boolean },
): Promise<FleetMachine> {
  await fetchModels(config, startStage);
  const cores = cpusByCore();
  const splits = new Map<string, Split>();
  // One after another, since each is measured on the complete machine.
  for (const model of config.models) {
    if (model.instances !== "auto") continue;
    const [{ splitForModel }, { locateModel }] = await Promise.all([
      import("../../bench/splits/split-for-model.js"),
      import("../../formats/locate-model.js"),
    ]);
    const isOwn = model.engine === "millrace";
    const path = isOwn ? (await locateModel(model.model, startStage)).path : model.model!;
    const machine = { cores, splits, millraceSeats: DEFAULT_ENGINE_OPTIONS.maxNumSeqs };
    const subject = isOwn
      ? // Read within splitForModel, so that one model's faulty flag becomes a note about its split and does not end the start.
        { engineFor: (numSeqs: number) => engineForModel(model)(numSeqs) }
      : { specFor: (split: Split) => specOfSplit(model, config, machine, split) };
    splits.set(model.name, await splitForModel(model, path, { cores, isServing }, subject, startStage));
  }
  return { cores, splits, millraceSeats: DEFAULT_ENGINE_OPTIONS.maxNumSeqs };
}
