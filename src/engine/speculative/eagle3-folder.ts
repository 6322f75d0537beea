/**
 * Folders of EAGLE-3 heads as the hub has them (arXiv 2503.01840; architecture LlamaForCausalLMEagle3): a config.json
 * beside safetensors files, checked against the model they draft for.
 */

import { existsSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import type { MatrixRows, MatrixSpec, TensorSource } from "../../backend/tensor-source.js";
import { configError, type JsonObject, readJsonFile } from "../../formats/files/json.js";
import { openFile, readExactly } from "../../formats/files/read-file.js";
import { CONFIG_NAME } from "../../formats/hf/folder.js";
import { readSafetensors, SINGLE_NAME } from "../../formats/safetensors/read.js";
import type { Dtype, SafetensorsFiles } from "../../formats/safetensors/types.js";
import { MODEL_LIMITS } from "../../model/description/model-description.js";
import type { ServableModel } from "../../model/description/servable.js";
import { ConfigReader } from "../../model/hf/config-reader.js";
import { tensorError } from "../../model/hf/plain-tensor.js";
import type { RopeFactors } from "../../model/hf/rope.js";
import { servableConfig } from "../../model/hf/servable.js";
import { columnPart } from "./column-part.js";
import { HeadTensors, numTensorBytes } from "./head-tensors.js";
import { FITS_ONE_MODEL, refused } from "./refused-heads.js";

const ARCHITECTURE = "LlamaForCausalLMEagle3";
/** Layers of the model whose inputs are fused. */
const MAX_FUSED = 8;

export interface Eagle3Folder {
  /** The head's one layer, and the model's vocabulary. */
  readonly config: ServableModel;
  readonly ropeFactors: RopeFactors;
  /** Layers of the model, from 0 on, whose inputs are fused. */
  readonly inputLayers: readonly number[];
  /** The layer adds to the normed state; otherwise to the state itself. */
  readonly addsToNormed: boolean;
  /** Tokens that the rows of the output matrix stand for; undefined: all of the vocabulary. */
  readonly outputTokens: Int32Array | undefined;
  /** Names as in `PARTS`, and `fc.0`, `fc.1`, … for the parts of the fusion by layer. */
  readonly tensors: TensorSource;
  readonly numBytes: number;
}

export function isEagle3Folder(path: string): boolean {
  const configPath = join(path, CONFIG_NAME);
  if (!existsSync(configPath)) return false;
  return readJsonFile(configPath).strings("architectures")?.includes(ARCHITECTURE) === true;
}

/**
 * @param method the wanted kind
 * @param target the model to draft for
 * @throws invalid_option unless the folder is an EAGLE-3 head for that model; model_config, model_tensor and the errors
 * of safetensors files for damaged ones
 */
export function readEagle3(path: string, method: string, target: ServableModel): Eagle3Folder {
  if (!isEagle3Folder(path)) {
    throw refused(`a folder with ${ARCHITECTURE} among the architectures of its ${CONFIG_NAME}`, path, {
      hint: "Heads in GGUF files are for method heads.",
    });
  }
  if (method === "medusa" || method === "eagle") {
    throw refused(`heads of kind ${method}`, "eagle3", { hint: 'Method "heads" takes any kind.' });
  }
  if (!existsSync(join(path, SINGLE_NAME)) && existsSync(join(path, "pytorch_model.bin"))) {
    throw refused(`${SINGLE_NAME} in ${path}`, "pytorch_model.bin", {
      hint: "Convert it with safetensors' own tools, or take a version of the head that has safetensors.",
    });
  }
  const stated = readJsonFile(join(path, CONFIG_NAME));
  const files = readSafetensors(path);
  const config = readConfig(stated, basename(resolve(path)), target, files);
  const { inputLayers, addsToNormed, draftVocabSize, model, ropeFactors } = config;
  if (!files.tensors.has("embed_tokens.weight") && model.width !== target.width) {
    throw refused(`a head of width ${target.width} or with embed_tokens`, `width ${model.width} without`, {
      hint: FITS_ONE_MODEL,
    });
  }
  return {
    config: model,
    ropeFactors,
    inputLayers,
    addsToNormed,
    outputTokens: readOutputTokens(files, draftVocabSize, target.vocabSize),
    tensors: new Eagle3Source(files, { width: model.width, targetWidth: target.width, numFused: inputLayers.length }),
    numBytes: numTensorBytes(files),
  };
}

function readConfig(stated: JsonObject, name: string, target: ServableModel, files: SafetensorsFiles) {
  const read = new ConfigReader(stated);
  const numLayers = read.size("num_hidden_layers", MODEL_LIMITS.layers, 1);
  if (numLayers !== 1) throw configError(`expected ${stated.nameOf("num_hidden_layers")} to be 1, got ${numLayers}`);
  const vocabSize = read.size("vocab_size", MODEL_LIMITS.vocab);
  if (vocabSize !== target.vocabSize) {
    throw refused(`a head for a vocabulary of ${target.vocabSize} tokens`, `${vocabSize}`, { hint: FITS_ONE_MODEL });
  }
  const targetWidth = read.size("target_hidden_size", MODEL_LIMITS.width, target.width);
  if (targetWidth !== target.width) {
    throw refused(`a head for a model of width ${target.width}`, `${targetWidth}`, { hint: FITS_ONE_MODEL });
  }
  const own = stated.object("eagle_config");
  for (const key of ["norm_before_fc", "fc_norm"]) {
    const place = own?.has(key) === true ? own : stated;
    if (place.boolean(key) === true) throw configError(`expected no ${place.nameOf(key)}, which is not computed`);
  }
  const hasOutput = files.tensors.has("lm_head.weight");
  const whole = stated.withDefaults({ model_type: "llama", num_hidden_layers: 1 });
  const { model, ropeFactors } = servableConfig(whole, name, { numEmbeddings: vocabSize, hasOutput: true });
  const draftVocabSize = read.size("draft_vocab_size", vocabSize, vocabSize);
  if (!hasOutput && draftVocabSize !== vocabSize) {
    throw tensorError(`expected lm_head.weight of shape [${draftVocabSize},${model.width}], got none`);
  }
  return {
    model,
    ropeFactors,
    inputLayers: inputLayersOf(own?.has(LAYERS_KEY) === true ? own : stated, target.layers.length),
    addsToNormed: own?.boolean("norm_before_residual") ?? stated.boolean("norm_before_residual") ?? false,
    draftVocabSize,
  };
}

const LAYERS_KEY = "eagle_aux_hidden_state_layer_ids";

/**
 * Where the file does not say: the third layer, the middle one, and the third from the end, as EAGLE's own code has it.
 */
function inputLayersOf(place: JsonObject, numLayers: number): readonly number[] {
  const layers = place.numbers(LAYERS_KEY) ?? [2, Math.floor(numLayers / 2), numLayers - 3];
  const isLayer = (layer: number) => Number.isInteger(layer) && layer >= 0 && layer < numLayers;
  if (layers.length >= 1 && layers.length <= MAX_FUSED && layers.every(isLayer)) return layers;
  throw refused(
    `${place.nameOf(LAYERS_KEY)} to be up to ${MAX_FUSED} layers below the model's ${numLayers}`,
    `[${layers.slice(0, MAX_FUSED + 1)}]`,
    { hint: FITS_ONE_MODEL },
  );
}

/**
 * Reads the head's vocabulary. d2t: the model's token id of each row, less the row's number. t2d: for each of the
 * model's tokens, whether the head has it.
 */
function readOutputTokens(files: SafetensorsFiles, count: number, vocabSize: number): Int32Array | undefined {
  const distances = readIntegers(files, "d2t", count);
  if (distances === undefined) {
    if (count === vocabSize) return undefined;
    throw tensorError(`expected a tensor d2t of shape [${count}], got none`);
  }
  const tokens = Int32Array.from(distances, (distance, index) => index + distance);
  const outside = tokens.find((token) => token < 0 || token >= vocabSize);
  if (outside !== undefined) throw tensorError(`expected d2t to lead to tokens in [0, ${vocabSize}), got ${outside}`);
  if (new Set(tokens).size !== count) throw tensorError("expected d2t to lead to each token once, got some twice");
  const known = readIntegers(files, "t2d", vocabSize);
  const stray = known && tokens.find((token) => known[token] === 0);
  if (stray !== undefined) throw tensorError(`expected t2d to be true for the tokens of d2t, got false for ${stray}`);
  return tokens;
}

const INTEGERS: Partial<Record<Dtype, (bytes: Buffer) => ArrayLike<number>>> = {
  BOOL: (bytes) => bytes,
  U8: (bytes) => bytes,
  I32: (bytes) => Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readInt32LE(4 * i)),
  I64: (bytes) => Array.from({ length: bytes.length / 8 }, (_, i) => Number(bytes.readBigInt64LE(8 * i))),
};

