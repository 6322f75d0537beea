/** Writes a model as a GGUF file with llama.cpp's names. */
import type { TensorSource } from "../../backend/tensor-source.js";
import { readGguf } from "../../formats/gguf/read.js";
import type { GgufMetadata, GgufValue } from "../../formats/gguf/types.js";
import {
  arr,
  bool,
  f32,
  f64,
  i32,
  i64,
  str,
  u32,
  u64,
  type WritableTensor,
  type WritableValue,
  writePieces,
} from "../../formats/gguf/write.js";
import { isHfFolder } from "../../formats/hf/folder.js";
import { GGUF_SAMPLING_KEYS, SAMPLING_FIELDS, type SamplingDefaults } from "../../formats/sampling-defaults.js";
import { type Architecture, factsOf, normalisesInFiles } from "../../model/description/architectures.js";
import { type ExpertsFeedForward, type LatentMixer, NO_ROPE } from "../../model/description/model-description.js";
import type { RopeConfig } from "../../model/description/rope.js";
import {
  attentionMixers,
  firstMixer,
  localLayers,
  type ServableModel,
  unservedVariant,
} from "../../model/description/servable.js";
import { expertsOf } from "../../model/description/sizes.js";
import { DRAFT_BLOCKS, PARALLEL_KEY, WINDOW_PATTERN } from "../../model/gguf/describe.js";
import { epsKeyOf, ggufNameOf } from "../../model/gguf/names.js";
import { POOLING_CODES } from "../../model/gguf/pooling.js";
import { readHfTemplateSource } from "../../text/hf/chat-template.js";
import type { TextSide } from "../../text/text-side.js";
import { scalesOf } from "../weights/kept-nvfp4.js";
import { draftsOf, tensorsOf } from "../weights/model-tensors.js";
import {
  bytesOf,
  type CopyNote,
  type CopyProgress,
  type CopySource,
  denseWidthOf,
  interleaved,
  isRotated,
  type ModelTensor,
  numSharedExperts,
  prepared,
  type Storage,
} from "../weights/tensors.js";
import { layersWithExperts, windowPattern } from "./layer-keys.js";
import { notesOf } from "./notes.js";
import { notesOfMamba, recurrentLayers } from "./recurrent-keys.js";
import { tokenizerMetadata } from "./tokenizer.js";

type Metadata = Record<string, WritableValue>;

const LIST_TYPES = new Map<unknown, Parameters<typeof arr>[0]>([
  [Int8Array, "i8"],
  [Uint8Array, "u8"],
  [Int16Array, "i16"],
  [Uint16Array, "u16"],
  [Int32Array, "i32"],
  [Uint32Array, "u32"],
  [BigInt64Array, "i64"],
  [BigUint64Array, "u64"],
  [Float32Array, "f32"],
  [Float64Array, "f64"],
]);

/**
 * @yields after each piece of a tensor
 * @throws architecture_unsupported and tokenizer_unsupported, if GGUF cannot express the model
 */
export function* writeFile(
  file: string,
  { path, model, text }: CopySource,
  storage: Storage,
  { onWritten, onNote, log }: CopyProgress,
): Generator<void> {
  const { config } = model;
  const source = model.tensors();
  const architecture = architectureOf(config);
  for (const note of [...notesOf(architecture, config), ...notesOfMamba(config, source)])
    onNote({ text: note, isAboutTokens: false });
  // Quantised copies have other weights, so they leave out the drafting layers.
  const drafts = storage.plain === undefined ? undefined : draftsOf(model);
  const writables = (all: readonly ModelTensor[], from: TensorSource) =>
    all.flatMap((tensor) => writable(tensor, config, architecture, from, storage));
  const tensors = [
    ...writables(tensorsOf(config, source), source),
    ...(drafts === undefined ? [] : writables(drafts.tensors, drafts.source)),
  ];
  const numDrafts = drafts === undefined ? 0 : config.draftLayers!.length;
  const metadata = {
    ...modelMetadata(config, architecture, source, numDrafts),
    "general.file_type": u32(storage.fileType),
    ...(text === undefined ? {} : textMetadata(path, text, config, onNote)),
  };
  yield* writePieces(file, { metadata, tensors }, onWritten, log);
}

function architectureOf({ architecture, layers }: ServableModel): Architecture {
  const isPlain = layers.every(
    ({ mixer, feedForward }) =>
      mixer.kind === "attention" && mixer.window === 0 && mixer.rope !== NO_ROPE && feedForward.kind === "dense",
  );
  return (isPlain && factsOf(architecture).plainInFiles) || architecture;
}

