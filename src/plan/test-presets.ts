/**
 * Presets: the planner's output for common pairs of machine and model size. The files in presets/ hold this output; a
 * test compares them.
 */

import type { Machine } from "./data/device.js";
import { CPU_CORE_HOUR, GPU_HOUR } from "./data/prices.js";
import { KV_TYPES, QUANTIZATIONS } from "./data/quantizations.js";
import { evaluate } from "./evaluate.js";
import { ALLOW_PUBLISHED } from "./evidence.js";
import { yamlOf } from "./fleet-yaml.js";
import { parseHardware } from "./hardware.js";
import { knownModel } from "./known-model.js";
import { isOnPublished, makePlan, requiredLengthOf } from "./plan.js";
import type { Configuration, Plan, PlanRequest } from "./request.js";
import { widthsOf } from "./rules.js";

export const PRESET_SIZES = {
  "8b": "llama-3.1-8b",
  "32b": "qwen2.5-32b",
  "70b": "llama-3.3-70b",
  moe: "qwen3-30b-a3b",
} as const;
export type PresetSize = keyof typeof PRESET_SIZES;

export const PRESET_TIERS = [
  "h100",
  "h200",
  "a100-80",
  "a100-40",
  "l40s",
  "rtx6000-ada",
  "rtx4000-ada",
  "a10g",
  "rtx4090",
  "cpu",
] as const;
type PresetTier = (typeof PRESET_TIERS)[number];

/** Sixteen concurrent chats of a thousand input and five hundred output tokens, thirty tokens per second for each. */
const TRAFFIC = { inputTokens: 1024, outputTokens: 512, prefixShare: 0, load: { concurrency: 16 } } as const;
const TPOT_MS = 33;
/** Slower than a person reads. */
const SLOWEST_TPOT_MS = 150;
const CPU_MACHINES = ["cpu-8", "cpu-16", "cpu-32"];

/** The reference image's machine, and eight GPUs under a load for which four instances of two GPUs are best. */
export const NAMED_PRESETS = [
  { name: "h100x2-70b", size: "70b", hardware: "h100x2", concurrency: 16 },
  { name: "h100x8-70b", size: "70b", hardware: "h100x8", concurrency: 256 },
] as const;

function requestFor(model: string, machine: Machine): PlanRequest {
  const { device } = machine;
  const price =
    machine.kind === "gpu"
      ? GPU_HOUR[device.id]!
      : { ...CPU_CORE_HOUR, usd: CPU_CORE_HOUR.usd * machine.device.numCores };
  return {
    ...TRAFFIC,
    model: knownModel(model),
    machine,
    price,
    objective: "throughput",
    isSimpleTask: false,
    smallestRecovery: 98,
    slo: { tpotMs: TPOT_MS },
    onlyPublished: true,
    allowsPublished: true,
  };
}

/** The smallest machine of the tier that serves the traffic in time, else the largest usable one; undefined: none. */
function smallestMachine(size: PresetSize, tier: PresetTier): Plan | undefined {
  const names = tier === "cpu" ? CPU_MACHINES : [1, 2, 4, 8].map((count) => `${tier}x${count}`);
  let useful: Plan | undefined;
  for (const machine of names.map(parseHardwareOrNothing)) {
    if (machine === undefined) continue;
    const plan = makePlan(requestFor(PRESET_SIZES[size], machine));
    const best = plan.configurations[0];
    if (best === undefined || best.prediction.isSaturated || best.prediction.tpotMs > SLOWEST_TPOT_MS) continue;
    if (best.meetsSlo) return plan;
    useful = plan;
  }
  return useful;
}

function parseHardwareOrNothing(name: string): Machine | undefined {
  try {
    return parseHardware(name);
  } catch {
    // The machine has fewer GPUs.
    return undefined;
  }
}

/** Predicted gain of the choices over 16-bit weights and keys on the same machine. */
function gainNote({ request }: Plan, best: Configuration): string {
  const { machine, model } = request;
  const required = requiredLengthOf(request);
  const plain = machine.kind === "cpu" ? QUANTIZATIONS.q8_0 : QUANTIZATIONS.bf16;
  const baselines = widthsOf(model, machine, best.engine, plain).flatMap((tensorParallel) => {
    const instances = Math.floor(machine.count / tensorParallel);
    const candidate = {
      engine: best.engine,
      quantization: plain,
      kv: KV_TYPES["16"],
      tensorParallel,
      instances,
      drafting: undefined,
    };
    return evaluate(request, candidate, required) ?? [];
  });
  const baseline = baselines[0];
  if (baseline === undefined) return `Bought: in ${plain.label} the model does not fit on this machine at all.`;
  if (baseline.quantization.id === best.quantization.id)
    return `Bought: nothing over ${plain.label}, which is what is used.`;
  const ratio = (best.prediction.outputTokensPerS / baseline.prediction.outputTokensPerS).toFixed(2);
  return `Bought: ${ratio} times the tokens/s of ${plain.label} on the same machine.`;
}

/** A file with unset variables does not start, so presets use none. */
const ADMINISTRATOR =
  "For the app's pages of keys, spend and models add admin-key, managed-keys and ledger (docs/guides/deploy.md).";

interface Preset {
  readonly file: string;
  readonly text: string;
}

/** @returns undefined where no machine of the tier holds the model */
export function presetFor(tier: PresetTier, size: PresetSize): Preset | undefined {
  const plan = smallestMachine(size, tier);
  return plan?.configurations[0] === undefined ? undefined : written(`${tier}-${size}.yaml`, plan);
}

export function namedPreset({ name, size, hardware, concurrency }: (typeof NAMED_PRESETS)[number]): Preset {
  const request = requestFor(PRESET_SIZES[size], parseHardware(hardware));
  return written(`${name}.yaml`, makePlan({ ...request, load: { concurrency } }));
}

/** The command that makes this plan. */
function commandOf({ request }: Plan, best: Configuration): string {
  const { model, machine, load } = request;
  const count = machine.kind === "gpu" && machine.count > 1 ? `x${machine.count}` : "";
  const many = "concurrency" in load ? ` --concurrency ${load.concurrency}` : "";
  const asked = isOnPublished(best) ? ` ${ALLOW_PUBLISHED}` : "";
  return `Made by: millrace plan --model ${model.name} --hardware ${machine.device.id}${count}${many} --slo tpot=${TPOT_MS}ms --known-checkpoints${asked}`;
}

/** @param plan made with published figures allowed */
function written(file: string, plan: Plan): Preset {
  const isAsked = isOnPublished(plan.configurations[0]!);
  return presetOf(file, isAsked ? plan : makePlan({ ...plan.request, allowsPublished: false }));
}

function presetOf(file: string, plan: Plan): Preset {
  const best = plan.configurations[0]!;
  const { load } = plan.request;
  const count = "concurrency" in load ? load.concurrency : 0;
  const { prediction, meetsSlo, sustainableConcurrency } = best;
  const speed = `Predicted with ${count} requests of 1024 + 512 tokens at once: ${Math.round(prediction.outputTokensPerS)} tokens/s, first token after ${Math.round(prediction.ttftMs)} ms, ${prediction.tpotMs.toFixed(1)} ms a token${meetsSlo ? `; up to ${sustainableConcurrency} at once stay under ${TPOT_MS} ms` : `, over the ${TPOT_MS} ms aimed at`}. Not measured on this machine.`;
  const notes = [commandOf(plan, best), speed, gainNote(plan, best), ADMINISTRATOR];
  return { file, text: yamlOf(plan, best, notes) };
}
