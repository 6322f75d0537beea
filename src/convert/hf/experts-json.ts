/** Writes a mixture of experts in the config.json keys of transformers' classes. */
import type { TensorSource } from "../../backend/tensor-source.js";
import type { ExpertsFeedForward } from "../../model/description/model-description.js";
import { type ServableModel, unservedVariant } from "../../model/description/servable.js";
import { type ModelType, traitsOfClass } from "../../model/hf/model-types.js";
import { numSharedExperts } from "../weights/tensors.js";
import { shortest } from "./shortest.js";

type Json = Record<string, unknown>;

export type ExpertsJson = (
  model: ServableModel,
  experts: ExpertsFeedForward,
  source: TensorSource,
  type: ModelType,
) => Json;

export function sharingExpertsJson(model: ServableModel, experts: ExpertsFeedForward, source: TensorSource): Json {
  const { routing } = model;
  return {
    n_routed_experts: experts.count,
    num_experts_per_tok: experts.active,
    moe_intermediate_size: experts.width,
    n_shared_experts: numSharedExperts(experts),
    first_k_dense_replace: numDenseLayers(model),
    norm_topk_prob: routing.normalises,
    routed_scaling_factor: shortest(routing.scale),
    n_group: routing.numGroups,
    topk_group: routing.numUsedGroups,
    use_qk_norm: source.has("blk.0.attn_q_norm.weight"),
    num_nextn_predict_layers: 0,
  };
}

/** Number of layers without experts; they can only come first. */
function numDenseLayers({ layers }: ServableModel): number {
  const numDense = layers.findIndex(({ feedForward }) => feedForward.kind === "experts");
  if (layers.slice(numDense).every(({ feedForward }) => feedForward.kind === "experts")) return numDense;
  throw unservedVariant("expected layers without experts at the beginning only");
}

export function lfm2ExpertsJson(model: ServableModel, { count, active, width }: ExpertsFeedForward): Json {
  return {
    num_experts: count,
    num_experts_per_tok: active,
    moe_intermediate_size: width,
    num_dense_layers: numDenseLayers(model),
    norm_topk_prob: model.routing.normalises,
    routed_scaling_factor: shortest(model.routing.scale),
    use_expert_bias: true,
  };
}

/** Keys for experts at a fixed interval, from a first to the last layer. */
export function ernieExpertsJson({ layers }: ServableModel, experts: ExpertsFeedForward): Json {
  const { count, active, width } = experts;
  const having = layers.flatMap(({ feedForward }, index) => (feedForward.kind === "experts" ? [index] : []));
  const [first = 0, second = first + 1] = having;
  return {
    moe_num_experts: count,
    moe_k: active,
    moe_intermediate_size: width,
    moe_num_shared_experts: numSharedExperts(experts),
    moe_layer_start_index: first,
    moe_layer_end_index: having.at(-1) ?? first,
    moe_layer_interval: second - first,
  };
}

/** Experts are as wide as the part that every token passes: the class has one number for both. */
export function hunyuanExpertsJson(_: ServableModel, { count, active, width, sharedWidth }: ExpertsFeedForward): Json {
  if (sharedWidth === width) return { num_experts: count, moe_topk: active, num_shared_expert: 1 };
  throw unservedVariant(
    `expected a part of width ${width} that every token passes, as experts are, got ${sharedWidth}`,
  );
}

/** The class has no keys for the weighing of experts: it is relative, without groups. */
export function minimaxExpertsJson({ routing }: ServableModel, { count, active }: ExpertsFeedForward): Json {
  const { scale, numGroups, normalises } = routing;
  if (scale !== 1 || numGroups !== 1 || !normalises) {
    throw unservedVariant("expected experts of MiniMax M2 weighed relative to one another, got other weights");
  }
  return { num_local_experts: count, num_experts_per_tok: active };
}

/** For classes whose config.json states which layers have experts, and their weighing. */
export function chosenExpertsJson(
  { layers, routing }: ServableModel,
  { count, active, width, isSharedGated, sharedWidth }: ExpertsFeedForward,
  _: TensorSource,
  type: ModelType,
): Json {
  return {
    ...(isSharedGated ? { shared_expert_intermediate_size: sharedWidth } : {}),
    // transformers 4 only knows this name; 5 has it as an alias.
    num_experts: count,
    num_experts_per_tok: active,
    [traitsOfClass(type).experts!.widthKey]: width,
    norm_topk_prob: routing.normalises,
    mlp_only_layers: layers.flatMap(({ feedForward }, index) => (feedForward.kind === "dense" ? [index] : [])),
  };
}

export function localExpertsJson(
  { layers, routing }: ServableModel,
  { count, active, sharedWidth }: ExpertsFeedForward,
): Json {
  if (layers.some(({ feedForward }) => feedForward.kind === "dense") || !routing.normalises) {
    throw unservedVariant("expected experts in every layer, whose weights are relative to one another");
  }
  const shared = sharedWidth > 0 ? { shared_intermediate_size: sharedWidth } : {};
  return { num_local_experts: count, num_experts_per_tok: active, ...shared };
}