function writable(
  tensor: ModelTensor,
  config: ServableModel,
  architecture: Architecture,
  source: TensorSource,
  storage: Storage,
): readonly WritableTensor[] {
  const [rows, cols] = tensor.shape;
  const headDim = attentionMixers(config)[0]?.headDim ?? 0;
  if (config.isNeoxRope && factsOf(architecture).isLatent) {
    throw unservedVariant("expected latent attention whose rotated pairs lie side by side, got pairs of halves");
  }
  const movesPairs = config.isNeoxRope && !factsOf(architecture).isNeoxInFiles && isRotated(tensor.name);
  if (movesPairs && config.ropes[0]!.dim !== headDim) {
    throw unservedVariant(`expected a rope over all ${headDim} values of a head, got one over ${config.ropes[0]!.dim}`);
  }
  const stored: ModelTensor = movesPairs ? { ...tensor, order: interleaved(headDim) } : tensor;
  // Routers and gates of shared experts also stay F32, as in llama.cpp.
  const isSmall = cols === undefined || /\.ffn_gate_inp(_shexp)?\.weight$/.test(tensor.name);
  const storedType = isSmall ? ("F32" as const) : storage.typeOf(tensor);
  const { stack, count = 1 } = tensor;
  const shape =
    cols === undefined
      ? tensor.count === undefined
        ? [rows]
        : [rows, count]
      : stack === undefined
        ? [cols, rows]
        : [cols, rows / stack.count, stack.count];
  const name = ggufNameOf(tensor.name, architecture) ?? tensor.name;
  const data = () => prepared(storage.preparation, tensor.name, () => bytesOf(source, stored, storedType, storage));
  const written: WritableTensor = { name, type: storedType, shape, data };
  const scales = storedType === "NVFP4" ? scalesOf(source, tensor) : undefined;
  if (scales === undefined || scales.every((scale) => scale === 1)) return [written];
  const scale = name.replace(/\.weight$/, ".scale");
  return [written, { name: scale, type: "F32", shape: [scales.length], data: () => [new Uint8Array(scales.buffer)] }];
}

function modelMetadata(
  config: ServableModel,
  architecture: Architecture,
  source: TensorSource,
  numDrafts: number,
): Metadata {
  const experts = expertsOf(config);
  const [rope] = config.ropes;
  const { windows, hasFactors, hasLogitScale, mayBeSequential } = factsOf(architecture);
  const poolingType = config.pooling && POOLING_CODES[config.pooling];
  const own: Metadata = {
    vocab_size: u32(config.vocabSize),
    context_length: u32(config.contextLength),
    embedding_length: u32(config.width),
    block_count: u32(config.layers.length + numDrafts),
    ...(numDrafts === 0 ? {} : { [DRAFT_BLOCKS]: u32(numDrafts) }),
    feed_forward_length: numberOrList(densePartWidths(config)),
    ...headsMetadata(config),
    [epsKeyOf(architecture)]: f32(config.rmsEps),
    ...(experts && expertsMetadata(config, architecture, experts)),
    ...windowsMetadata(config, architecture),
    ...(windows?.hasOwnHeads && ownHeads(config)),
    ...recurrentLayers(config, architecture, numDrafts),
    ...(rope && ropeMetadata(config, rope, source.has("rope_factors_long.weight"))),
    ...(mayBeSequential && { [PARALLEL_KEY]: bool(config.parallel !== undefined) }),
    ...(hasFactors && {
      "attention.scale": f32(config.attentionScale),
      embedding_scale: f32(config.embeddingScale),
      residual_scale: f32(config.residualScale),
    }),
    ...((hasFactors || hasLogitScale) && { logit_scale: f32(hasFactors ? 1 / config.logitScale : config.logitScale) }),
    // Without these keys readers assume a bound: reading the copy back refuses a model without one.
    ...(config.attentionCap > 0 && { attn_logit_softcapping: f32(config.attentionCap) }),
    ...(config.logitCap > 0 && { final_logit_softcapping: f32(config.logitCap) }),
    ...(config.queryScaling && {
      "attention.temperature_scale": f32(config.queryScaling.beta),
      [factsOf(architecture).isLatent ? "attention.temperature_length" : "rope.scaling.original_context_length"]: u32(
        config.queryScaling.length,
      ),
    }),
    ...(poolingType !== undefined && { pooling_type: u32(poolingType) }),
  };
  return {
    "general.architecture": str(architecture),
    "general.name": str(config.name),
    ...Object.fromEntries(Object.entries(own).map(([key, value]) => [`${architecture}.${key}`, value])),
  };
}