function readIntegers({ tensors, shards }: SafetensorsFiles, name: string, length: number) {
  const tensor = tensors.get(name);
  if (tensor === undefined) return undefined;
  const read = INTEGERS[tensor.dtype];
  if (read === undefined || tensor.shape.length !== 1 || tensor.shape[0] !== length) {
    const known = Object.keys(INTEGERS).join(", ");
    throw tensorError(
      `expected ${name} of shape [${length}] and of ${known}, got [${tensor.shape}] of ${tensor.dtype}`,
    );
  }
  using file = openFile(shards[tensor.shard]!.path);
  return Array.from(read(readExactly(file, tensor.byteOffset, tensor.byteLength)));
}

/** Stored names by ours; # stands for the layer's prefix. */
const PARTS: Readonly<Record<string, string>> = {
  token_embd: "embed_tokens",
  embd_norm: "#input_layernorm",
  attn_norm: "#hidden_norm",
  attn_q: "#self_attn.q_proj",
  attn_k: "#self_attn.k_proj",
  attn_v: "#self_attn.v_proj",
  attn_output: "#self_attn.o_proj",
  ffn_norm: "#post_attention_layernorm",
  ffn_gate: "#mlp.gate_proj",
  ffn_up: "#mlp.up_proj",
  ffn_down: "#mlp.down_proj",
  output_norm: "norm",
  output: "lm_head",
};
const LAYER_PREFIXES = ["midlayer.", "layers.0."] as const;
/** Tensors that the layer does not use: tables read above, and numbers that config.json states too. */
const OTHERS = /^(?:d2t|t2d)$|rotary_emb\.inv_freq$/;

