/**
 * Decisions that need no prediction: permitted weight types, types of keys and values, widths of an instance. Each
 * comes with its rule as a sentence.
 */
import { MillraceError } from "../core/errors.js";
import { HUB_PREFIX } from "../formats/hub/spec.js";
import type { Mixer } from "../model/description/model-description.js";
import { layerKinds } from "../model/description/sizes.js";
import { QUALITY } from "./data/constants.js";
import type { Machine } from "./data/device.js";
import { isLlamaCpp, LISTED_MODEL_TYPES, PLANNED_ENGINES, type PlannedEngine } from "./data/engines.js";
import { FEW_BIT_IDS, FEW_BIT_NAMES } from "./data/few-bits.js";
import { MADE_AT_START } from "./data/made-at-start.js";
import {
  KV_TYPES,
  type PlannedKvType,
  QUANTIZATIONS,
  type Quantization,
  type QuantizationId,
} from "./data/quantizations.js";
import { evidenceText, isUnasked, kvGrade, unaskedText, weightsGrade } from "./evidence.js";
import type { PlannedModel } from "./planned-model.js";
import type { PlanRequest, Refusal } from "./request.js";

export interface WeightChoice {
  readonly quantization: Quantization;
  readonly because: string;
}

/**
 * bfloat16 ÷ f32 multiply-adds per second, by instruction set. Instructions for pairs do about twice as many: two cores
 * of Zen 5, 481 ÷ 253 GMAC/s. Tiles, for 128 rows with weights from memory: two cores of a Xeon, 770 ÷ 200 GMAC/s.
 */
const BFLOAT_FACTORS: Readonly<Record<string, number>> = { avx512bf16: 1.9, amx: 3.8 };

/** Arithmetic of a file's weights, by the label of its most common type. */
export function storedQuantization(label: string, machine: Machine): Quantization {
  const { file } = QUANTIZATIONS;
  const named = { ...file, label: `${label}, as stored` };
  if (machine.kind === "gpu") {
    // Folders with 8-bit weights are made for products with 8-bit activations.
    const eight = label.startsWith("F8") ? "fp8" : label === "I8" ? "int8" : undefined;
    if (eight !== undefined && machine.device.flops[eight] !== undefined) return { ...named, arithmetic: eight };
    return { ...named, computeFactor: /^(BF16|F16)$/.test(label) ? 1 : 0.92 };
  }
  if (/^Q8|^I8|^IQ4|INT8/.test(label)) return { ...named, arithmetic: "cpu8" };
  if (/^Q6|^Q[23]_K|^IQ[12]|^IQ3_XXS/.test(label)) return { ...named, arithmetic: "cpu4", computeFactor: 0.85 };
  if (/^Q[45]_K|^IQ3_S|^TQ/.test(label))
    return { ...named, arithmetic: "cpu4", computeFactor: QUANTIZATIONS.q4_k_m.computeFactor };
  if (/^(Q4|Q5|MXFP4|NVFP4)|INT4/.test(label)) return { ...named, arithmetic: "cpu4" };
  const computeFactor = label === "BF16" ? BFLOAT_FACTORS[machine.device.isa ?? ""] : undefined;
  return { ...named, arithmetic: "cpuFloat", ...(computeFactor === undefined ? {} : { computeFactor }) };
}