function expertsMetadata(config: ServableModel, architecture: Architecture, experts: ExpertsFeedForward): Metadata {
  const { normalises, scoring, scale, numGroups, numUsedGroups } = config.routing;
  const { isOnePart, experts: facts } = factsOf(architecture);
  const isWeighed = scoring === "sigmoid" || facts?.weighedBy === "either";
  return {
    ...(!isOnePart && layersWithExperts(config)),
    expert_count: u32(experts.count),
    expert_used_count: u32(experts.active),
    expert_feed_forward_length: u32(experts.width),
    ...((isWeighed || normalises !== normalisesInFiles(facts)) && { expert_weights_norm: bool(normalises) }),
    ...(isWeighed && {
      expert_gating_func: u32(scoring === "sigmoid" ? 2 : 1),
      expert_weights_scale: f32(scale),
      expert_group_count: u32(numGroups),
      expert_group_used_count: u32(numUsedGroups),
    }),
    ...sharedMetadata(config, experts),
  };
}

/**
 * The window's keys. If layers of the windowed kind have no window, or silent files imply one, it equals the context.
 */
function windowsMetadata(config: ServableModel, architecture: Architecture): Metadata {
  const isStated = localLayers(config).includes(true) || factsOf(architecture).windows?.widthInFiles !== undefined;
  if (!isStated) return {};
  const window = Math.max(...attentionMixers(config).map((each) => each.window));
  const pattern = windowPattern(config);
  return {
    "attention.sliding_window": u32(window || config.contextLength),
    ...(pattern && { [WINDOW_PATTERN]: pattern }),
  };
}

function ropeMetadata(config: ServableModel, rope: RopeConfig, hasLongFactors: boolean): Metadata {
  const { dim, base, scaling, factor, attentionFactor, originalContextLength, betaFast, betaSlow } = rope;
  const [, local] = config.ropes;
  const latent = firstMixer(config, "latent");
  const stretch = Math.log(factor);
  // The factors of a long rope are tensors. llama.cpp would also divide positions by a stated factor, so the file
  // states none.
  return {
    "rope.dimension_count": u32(dim),
    "rope.freq_base": f32(base),
    ...(local && { "rope.freq_base_swa": f32(local.base) }),
    ...((scaling === "linear" || scaling === "yarn") && {
      "rope.scaling.type": str(scaling),
      "rope.scaling.factor": f32(factor),
    }),
    ...((scaling !== "none" || hasLongFactors) && {
      "rope.scaling.original_context_length": u32(originalContextLength),
      "rope.scaling.attn_factor": f32(latent ? attentionFactor * (1 + 0.1 * stretch) : attentionFactor),
    }),
    ...(scaling === "yarn" && {
      "rope.scaling.yarn_beta_fast": f32(betaFast),
      "rope.scaling.yarn_beta_slow": f32(betaSlow),
      ...(latent && { "rope.scaling.yarn_log_multiplier": f32(logMultiplierOf(config, latent, stretch)) }),
    }),
  };
}

/** A factor of 1 has no magnitude, whatever the multiplier. */
function logMultiplierOf(config: ServableModel, { headDim, ropeDim }: LatentMixer, stretch: number): number {
  const magnitude = Math.sqrt(config.attentionScale * Math.sqrt(headDim + ropeDim));
  return stretch === 0 ? 0 : (magnitude - 1) / stretch;
}

/** Size of the part that every token passes, in the architecture's keys. */
function sharedMetadata({ architecture, routing }: ServableModel, experts: ExpertsFeedForward): Metadata {
  const { sharedSize, areBesideDense } = factsOf(architecture).experts!;
  const width = { expert_shared_feed_forward_length: u32(experts.sharedWidth) };
  if (sharedSize === "width") return width;
  if (experts.sharedWidth === 0 || areBesideDense) return {};
  const count = { expert_shared_count: u32(sharedSize === "one" ? 1 : numSharedExperts(experts)) };
  return sharedSize === "one" || routing.scoring === "softmax" ? { ...count, ...width } : count;
}

function headsMetadata(config: ServableModel): Metadata {
  const latent = firstMixer(config, "latent");
  if (latent === undefined) {
    const mixers = attentionMixers(config);
    const mixer = mixers.find(({ rope }) => rope !== 1) ?? mixers[0]!;
    return {
      "attention.head_count": u32(mixer.numHeads),
      "attention.head_count_kv": u32(mixer.numKvHeads),
      "attention.key_length": u32(mixer.headDim),
      "attention.value_length": u32(mixer.valueDim),
    };
  }
  const { numHeads, headDim, valueDim, kvRank, ropeDim, queryRank } = latent;
  return {
    "attention.head_count": u32(numHeads),
    "attention.head_count_kv": u32(1),
    "attention.key_length": u32(kvRank + ropeDim),
    "attention.value_length": u32(kvRank),
    "attention.key_length_mla": u32(headDim + ropeDim),
    "attention.value_length_mla": u32(valueDim),
    "attention.kv_lora_rank": u32(kvRank),
    ...(queryRank === 0 ? {} : { "attention.q_lora_rank": u32(queryRank) }),
  };
}

