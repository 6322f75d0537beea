/** Decisions that need no prediction: which weight types may be used, how keys and values are kept, how wide an instance is. Each comes with its rule as a sentence. */
import { MillraceError } from "../core/errors.js";
import { QUALITY } from "./data/constants.js";
import { KV_TYPES, type KvType, QUANTIZATIONS, type Quantization, type QuantizationId } from "./data/quantizations.js";
import type { Machine } from "./device.js";
import type { ModelShape } from "./model-shape.js";
import type { PlannedEngine, PlanRequest, Refusal } from "./request.js";

export interface WeightChoice {
  readonly quantization: Quantization;
  readonly because: string;
}

/** Arithmetic of a file's weights, by the label of its most common type. */
export function storedQuantization(label: string, machine: Machine): Quantization {
  const { file } = QUANTIZATIONS;
  const named = { ...file, label: `${label}, as stored` };
  if (machine.kind === "gpu") {
    // Folders with 8-bit weights are made to be multiplied as they are, with activations of 8 bits.
    const eight = label.startsWith("F8") ? "fp8" : label === "I8" ? "int8" : undefined;
    if (eight !== undefined && machine.device.flops[eight] !== undefined) return { ...named, arithmetic: eight };
    return { ...named, computeFactor: /^(BF16|F16)$/.test(label) ? 1 : 0.92 };
  }
  if (/^Q8|^I8|^IQ4|INT8/.test(label)) return { ...named, arithmetic: "cpu8" };
  if (/^Q6|^Q[23]_K/.test(label)) return { ...named, arithmetic: "cpu4", computeFactor: 0.85 };
  if (/^Q[45]_K/.test(label))
    return { ...named, arithmetic: "cpu4", computeFactor: QUANTIZATIONS.q4_k_m.computeFactor };
  if (/^(Q4|Q5|MXFP4)|INT4/.test(label)) return { ...named, arithmetic: "cpu4" };
  return { ...named, arithmetic: "cpuFloat" };
}

/** Native 8-bit and 4-bit weights run everywhere; where the device lacks their arithmetic they are unpacked to 16 bits. */
function nativeQuantization(id: "fp8" | "mxfp4", machine: Machine): Quantization {
  const native = QUANTIZATIONS[id];
  return machine.device.flops[native.arithmetic] !== undefined
    ? native
    : { ...native, arithmetic: "float16", computeFactor: 0.92 };
}

const ARCHITECTURE_NAMES = {
  ampere: "Ampere",
  ada: "Ada",
  hopper: "Hopper",
  blackwell: "Blackwell",
  cdna3: "CDNA 3",
} as const;

/** What the machine's kind and generation offers, best quality first. */
function offered({ model, machine }: PlanRequest): readonly (readonly [QuantizationId, string])[] {
  if (machine.kind === "cpu") {
    return [
      ["q8_0", "8 bits a weight: next to no loss, for twice the reading of 4 bits"],
      ["q6_k", "6 bits: between the two in loss and speed"],
      ["q4_k_m", "a CPU waits for memory: 4-bit blocks with 6-bit scales are read fastest within the gate"],
      ["q4_0", "4 bits with one scale"],
    ];
  }
  const { flops } = machine.device;
  const arch = ARCHITECTURE_NAMES[machine.device.arch];
  const eight: readonly [QuantizationId, string] =
    flops.fp8 !== undefined
      ? [
          "fp8",
          `${arch} multiplies FP8 at twice its 16-bit speed, and half the bytes are read: lossless in all published gates`,
        ]
      : ["int8", `${arch} has no FP8: INT8 is the middle ground, half the bytes at twice the arithmetic`];
  return [
    ["bf16", "nothing is quantised"],
    eight,
    ["awq", "INT4 weights when memory binds: a quarter of the bytes, 16-bit arithmetic"],
    ...(flops.fp4 === undefined ? [] : ([["nvfp4", `${arch} multiplies FP4 at twice its FP8 speed`]] as const)),
  ].filter(([id]) => model.native === undefined || id !== "bf16") as readonly (readonly [QuantizationId, string])[];
}

