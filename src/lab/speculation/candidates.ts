/** The drafting configurations that a tuning tries: drafters × depths, and the server's default. */
import { readdirSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { optionError } from "../../core/option-error.js";
import {
  DEFAULT_SPECULATIVE_CONFIG,
  isModelMethod,
  NO_SPECULATION,
  type SpeculativeConfig,
  type SpeculativeMethod,
} from "../../engine/api/speculative-config.js";
import { isEagle3Folder } from "../../engine/speculative/eagle3-folder.js";
import { isHeadsFile } from "../../engine/speculative/heads-file.js";
import { isMedusaFolder } from "../../engine/speculative/medusa-folder.js";
import { contentHashOf } from "../../formats/content-hash.js";

export interface Candidate {
  /** @example "mill-heads.gguf, 4 tokens" */
  readonly name: string;
  readonly config: SpeculativeConfig;
}

/** A choice of drafter: a method, and the model or heads that it needs. */
export interface DrafterChoice {
  readonly method: SpeculativeMethod;
  readonly path: string | undefined;
}

/** Methods that only need the model's own file. */
const OWN_METHODS = ["ngram", "suffix", "mtp", "auto"] as const;
const AUTO_WITH = "auto+";

/**
 * A drafter by the user's name for it: `ngram`, `suffix`, `mtp`, `auto`, the path of a draft model, of heads or of a
 * folder of heads from the hub, or `auto+PATH`: a model that drafts where the text offers nothing. Throws
 * invalid_option for a missing path, and the errors of reading GGUF files.
 */
export function drafterFrom(flag: string, word: string): DrafterChoice {
  const method = OWN_METHODS.find((known) => known === word);
  if (method !== undefined) return { method, path: undefined };
  const isAuto = word.startsWith(AUTO_WITH);
  const path = resolve(isAuto ? word.slice(AUTO_WITH.length) : word);
  if (statSync(path, { throwIfNoEntry: false }) === undefined) {
    throw optionError(flag, `${OWN_METHODS.join(", ")}, or the path of a draft model or heads`, word);
  }
  return { method: isAuto ? "auto" : methodOfFile(path), path };
}

/** @returns undefined unless the path is a folder of heads from the hub */
const methodOfFolder = (path: string): SpeculativeMethod | undefined =>
  isEagle3Folder(path) ? "eagle3" : isMedusaFolder(path) ? "medusa" : undefined;

const methodOfFile = (path: string): SpeculativeMethod =>
  methodOfFolder(path) ?? (isHeadsFile(path) ? "heads" : "draft_model");

/** Most files to examine, and most drafters among them to try. */
const MOST_FILES = 64;
const MOST_FOUND = 3;
/** A draft model larger than this share of its model costs more than it gains. */
const LARGEST_SHARE = 0.4;

/**
 * Candidates beside the model: heads, folders of heads from the hub, and smaller GGUF models. Opening them shows
 * whether they fit the model.
 */
export function draftersBeside(modelPath: string): DrafterChoice[] {
  const [folder, own] = [dirname(resolve(modelPath)), basename(resolve(modelPath))];
  const numBytes = statSync(modelPath).size;
  const found = readdirSync(folder)
    .filter((name) => name !== own)
    .sort()
    .slice(0, MOST_FILES)
    .flatMap((name): DrafterChoice[] => {
      const path = join(folder, name);
      try {
        const ofFolder = methodOfFolder(path);
        if (ofFolder !== undefined) return [{ method: ofFolder, path }];
        if (!name.endsWith(".gguf") || !own.endsWith(".gguf") || statSync(path).size > LARGEST_SHARE * numBytes) {
          return [];
        }
        return [{ method: methodOfFile(path), path }];
      } catch {
        // Skips a damaged file beside the model.
        return [];
      }
    });
  // Heads come first: they are made for one model, while a small model may be in the folder by chance.
  return found
    .sort((a, b) => Number(a.method === "draft_model") - Number(b.method === "draft_model"))
    .slice(0, MOST_FOUND);
}

/** A digest of a drafter's file or folder, which changes with its content. */
export function contentOf({ path }: DrafterChoice): string | undefined {
  if (path === undefined) return undefined;
  const files = statSync(path).isDirectory()
    ? readdirSync(path, { withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map(({ name }) => join(path, name))
        .sort()
    : [path];
  return contentHashOf(files, () => {});
}

/** @param fixed whether to try drafts of fixed length, too */
export function candidatesOf(
  drafters: readonly DrafterChoice[],
  depths: readonly number[],
  fixed: boolean,
): Candidate[] {
  const own = drafters.flatMap(({ method, path }) =>
    depths.flatMap((numSpeculativeTokens) =>
      (fixed ? [true, false] : [true]).map((isAdaptive): SpeculativeConfig => {
        return { ...DEFAULT_SPECULATIVE_CONFIG, method, draftModelPath: path, numSpeculativeTokens, isAdaptive };
      }),
    ),
  );
  const distinct = new Map([...own, DEFAULT_SPECULATIVE_CONFIG].map((config) => [JSON.stringify(config), config]));
  const paths = [...new Set(drafters.flatMap(({ path }) => path ?? []))];
  const isShared = (file: string): boolean => paths.filter((path) => basename(path) === file).length > 1;
  return [...distinct.values()].map((config) => ({ name: nameOf(config, isShared), config }));
}

/** @param isShared whether several drafters have files of this name, so that only their paths distinguish them */
function nameOf(
  { method, draftModelPath: path, numSpeculativeTokens: depth, isAdaptive }: SpeculativeConfig,
  isShared: (file: string) => boolean,
): string {
  const file = path === undefined ? "" : isShared(basename(path)) ? path : basename(path);
  const drafter = path === undefined ? method : isModelMethod(method) ? file : `${method}+${file}`;
  return `${drafter}, ${depth} tokens${isAdaptive ? "" : " always"}`;
}

/** The keys of `--speculative-config` and of the YAML's `speculative-config`, without default values. */
export function configKeys(config: SpeculativeConfig): Readonly<Record<string, string | number | boolean>> {
  const { method, draftModelPath: model, numSpeculativeTokens, isAdaptive } = config;
  if (method === NO_SPECULATION.method) return { method };
  return {
    method,
    ...(model === undefined ? {} : { model }),
    num_speculative_tokens: numSpeculativeTokens,
    ...(isAdaptive ? {} : { adaptive: false }),
  };
}
