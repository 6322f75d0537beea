/**
 * A configuration in an engine's terms: the fleet's options, which its adapters turn into arguments, and extra
 * arguments for choices that the fleet has no option for.
 */
import { isAbsolute } from "node:path";
import { HUB_PREFIX } from "../formats/hub/spec.js";
import { weightBytes } from "../model/description/sizes.js";
import { GPU_CONSTANTS } from "./data/constants.js";
import { isLlamaCpp, type PlannedEngine } from "./data/engines.js";
import { MADE_AT_START } from "./data/made-at-start.js";
import { type KvTypeId, QUANTIZATIONS } from "./data/quantizations.js";
import { type Evaluation, kvMemoryBytes, type Settled } from "./evaluate.js";
import { hostArguments } from "./host-experts.js";
import { lookupConfig } from "./lookups.js";
import { parserArguments } from "./parsers.js";
import type { Lookups, PlannedOptions, PlanRequest } from "./request.js";
import { GGUF_TYPES, publishedAs, takesGguf } from "./rules.js";

interface Limits {
  /** Tokens of a sequence for which every seat has room, and of the longest one. */
  readonly required: number;
  readonly longest: number;
  readonly lookups: Lookups | undefined;
}

interface Rendered {
  readonly options: PlannedOptions;
  readonly extraArgs: readonly string[];
  readonly needs: readonly string[];
}

/** The weights to load, and the steps that provide them. */
function weightsOf(
  request: PlanRequest,
  evaluation: Evaluation,
): { readonly location: string; readonly needs: readonly string[] } {
  const { model } = request;
  const { quantization } = evaluation;
  const { id } = quantization;
  const isGgufMade = takesGguf(request) && model.stored === undefined;
  if (isGgufMade && id === "mxfp4" && model.gguf !== undefined)
    return { location: `${HUB_PREFIX}${model.gguf}`, needs: [] };
  const published = id === "bf16" ? undefined : publishedAs(model, id);
  if (published !== undefined && (!isGgufMade || published.startsWith(HUB_PREFIX)))
    return { location: published, needs: [] };
  // Our engine reads published folders unchanged, and makes its own weight types from them.
  const isRead = evaluation.engine === "millrace" && model.stored === undefined && model.native === undefined;
  if (isRead && (id === "bf16" || wordAtStart(request, evaluation) !== undefined))
    return { location: isAbsolute(model.location) ? model.location : `${HUB_PREFIX}${model.location}`, needs: [] };
  if (isGgufMade) {
    const type = GGUF_TYPES[id] ?? quantization.label;
    const name = `${model.name}-${id}.gguf`;
    return {
      location: name,
      needs: [`${name}: the model as a GGUF file in ${type}, from the hub (hf:org/repo:${type}) or converted`],
    };
  }
  if (!["fp8", "int8", "awq", "nvfp4"].includes(id) || wordAtStart(request, evaluation) !== undefined) {
    return { location: model.location, needs: [] };
  }
  const name = `${model.name}-${id}`;
  return {
    location: name,
    needs: [
      `${name}: ${model.location} quantised to ${quantization.label}; no published checkpoint is known here, and millrace quantize makes one`,
    ],
  };
}

/** Ollama names GGUF files of the hub in its own way, and loads other files through a Modelfile. */
function inOllama({ location, needs }: ReturnType<typeof weightsOf>): ReturnType<typeof weightsOf> {
  if (location.startsWith(HUB_PREFIX)) {
    const name = `hf.co/${location.slice(HUB_PREFIX.length)}`;
    return { location: name, needs: [...needs, `${name}: ollama pull ${name} fetches it`] };
  }
  return { location, needs: [...needs, `a Modelfile with FROM ${location}, and ollama create with it`] };
}

/**
 * The engine's word for a type that it makes from 16-bit weights at its start; undefined: the type is published, or the
 * engine cannot make it.
 */
