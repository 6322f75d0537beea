/**
 * Resolves a model's name (a file, a folder, `hf:org/repo[:file]`) to paths of local files, downloading them where
 * needed.
 */
import type { Stats } from "node:fs";
import { mkdir, readdir, rm, stat, statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { cacheFolder } from "../core/cache-folder.js";
import { MillraceError } from "../core/errors.js";
import { acquireFileLock } from "../core/file-lock.js";
import { type JsonObject, parseJsonObject } from "./files/json.js";
import { CONFIG_NAME, isHfFolder, weightFilesOf } from "./hf/folder.js";
import { type HubOptions, hubAccess, questionAccess, resolveUrl } from "./hub/access.js";
import {
  chooseModel,
  chooseRepository,
  groupModels,
  type ModelFiles,
  shardNames,
  withoutCompanions,
} from "./hub/choose.js";
import { type DownloadProgress, downloadFile, partPathOf } from "./hub/download.js";
import {
  fetchListing,
  type HubEntry,
  hubError,
  inCache,
  isSameContent,
  readCachedListing,
  touchCachedListing,
  writeCachedListing,
} from "./hub/listing.js";
import { HUB_PREFIX, type HubSpec, hubFolder, LOCK_NAME, parseHubSpec, refuseUnsafePath } from "./hub/spec.js";

export type { DownloadProgress } from "./hub/download.js";

export interface ResolveOptions extends HubOptions {
  /** `cacheFolder()` by default. */
  readonly cacheDir?: string;
  /** For an engine that reads a repository itself: every file of it but weights in other forms. */
  readonly isWholeRepository?: boolean;
  readonly onProgress?: (progress: DownloadProgress) => void;
  /** Another process is downloading into the same folder. */
  readonly onWait?: () => void;
  /** Attempts in a row that may bring no byte; 5 by default. */
  readonly maxFruitlessAttempts?: number;
  /** Wait before the second attempt, 1000 by default; doubles with each fruitless attempt. */
  readonly retryDelayMs?: number;
}

export interface ResolvedModel {
  /** The model's file (of a split model, its first shard), or the folder of a model of safetensors files. */
  readonly path: string;
  /** The files with weights, in order. */
  readonly files: readonly string[];
}

/**
 * Uses a model that is complete in the cache without asking the hub, so that starts are fast, repeatable and work
 * offline.
 *
 * @example const { path } = await resolveModelPath("hf:org/repo:Q4_K_M")
 */
export async function resolveModelPath(spec: string, options: ResolveOptions = {}): Promise<ResolvedModel> {
  if (spec.startsWith(HUB_PREFIX)) return resolveOnHub(parseHubSpec(spec), options);
  const stats = await statOf(spec);
  if (stats === undefined) throw notFound(spec);
  return stats.isDirectory() ? resolveFolder(spec) : resolveFile(spec);
}

function notFound(path: string): MillraceError {
  const hint = /^[\w.-]+\/[\w.-]+(:[\w.-]+)?$/.test(path)
    ? `check the path; a model of the hub is written ${HUB_PREFIX}${path}`
    : "check the path";
  return new MillraceError("file_unreadable", `expected a file or folder at ${path}, got nothing`, { hint });
}

async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch {
    return undefined;
  }
}

async function resolveFile(path: string): Promise<ResolvedModel> {
  const folder = dirname(path);
  const files = shardNames(basename(path));
  if (files.length === 1) return { path, files: [path] };
  const paths = files.map((file) => join(folder, file));
  for (const shard of paths) {
    if ((await statOf(shard)) === undefined) {
      throw new MillraceError("gguf_split", `expected all ${paths.length} shards in ${folder}, got none at ${shard}`, {
        hint: "download the missing shard next to the others",
      });
    }
  }
  return { path: paths[0]!, files: paths };
}

async function resolveFolder(folder: string): Promise<ResolvedModel> {
  if (isHfFolder(folder)) return { path: folder, files: weightFilesOf(folder) };
  const models = withoutCompanions(groupModels(await namesIn(folder)));
  const [only] = models;
  if (only !== undefined && models.length === 1) return resolveFile(join(folder, only.files[0]!));
  const got = models.length === 0 ? "none" : models.map(({ label }) => label).join(", ");
  throw new MillraceError("file_unreadable", `expected one model in folder ${folder}, got ${got}`, {
    hint: "pass the path of a .gguf file, or of a folder with config.json and model.safetensors",
  });
}

async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (cause) {
    throw new MillraceError("file_unreadable", `expected a readable folder at ${folder}, got ${String(cause)}`, {
      hint: "check its permissions",
      cause,
    });
  }
}

async function resolveOnHub(spec: HubSpec, options: ResolveOptions): Promise<ResolvedModel> {
  const cacheDir = options.cacheDir ?? cacheFolder();
  const folder = hubFolder(cacheDir, spec);
  const isWhole = options.isWholeRepository === true;
  const cached = await findCached(folder, spec, isWhole);
  if (cached !== undefined) {
    await touchCachedListing(folder);
    return resolvedIn(folder, cached);
  }
  // Two processes that write into one file would mix their bytes.
  const release = await inCache(folder, async () => {
    await mkdir(folder, { recursive: true });
    return acquireFileLock(join(folder, LOCK_NAME), options.onWait, options.signal);
  });
  try {
    const meanwhile = await findCached(folder, spec, isWhole);
    return resolvedIn(folder, meanwhile ?? (await download(folder, spec, options)));
  } finally {
    release();
  }
}

