/** Writes the GGUF metadata of a model's recurrent layers. */
import type { TensorSource } from "../../backend/tensor-source.js";
import { arr, bool, f32, u32, type WritableValue } from "../../formats/gguf/write.js";
import { type Architecture, factsOf } from "../../model/description/architectures.js";
import { NO_ROPE, seesAll } from "../../model/description/model-description.js";
import {
  attentionMixers,
  firstMixer,
  isAttention,
  type ServableModel,
  unservedVariant,
} from "../../model/description/servable.js";
import { mixedOutputs } from "../../model/description/sizes.js";
import { ROPE_SWITCH } from "../../model/gguf/describe.js";

type Metadata = Record<string, WritableValue>;

/**
 * @param architecture architecture of the file
 * @param numDrafts number of attention blocks after the layers
 */
export function recurrentLayers(model: ServableModel, architecture: Architecture, numDrafts: number): Metadata {
  const { layers, ropes } = model;
  if (factsOf(architecture).hasMamba) return mambaLayers(model);
  const convolution = firstMixer(model, "convolution");
  if (convolution !== undefined) {
    return { "shortconv.l_cache": u32(convolution.numTaps), "attention.head_count_kv": keyHeadsByLayer(model) };
  }
  const { delta } = factsOf(architecture);
  const mixer = firstMixer(model, "delta");
  if (delta === undefined || mixer === undefined) return {};
  const isRecurrent = layers.map((layer) => layer.mixer.kind === "delta");
  const period = isRecurrent.indexOf(false) + 1;
  const isPeriodic = isRecurrent.every((is, index) => is !== seesAll(index, period));
  return {
    "ssm.conv_kernel": u32(mixer.numTaps),
    "ssm.state_size": u32(mixer.headDim),
    "ssm.group_count": u32(mixer.numKeyHeads),
    "ssm.time_step_rank": u32(mixer.numHeads),
    "ssm.inner_size": u32(mixer.numHeads * mixer.valueDim),
    ...(isPeriodic
      ? { full_attention_interval: u32(period) }
      : { "attention.recurrent_layers": arr("bool", [...isRecurrent, ...Array<boolean>(numDrafts).fill(false)]) }),
    ...(delta.hasImageRope ? { "rope.dimension_sections": arr("i32", ropeSections(ropes[0]!.dim / 2)) } : {}),
  };
}

/**
 * Numbers of rotated pairs that turn by time, height and width, in alternation. A text token has one position for all
 * three, but llama.cpp requires the key.
 */
const ropeSections = (numPairs: number): readonly number[] => [
  ...[0, 1, 2].map((axis) => Math.ceil((numPairs - axis) / 3)),
  0,
];

const keyHeadsByLayer = ({ layers }: ServableModel): WritableValue =>
  arr(
    "i32",
    layers.map((layer) => (isAttention(layer) ? layer.mixer.numKvHeads : 0)),
  );

function mambaLayers(model: ServableModel): Metadata {
  const { architecture } = model;
  const mixer = firstMixer(model, "mamba");
  if (mixer === undefined) throw unservedVariant(`expected a layer of ${architecture} with a Mamba-2, got none`);
  const { isOnePart, ropeSwitch } = factsOf(architecture);
  return {
    "ssm.conv_kernel": u32(mixer.numTaps),
    "ssm.state_size": u32(mixer.stateDim),
    "ssm.group_count": u32(mixer.numGroups),
    "ssm.time_step_rank": u32(mixer.numHeads),
    "ssm.inner_size": u32(mixedOutputs(mixer)),
    "attention.head_count_kv": keyHeadsByLayer(model),
    // llama.cpp requires both names of the norms' epsilon.
    ...(isOnePart
      ? { feed_forward_length: arr("i32", partWidths(model)), "attention.layer_norm_epsilon": f32(model.rmsEps) }
      : {}),
    ...(ropeSwitch === undefined
      ? {}
      : { [ROPE_SWITCH]: bool(attentionMixers(model).every(({ rope }) => rope !== NO_ROPE)) }),
  };
}

/** Widths in models whose layers are one part each; for llama.cpp all of these have experts, or none. */
function partWidths({ architecture, layers }: ServableModel): readonly number[] {
  const parts = layers.map(({ feedForward }) => feedForward);
  const hasExperts = parts.some(({ kind }) => kind === "experts");
  if (hasExperts && parts.some(({ kind, width }) => kind === "dense" && width > 0)) {
    throw unservedVariant(`expected experts in every feed-forward part of ${architecture}, got some without`);
  }
  return parts.map(({ width }) => width);
}

/** llama.cpp aborts if a convolution lacks a bias, and refuses biases on the projections around it. */
export function notesOfMamba({ layers }: ServableModel, source: TensorSource): readonly string[] {
  const isServed = layers.every(({ mixer }, index) => {
    const has = (part: string) => source.has(`blk.${index}.${part}.bias`);
    return mixer.kind !== "mamba" || (has("ssm_conv1d") && !has("ssm_in") && !has("ssm_out"));
  });
  return isServed
    ? []
    : ["llama.cpp takes a Mamba-2 to have a bias of its convolution alone: the file is for millrace"];
}
