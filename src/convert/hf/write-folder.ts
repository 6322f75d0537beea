/** Writes a model as a Hugging Face folder: config, weights, tokenizer, chat template, sampling defaults. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { TensorSource } from "../../backend/tensor-source.js";
import { parseJsonObject, readTextFile } from "../../formats/files/json.js";
import { readGguf } from "../../formats/gguf/read.js";
import { CONFIG_NAME, isHfFolder, TOOL_TEMPLATE_NAME } from "../../formats/hf/folder.js";
import { SINGLE_NAME } from "../../formats/safetensors/read.js";
import { type WritableTensor, writeSafetensors } from "../../formats/safetensors/write.js";
import { GENERATION_CONFIG_NAME, type SamplingDefaults } from "../../formats/sampling-defaults.js";
import { type Architecture, factsOf } from "../../model/description/architectures.js";
import { attentionMixers, unservedVariant } from "../../model/description/servable.js";
import { hfNameOf, isNegativeLog, isOffsetNorm, isOneRow } from "../../model/hf/names.js";
import type { OpenModel } from "../../model/open-model.js";
import { MAX_TOKENIZER_BYTES } from "../../text/hf/create-tokenizer.js";
import type { TextSide } from "../../text/text-side.js";
import { draftsOf, tensorsOf } from "../weights/model-tensors.js";
import {
  bytesOf,
  type CopyProgress,
  type CopySource,
  type FolderStorage,
  halved,
  isRotated,
  type LayerStorage,
  type ModelTensor,
  type Preparation,
  prepared,
  ROPE_FACTORS,
  type UnstackedTensor,
  unstackedTensors,
  type ValueSource,
} from "../weights/tensors.js";
import { draftingJson, hfConfigOf, writtenArchitecture } from "./config.js";
import { configJson } from "./config-json.js";
import { joinedTensor, splitJoined, splitStacked, stackedTensor } from "./stacked-experts.js";
import { tokenizerFiles } from "./tokenizer.js";

const PREFIXES = { model: "model.", head: "" };

/** Text files that a folder may have, copied if the model is a folder already. */
export const TEXT_FILES = [
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "chat_template.jinja",
  "chat_template.json",
  TOOL_TEMPLATE_NAME,
  GENERATION_CONFIG_NAME,
];

/**
 * @param folder to create
 * @yields after each piece of a tensor
 * @throws architecture_unsupported and tokenizer_unsupported, if a folder cannot express the model
 */
export function* writeFolder(
  folder: string,
  { path, model, text }: CopySource,
  storage: FolderStorage,
  { onWritten, log }: Pick<CopyProgress, "onWritten" | "log">,
): Generator<void> {
  const source = model.tensors();
  // Quantised copies have other weights, so they leave out the drafting layers.
  const drafts = storage.layers === undefined ? draftsOf(model) : undefined;
  const numDrafts = drafts === undefined ? 0 : model.config.draftLayers!.length;
  const plainConfig = {
    ...hfConfigOf(model.config, source, storage.plain, text?.tokenizer),
    ...draftingJson(model.config, numDrafts),
  };
  const files = text === undefined ? [] : textFiles(path, text);
  const { tensors, plainLayers } = storedTensors(model, source, storage, drafts);
  const { layers } = storage;
  const config =
    layers === undefined ? plainConfig : { ...plainConfig, quantization_config: layers.configOf(plainLayers) };
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, CONFIG_NAME), configJson(config));
  for (const [name, content] of files) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  for (const [name, json] of Object.entries(layers?.filesOf?.(plainLayers) ?? {}))
    writeFileSync(join(folder, name), jsonOf(json));
  yield* writeSafetensors(join(folder, SINGLE_NAME), tensors, onWritten, log);
}

/** Name and content of each file of the model's text side. */
function textFiles(
  path: string,
  { tokenizer, readSampling }: Pick<TextSide, "tokenizer" | "readSampling">,
): readonly (readonly [name: string, content: string])[] {
  if (isHfFolder(path)) {
    const present = TEXT_FILES.filter((name) => existsSync(join(path, name)));
    return present.map((name) => [name, readText(join(path, name))]);
  }
  const made = tokenizerFiles(readGguf(path).metadata, tokenizer);
  const sampling = generationConfig(readSampling(), tokenizer.stopIds);
  return Object.entries({ ...made, [GENERATION_CONFIG_NAME]: sampling }).map(([name, json]) => [name, jsonOf(json)]);
}

/** A regular file of a bounded size; JSON where its name says so. */
function readText(path: string): string {
  const text = readTextFile(path, MAX_TOKENIZER_BYTES);
  if (path.endsWith(".json")) parseJsonObject(text, path);
  return text;
}

const jsonOf = (json: object): string => `${JSON.stringify(json, null, 2)}\n`;

function generationConfig(sampling: SamplingDefaults, stopIds: ReadonlySet<number>): object {
  const isStated = sampling.temperature !== undefined;
  return {
    ...sampling,
    ...(isStated ? { do_sample: sampling.temperature !== 0 } : {}),
    eos_token_id: [...stopIds].sort((a, b) => a - b),
  };
}

/**
 * Vectors stay F32, which keeps norms and biases exact; engines cast them to their own type.
 * @returns plainLayers: names of the linear layers whose matrices are stored plain
 */
