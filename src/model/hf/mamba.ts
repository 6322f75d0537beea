/** Reads the Mamba-2 keys of config.json, in Granite 4.0 and in Nemotron-H. */
import { isPlainObject } from "../../core/is-plain-object.js";
import { configError, type JsonObject, shownValue } from "../../formats/files/json.js";
import {
  type AttentionMixer,
  type ExpertsFeedForward,
  type FeedForward,
  type MambaMixer,
  type Mixer,
  MODEL_LIMITS,
  NO_FEED_FORWARD,
  NO_MIXER,
  NO_ROPE,
} from "../description/model-description.js";
import { unservedVariant } from "../description/servable.js";
import { ConfigReader } from "./config-reader.js";

type PartKind = "mamba" | "attention" | "mlp" | "moe";

/** Names of layers' kinds: those of transformers 5, and older ones. */
const KINDS: Readonly<Record<string, PartKind>> = {
  linear_attention: "mamba",
  mamba: "mamba",
  full_attention: "attention",
  attention: "attention",
  mlp: "mlp",
  moe: "moe",
};
const LETTERS: Readonly<Record<string, PartKind>> = { M: "mamba", "*": "attention", "-": "mlp", E: "moe" };

/** Keys of the list of layers, and of a text with a letter for each. */
const LISTS = ["layers_block_type", "layer_types"] as const;
const PATTERN = "hybrid_override_pattern";

/** @returns undefined: the file does not say @throws model_config for a kind that there is not */
export function partKinds(text: JsonObject): readonly PartKind[] | undefined {
  const key = LISTS.find((list) => text.has(list)) ?? PATTERN;
  if (!text.has(key)) return undefined;
  const [names, known] =
    key === PATTERN ? [Array.from(text.string(key) ?? ""), LETTERS] : [text.strings(key) ?? [], KINDS];
  return names.map((name) => {
    if (Object.hasOwn(known, name)) return known[name]!;
    throw configError(`expected ${text.nameOf(key)} to name layers ${Object.keys(known).join(", ")}, got ${name}`);
  });
}

/** The kinds of all layers. */
function kindsOf(text: JsonObject, numLayers: number, served: readonly PartKind[]): readonly PartKind[] {
  const kinds = partKinds(text) ?? [];
  const unserved = kinds.find((kind) => !served.includes(kind));
  if (kinds.length === numLayers && unserved === undefined) return kinds;
  const got = unserved ?? `${kinds.length}`;
  throw configError(
    `expected kinds of ${numLayers} layers, each of ${served.join(", ")}, in ${text.nameOf(LISTS[0])}, got ${got}`,
  );
}

/** Keys that say the sizes of a Mamba-2, and the defaults of their class. */
const SIZES = {
  granite: {
    numHeads: ["mamba_n_heads", 128],
    numGroups: ["mamba_n_groups", 1],
    stateDim: ["mamba_d_state", 256],
    numTaps: ["mamba_d_conv", 4],
  },
  nemotron: {
    numHeads: ["mamba_num_heads", 128],
    numGroups: ["n_groups", 8],
    stateDim: ["ssm_state_size", 128],
    numTaps: ["conv_kernel", 4],
  },
} as const;

function mambaOf(text: JsonObject, family: keyof typeof SIZES, width: number): MambaMixer {
  const read = new ConfigReader(text);
  const { numHeads: ofHeads, numGroups: ofGroups, stateDim, numTaps } = SIZES[family];
  const numHeads = read.size(ofHeads[0], MODEL_LIMITS.heads, ofHeads[1]);
  const numGroups = read.size(ofGroups[0], MODEL_LIMITS.heads, ofGroups[1]);
  if (numHeads % numGroups !== 0) {
    throw configError(`expected ${numHeads} heads in whole groups of ${text.nameOf(ofGroups[0])}, got ${numGroups}`);
  }
  return {
    kind: "mamba",
    numHeads,
    numGroups,
    stateDim: read.size(stateDim[0], MODEL_LIMITS.headDim, stateDim[1]),
    valueDim:
      family === "granite"
        ? valueDimOfGranite(text, width, numHeads)
        : read.size("mamba_head_dim", MODEL_LIMITS.headDim, 64),
    numTaps: read.size(numTaps[0], MODEL_LIMITS.taps, numTaps[1]),
  };
}

