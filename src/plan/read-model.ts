/** The shape of a model from its own files: a GGUF header, a folder's config and tensor table, or the config of a repository of the hub. */
import { basename, resolve } from "node:path";
import { MillraceError } from "../core/errors.js";
import { configModelType, ggufArchitecture, refusalOf } from "../formats/architectures.js";
import { configError, type JsonObject } from "../formats/files/json.js";
import { readGguf } from "../formats/gguf/read.js";
import type { GgufFile } from "../formats/gguf/types.js";
import { isHfFolder, readHfFolder } from "../formats/hf/folder.js";
import { HUB_PREFIX } from "../formats/hub/spec.js";
import { fetchHubConfig, type ResolveOptions } from "../formats/hub.js";
import { DTYPE_BITS } from "../formats/safetensors/types.js";
import { findKnownModel, knownModel } from "./known-model.js";
import type { Experts, ModelShape, StoredWeights } from "./model-shape.js";

/** Gemma 3 lets every sixth layer see everything. */
const GEMMA_PERIOD = 6;

/** @param spec a known name, hf:org/repo, or the path of a .gguf file or a folder with config.json */
export async function readModelShape(spec: string, options: ResolveOptions = {}): Promise<ModelShape> {
  if (spec.startsWith(HUB_PREFIX)) {
    const repo = spec.slice(HUB_PREFIX.length);
    return (
      findKnownModel(repo) ??
      shapeFromConfig(await fetchHubConfig(spec, options), repo.split("/").at(-1)!, repo, undefined)
    );
  }
  if (/\.gguf$/i.test(spec)) return shapeFromGguf(readGguf(spec), spec);
  if (isHfFolder(spec)) return shapeFromFolder(spec);
  if (/[/\\]/.test(spec) && findKnownModel(spec) === undefined) {
    throw new MillraceError(
      "file_unreadable",
      `expected a .gguf file or a folder with config.json and weights at ${spec}, got neither`,
      {
        hint: `check the path; a model of the hub is written ${HUB_PREFIX}org/repo`,
      },
    );
  }
  return knownModel(spec);
}

/** The type with the most bytes names the file. */
function mostBytes(bytesByType: ReadonlyMap<string, number>): string {
  return [...bytesByType].toSorted((a, b) => b[1] - a[1])[0]?.[0] ?? "none";
}

function storedOf(
  tensors: Iterable<{ readonly type: string; readonly byteLength: number }>,
  embeddingBytes: number,
): StoredWeights {
  const byType = new Map<string, number>();
  let weightBytes = 0;
  for (const { type, byteLength } of tensors) {
    byType.set(type, (byType.get(type) ?? 0) + byteLength);
    weightBytes += byteLength;
  }
  return { label: mostBytes(byType), weightBytes, embeddingBytes };
}

function shapeFromGguf(gguf: GgufFile, path: string): ModelShape {
  const { metadata, tensors } = gguf;
  const arch = metadata.string("general.architecture") ?? "";
  const optional = (key: string): number | undefined => {
    const value = metadata.get(`${arch}.${key}`);
    if (!ArrayBuffer.isView(value) && !Array.isArray(value)) return metadata.number(`${arch}.${key}`);
    // Some files list a number per layer, with 0 where there is nothing of the kind: the most that any layer needs.
    return Math.max(...Array.from(metadata.numbers(`${arch}.${key}`) ?? []));
  };
  const needed = (key: string): number => {
    const value = optional(key);
    if (value !== undefined && value > 0) return value;
    throw new MillraceError("gguf_metadata", `expected a positive ${arch}.${key} in ${path}, got ${value ?? "none"}`, {
      hint: "the file is no language model, or was written by an incompatible converter",
    });
  };
  const embedding = tensors.get("token_embd.weight");
  const isTied = !tensors.has("output.weight");
  const [numLayers, width, numHeads] = [
    needed("block_count"),
    needed("embedding_length"),
    needed("attention.head_count"),
  ];
  const window = optional("attention.sliding_window");
  const count = optional("expert_count") ?? 0;
  return {
    name: basename(path).replace(/(-\d{5}-of-\d{5})?\.gguf$/i, ""),
    source: `header of ${basename(path)}`,
    location: path,
    numLayers,
    width,
    numHeads,
    numKvHeads: optional("attention.head_count_kv") === undefined ? numHeads : needed("attention.head_count_kv"),
    headDim: optional("attention.key_length") ?? width / numHeads,
    ffWidth: optional("feed_forward_length") ?? 0,
    vocabSize: embedding?.shape[1] ?? needed("vocab_size"),
    contextLength: needed("context_length"),
    isTied,
    experts: count > 0 ? ggufExperts(count, needed, optional) : undefined,
    window: arch === "gemma3" && window !== undefined ? windowOf(window, numLayers) : undefined,
    stored: storedOf(tensors.values(), isTied ? 0 : (embedding?.byteLength ?? 0)),
    embeddedRefusal: refusalOf(() => ggufArchitecture(metadata)),
    checkpoints: {},
  };
}

