/** The ways in which an engine's instance can share a model among a machine's GPUs, and among several hosts. */
import type { FeedForward } from "../model/description/model-description.js";
import { expertsOf, layerKinds } from "../model/description/sizes.js";
import type { PlannedEngine } from "./data/engines.js";
import type { Quantization } from "./data/quantizations.js";
import type { PlanRequest } from "./request.js";
import { blockOf, sharesHeads, widthsOf } from "./rules.js";
import type { Sharing } from "./sharing.js";

/** Engines whose adapters can place whole experts on GPUs. */
const EXPERT_ENGINES: readonly PlannedEngine[] = ["vllm", "sglang", "tensorrt-llm"];
/** Engines that can span an instance over several hosts. */
export const MULTI_HOST_ENGINES = ["vllm", "sglang", "tensorrt-llm"] as const satisfies readonly PlannedEngine[];

/** Engines rarely join more hosts. */
export const MOST_HOSTS = 8;

/** Width of the feed-forward part that every token passes, which a group's GPUs share; 0: the layer has none. */
const commonWidth = (part: FeedForward): number => (part.kind === "dense" ? part.width : part.sharedWidth);

/** Whole experts on GPUs; attention is cut among the GPUs, or runs in groups with their own requests. */
function expertSharings(
  { model, machine }: PlanRequest,
  engine: PlannedEngine,
  quantization: Quantization,
): readonly Sharing[] {
  const experts = expertsOf(model);
  if (experts === undefined || machine.kind === "cpu" || !EXPERT_ENGINES.includes(engine)) return [];
  const block = blockOf(model, quantization);
  return [2, 4, 8]
    .filter((size) => size <= machine.count && experts.count % size === 0)
    .flatMap((size) =>
      [1, 2, 4, 8]
        .filter((tensorParallel) => size % tensorParallel === 0)
        // TensorRT-LLM's attention has its own requests on each GPU, or is cut among all GPUs.
        .filter((width) => engine !== "tensorrt-llm" || width === 1 || width === size)
        .filter((width) =>
          layerKinds(model).every(
            ({ layer: { mixer, feedForward } }) =>
              sharesHeads(mixer, width) && (width === 1 || (commonWidth(feedForward) / width) % block === 0),
          ),
        )
        .map((tensorParallel) => ({ tensorParallel, dataParallel: size / tensorParallel, hasWholeExperts: true })),
    );
}

/** @param hosts that an instance spans, each with consecutive layers */
export function sharingsOf(
  request: PlanRequest,
  engine: PlannedEngine,
  quantization: Quantization,
  hosts = 1,
): readonly Sharing[] {
  const { model, machine } = request;
  const widths = widthsOf(model, machine, engine, quantization).map((tensorParallel): Sharing => ({ tensorParallel }));
  if (hosts === 1) return [...widths, ...expertSharings(request, engine, quantization)];
  if (machine.kind === "cpu" || !MULTI_HOST_ENGINES.some((each) => each === engine)) return [];
  return widths.slice(-1).map((widest) => ({ ...widest, pipelineParallel: hosts }));
}
