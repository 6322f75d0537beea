/** The configurations of drafts that a tuning tries: drafters × depths, and the server's default. */
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

/** Methods that need no file beside the model's. */
const OWN_METHODS = ["ngram", "suffix", "mtp", "auto"] as const;
const AUTO_WITH = "auto+";

/**
 * A drafter as the user names it: `ngram`, `suffix`, `mtp`, `auto`, the path of a draft model, of heads or of a folder
 * of heads from the hub, or `auto+PATH`: a model that drafts where the text gives nothing. Throws invalid_option for a
 * path where nothing is, and the errors of reading GGUF files.
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

/** @returns undefined for a path that is no folder of heads from the hub */
const methodOfFolder = (path: string): SpeculativeMethod | undefined =>
  isEagle3Folder(path) ? "eagle3" : isMedusaFolder(path) ? "medusa" : undefined;

const methodOfFile = (path: string): SpeculativeMethod =>
  methodOfFolder(path) ?? (isHeadsFile(path) ? "heads" : "draft_model");

/** Files that are looked at, and drafters among them that are tried. */
const MOST_FILES = 64;
const MOST_FOUND = 3;
/** A draft model that is larger than this share of its model costs more than it gains. */
const LARGEST_SHARE = 0.4;

/**
 * Beside the model: heads, folders of heads from the hub, and smaller GGUF models. Whether they fit the model shows
 * when they are opened.
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
        // A damaged file beside the model is skipped.
        return [];
      }
    });
  // Heads come first: they were made for a model, while a small model may be in the folder by chance.
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

/** @param fixed whether to try drafts of fixed length too */
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

/** @param isShared whether several drafters have a file of this name, so that only their paths tell them apart */
function nameOf(
  { method, draftModelPath: path, numSpeculativeTokens: depth, isAdaptive }: SpeculativeConfig,
  isShared: (file: string) => boolean,
): string {
  const file = path === undefined ? "" : isShared(basename(path)) ? path : basename(path);
  const drafter = path === undefined ? method : isModelMethod(method) ? file : `${method}+${file}`;
  return `${drafter}, ${depth} tokens${isAdaptive ? "" : " always"}`;
}

/** The keys of `--speculative-config` and of the YAML's `speculative-config`; values that are defaults are left out. */
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
