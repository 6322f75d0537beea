/**
 * The files that sentence-transformers keeps beside a model: modules.json (the pooling and the layers behind it) and
 * the length of the longest text.
 */
import { existsSync } from "node:fs";
import { isAbsolute, join, normalize } from "node:path";
import { configError, JsonObject, readJsonFile, readTextFile } from "../../formats/files/json.js";
import { MODEL_LIMITS } from "../description/model-description.js";
import {
  type HeadActivation,
  type HeadDescription,
  type HeadLayer,
  linearLayer,
  type Pooling,
} from "../description/pooling.js";
import { unservedVariant } from "../description/servable.js";
import { ConfigReader } from "./config-reader.js";

export interface FolderModules {
  /** undefined: not stated */
  readonly pooling: Pooling | undefined;
  readonly head: HeadDescription | undefined;
  /** Longest text in tokens; undefined: as long as the model's own context */
  readonly maxLength: number | undefined;
  /** Folders of the head's linear layers, in order. */
  readonly headFolders: readonly string[];
  /** undefined: the model is no reranker of that kind */
  readonly answers: AnswerTokens | undefined;
}

/** The two answers of a reranker that generates text: its score is the probability of yes beside no. */
interface AnswerTokens {
  readonly yesId: number;
  readonly noId: number;
}

export const NO_MODULES: FolderModules = {
  pooling: undefined,
  head: undefined,
  maxLength: undefined,
  headFolders: [],
  answers: undefined,
};

/** @throws model_config for damaged files; architecture_unsupported for modules that are not computed */
export function readModules(folder: string, config: JsonObject): FolderModules {
  const path = join(folder, "modules.json");
  if (!existsSync(path)) return { ...NO_MODULES, answers: answersByName(folder, config) };
  let answers: AnswerTokens | undefined;
  const modules = readList(path);
  assertOrder(modules.map(typeOf));
  let pooling: Pooling | undefined;
  const layers: HeadLayer[] = [];
  const headFolders: string[] = [];
  for (const module of modules) {
    const own = folderOf(folder, module);
    const type = typeOf(module);
    if (type === "Transformer" && own !== join(folder, ".")) {
      throw unservedVariant(
        `expected ${module.nameOf("path")} of the Transformer to be the model's folder, got ${own}`,
      );
    }
    if (type === "Pooling") pooling = readPooling(own);
    else if (type === "Dense") {
      layers.push(readDense(own, layers.length));
      headFolders.push(own);
    } else if (type === "LogitScore") answers = readLogitScore(own);
  }
  const head = layers.length === 0 ? undefined : { layers, scoring: undefined };
  return { pooling, head, maxLength: readMaxLength(folder), headFolders, answers };
}

const typeOf = (module: JsonObject): string => (module.string("type") ?? "").split(".").at(-1)!;

/**
 * Names of modules, separated by spaces: vectors are normalised at the end alone, since the layers before would see
 * others.
 */
const SERVED_ORDER = /^Transformer( Pooling( Dense){0,8}( Normalize)?| LogitScore)?$/;

function assertOrder(types: readonly string[]): void {
  if (SERVED_ORDER.test(types.join(" "))) return;
  const known = "Transformer, Pooling, up to eight of Dense, and Normalize, or Transformer and LogitScore";
  throw unservedVariant(`expected modules.json to name ${known}, got ${types.join(", ").slice(0, 200) || "none"}`);
}

function readList(path: string): readonly JsonObject[] {
  let list: unknown;
  try {
    list = JSON.parse(readTextFile(path));
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError)) throw thrown;
    throw configError(`${path}: expected JSON, got ${thrown.message}`);
  }
  if (!Array.isArray(list)) throw configError(`${path}: expected a JSON array, got another value`);
  return new JsonObject({ modules: list }, "modules.json", "").objects("modules")!;
}

/** A module's own folder, which must not lie outside the model's. */
function folderOf(folder: string, module: JsonObject): string {
  const path = normalize(module.string("path") ?? "");
  if (isAbsolute(path) || path.split(/[\\/]/).includes("..")) {
    throw configError(`expected ${module.nameOf("path")} within the model's folder, got ${path}`);
  }
  return join(folder, path);
}

