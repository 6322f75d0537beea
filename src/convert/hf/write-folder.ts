/** Writes a model as a Hugging Face folder: config, weights, tokenizer, chat template, sampling defaults. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TensorSource } from "../../backend/tensor-source.js";
import { parseJsonObject, readTextFile } from "../../formats/files/json.js";
import type { PlainType } from "../../formats/files/plain-values.js";
import { readGguf } from "../../formats/gguf/read.js";
import { CONFIG_NAME, isHfFolder } from "../../formats/hf/folder.js";
import { SINGLE_NAME } from "../../formats/safetensors/read.js";
import { writeSafetensors } from "../../formats/safetensors/write.js";
import { GENERATION_CONFIG_NAME, type SamplingDefaults } from "../../formats/sampling-defaults.js";
import { unservedVariant } from "../../model/description/servable.js";
import { hfNameOf, isOffsetNorm } from "../../model/hf/names.js";
import type { OpenModel } from "../../model/open-model.js";
import { MAX_TOKENIZER_BYTES } from "../../text/hf/create-tokenizer.js";
import type { TextSide } from "../../text/text-side.js";
import {
  bytesOf,
  type CopySource,
  halved,
  isRotated,
  type ModelTensor,
  ROPE_FACTORS,
  tensorsOf,
  unstackedTensors,
  type ValueSource,
} from "../weights/tensors.js";
import { hfConfigOf } from "./config.js";
import { configJson } from "./config-json.js";
import { splitStacked, stackedTensor } from "./stacked-experts.js";
import { tokenizerFiles } from "./tokenizer.js";

const PREFIXES = { model: "model.", head: "" };

/** Text files that a folder may have, copied where the model is one already. */
const TEXT_FILES = [
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "chat_template.jinja",
  "chat_template.json",
  GENERATION_CONFIG_NAME,
];

/**
 * @param folder created
 * @yields after each piece of a tensor
 * @throws architecture_unsupported and tokenizer_unsupported, where a folder cannot say how the model works
 */
export function* writeFolder(
  folder: string,
  { path, model, text }: CopySource,
  type: PlainType,
  onWritten: (numBytes: number, total: number) => void,
): Generator<void> {
  const source = model.tensors();
  const config = hfConfigOf(model.config, source, type, text?.tokenizer);
  const files = text === undefined ? [] : textFiles(path, text);
  const tensors = storedTensors(model, source, type);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, CONFIG_NAME), configJson(config));
  for (const [name, content] of files) writeFileSync(join(folder, name), content);
  yield* writeSafetensors(join(folder, SINGLE_NAME), tensors, onWritten);
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

/** Vectors stay F32, which keeps norms and biases exact; engines cast them to their own type. */
function storedTensors(model: OpenModel, source: TensorSource, type: PlainType) {
  const { config } = model;
  // llama.cpp's llama files have the rope's pairs side by side; transformers has them half a head apart.
  const order = config.isNeoxRope ? undefined : halved(config.layers[0]!.mixer.headDim);
  if (order !== undefined && config.ropes[0]!.dim !== order.headDim) {
    throw unservedVariant(
      `expected a rope over all ${order.headDim} values of a head, got one over ${config.ropes[0]!.dim}`,
    );
  }
  const tensors = tensorsOf(config, source).filter(({ name }) => !ROPE_FACTORS.some((factors) => factors === name));
  const { stacked, others } = splitStacked(tensors, config.architecture, PREFIXES.model);
  const single = others.flatMap(unstackedTensors).map((tensor) => {
    const name = hfNameOf(tensor.ownName, config.architecture, PREFIXES);
    if (name === undefined) throw unservedVariant(`expected tensors of ${config.architecture}, got ${tensor.name}`);
    const stored: ModelTensor = order !== undefined && isRotated(tensor.name) ? { ...tensor, order } : tensor;
    const isVector = tensor.shape.length === 1;
    const values = isOffsetNorm(tensor.name, config.architecture) ? distanceFromOne(source) : source;
    const storedType = isVector ? ("F32" as const) : type;
    return { name, type: storedType, shape: tensor.shape, bytes: () => bytesOf(values, stored, storedType) };
  });
  return [...single, ...stacked.map((parts) => stackedTensor(source, parts, type))];
}

const distanceFromOne = (source: TensorSource): ValueSource => ({
  matrix: (spec) => source.matrix(spec),
  values: (name, length, count) => source.values(name, length, count).map((value) => value - 1),
});