/** Granite states the heads' values together, as a multiple of hidden states' width, and may state those of one. */
function valueDimOfGranite(text: JsonObject, width: number, numHeads: number): number {
  const inner = width * new ConfigReader(text).size("mamba_expand", MODEL_LIMITS.width, 2);
  const valueDim =
    text.value("mamba_d_head") === "auto" ? inner / numHeads : (text.number("mamba_d_head") ?? inner / numHeads);
  if (
    Number.isInteger(valueDim) &&
    valueDim >= 1 &&
    valueDim <= MODEL_LIMITS.headDim &&
    valueDim * numHeads === inner
  ) {
    return valueDim;
  }
  throw configError(
    `expected ${text.nameOf("mamba_d_head")} in [1, ${MODEL_LIMITS.headDim}], with ${inner} values in ${numHeads} heads, got ${valueDim}`,
  );
}

interface MambaContext {
  readonly numLayers: number;
  readonly width: number;
  /** Layers are one part each. */
  readonly isOnePart: boolean;
}

/** @param attention of the layers that attend, as if they had a rope */
export function mambaMixers(
  text: JsonObject,
  { numLayers, width, isOnePart }: MambaContext,
  attention: AttentionMixer,
): (index: number) => Mixer {
  const mamba = mambaOf(text, isOnePart ? "nemotron" : "granite", width);
  const isRotated = !isOnePart && text.string("position_embedding_type") === "rope";
  const attending = isRotated ? attention : { ...attention, rope: NO_ROPE };
  const kinds = kindsOf(text, numLayers, isOnePart ? ["mamba", "attention", "mlp", "moe"] : ["mamba", "attention"]);
  return (index) => {
    if (kinds[index] === "mamba") return mamba;
    return kinds[index] === "attention" ? attending : NO_MIXER;
  };
}

/** Of layers that are one part each. */
export function partsOfNemotron(
  text: JsonObject,
  numLayers: number,
  { dense, experts }: { readonly dense: () => FeedForward; readonly experts: ExpertsFeedForward | undefined },
): (index: number) => FeedForward {
  const kinds = kindsOf(text, numLayers, ["mamba", "attention", "mlp", "moe"]);
  const ofMlp = kinds.includes("mlp") ? dense() : NO_FEED_FORWARD;
  if (kinds.includes("moe") && experts === undefined) {
    throw configError(`expected ${text.nameOf("n_routed_experts")} above 0, got layers of experts without any`);
  }
  return (index) => (kinds[index] === "moe" ? experts! : kinds[index] === "mlp" ? ofMlp : NO_FEED_FORWARD);
}

const BIASES = ["mamba_proj_bias", "mamba_conv_bias", "use_bias", "use_conv_bias"] as const;
const STEPS = "time_step_limit";

/**
 * @throws model_config for biases that are not booleans, and for step bounds that are not two numbers;
 * architecture_unsupported for bounds that would cut steps
 */
export function assertMamba(text: JsonObject): void {
  // Whether a layer has a bias, its tensors show.
  for (const key of BIASES) text.boolean(key);
  if (!Object.hasOwn(text.raw, STEPS)) return;
  const [least, most, ...others] = text.array(STEPS) ?? [];
  // JSON has no infinity: readers have null for it, and transformers 5 writes an object.
  const isUnbounded = most === null || (isPlainObject(most) && most.__float__ === "Infinity");
  if (typeof least !== "number" || !(isUnbounded || typeof most === "number") || others.length > 0) {
    throw configError(`expected ${text.nameOf(STEPS)} to be two bounds, got ${shownValue(text.value(STEPS))}`);
  }
  if (!isUnbounded) throw unservedVariant(`expected ${text.nameOf(STEPS)} without an upper bound, got ${most}`);
  // Steps are above 0 anyway.
  if (least > 0) throw unservedVariant(`expected ${text.nameOf(STEPS)} from 0 on, got ${least}`);
}