/** Native 8-bit and 4-bit weights run on every device; devices without their arithmetic unpack them to 16 bits. */
function nativeQuantization(id: "fp8" | "mxfp4", machine: Machine): Quantization {
  const native = QUANTIZATIONS[id];
  if (machine.kind === "cpu") return { ...native, arithmetic: "cpu4", computeFactor: 1 };
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

/** Whether the plan uses a GGUF file for a model that is not a file yet. */
export const takesGguf = ({
  machine,
  engine,
  hostMemoryBytes,
}: Pick<PlanRequest, "machine" | "engine" | "hostMemoryBytes">): boolean =>
  machine.kind === "cpu" || isLlamaCpp(engine) || (engine === undefined && hostMemoryBytes !== undefined);

/** GPUs unpack GGUF's blocks to 16 bits; CPUs have their own arithmetic for 16 bits. */
function onDevice(quantization: Quantization, machine: Machine): Quantization {
  if (machine.kind === "cpu" && quantization.id === "bf16") {
    const { arithmetic, computeFactor } = storedQuantization("BF16", machine);
    return { ...quantization, arithmetic, computeFactor };
  }
  if (machine.kind === "cpu" && quantization.id === "fp8") return nativeQuantization("fp8", machine);
  const isUnpacked = machine.kind === "gpu" && GGUF_TYPES[quantization.id] !== undefined;
  return isUnpacked ? { ...quantization, arithmetic: "float16", computeFactor: 0.92 } : quantization;
}

/** Our engine stores a code for each value of types with codebooks; other engines read the file's own bytes. */
export function inEngine(quantization: Quantization, engine: PlannedEngine): Quantization {
  const { packedFactor = 1, linearBytes } = quantization;
  return engine === "millrace" ? { ...quantization, linearBytes: linearBytes * packedFactor } : quantization;
}

/** The same request, with the bytes of the file's weights in the planned engine's memory. */
export function withEngineBytes<T extends PlanRequest>(request: T): T {
  const { model } = request;
  if (model.stored === undefined || chooseEngine(request).engine === "millrace") return request;
  const { fileBytes, weightBytes } = model.stored;
  return { ...request, model: { ...model, stored: { ...model.stored, weightBytes: fileBytes ?? weightBytes } } };
}

const times = (more: number | undefined, of: number | undefined): string => ((more ?? 0) / (of ?? 1)).toFixed(1);

const UNQUANTISED = "nothing is quantised";

/** Weight types that engines make from 16-bit weights at their start, and that no file format has. */
const ONLY_AT_START: readonly QuantizationId[] = ["eetq", "nf4"];

/** Plans use types of one to three bits only on request: none passes a gate. */
const FEW_BITS_READ = "the fewest bits are read";

/** Weight types that the machine's kind and generation support, best quality first. */
function offered(request: PlanRequest): readonly (readonly [QuantizationId, string])[] {
  const { model, machine } = request;
  const { engine } = chooseEngine(request);
  if (machine.kind === "cpu" || takesGguf(request)) {
    const files = (["q8_0", "q6_k", "q4_k_m", "q4_0"] as const).map(
      (id) => [id, `${(8 * QUANTIZATIONS[id].linearBytes).toFixed(1)} bits of each weight are read`] as const,
    );
    // On CPUs FP8 is as large as Q8_0, and slower.
    const eight = machine.kind === "cpu" && MADE_AT_START[engine].fp8 !== undefined && request.quantization === "fp8";
    const named = eight ? ([["fp8", "8 bits of each weight are read"]] as const) : [];
    const few = FEW_BIT_IDS.filter((id) => id === request.quantization).map((id) => [id, FEW_BITS_READ] as const);
    return model.native === undefined ? [["bf16", UNQUANTISED], ...named, ...files, ...few] : [...files, ...few];
  }
  const { float16, fp8, int8, fp4 } = machine.device.flops;
  const arch = ARCHITECTURE_NAMES[machine.device.arch];
  const multiplies = (type: string, peak: number | undefined): string =>
    `${arch} multiplies ${type} at ${times(peak, float16)} times its 16-bit speed`;
  const eight: readonly [QuantizationId, string] =
    fp8 !== undefined
      ? ["fp8", `${multiplies("FP8", fp8)}, and half the bytes are read`]
      : ["int8", `${arch} has no FP8; ${multiplies("INT8", int8)}, and half the bytes are read`];
  return [
    ["bf16", UNQUANTISED],
    eight,
    ["awq", "a quarter of the bytes are read, and multiplied in 16 bits"],
    ...(fp4 === undefined ? [] : ([["nvfp4", multiplies("FP4", fp4)]] as const)),
    ...ONLY_AT_START.filter((id) => MADE_AT_START[engine][id] !== undefined).map(
      (id) => [id, `${engine} makes it of 16-bit weights at its start`] as const,
    ),
  ].filter(([id]) => model.native === undefined || id !== "bf16") as readonly (readonly [QuantizationId, string])[];
}

/** @param maxModelLen longest sequence; the rules refuse AWQ beyond `QUALITY.longContext` */
export function weightChoices(
  request: PlanRequest,
  maxModelLen: number,
): { readonly choices: readonly WeightChoice[]; readonly refusals: readonly Refusal[] } {
  const { model, machine, quantization: forced, smallestRecovery } = request;
  if (model.stored !== undefined) {
    if (forced !== undefined) throw fixedWeights(model.stored.label, forced);
    const quantization = storedQuantization(model.stored.label, machine);
    return {
      choices: [
        {
          quantization,
          because: sentences("the file's weights are used as they are", evidenceText(model, quantization)),
        },
      ],
      refusals: [],
    };
  }
  // GGUF has a type for MXFP4, but none for FP8.
  if (model.native !== undefined && (!takesGguf(request) || model.native === "mxfp4")) {
    if (forced !== undefined && forced !== model.native) throw fixedWeights(model.native, forced);
    const quantization = nativeQuantization(model.native, machine);
    return { choices: [{ quantization, because: "the model was published so" }], refusals: [] };
  }
  const refusals: Refusal[] = [];
  const choices = offered(request).flatMap(([id, because]): WeightChoice[] => {
    const quantization = inEngine(onDevice(QUANTIZATIONS[id], machine), chooseEngine(request).engine);
    const said = evidenceText(model, quantization);
    if (forced !== undefined)
      return id === forced ? [{ quantization, because: sentences("asked for with --quantization", said) }] : [];
    const { recovery, evidence } = quantization.gate;
    const refuse = (why: string): WeightChoice[] => {
      refusals.push({ what: quantization.label, because: why });
      return [];
    };
    if (request.onlyPublished === true && id !== "bf16" && publishedAs(model, id) === undefined)
      return refuse("no published checkpoint of this model is known here");
    if (recovery === undefined)
      return refuse(`its quality has not passed a gate: ${evidence}; --quantization ${id} takes it nevertheless`);
    if (recovery < smallestRecovery)
      return refuse(`keeps ${recovery} % of the score, ${smallestRecovery} % are asked for: ${evidence}`);
    if (id === "awq" && maxModelLen > QUALITY.longContext.value) {
      return refuse(`not for sequences of ${maxModelLen} tokens: ${evidence}`);
    }
    if (isUnasked(request, weightsGrade(model, quantization))) return refuse(unaskedText(evidence));
    return [{ quantization, because: sentences(because, said) }];
  });
  return { choices, refusals };
}

const sentences = (...texts: readonly string[]): string => texts.filter((text) => text !== "").join(". ");

const fixedWeights = (stored: string, wanted: string): MillraceError =>
  new MillraceError("invalid_option", `expected no --quantization for weights stored as ${stored}, got ${wanted}`, {
    hint: "they are used as they are: plan with the model they were made from, or with a file in the wanted type",
  });

/** Names of our weight types in GGUF files. */
export const GGUF_TYPES: Readonly<Partial<Record<QuantizationId, string>>> = {
  q8_0: "Q8_0",
  q6_k: "Q6_K",
  q4_k_m: "Q4_K_M",
  q4_0: "Q4_0",
  ...FEW_BIT_NAMES,
};

/** Location of the model's weights in a weight type; undefined: no checkpoint is known. */
export function publishedAs(
  { checkpoints, gguf, native, location }: PlannedModel,
  id: QuantizationId,
): string | undefined {
  const type = GGUF_TYPES[id];
  if (type !== undefined) return gguf === undefined ? undefined : `${HUB_PREFIX}${gguf}:${type}`;
  return native === id ? location : checkpoints[id];
}

interface EngineChoice {
  readonly engine: PlannedEngine;
  readonly because: string;
}

const READ_GGUF: readonly PlannedEngine[] = ["millrace", "llama-server", "ollama", "vllm", "sglang"];

/** Engines whose documentation lists the model's type; undefined: the table lacks the type. */
export function enginesFor({ modelType }: PlannedModel): readonly PlannedEngine[] | undefined {
  const found = PLANNED_ENGINES.filter(
    (engine) => engine !== "millrace" && modelType !== undefined && LISTED_MODEL_TYPES[engine].includes(modelType),
  );
  return found.length > 0 ? found : undefined;
}

/** @throws architecture_unsupported, where the requested engine cannot load the model */
function assertLoads(model: PlannedModel, engine: PlannedEngine): void {
  const listed = enginesFor(model);
  const refusal =
    engine === "millrace"
      ? model.embeddedRefusal
      : isGguf(model) && !READ_GGUF.includes(engine)
        ? "a GGUF file, which it does not read"
        : listed === undefined || listed.includes(engine)
          ? undefined
          : `model_type ${model.modelType}, which its documentation does not list`;
  if (refusal === undefined) return;
  throw new MillraceError(
    "architecture_unsupported",
    `expected a model that ${engine} loads, got ${model.name}: ${refusal}`,
    {
      hint: `leave --engine out, or name one that loads it: ${(listed ?? ["vllm", "llama-server"]).join(", ")}`,
    },
  );
}

/** The embedded engine for models that its own loader accepts; llama.cpp for others that can be GGUF files. */
function cpuEngine(model: PlannedModel): EngineChoice {
  const refusal = model.embeddedRefusal;
  if (refusal === undefined) {
    return {
      engine: "millrace",
      because: "on CPUs the embedded engine is the fastest measured (docs/background/benchmarks/kernels.md), and exact",
    };
  }
  if (model.stored !== undefined && !isGguf(model)) {
    throw new MillraceError(
      "architecture_unsupported",
      `expected a model that an engine loads on a CPU as it is, got ${model.name}: ${refusal}`,
      { hint: "convert it to GGUF and plan with that file, which llama-server loads" },
    );
  }
  return {
    engine: "llama-server",
    because: `the embedded engine does not load it (${refusal}); llama.cpp takes it as GGUF, and is predicted with our kernels' speeds for want of its own`,
  };
}

export function chooseEngine({ model, machine, engine, prefixShare, hostMemoryBytes }: PlanRequest): EngineChoice {
  if (engine !== undefined) {
    assertLoads(model, engine);
    return { engine, because: "asked for with --engine" };
  }
  if (machine.kind === "cpu") return cpuEngine(model);
  if (hostMemoryBytes !== undefined) {
    return { engine: "llama-server", because: "it lays experts into the host's memory (--host-memory)" };
  }
  if (isGguf(model)) return { engine: "llama-server", because: "GGUF files on GPUs are llama.cpp's own format" };
  const listed = enginesFor(model);
  const loads = listed === undefined ? `; no list here says whether it loads ${model.modelType ?? "this model"}` : "";
  if (prefixShare >= 0.5 && machine.device.arch !== "cdna3") {
    const because =
      "half of each prompt or more is shared: its radix tree matches token by token and schedules by longest match";
    return { engine: "sglang", because: `${because}${loads}` };
  }
  const because = "the engine with the most models, weight types and GPUs";
  return { engine: "vllm", because: `${because}${loads}` };
}

const isGguf = ({ stored, location }: PlannedModel): boolean => stored !== undefined && /\.gguf$/i.test(location);

/** KV types of the engine on this device, widest first. */
export function kvTypesOf(machine: Machine, engine: PlannedEngine): readonly PlannedKvType[] {
  if (machine.kind === "cpu" || isLlamaCpp(engine)) return [KV_TYPES["16"], KV_TYPES.int8];
  return machine.device.flops.fp8 === undefined ? [KV_TYPES["16"]] : [KV_TYPES["16"], KV_TYPES.fp8];
}

/** The KV types that the planner may choose unasked, or the requested one. */
export const allowedKvTypes = (request: PlanRequest, engine: PlannedEngine): readonly PlannedKvType[] =>
  kvTypesOf(request.machine, engine).filter(({ id }) => !isUnasked(request, kvGrade(id, engine)));

/** Reasons against the other KV types. */
export function kvRefusals(request: PlanRequest, engine: PlannedEngine): readonly Refusal[] {
  const allowed = allowedKvTypes(request, engine);
  return kvTypesOf(request.machine, engine)
    .filter((kv) => !allowed.includes(kv))
    .map((kv) => ({ what: `keys and values in ${kv.label}`, because: unaskedText(kv.evidence) }));
}

/** FP8 weights have one scale per square of this many rows and columns; engines never split a square. */
const SCALE_BLOCK = 128;

const isInBlocks = ({ native, checkpoints }: PlannedModel): boolean =>
  native === "fp8" || /^Qwen\/.*-FP8$/.test(checkpoints.fp8 ?? "");

/** Rows of a matrix that engines keep together. */
export const blockOf = (model: PlannedModel, { id }: Quantization): number =>
  (id === "fp8" || model.native === "fp8") && isInBlocks(model) ? SCALE_BLOCK : 1;

/** Widths an instance may have, narrowest first. */
export function widthsOf(
  model: PlannedModel,
  machine: Machine,
  engine: PlannedEngine,
  quantization: Quantization,
): readonly number[] {
  if (machine.kind === "cpu" || isLlamaCpp(engine) || engine === "millrace") return [1];
  const block = blockOf(model, quantization);
  return [1, 2, 4, 8].filter(
    (width) =>
      width <= machine.count &&
      layerKinds(model).every(
        ({ layer: { mixer, feedForward } }) =>
          sharesHeads(mixer, width) && (width === 1 || (feedForward.width / width) % block === 0),
      ),
  );
}

/** Whether devices can share key/value heads evenly, or keep equal copies of them. */
export function sharesHeads(mixer: Mixer, numDevices: number): boolean {
  if (mixer.kind === "none") return true;
  if (mixer.kind === "convolution") return mixer.width % numDevices === 0;
  if (mixer.numHeads % numDevices !== 0) return false;
  if (mixer.kind === "latent") return true;
  // Devices beyond the number of groups keep copies, as in vLLM.
  if (mixer.kind === "mamba") return mixer.numGroups % numDevices === 0 || numDevices % mixer.numGroups === 0;
  if (mixer.kind === "delta") return mixer.numKeyHeads % numDevices === 0;
  const { numKvHeads } = mixer;
  return numKvHeads % numDevices === 0 || numDevices % numKvHeads === 0;
}
