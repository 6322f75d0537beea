/** Turns the configuration into each model's specification for the supervisor and its bounds for the keeper. */

import { isProviderEngine } from "./config/provider-conflicts.js";
import type { FleetConfig, ModelEntry } from "./config/schema.js";
import type { ScheduleEntry } from "./config/sections/schedule.js";
import { targetOf } from "./gateway/provider-targets.js";
import { type AutoscaleRules, DEFAULT_AUTOSCALE } from "./scaling/autoscale.js";
import type { Split } from "./scaling/instance-plan.js";
import type { KeptModel } from "./scaling/keeper.js";
import { estimateBytes } from "./scaling/memory.js";
import type { Schedule, ScheduleWindow } from "./scaling/schedule.js";
import type { ModelSpec } from "./upstream/model-spec.js";

/** The machine's cores, and measurements on it. */
export interface FleetMachine {
  /**
   * CPUs of each usable physical core. Inner lists are empty if only the number of cores is known, from a quota; the
   * outer list is empty if neither is known.
   */
  readonly cores: readonly (readonly number[])[];
  /** Measured splits of models with `instances: auto`. */
  readonly splits: ReadonlyMap<string, Split>;
  /** Default `maxNumSeqs` of our own engine. */
  readonly millraceSeats: number;
}

export interface PlannedModel {
  readonly spec: ModelSpec;
  readonly names: readonly [string, ...string[]];
  /** Undefined if the fleet starts no instances of the model. */
  readonly kept: KeptModel | undefined;
}

/** Instances listen on loopback only, since clients come through the proxy. */
const INSTANCE_HOST = "127.0.0.1";

/** Drops undefined values: optional keys are undefined in a configuration but absent in a specification. */
function present<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as never;
}

function boundsOf({ instances, load, model }: ModelEntry, split: Split | undefined): { min: number; max: number } {
  if (model === undefined) return { min: 0, max: 0 };
  const { min, max } =
    instances === "auto"
      ? { min: split?.instances ?? 1, max: split?.instances ?? 1 }
      : typeof instances === "object"
        ? instances
        : { min: instances ?? 1, max: instances ?? 1 };
  return { min: load === "on-demand" ? 0 : min, max };
}

const isNamed = (cores: FleetMachine["cores"]): boolean => cores.some((cpus) => cpus.length > 0);

/** Cores of all instances, and the number per instance; undefined if the instances are not pinned. */
function coresOf(config: ModelEntry, max: number, { cores: machine, splits }: FleetMachine) {
  const { engine, cores, coresPerInstance, name } = config;
  const all = cores?.map((cpu) => [cpu]) ?? machine;
  // Configured cores are used even if instances share them.
  const least = cores !== undefined || !isNamed(all) ? 1 : 0;
  const perInstance = coresPerInstance ?? Math.max(least, Math.floor(all.length / Math.max(1, max)));
  const isAsked = cores !== undefined || coresPerInstance !== undefined;
  // Instances of our own engine slow each other down on shared cores.
  const isDivided = engine === "millrace" && max > 1;
  if (all.length === 0 || perInstance === 0 || !(isAsked || isDivided || splits.has(name))) return undefined;
  return { cores: all, coresPerInstance: perInstance };
}

/** The specification for starting a model with a given split of the machine. */
export function specOfSplit(
  config: ModelEntry,
  fleet: Pick<FleetConfig, "timeouts" | "regions">,
  machine: FleetMachine,
  split: Split,
) {
  const splits = new Map([...machine.splits, [config.name, split]]);
  return specOf(config, fleet, boundsOf({ ...config, load: "always" }, split), { ...machine, splits });
}