async function download(folder: string, spec: HubSpec, options: ResolveOptions): Promise<ModelFiles> {
  const access = hubAccess(options);
  const entries = await fetchListing(access, spec);
  const chosen = choose(entries, spec, options.isWholeRepository === true);
  for (const file of chosen.files) refuseUnsafePath(file);
  await writeCachedListing(folder, await keptListing(folder, entries, chosen));
  const wanted = chosen.files.map((file) => entries.find(({ path }) => path === file)!);
  // Checks the space for all files together before the first byte of any arrives.
  await inCache(folder, async () => expectSpace(folder, await bytesMissing(folder, wanted)));
  const totalBytes = sumOfSizes(wanted);
  let numBefore = 0;
  for (const entry of wanted) {
    const onProgress = (receivedBytes: number): void =>
      options.onProgress?.({ file: entry.path, receivedBytes: numBefore + receivedBytes, totalBytes });
    if (!(await isComplete(folder, entry))) {
      await downloadFile(access, resolveUrl(access, spec, entry.path), entry, join(folder, entry.path), {
        onProgress,
        signal: options.signal,
        maxFruitlessAttempts: options.maxFruitlessAttempts ?? 5,
        retryDelayMs: options.retryDelayMs ?? 1000,
      });
    }
    numBefore += entry.sizeBytes;
  }
  return chosen;
}

async function expectSpace(folder: string, numBytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  const numFree = bavail * bsize;
  if (numFree < numBytes) throw new Error(`${numFree} free bytes where ${numBytes} are needed`);
}

const sumOfSizes = (entries: readonly HubEntry[]): number => entries.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);

/** The bytes still to receive: all files, less whole ones and the begun parts of others. */
async function bytesMissing(folder: string, entries: readonly HubEntry[]): Promise<number> {
  const there = entries.map(async (entry) => {
    const path = join(folder, entry.path);
    if (await isComplete(folder, entry)) return entry.sizeBytes;
    return Math.min(entry.sizeBytes, (await statOf(partPathOf(path, entry)))?.size ?? 0);
  });
  return sumOfSizes(entries) - (await Promise.all(there)).reduce((sum, numBytes) => sum + numBytes, 0);
}

/**
 * The listing to keep. It describes each file as it lies in the cache, so files that are not asked for keep their
 * earlier entry. Asked-for files whose content has changed on the hub are removed: their size alone would not show the
 * change.
 */
async function keptListing(
  folder: string,
  entries: readonly HubEntry[],
  { files }: ModelFiles,
): Promise<readonly HubEntry[]> {
  const before = new Map((await readCachedListing(folder))?.map((entry) => [entry.path, entry]));
  const kept: HubEntry[] = [];
  for (const entry of entries) {
    const old = before.get(entry.path);
    const isSame = old !== undefined && isSameContent(old, entry);
    if (!isSame && files.includes(entry.path)) {
      const path = join(folder, entry.path);
      await inCache(path, () => rm(path, { force: true }));
    }
    const isOldThere = !isSame && old !== undefined && (await isComplete(folder, old));
    kept.push(isOldThere ? old : entry);
  }
  return kept;
}

/**
 * A repository's config.json alone, which is all that a plan needs.
 *
 * @example await fetchHubConfig("hf:org/repo")
 */
export async function fetchHubConfig(spec: string, options: ResolveOptions = {}): Promise<JsonObject> {
  const parsed = parseHubSpec(spec);
  const access = questionAccess(options);
  const what = `${CONFIG_NAME} of ${parsed.repo}`;
  try {
    const response = await access.fetch(resolveUrl(access, parsed, CONFIG_NAME));
    if (!response.ok) throw Object.assign(new Error(response.statusText), { statusCode: response.status });
    return parseJsonObject(await response.text(), `${parsed.repo}/${CONFIG_NAME}`);
  } catch (thrown) {
    throw hubError(thrown, what, access.endpoint);
  }
}

function choose(entries: readonly HubEntry[], { file, repo }: HubSpec, isWhole: boolean): ModelFiles {
  const names = entries.map(({ path }) => path);
  return isWhole && file === undefined ? chooseRepository(names, repo) : chooseModel(names, file, repo);
}

/** Without asking the hub. @param spec hf:org/repo[@revision][:file] */
export async function findOnDisk(spec: string, cacheDir = cacheFolder()): Promise<ResolvedModel | undefined> {
  const parsed = parseHubSpec(spec);
  const folder = hubFolder(cacheDir, parsed);
  const files = await findCached(folder, parsed, false);
  return files === undefined ? undefined : resolvedIn(folder, files);
}

/** The spec's files, if the listing kept at the last download leads to files that are all there. */
async function findCached(folder: string, spec: HubSpec, isWhole: boolean): Promise<ModelFiles | undefined> {
  const entries = await readCachedListing(folder);
  if (entries === undefined) return undefined;
  let chosen: ModelFiles;
  try {
    chosen = choose(entries, spec, isWhole);
  } catch {
    // Not in the listing kept: the hub may know more by now, and its answer decides.
    return undefined;
  }
  for (const entry of entries) {
    if (chosen.files.includes(entry.path) && !(await isComplete(folder, entry))) return undefined;
  }
  return chosen;
}

/** Files get their name only after their checksum was compared: one of the right size is whole. */
async function isComplete(folder: string, entry: HubEntry): Promise<boolean> {
  return (await statOf(join(folder, entry.path)))?.size === entry.sizeBytes;
}

function resolvedIn(folder: string, { files, isFolder }: ModelFiles): ResolvedModel {
  if (isFolder === true && isHfFolder(folder)) return { path: folder, files: weightFilesOf(folder) };
  if (isFolder === true) return { path: folder, files: files.map((file) => join(folder, file)) };
  const paths = files.map((file) => join(folder, file));
  return { path: paths[0]!, files: paths };
}