function ggufExperts(
  count: number,
  needed: (key: string) => number,
  optional: (key: string) => number | undefined,
): Experts {
  return {
    count,
    active: needed("expert_used_count"),
    width: optional("expert_feed_forward_length") ?? needed("feed_forward_length"),
    sharedWidth: optional("expert_shared_feed_forward_length") ?? 0,
    numDenseLayers: optional("leading_dense_block_count") ?? 0,
  };
}

const windowOf = (numTokens: number, numLayers: number) => ({
  numTokens,
  numLayers: numLayers - Math.floor(numLayers / GEMMA_PERIOD),
});

function shapeFromFolder(path: string): ModelShape {
  const { config, files, prefix, name } = readHfFolder(path);
  const tensors = [...files.tensors.values()];
  const isQuantized = config.has("quantization_config");
  const embeddingBytes = tensors.find((tensor) => tensor.name === `${prefix}embed_tokens.weight`)?.byteLength ?? 0;
  const isTied = !files.tensors.has("lm_head.weight");
  const typed = tensors.map(({ dtype, byteLength }) => ({
    type: DTYPE_BITS[dtype] === 32 ? "INT4" : dtype,
    byteLength,
  }));
  const stored = isQuantized ? storedOf(typed, isTied ? 0 : embeddingBytes) : undefined;
  return { ...shapeFromConfig(config, name, resolve(path), stored), isTied };
}

/** What transformers' Gemma3TextConfig takes where a file is silent, as those on the hub are. */
const GEMMA3_DEFAULTS: Readonly<Record<string, number>> = {
  num_attention_heads: 8,
  num_key_value_heads: 4,
  head_dim: 256,
  vocab_size: 262_208,
  max_position_embeddings: 131_072,
  sliding_window: 4096,
};

/** @param stored undefined: the weights are 16-bit ones, which engines may quantise */
function shapeFromConfig(
  whole: JsonObject,
  name: string,
  location: string,
  stored: StoredWeights | undefined,
): ModelShape {
  // Models that also see have the language model's numbers in a part of their own.
  const config = whole.object("text_config") ?? whole;
  const isGemma = (config.string("model_type") ?? "").startsWith("gemma3");
  const number = (key: string) => config.number(key) ?? (isGemma ? GEMMA3_DEFAULTS[key] : undefined);
  const needed = (key: string): number => {
    const value = number(key);
    if (value !== undefined && value > 0) return value;
    throw configError(`expected a positive ${config.nameOf(key)}, got ${value ?? "none"}`);
  };
  const [numLayers, width, numHeads] = [
    needed("num_hidden_layers"),
    needed("hidden_size"),
    needed("num_attention_heads"),
  ];
  const window = number("sliding_window");
  const kvRank = config.number("kv_lora_rank");
  return {
    name,
    location,
    numLayers,
    width,
    numHeads,
    stored,
    checkpoints: {},
    source: `config.json of ${name}`,
    modelType: whole.string("model_type"),
    embeddedRefusal: refusalOf(() => configModelType(whole)),
    numKvHeads: number("num_key_value_heads") ?? numHeads,
    headDim: number("head_dim") ?? config.number("qk_nope_head_dim") ?? width / numHeads,
    ffWidth: config.number("intermediate_size") ?? 0,
    vocabSize: needed("vocab_size"),
    contextLength: needed("max_position_embeddings"),
    isTied: config.boolean("tie_word_embeddings") ?? isGemma,
    experts: configExperts(config),
    latent:
      kvRank === undefined
        ? undefined
        : {
            kvRank,
            ropeDim: needed("qk_rope_head_dim"),
            queryRank: config.number("q_lora_rank") ?? 0,
            valueDim: needed("v_head_dim"),
          },
    window: isGemma && window !== undefined ? windowOf(window, numLayers) : undefined,
    native: stored === undefined ? nativeOf(whole) : undefined,
  };
}

function configExperts(config: JsonObject): Experts | undefined {
  const count =
    config.number("num_local_experts") ?? config.number("n_routed_experts") ?? config.number("num_experts") ?? 0;
  if (count === 0) return undefined;
  const width = config.number("moe_intermediate_size") ?? config.number("intermediate_size") ?? 0;
  return {
    count,
    width,
    active: config.number("num_experts_per_tok") ?? 1,
    sharedWidth: config.number("shared_expert_intermediate_size") ?? (config.number("n_shared_experts") ?? 0) * width,
    numDenseLayers: config.number("first_k_dense_replace") ?? 0,
  };
}

function nativeOf(config: JsonObject): "fp8" | "mxfp4" | undefined {
  const method = config.object("quantization_config")?.string("quant_method");
  if (method === undefined || method === "fp8" || method === "mxfp4") return method;
  throw new MillraceError(
    "model_config",
    `expected 16-bit, FP8 or MXFP4 weights behind the hub's config, got ${method}`,
    {
      hint: "plan with the model it was made from and --quantization, or download it and pass the folder",
    },
  );
}