interface Widths {
  readonly width: number;
  readonly targetWidth: number;
  readonly numFused: number;
}

/** A stored tensor, and the columns that a name stands for where it is a part of a matrix. */
interface StoredPart {
  readonly stored: string;
  readonly firstCol: number;
  /** undefined: the name stands for all columns */
  readonly totalCols: number | undefined;
}

function partOf(name: string, prefix: string, { width, targetWidth, numFused }: Widths): StoredPart {
  const [, base = "", kind = ""] = /^(.*)\.(weight|bias)$/.exec(name)!;
  const fused = /^fc\.(\d+)$/.exec(base)?.[1];
  if (fused !== undefined) {
    return { stored: `fc.${kind}`, firstCol: Number(fused) * targetWidth, totalCols: numFused * targetWidth };
  }
  const [, both] = /^(attn_[qkv])(?:_embd)?$/.exec(base) ?? [];
  const stored = `${PARTS[both ?? base]!.replace("#", prefix)}.${kind}`;
  if (both === undefined) return { stored, firstCol: 0, totalCols: undefined };
  return { stored, firstCol: both === base ? width : 0, totalCols: 2 * width };
}

/**
 * The tensors under the names of `PARTS`. A matrix that reads two inputs side by side appears as two: `attn_q` reads
 * the state, `attn_q_embd` the token's embedding.
 */
class Eagle3Source extends HeadTensors {
  readonly #partOf: (name: string) => StoredPart;

  constructor(files: SafetensorsFiles, widths: Widths) {
    const hasLayer = (prefix: string) => files.tensors.has(`${prefix}hidden_norm.weight`);
    const prefix = LAYER_PREFIXES.find(hasLayer) ?? LAYER_PREFIXES[0];
    super(files, (name) => partOf(name, prefix, widths).stored, OTHERS);
    this.#partOf = (name) => partOf(name, prefix, widths);
  }

  override has(name: string): boolean {
    // A bias is added once, with one of the parts.
    return super.has(name) && !/(?:_embd|^fc\.[1-9]\d*)\.bias$/.test(name);
  }

  override matrix(spec: MatrixSpec): MatrixRows {
    const { name, cols } = spec;
    const { firstCol, totalCols = cols } = this.#partOf(name);
    if (cols === totalCols) return super.matrix(spec);
    const whole = super.matrix({ ...spec, cols: totalCols });
    return columnPart(whole, { rows: spec.rows, totalCols, firstCol, cols });
  }
}
