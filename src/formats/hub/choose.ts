/** Groups file names into models (a GGUF file, a split set, a folder of safetensors) and picks the one a user means. */
import { MillraceError } from "../../core/errors.js";
import { parseSplitName, splitName } from "../gguf/split-names.js";
import { CONFIG_NAME } from "../hf/folder.js";

export interface ModelFiles {
  /** Path without the shard number and without ".gguf". */
  readonly label: string;
  /** All shards in order; of a safetensors model, its weights and then the files beside them. */
  readonly files: readonly string[];
  /** The files make a model together, in one folder. */
  readonly isFolder?: boolean;
}

/** Taken when the user names no file: the usual compromise of size and quality first. */
const PREFERRED_TAGS = ["Q4_K_M", "Q8_0"];

/** GGUF files that are no language models: vision projectors and importance matrices. */
const COMPANION_PATTERN = /(^|[-._/])(mmproj|imatrix)([-._][^/]*)?$/i;

const WEIGHTS_PATTERN = /^model(-\d+-of-\d+)?\.safetensors$/;
const FOLDER_PATTERN =
  /^(config|generation_config|tokenizer|tokenizer_config|chat_template|model\.safetensors\.index)\.json$|^(chat_template|additional_chat_templates\/tool_use)\.jinja$/;
/**
 * Files that sentence-transformers puts around a model: its modules, those with files in folders of their own, and
 * settings.
 */
const MODULES_PATTERN =
  /^(modules|sentence_bert_config|config_sentence_transformers)\.json$|^\d+_[A-Za-z]+\/(config\.json|model\.safetensors)$/;

/** The safetensors model at a repository's root; undefined where there is none. */
export function folderModel(names: readonly string[]): ModelFiles | undefined {
  const weights = names.filter((name) => WEIGHTS_PATTERN.test(name)).sort();
  if (weights.length === 0 || !names.includes(CONFIG_NAME)) return undefined;
  // As when reading: a single file makes shards beside it needless.
  const needed = weights.includes("model.safetensors") ? ["model.safetensors"] : weights;
  const files = [...needed, ...names.filter((name) => FOLDER_PATTERN.test(name) || MODULES_PATTERN.test(name)).sort()];
  return { label: "model.safetensors", files, isFolder: true };
}

/** Weights, in any form that repositories have. */
const ANY_WEIGHTS = /\.(safetensors|bin|pt|pth|ckpt|gguf|onnx|onnx_data|h5|msgpack|tflite|ot)$/i;

/**
 * For engines that read a repository themselves: all of its files but weights in other forms, those at its root as
 * safetensors where there are some.
 */
export function chooseRepository(names: readonly string[], place: string): ModelFiles {
  const weightsIn = (ending: string) => names.filter((name) => !name.includes("/") && name.endsWith(ending)).sort();
  const weights = [weightsIn(".safetensors"), weightsIn(".bin")].find((found) => found.length > 0);
  if (weights === undefined) {
    throw new MillraceError("hub_not_found", `expected weights as .safetensors or .bin in ${place}, got none`, {
      hint: "check the name; a GGUF file is for the engines millrace and llama-server",
    });
  }
  const others = names.filter((name) => !ANY_WEIGHTS.test(name)).sort();
  return { label: "repository", files: [...weights, ...others], isFolder: true };
}

/** Names that do not end in ".gguf" are ignored. */
export function groupModels(names: readonly string[]): readonly ModelFiles[] {
  const filesByLabel = new Map<string, readonly string[]>();
  for (const name of [...names].sort()) {
    if (!name.endsWith(".gguf")) continue;
    const split = parseSplitName(name);
    const label = split?.prefix ?? name.slice(0, -".gguf".length);
    filesByLabel.set(label, split === undefined ? [name] : shardNames(name));
  }
  return [...filesByLabel].map(([label, files]) => ({ label, files }));
}

/** All names of the set a shard belongs to; of a file that is no shard, its own. */
export function shardNames(name: string): readonly string[] {
  const split = parseSplitName(name);
  if (split === undefined) return [name];
  const { prefix, count } = split;
  return Array.from({ length: count }, (_, index) => splitName(prefix, index + 1, count));
}

/**
 * @param wanted a file's name (any shard's) or a quantisation tag; undefined: Q4_K_M, then Q8_0, then the only model,
 * then the safetensors
 * @param place where the names are from, for messages
 */
export function chooseModel(names: readonly string[], wanted: string | undefined, place: string): ModelFiles {
  const models = groupModels(names);
  const folder = wanted === undefined && models.length === 0 ? folderModel(names) : undefined;
  if (folder !== undefined) return folder;
  const chosen = wanted === undefined ? chooseUnnamed(models, place) : chooseNamed(models, wanted, place);
  const missing = chosen.files.filter((file) => !names.includes(file));
  if (missing.length > 0) {
    throw new MillraceError(
      "gguf_split",
      `expected all ${chosen.files.length} shards of ${chosen.label} in ${place}, got none named ${missing[0]}`,
      {
        hint: "the model is incomplete there; choose another",
      },
    );
  }
  return chosen;
}

function chooseNamed(models: readonly ModelFiles[], wanted: string, place: string): ModelFiles {
  const exact = models.find(
    ({ label, files }) => files.includes(wanted) || label === wanted || `${label}.gguf` === wanted,
  );
  if (exact !== undefined) return exact;
  const tagged = withTag(withoutCompanions(models), wanted);
  if (tagged.length === 1) return tagged[0]!;
  if (tagged.length > 1) throw ambiguous(tagged, place);
  throw new MillraceError("hub_not_found", `expected ${wanted} in ${place}, got ${listed(models)}`, {
    hint: "name one of these files or its quantisation, such as Q4_K_M",
  });
}

function chooseUnnamed(models: readonly ModelFiles[], place: string): ModelFiles {
  const candidates = withoutCompanions(models);
  for (const tag of PREFERRED_TAGS) {
    const tagged = withTag(candidates, tag);
    if (tagged.length === 1) return tagged[0]!;
    if (tagged.length > 1) throw ambiguous(tagged, place);
  }
  if (candidates.length === 1) return candidates[0]!;
  if (candidates.length > 1) throw ambiguous(candidates, place);
  throw new MillraceError(
    "hub_not_found",
    `expected a .gguf file, or config.json with model.safetensors, in ${place}, got none`,
    {
      hint: "look for a repository whose name ends in -GGUF",
    },
  );
}

export function withoutCompanions(models: readonly ModelFiles[]): readonly ModelFiles[] {
  return models.filter(({ label }) => !COMPANION_PATTERN.test(label));
}

/** A tag stands between separators, so that Q4_K does not mean Q4_K_M; folders named after a tag count. */
function withTag(models: readonly ModelFiles[], tag: string): readonly ModelFiles[] {
  const escaped = tag.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const pattern = new RegExp(`(^|[-._/])${escaped}($|[-./])`, "i");
  return models.filter(({ label }) => pattern.test(label));
}

function ambiguous(models: readonly ModelFiles[], place: string): MillraceError {
  return new MillraceError("hub_spec", `expected the choice of one model in ${place}, got ${listed(models)}`, {
    hint: `name one, such as hf:org/repo:${models[0]?.label ?? ""}`,
  });
}

const MAX_LISTED = 40;

function listed(models: readonly ModelFiles[]): string {
  if (models.length === 0) return "no .gguf files";
  const labels = models.slice(0, MAX_LISTED).map(({ label }) => label);
  const numMore = models.length - labels.length;
  return numMore > 0 ? `${labels.join(", ")} and ${numMore} more` : labels.join(", ");
}