/** @param maxModelLen longest sequence, which bounds what 4 bits may be used for */
export function weightChoices(
  request: PlanRequest,
  maxModelLen: number,
): { readonly choices: readonly WeightChoice[]; readonly refusals: readonly Refusal[] } {
  const { model, machine, quantization: forced, smallestRecovery } = request;
  if (model.stored !== undefined) {
    if (forced !== undefined) throw fixedWeights(model.stored.label, forced);
    const quantization = storedQuantization(model.stored.label, machine);
    return { choices: [{ quantization, because: "the file's weights are used as they are" }], refusals: [] };
  }
  if (model.native !== undefined && machine.kind === "gpu") {
    if (forced !== undefined && forced !== model.native) throw fixedWeights(model.native, forced);
    const quantization = nativeQuantization(model.native, machine);
    return { choices: [{ quantization, because: "the model was published so" }], refusals: [] };
  }
  const refusals: Refusal[] = [];
  const choices = offered(request).flatMap(([id, because]): WeightChoice[] => {
    const quantization = QUANTIZATIONS[id];
    if (forced !== undefined) return id === forced ? [{ quantization, because: "asked for with --quantization" }] : [];
    const { recovery, evidence } = quantization.gate;
    const refuse = (why: string): WeightChoice[] => {
      refusals.push({ what: quantization.label, because: why });
      return [];
    };
    if (recovery === undefined)
      return refuse(`its quality has not passed a gate: ${evidence}; --quantization ${id} takes it nevertheless`);
    if (recovery < smallestRecovery)
      return refuse(`keeps ${recovery} % of the score, ${smallestRecovery} % are asked for: ${evidence}`);
    if (id === "awq" && maxModelLen > QUALITY.longContext.value) {
      return refuse(`not for sequences of ${maxModelLen} tokens: ${evidence}`);
    }
    return [{ quantization, because: id === "bf16" ? because : `${because}. Gate: ${evidence}` }];
  });
  return { choices, refusals };
}

const fixedWeights = (stored: string, wanted: string): MillraceError =>
  new MillraceError("invalid_option", `expected no --quantization for weights stored as ${stored}, got ${wanted}`, {
    hint: "they are used as they are: plan with the model they were made from, or with a file in the wanted type",
  });

export function chooseEngine({ model, machine, engine, prefixShare }: PlanRequest): {
  readonly engine: PlannedEngine;
  readonly because: string;
} {
  if (engine !== undefined) return { engine, because: "asked for with --engine" };
  if (machine.kind === "cpu") {
    return {
      engine: "millrace",
      because: "on CPUs the embedded engine is the fastest measured (docs/benchmarks/kernels.md), and exact",
    };
  }
  if (isGguf(model)) return { engine: "llama-server", because: "GGUF files on GPUs are llama.cpp's own format" };
  if (prefixShare >= 0.5 && machine.device.arch !== "cdna3") {
    return {
      engine: "sglang",
      because:
        "half of each prompt or more is shared: its radix tree matches token by token and schedules by longest match",
    };
  }
  return {
    engine: "vllm",
    because: "the engine with the most models, weight types and GPUs; nothing here asks for another",
  };
}

export const isGguf = ({ stored, location }: ModelShape): boolean => stored !== undefined && /\.gguf$/i.test(location);

/** What this engine keeps keys and values in on this device, widest first. */
export function kvTypesOf(machine: Machine, engine: PlannedEngine): readonly KvType[] {
  if (machine.kind === "cpu" || engine === "llama-server") return [KV_TYPES["16"], KV_TYPES.int8];
  return machine.device.flops.fp8 === undefined ? [KV_TYPES["16"]] : [KV_TYPES["16"], KV_TYPES.fp8];
}

/** Of FP8 weights that have a scale for each square of so many rows and columns: engines do not cut through one. */
const SCALE_BLOCK = 128;

const isInBlocks = ({ native, checkpoints }: ModelShape): boolean =>
  native === "fp8" || /^Qwen\/.*-FP8$/.test(checkpoints.fp8 ?? "");

/** Widths an instance may have, narrowest first. */
export function widthsOf(
  model: ModelShape,
  machine: Machine,
  engine: PlannedEngine,
  { id }: Quantization,
): readonly number[] {
  if (machine.kind === "cpu" || engine === "llama-server" || engine === "millrace") return [1];
  // Devices share KV heads evenly, or several of them keep the same one.
  const { numHeads, numKvHeads, latent } = model;
  const isEven = (width: number) => latent !== undefined || numKvHeads % width === 0 || width % numKvHeads === 0;
  const block = (id === "fp8" || model.native === "fp8") && isInBlocks(model) ? SCALE_BLOCK : 1;
  const inner = model.experts?.width ?? model.ffWidth;
  return [1, 2, 4, 8].filter(
    (width) =>
      width <= machine.count &&
      numHeads % width === 0 &&
      isEven(width) &&
      (width === 1 || (inner / width) % block === 0),
  );
}
