/** The models that lie in the cache: which there are, how large, when last used, and how to be rid of one. */
import type { Stats } from "node:fs";
import { readdir, rm, rmdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { cacheFolder } from "../../core/cache-folder.js";
import { MillraceError } from "../../core/errors.js";
import { acquireFileLock } from "../../core/file-lock.js";
import { isHfFolder, weightFilesOf } from "../hf/folder.js";
import { chooseModel, groupModels } from "./choose.js";
import { inCache, LISTING_NAME } from "./listing.js";
import { HUB_PREFIX, hubFolder, LOCK_NAME, parseHubSpec } from "./spec.js";

export interface StoredModel {
  /** As `--model` takes it. */
  readonly name: string;
  /** The file, of a split model its first shard, or the folder. */
  readonly path: string;
  readonly format: "GGUF" | "safetensors";
  readonly numBytes: number;
  readonly lastUsedMs: number;
  /** False: the download is still running or was broken off. */
  readonly isComplete: boolean;
  /** The name under which a download goes on that was broken off; absent where only its caller knows. */
  readonly resumes?: string;
}

export interface Removed {
  readonly numFiles: number;
  readonly numBytes: number;
}

type Sizes = ReadonlyMap<string, number>;

async function foldersIn(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(folder, name));
}

async function statOf(path: string): Promise<Stats | undefined> {
  return stat(path).catch(() => undefined);
}

/** Path below the folder → bytes. */
async function filesBelow(folder: string): Promise<Sizes> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true }).catch(() => []);
  const sizes = new Map<string, number>();
  for (const entry of entries.filter((each) => each.isFile() && each.name !== LOCK_NAME)) {
    const path = join(entry.parentPath, entry.name);
    sizes.set(path.slice(folder.length + 1), (await statOf(path))?.size ?? 0);
  }
  return sizes;
}

const sumOf = (sizes: Sizes, isCounted: (name: string) => boolean): number =>
  [...sizes].reduce((sum, [name, numBytes]) => sum + (isCounted(name) ? numBytes : 0), 0);

/** @param spec org/repo, with its revision where that is not main */
async function modelsIn(folder: string, spec: string): Promise<readonly StoredModel[]> {
  const sizes = await filesBelow(folder);
  const lastUsedMs = ((await statOf(join(folder, LISTING_NAME))) ?? (await statOf(folder)))?.mtimeMs ?? 0;
  const base = { name: `${HUB_PREFIX}${spec}`, path: folder, lastUsedMs };
  const models: StoredModel[] = [];
  for (const { files } of groupModels([...sizes.keys()])) {
    models.push({
      name: `${base.name}:${files[0]}`,
      path: join(folder, files[0]!),
      format: "GGUF",
      numBytes: sumOf(sizes, (name) => files.includes(name)),
      lastUsedMs,
      isComplete: files.every((file) => sizes.has(file)),
    });
  }
  const isOfFolder = (name: string): boolean => !name.endsWith(".gguf") && !name.endsWith(".part");
  const parts = [...sizes.keys()].filter((name) => name.endsWith(".part"));
  const isOfGguf = (name: string): boolean => name.includes(".gguf.");
  const hasFolder = isHfFolder(folder);
  const partsOfFolder = hasFolder ? parts.filter((name) => !isOfGguf(name)) : [];
  if (hasFolder) {
    const isComplete = partsOfFolder.length === 0 && hasAllWeights(folder, sizes);
    const numBytes = sumOf(sizes, (name) => isOfFolder(name) || partsOfFolder.includes(name));
    models.push({ ...base, format: "safetensors", numBytes, isComplete });
  }
  const numPartBytes = sumOf(sizes, (name) => parts.includes(name) && !partsOfFolder.includes(name));
  if (numPartBytes === 0) return models;
  const format = parts.some(isOfGguf) ? "GGUF" : "safetensors";
  const part = parts.find(isOfGguf)?.replace(/\.\w+\.part$/, "");
  const resumes = part === undefined ? {} : { resumes: `${base.name}:${part}` };
  return [...models, { ...base, format, numBytes: numPartBytes, isComplete: false, ...resumes }];
}

/** Whether every weight file is there that the folder's index names; an index that cannot be read is not whole. */
function hasAllWeights(folder: string, sizes: Sizes): boolean {
  try {
    return weightFilesOf(folder).every((path) => sizes.has(path.slice(folder.length + 1)));
  } catch {
    return false;
  }
}

export async function listStored(cacheDir = cacheFolder()): Promise<readonly StoredModel[]> {
  const models: StoredModel[] = [];
  const hub = join(cacheDir, "hub");
  for (const organisation of await foldersIn(hub)) {
    for (const repository of await foldersIn(organisation)) {
      for (const folder of await foldersIn(repository)) {
        const revision = folder.slice(repository.length + 1).replaceAll("--", "/");
        const repo = repository.slice(hub.length + 1);
        models.push(...(await modelsIn(folder, revision === "main" ? repo : `${repo}@${revision}`)));
      }
    }
  }
  return models.sort((a, b) => a.name.localeCompare(b.name));
}

/**
 * Waits for a download into the same folder. Engines that have the files open keep them until they end.
 *
 * @param spec as `listStored` names it: without a file all of the repository's revision goes
 */
export async function removeStored(spec: string, cacheDir = cacheFolder(), onWait?: () => void): Promise<Removed> {
  const parsed = parseHubSpec(spec);
  const folder = hubFolder(cacheDir, parsed);
  if ((await statOf(folder)) === undefined) throw await unknownModel(spec, cacheDir);
  const release = await inCache(folder, () => acquireFileLock(join(folder, LOCK_NAME), onWait));
  try {
    const sizes = await filesBelow(folder);
    const models = [...sizes.keys()].filter((name) => name.endsWith(".gguf"));
    const chosen = parsed.file === undefined ? undefined : chosenFiles(models, parsed.file);
    if (parsed.file !== undefined && chosen === undefined) throw await unknownModel(spec, cacheDir);
    // The other files are of no use without weights.
    const isAll = chosen === undefined || (models.every((name) => chosen.includes(name)) && !isHfFolder(folder));
    const files = isAll ? [...sizes.keys()] : chosen;
    await inCache(folder, () => Promise.all(files.map((file) => rm(join(folder, file), { force: true }))));
    if (isAll) await inCache(folder, () => rm(folder, { recursive: true, force: true }));
    return { numFiles: files.length, numBytes: sumOf(sizes, (name) => files.includes(name)) };
  } finally {
    release();
    for (const empty of [dirname(folder), dirname(dirname(folder))]) await rmdir(empty).catch(() => {});
  }
}

function chosenFiles(models: readonly string[], file: string): readonly string[] | undefined {
  // An incomplete split model is removed by any of its shards.
  const group = groupModels(models).find(({ files }) => files.includes(file));
  if (group !== undefined) return group.files;
  try {
    return chooseModel(models, file, "the cache").files;
  } catch {
    return undefined;
  }
}

async function unknownModel(spec: string, cacheDir: string): Promise<MillraceError> {
  const names = (await listStored(cacheDir)).map(({ name }) => name);
  const got = names.length === 0 ? "an empty cache" : names.join(", ");
  return new MillraceError("model_not_found", `expected ${spec} among the downloaded models, got ${got}`, {
    hint: "`millrace list` has their names",
  });
}
