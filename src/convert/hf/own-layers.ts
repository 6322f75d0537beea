/**
 * Keys of a Gemma 4's config.json for layers that differ, in the form of published checkpoints, which
 * src/model/hf/gemma4.ts reads.
 */
import type { TensorSource } from "../../backend/tensor-source.js";
import { factsOf } from "../../model/description/architectures.js";
import type { AttentionMixer } from "../../model/description/model-description.js";
import { attentionMixers, type ServableModel, unservedVariant } from "../../model/description/servable.js";
import { expertsOf } from "../../model/description/sizes.js";
import { ACTIVATION_NAMES } from "../../model/hf/servable.js";
import { ropesByKind } from "./rope.js";
import { shortest } from "./shortest.js";

type Json = Record<string, unknown>;

/** @throws architecture_unsupported if layers differ in a way that no key expresses */
export function ownLayersJson(model: ServableModel, source: TensorSource): Json {
  const { architecture, layerInputWidth = 0, logitCap, vocabSize } = model;
  const experts = expertsOf(model);
  return {
    ...headsJson(attentionMixers(model)),
    ...widthsJson(model),
    num_kv_shared_layers: attentionMixers(model).filter(({ keysOf }) => keysOf !== undefined).length,
    rope_parameters: ropesByKind(model, source),
    hidden_activation: ACTIVATION_NAMES[factsOf(architecture).activation],
    final_logit_softcapping: logitCap === 0 ? null : shortest(logitCap),
    hidden_size_per_layer_input: layerInputWidth,
    vocab_size_per_layer_input: vocabSize,
    enable_moe_block: experts !== undefined,
    ...(experts !== undefined && {
      num_experts: experts.count,
      top_k_experts: experts.active,
      moe_intermediate_size: experts.width,
    }),
  };
}

/**
 * Heads of layers without a window are stated once, as in published checkpoints, or layer by layer, as transformers
 * writes them.
 */
function headsJson(mixers: readonly AttentionMixer[]): Json {
  const full = mixers.filter(({ rope }) => rope !== 1);
  const usual = mixers.find(({ rope }) => rope === 1) ?? full[0]!;
  const ofFull = full[0]!;
  const own = full.filter(({ keysOf }) => keysOf === undefined);
  const areValuesKeys = own.some((mixer) => mixer.areValuesKeys);
  if (areValuesKeys !== own.every((mixer) => mixer.areValuesKeys)) {
    throw unservedVariant("expected values of keys in all layers without a window, or in none, got some");
  }
  const areAlike = (a: AttentionMixer, b: AttentionMixer) => a.headDim === b.headDim && a.numKvHeads === b.numKvHeads;
  const isByKind =
    mixers.every((mixer) => areAlike(mixer, mixer.rope === 1 ? usual : ofFull)) &&
    (areValuesKeys || ofFull.numKvHeads === usual.numKvHeads);
  return {
    num_key_value_heads: usual.numKvHeads,
    head_dim: usual.headDim,
    attention_k_eq_v: areValuesKeys,
    ...(isByKind
      ? {
          global_head_dim: ofFull.headDim,
          num_global_key_value_heads: areValuesKeys ? ofFull.numKvHeads : null,
        }
      : {
          per_layer_config: Object.fromEntries(
            mixers.flatMap((mixer, index) =>
              areAlike(mixer, usual)
                ? []
                : [[index, { head_dim: mixer.headDim, num_key_value_heads: mixer.numKvHeads }]],
            ),
          ),
        }),
  };
}

/** Widths of the dense parts; layers that read other layers' keys may be twice as wide. */
function widthsJson({ layers }: ServableModel): Json {
  const widthOf = ({ feedForward }: (typeof layers)[number]): number =>
    feedForward.kind === "experts" ? feedForward.sharedWidth : feedForward.width;
  const width = widthOf(layers[0]!);
  const sharing = layers.filter(({ mixer }) => mixer.kind === "attention" && mixer.keysOf !== undefined);
  const isWide = sharing.length > 0 && sharing.every((layer) => widthOf(layer) === 2 * width);
  const wrong = layers.find((layer) => widthOf(layer) !== (isWide && sharing.includes(layer) ? 2 * width : width));
  if (wrong !== undefined) {
    throw unservedVariant(`expected feed-forward parts ${width} wide, or twice as wide, got one of ${widthOf(wrong)}`);
  }
  return { intermediate_size: width, use_double_wide_mlp: isWide };
}
