/** A chosen configuration in an engine's terms: the fleet's options, which its adapters turn into arguments, and what has no option there. */
import { GPU_CONSTANTS } from "./data/constants.js";
import { type Evaluation, kvMemoryBytes } from "./evaluate.js";
import type { PlannedOptions, PlanRequest } from "./request.js";

export interface Rendered {
  readonly options: PlannedOptions;
  readonly extraArgs: readonly string[];
  readonly needs: readonly string[];
}

const GGUF_TYPES: Readonly<Record<string, string>> = { q8_0: "Q8_0", q6_k: "Q6_K", q4_k_m: "Q4_K_M", q4_0: "Q4_0" };

/** What is loaded, and what must be done to have it. */
function weightsOf(
  { model }: PlanRequest,
  { quantization }: Evaluation,
): { readonly location: string; readonly needs: readonly string[] } {
  const { id } = quantization;
  const gguf = GGUF_TYPES[id];
  if (gguf !== undefined) {
    const name = `${model.name}-${id}.gguf`;
    return {
      location: name,
      needs: [`${name}: the model as a GGUF file in ${gguf}, from the hub (hf:org/repo:${gguf}) or converted`],
    };
  }
  if (id !== "int8" && id !== "awq" && id !== "nvfp4") return { location: model.location, needs: [] };
  const published = model.checkpoints[id];
  if (published !== undefined) return { location: published, needs: [] };
  const name = `${model.name}-${id}`;
  return {
    location: name,
    needs: [`${name}: ${model.location} quantised to ${quantization.label}; no published checkpoint is known here`],
  };
}

/** Made from 16-bit weights at the start; the other types are recognised from the checkpoint. */
function quantizationFlag(
  { model }: PlanRequest,
  { quantization, engine }: Evaluation,
): { readonly quantization?: string } {
  const isMadeAtStart =
    quantization.id === "fp8" && model.native === undefined && (engine === "vllm" || engine === "sglang");
  return isMadeAtStart ? { quantization: "fp8" } : {};
}

export function renderOptions(request: PlanRequest, evaluation: Evaluation, maxModelLen: number): Rendered {
  const { engine, kv, tensorParallel, drafting, maxNumSeqs, maxNumBatchedTokens } = evaluation;
  const { model, machine } = request;
  const { location, needs } = weightsOf(request, evaluation);
  const isTrt = engine === "tensorrt-llm";
  const fp8Needs = isTrt && evaluation.quantization.id === "fp8" && model.native === undefined;
  const onGpu = machine.kind === "gpu" && engine !== "llama-server" && engine !== "millrace";
  const options: PlannedOptions = {
    model: location,
    servedModelName: model.name,
    maxModelLen,
    maxNumSeqs,
    maxNumBatchedTokens,
    enablePrefixCaching: true,
    ...(kv.id === "16" ? {} : { kvCacheDtype: kv.id }),
    ...quantizationFlag(request, evaluation),
    ...(onGpu
      ? { tensorParallelSize: tensorParallel, gpuMemoryUtilization: GPU_CONSTANTS.memoryUtilization.value }
      : {}),
    ...(engine === "millrace" ? { kvCacheMemoryBytes: kvMemoryBytes(evaluation, maxModelLen) } : {}),
    ...(machine.kind === "cpu" ? { threads: machine.device.numCores } : {}),
    ...(drafting === undefined || model.eagle3 === undefined
      ? {}
      : { speculativeConfig: { method: "eagle3", model: model.eagle3, num_speculative_tokens: drafting.depth } }),
  };
  return {
    options,
    extraArgs:
      engine === "llama-server" && machine.kind === "gpu" ? ["-ngl", "999"] : isTrt ? ["--enable_chunked_prefill"] : [],
    needs: fp8Needs
      ? [...needs, `${model.location} quantised to FP8 with ModelOpt: TensorRT-LLM takes the type from the checkpoint`]
      : needs,
  };
}
