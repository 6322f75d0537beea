/** What a fleet may know of this machine: its cores, and for `instances: auto` what was measured on them. */
import { Command } from "commander";
import { toMillraceError } from "../core/errors.js";
import { DEFAULT_ENGINE_OPTIONS } from "../engine/api/options.js";
import type { FleetConfig, ModelEntry } from "../fleet/config/schema.js";
import type { FleetMachine } from "../fleet/plan-models.js";
import type { Split } from "../fleet/scaling/instance-plan.js";
import { cpusByCore } from "./cpu.js";
import { addEngineOptions } from "./engine-options.js";
import { writtenFlags } from "./fleet-flags.js";
import type { StartStage } from "./stages.js";

/** Requests at once that a split is measured with, where the configuration does not say. */
const EXPECTED_REQUESTS = 16;

/** Not for measuring: the split decides about cores, and random prompts say nothing about drafts. */
const NOT_MEASURED = ["--threads", "--cpu-affinity", "--speculative-config"];

/** The flags of a model's processes that change how fast they are. */
function engineArgs({ options, args }: ModelEntry): readonly string[] {
  const { kvCacheDtype } = options;
  const written = writtenFlags(addEngineOptions(new Command()), args);
  return [
    ...(kvCacheDtype === undefined ? [] : ["--kv-cache-dtype", kvCacheDtype]),
    ...written.filter(({ flag }) => !NOT_MEASURED.includes(flag)).flatMap(({ words }) => words),
  ];
}

const shown = ({ instances, coresPerInstance, tokensPerS }: Split & { readonly tokensPerS: number }): string =>
  `${instances} × ${coresPerInstance} cores: ${Math.round(tokensPerS)} tokens/s`;

interface Moment {
  /** Measured while others are served, a split would be held up by them, hold them up, and be kept for later starts. */
  readonly isServing: boolean;
}

async function splitFor(
  model: ModelEntry,
  cores: FleetMachine["cores"],
  startStage: StartStage,
  { isServing }: Moment,
): Promise<Split> {
  const [{ bestSplit, keptSplit }, { locateModel }] = await Promise.all([
    import("./measure-splits.js"),
    import("./model.js"),
  ]);
  const { path } = await locateModel(model.model, startStage);
  const stage = startStage("instances");
  const usable = model.cores === undefined ? cores : model.cores.map((cpu) => [cpu]);
  if (usable.length === 0) return { instances: 1, coresPerInstance: 1 };
  const concurrency = model.options.maxNumSeqs ?? EXPECTED_REQUESTS;
  const question = { modelPath: path, cores: usable, concurrency, engineArgs: engineArgs(model) };
  const whole = { instances: 1, coresPerInstance: usable.length };
  try {
    const answer = isServing ? keptSplit(question) : await bestSplit(question, (split) => stage.update(shown(split)));
    if (answer === undefined) {
      stage.note(`${model.name} gets one instance: how many are fastest is measured at a start only`);
      return whole;
    }
    const { chosen, measured, wasKnown } = answer;
    const known = wasKnown ? " (measured before)" : "";
    stage.done(`${measured.map(shown).join(", ")}; ${chosen.instances} of ${model.name}${known}`);
    return chosen;
  } catch (thrown) {
    const { message } = toMillraceError(thrown);
    stage.note(`${model.name} could not be measured, so it gets one instance: ${message.slice(-500)}`);
    return whole;
  }
}

/** Before several processes look for a model of the hub at once, and where its progress shows. */
async function fetchModels(config: FleetConfig, startStage: StartStage): Promise<void> {
  const { locateModel } = await import("./model.js");
  for (const { engine, model, load } of config.models) {
    const isFetched = engine === "millrace" && load !== "on-demand" && model?.startsWith("hf:") === true;
    if (isFetched) await locateModel(model, startStage);
  }
}

export async function machineFor(config: FleetConfig, startStage: StartStage, moment: Moment): Promise<FleetMachine> {
  await fetchModels(config, startStage);
  const cores = cpusByCore();
  const splits = new Map<string, Split>();
  // One after the other: each is measured on the whole machine.
  for (const model of config.models) {
    if (model.instances === "auto") splits.set(model.name, await splitFor(model, cores, startStage, moment));
  }
  return { cores, splits, millraceSeats: DEFAULT_ENGINE_OPTIONS.maxNumSeqs };
}