function storedTensors(
  model: OpenModel,
  source: TensorSource,
  { plain, preparation, layers }: FolderStorage,
  drafts: ReturnType<typeof draftsOf>,
): { readonly tensors: readonly WritableTensor[]; readonly plainLayers: readonly string[] } {
  const { config } = model;
  const architecture = writtenArchitecture(config);
  // llama.cpp's llama files have the rope's pairs side by side; transformers has them half a head apart.
  const { isInterleavedInFolders = false } = factsOf(architecture);
  if (config.isNeoxRope && isInterleavedInFolders) {
    throw unservedVariant(`expected a ${architecture} whose rotated pairs lie side by side, got pairs of halves`);
  }
  const isKept = config.isNeoxRope || isInterleavedInFolders;
  const order = isKept ? undefined : halved(attentionMixers(config)[0]!.headDim);
  if (order !== undefined && config.ropes[0]!.dim !== order.headDim) {
    throw unservedVariant(
      `expected a rope over all ${order.headDim} values of a head, got one over ${config.ropes[0]!.dim}`,
    );
  }
  const all = tensorsOf(config, source).filter(({ name }) => !ROPE_FACTORS.some((factors) => factors === name));
  const isCoded = (tensor: ModelTensor): boolean => layers?.takes(tensor) === true;
  const { joined, others: apart } = splitJoined(
    all.filter((tensor) => !isCoded(tensor)),
    architecture,
    PREFIXES,
  );
  const { stacked, others } = splitStacked([...apart, ...all.filter(isCoded)], architecture, PREFIXES.model);
  if (layers !== undefined && stacked.length > 0) {
    throw unservedVariant(`expected experts with tensors of their own to quantise, got all of a layer in one`);
  }
  // transformers has an output layer even if it shares the embeddings.
  const plainLayers = ["lm_head"];
  const prefixes = { ...PREFIXES, firstDraft: config.layers.length };
  const stored = (tensor: UnstackedTensor, from: TensorSource): readonly WritableTensor[] => {
    const name = hfNameOf(tensor.ownName, architecture, prefixes);
    if (name === undefined) throw unservedVariant(`expected tensors of ${architecture}, got ${tensor.name}`);
    const ordered: ModelTensor = order !== undefined && isRotated(tensor.name) ? { ...tensor, order } : tensor;
    if (isCoded(tensor)) return layerTensors(name.replace(/\.weight$/, ""), from, ordered, layers!, preparation);
    const { shape, count } = tensor;
    const isVector = shape.length === 1;
    // A convolution's kernels have one input each: published checkpoints list it among the plain layers.
    const isKernel = count !== undefined;
    const isLinear = tensor.name.startsWith("blk.") || tensor.name.startsWith("per_layer_model_proj");
    if ((!isVector || isKernel) && isLinear) plainLayers.push(name.replace(/\.weight$/, ""));
    const values = storedValues(tensor.name, architecture, from);
    const storedType = isVector ? ("F32" as const) : plain;
    const bytes = () => prepared(preparation, tensor.name, () => bytesOf(values, ordered, storedType));
    const whole = isOneRow(tensor.name, config.architecture) ? [1, ...shape] : shape;
    return [{ name, type: storedType, shape: isKernel ? [count, 1, ...shape] : whole, bytes }];
  };
  const single = [
    ...others.flatMap(unstackedTensors).flatMap((tensor) => stored(tensor, source)),
    ...(drafts?.tensors ?? []).flatMap(unstackedTensors).flatMap((tensor) => stored(tensor, drafts!.source)),
  ];
  return {
    tensors: [
      ...single,
      ...joined.map((each) => joinedTensor(source, each, plain, preparation)),
      ...stacked.map((parts) => stackedTensor(source, parts, plain)),
    ],
    plainLayers,
  };
}

/** The parts of one matrix. The matrix is read and encoded for the first part, and dropped after the last part. */
function layerTensors(
  layer: string,
  source: TensorSource,
  tensor: ModelTensor,
  layers: LayerStorage,
  preparation: Preparation | undefined,
): readonly WritableTensor[] {
  const [rows, cols] = tensor.shape as readonly [number, number];
  const parts = layers.partsOf(rows, cols);
  let encoded: readonly Uint8Array[] = [];
  const bytesAt = function* (index: number): Generator<Uint8Array> {
    if (encoded.length === 0) encoded = layers.encode(source, tensor);
    yield encoded[index]!;
    if (index === parts.length - 1) encoded = [];
  };
  return parts.map(({ part, type, shape }, index) => ({
    name: `${layer}.${part}`,
    type,
    shape,
    bytes: () => prepared(preparation, tensor.name, () => bytesAt(index)),
  }));
}

/** A vector's values in the form of folders. */
function storedValues(tensor: string, architecture: Architecture, source: TensorSource): ValueSource {
  const changed = (change: (value: number) => number): ValueSource => ({
    matrix: (spec) => source.matrix(spec),
    values: (name, length, count) => source.values(name, length, count).map(change),
  });
  if (isNegativeLog(tensor)) return changed((value) => Math.log(-value));
  return isOffsetNorm(tensor, architecture) ? changed((value) => value - 1) : source;
}