function specOf(
  config: ModelEntry,
  { timeouts: { drain }, regions }: Pick<FleetConfig, "timeouts" | "regions">,
  bounds: { min: number; max: number },
  machine: FleetMachine,
): ModelSpec {
  const { name, engine, model, args, env, gpus, gpusPerInstance, attach, scaleDown, startTimeout, aliases } = config;
  const share = coresOf(config, bounds.max, machine);
  const gpusOfSplit = gpus === undefined ? undefined : machine.splits.get(name)?.perInstance;
  // Without a number of threads, llama.cpp uses all cores of the machine, and our own engine all that a quota allows;
  // vLLM and SGLang on CPUs leave one of an instance's cores idle.
  const isSplitByCores = machine.splits.has(name) && gpus === undefined;
  const isTold =
    share && (engine === "llama-server" || (engine === "millrace" ? !isNamed(share.cores) : isSplitByCores));
  const options = present(config.options);
  const [program, ...programArgs] = config.program ?? [];
  return {
    name,
    engine,
    ...(program === undefined ? {} : { program: [program, ...programArgs] }),
    options: {
      ...(engine === "millrace" ? { maxNumSeqs: machine.millraceSeats } : {}),
      ...options,
      model: model ?? name,
      ...(gpusOfSplit === undefined ? {} : { tensorParallelSize: gpusOfSplit }),
      ...(isTold ? { threads: options.threads ?? share.coresPerInstance } : {}),
    },
    args,
    env: Object.fromEntries(Object.entries(env).map(([key, value]) => [key, value.reveal()])),
    host: INSTANCE_HOST,
    instances: bounds.min,
    ...share,
    ...(gpus === undefined ? {} : { gpus: gpus.map(String) }),
    ...present({ gpusPerInstance: gpusOfSplit ?? gpusPerInstance, startTimeoutMs: startTimeout }),
    attach: attach.map((each) => ({
      ...targetOf(config, each),
      // An attached server knows none of our aliases.
      modelName: each.modelName ?? (aliases.length > 0 || isProviderEngine(engine) ? name : undefined),
      ...(each.region === undefined ? {} : { distance: 1 + regions.indexOf(each.region) }),
    })),
    scaleDown,
    drainTimeoutMs: drain,
  };
}

/** A model's schedule replaces the fleet's. */
export function scheduleOf(
  config: Pick<FleetConfig, "autoscale">,
  { autoscale }: Pick<ModelEntry, "autoscale">,
  max: number,
): Schedule | undefined {
  const { schedule, timeZone } = { ...present(config.autoscale), ...present(autoscale) };
  return schedule === undefined ? undefined : { timeZone, windows: schedule.map((entry) => windowOf(entry, max)) };
}

/** Cores are divided by the model's largest number of instances, which no window exceeds. */
function windowOf({ days, hours, instances }: ScheduleEntry, max: number): ScheduleWindow {
  const bounds = typeof instances === "number" ? { min: instances, max: instances } : instances;
  return { days, ...hours, min: Math.min(max, bounds.min), max: Math.min(max, bounds.max) };
}

function rulesOf(config: FleetConfig, { autoscale }: ModelEntry, bounds: { min: number; max: number }): AutoscaleRules {
  const { upAt, upAfter, downAfter, spare } = { ...present(config.autoscale), ...present(autoscale) };
  return {
    ...bounds,
    upAt: upAt ?? DEFAULT_AUTOSCALE.upAt,
    upAfterMs: upAfter ?? DEFAULT_AUTOSCALE.upAfterMs,
    downAfterMs: downAfter ?? DEFAULT_AUTOSCALE.downAfterMs,
    spare: spare ?? DEFAULT_AUTOSCALE.spare,
  };
}

export function planModels(config: FleetConfig, machine: FleetMachine): readonly PlannedModel[] {
  return config.models.map((model) => {
    const bounds = boundsOf(model, machine.splits.get(model.name));
    const estimated = model.model === undefined ? 0 : estimateBytes(model.model, model.options.kvCacheMemoryBytes);
    const kept: KeptModel = {
      name: model.name,
      rules: rulesOf(config, model, bounds),
      schedule: scheduleOf(config, model, bounds.max),
      estimatedBytes: model.memory ?? estimated ?? 0,
      isBytesGiven: model.memory !== undefined,
    };
    return {
      spec: specOf(model, config, bounds, machine),
      names: [model.name, ...model.aliases],
      kept: bounds.max === 0 ? undefined : kept,
    };
  });
}