const numberOrList = (values: readonly number[]): WritableValue =>
  values.every((value) => value === values[0]) ? u32(values[0]!) : arr("i32", values);

/**
 * Width of each layer's dense part, or of its experts if it has no dense part.
 * @throws architecture_unsupported, if they differ, and llama.cpp's files of the architecture have a single width
 */
function densePartWidths(config: ServableModel): readonly number[] {
  const { architecture, layers, hasDenseBesideExperts } = config;
  if (factsOf(architecture).windows?.hasOwnHeads) {
    return layers.map(({ feedForward }) =>
      feedForward.kind === "experts" && hasDenseBesideExperts ? feedForward.sharedWidth : feedForward.width,
    );
  }
  return [denseWidthOf(config) ?? expertsOf(config)!.width];
}

/** Heads of the layers with a window, where these have their own. */
function ownHeads(config: ServableModel): Metadata {
  const { ropes, layerInputWidth = 0 } = config;
  const mixers = attentionMixers(config);
  const local = mixers.find(({ rope }) => rope === 1) ?? mixers[0]!;
  return {
    "attention.head_count_kv": numberOrList(mixers.map(({ numKvHeads }) => numKvHeads)),
    "attention.key_length_swa": u32(local.headDim),
    "attention.value_length_swa": u32(local.valueDim),
    "rope.dimension_count_swa": u32(ropes[1]?.dim ?? local.headDim),
    [WINDOW_PATTERN]: arr(
      "bool",
      mixers.map(({ rope }) => rope === 1),
    ),
    "attention.shared_kv_layers": u32(mixers.filter(({ keysOf }) => keysOf !== undefined).length),
    embedding_length_per_layer_input: u32(layerInputWidth),
  };
}

function samplingMetadata(sampling: SamplingDefaults): Metadata {
  return Object.fromEntries(
    SAMPLING_FIELDS.flatMap((field) => {
      const [key, value] = [GGUF_SAMPLING_KEYS[field], sampling[field]];
      return key === undefined || value === undefined ? [] : [[key, f32(value)]];
    }),
  );
}

function textMetadata(
  path: string,
  { tokenizer, readSampling }: Pick<TextSide, "tokenizer" | "readSampling">,
  { architecture }: ServableModel,
  onNote: (note: CopyNote) => void,
): Metadata {
  const sampling = samplingMetadata(readSampling());
  if (!isHfFolder(path)) return { ...fileText(readGguf(path).metadata), ...sampling };
  const { metadata, notes } = tokenizerMetadata(path, tokenizer, architecture);
  for (const each of notes) onNote({ text: each, isAboutTokens: true });
  const { source, toolSource } = readHfTemplateSource(path);
  if (source !== undefined) metadata["tokenizer.chat_template"] = str(source);
  if (toolSource !== undefined) metadata["tokenizer.chat_template.tool_use"] = str(toolSource);
  return { ...metadata, ...sampling };
}

/** Copies the tokenizer's keys of another file. */
function fileText(metadata: GgufMetadata): Metadata {
  const own = [...metadata.keys()].filter((key) => key.startsWith("tokenizer."));
  return Object.fromEntries(own.map((key) => [key, writtenAgain(key, metadata.get(key)!)]));
}

function writtenAgain(key: string, value: GgufValue): WritableValue {
  if (typeof value === "string") return str(value);
  if (typeof value === "boolean") return bool(value);
  if (typeof value === "bigint") return value < 0n ? i64(value) : u64(value);
  if (typeof value === "number") return numberAgain(value);
  const type = LIST_TYPES.get(value.constructor);
  if (type !== undefined) return arr(type, value as ArrayLike<number | bigint>);
  const first = (value as readonly unknown[])[0];
  // An empty list does not show the type of its elements.
  if (first === undefined || typeof first === "string") return arr("string", value as readonly string[]);
  if (typeof first === "boolean") return arr("bool", value as readonly boolean[]);
  throw unservedVariant(`expected ${key} to be a text, a number or a list of these, got a list of lists`);
}

/** Keeps the value, and its type if only one of these types can hold the value. */
function numberAgain(value: number): WritableValue {
  if (Number.isInteger(value) && value >= 0 && value < 2 ** 32) return u32(value);
  if (Number.isInteger(value) && value < 0 && value >= -(2 ** 31)) return i32(value);
  return Object.is(Math.fround(value), value) ? f32(value) : f64(value);
}