const POOLING_KEYS: ReadonlyMap<string, Pooling> = new Map([
  ["pooling_mode_cls_token", "cls"],
  ["pooling_mode_mean_tokens", "mean"],
  ["pooling_mode_lasttoken", "last"],
]);
const POOLING_MODES: ReadonlyMap<string, Pooling> = new Map([
  ["cls", "cls"],
  ["mean", "mean"],
  ["lasttoken", "last"],
]);

function readPooling(folder: string): Pooling {
  const json = readJsonFile(join(folder, "config.json"));
  if (json.boolean("include_prompt") === false) {
    throw unservedVariant(`expected ${json.nameOf("include_prompt")} to be true, got false`);
  }
  const mode = json.string("pooling_mode");
  const chosen = Object.keys(json.raw).filter((key) => key.startsWith("pooling_mode_") && json.boolean(key) === true);
  const pooling =
    mode === undefined ? POOLING_KEYS.get(chosen.length === 1 ? chosen[0]! : "") : POOLING_MODES.get(mode);
  if (pooling !== undefined) return pooling;
  throw unservedVariant(
    `expected a pooling by mean, first or last token, got ${mode ?? (chosen.join(", ") || "none")}`,
  );
}

const DENSE_ACTIVATIONS: ReadonlyMap<string, HeadActivation> = new Map([
  ["Identity", "none"],
  ["Tanh", "tanh"],
  ["GELU", "gelu"],
  ["ReLU", "relu"],
]);

function readDense(folder: string, index: number): HeadLayer {
  const json = readJsonFile(join(folder, "config.json"));
  const read = new ConfigReader(json);
  const name = json.string("activation_function") ?? "torch.nn.modules.activation.Tanh";
  const activation = DENSE_ACTIVATIONS.get(name.split(".").at(-1)!);
  if (activation === undefined) {
    const known = [...DENSE_ACTIVATIONS.keys()].join(", ");
    throw unservedVariant(`expected ${json.nameOf("activation_function")} to be one of ${known}, got ${name}`);
  }
  const [inputs, outputs] = ["in_features", "out_features"].map((key) => read.size(key, MODEL_LIMITS.width));
  // As llama.cpp names them: the modules before them have the numbers 0 and 1.
  const layer = linearLayer(`dense_${index + 2}`, inputs!, outputs!, activation);
  return { ...layer, isBiased: json.boolean("bias") ?? true };
}

function readLogitScore(folder: string): AnswerTokens {
  const json = readJsonFile(join(folder, "config.json"));
  const id = (key: string): number => {
    const value = json.number(key);
    if (value !== undefined && Number.isInteger(value) && value >= 0 && value < MODEL_LIMITS.vocab) return value;
    throw unservedVariant(`expected ${json.nameOf(key)} to be a token id, got ${value ?? "none"}`);
  };
  return { yesId: id("true_token_id"), noId: id("false_token_id") };
}

const MAX_TOKENIZER_BYTES = 256 * 1024 * 1024;

/**
 * The first releases of Qwen3-Reranker look like models that generate text. The folder's path names them, or
 * config.json has the key by which vLLM knows them; their answers are yes and no.
 */
function answersByName(folder: string, config: JsonObject): AnswerTokens | undefined {
  const isNamed = config.string("model_type") === "qwen3" && /qwen3-reranker/i.test(folder);
  const classes = config.strings("architectures") ?? [];
  const isChatModel = classes.length === 0 || classes.some((name) => name.endsWith("ForCausalLM"));
  if (!(isNamed && isChatModel) && config.boolean("is_original_qwen3_reranker") !== true) return undefined;
  const path = join(folder, "tokenizer.json");
  const vocab = existsSync(path) ? readJsonFile(path, MAX_TOKENIZER_BYTES).object("model")?.object("vocab") : undefined;
  const [yesId, noId] = [vocab?.number("yes"), vocab?.number("no")];
  if (yesId !== undefined && noId !== undefined) return { yesId, noId };
  throw configError("expected a tokenizer.json with the tokens yes and no, which a Qwen3-Reranker answers, got none");
}

function readMaxLength(folder: string): number | undefined {
  const path = join(folder, "sentence_bert_config.json");
  if (!existsSync(path)) return undefined;
  const json = readJsonFile(path);
  return json.has("max_seq_length") ? new ConfigReader(json).size("max_seq_length", MODEL_LIMITS.context) : undefined;
}