function wordAtStart(
  { model, machine }: PlanRequest,
  { quantization: { id }, engine, tensorParallel }: Evaluation,
): string | undefined {
  if (model.stored !== undefined || model.native !== undefined) return undefined;
  const isOurs = engine === "millrace";
  // The FP8 checkpoints that plans know are for engines on GPUs, so our engine makes FP8 itself.
  if (publishedAs(model, id) !== undefined && !(isOurs && id === "fp8")) return undefined;
  const sixteen = weightBytes(model, QUANTIZATIONS.bf16) / tensorParallel;
  // Other engines make their types layer by layer.
  const hasRoom =
    isOurs || id !== "fp8" || sixteen < machine.device.memoryBytes * GPU_CONSTANTS.memoryUtilization.value;
  return hasRoom ? MADE_AT_START[engine][id] : undefined;
}

/** Ollama passes its own type names on; our engine measures a type's loss at its start (kvGrade). */
function kvTypeFor(engine: PlannedEngine, id: KvTypeId): string {
  if (engine === "millrace") return "measured";
  return engine === "ollama" && id === "int8" ? "q8_0" : id;
}

/** The fleet starts engines on its own host only. */
function hostNeeds({ pipelineParallel = 1 }: Evaluation): readonly string[] {
  if (pipelineParallel === 1) return [];
  return [
    `${pipelineParallel} hosts: a file by --yaml is one host's, and millrace serve starts engines on one host; run the commands of all hosts and attach the first one's URL, or let millrace image render --nodes ${pipelineParallel} make a LeaderWorkerSet of the file`,
  ];
}

export function renderOptions(
  request: PlanRequest,
  evaluation: Settled,
  { required, longest, lookups }: Limits,
): Rendered {
  const { engine, kv, tensorParallel, dataParallel = 1, drafting, maxNumSeqs, maxNumBatchedTokens } = evaluation;
  const { model, machine } = request;
  const { location, needs } =
    engine === "ollama" ? inOllama(weightsOf(request, evaluation)) : weightsOf(request, evaluation);
  const word = wordAtStart(request, evaluation);
  const speculativeConfig =
    drafting !== undefined && model.eagle3 !== undefined
      ? { method: "eagle3", model: model.eagle3.repo, num_speculative_tokens: drafting.depth }
      : lookups === undefined || lookups.mostSequences === 0
        ? undefined
        : lookupConfig(lookups, maxNumSeqs);
  const onGpu = machine.kind === "gpu" && !isLlamaCpp(engine) && engine !== "millrace";
  const options: PlannedOptions = {
    model: location,
    servedModelName: model.name,
    maxModelLen: longest,
    maxNumSeqs: Math.ceil(maxNumSeqs / dataParallel),
    maxNumBatchedTokens,
    enablePrefixCaching: true,
    ...(kv.id === "16" ? {} : { kvCacheDtype: kvTypeFor(engine, kv.id) }),
    ...(word === undefined ? {} : { quantization: word }),
    ...(onGpu ? { tensorParallelSize: tensorParallel } : {}),
    ...(dataParallel === 1 ? {} : { dataParallelSize: dataParallel }),
    ...(evaluation.hasWholeExperts === true ? { enableExpertParallel: true } : {}),
    // Other engines give their memory share another meaning, and find it themselves.
    ...(engine === "vllm" ? { gpuMemoryUtilization: GPU_CONSTANTS.memoryUtilization.value } : {}),
    ...(engine === "millrace" ? { kvCacheMemoryBytes: kvMemoryBytes(evaluation, required, longest) } : {}),
    ...(machine.kind === "cpu" ? { threads: machine.device.numCores } : {}),
    ...(speculativeConfig === undefined ? {} : { speculativeConfig }),
  };
  const { numHostLayers = 0 } = evaluation;
  const onHost = numHostLayers === 0 ? [] : hostArguments(request, numHostLayers, maxNumBatchedTokens);
  const own =
    engine === "llama-server" && machine.kind === "gpu"
      ? ["-ngl", "999", ...onHost]
      : engine === "tensorrt-llm"
        ? ["--enable_chunked_prefill"]
        : [];
  return {
    options,
    extraArgs: [...own, ...parserArguments(model, engine)],
    needs: [...needs, ...hostNeeds(evaluation)],
  };
}
