/** Resolves a model's name (a file, a folder, `hf:org/repo[:file]`) to paths of local files, downloading them where needed. */
import type { Stats } from "node:fs";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { cacheFolder } from "../core/cache-folder.js";
import { MillraceError } from "../core/errors.js";
import { acquireFileLock } from "../core/file-lock.js";
import { type JsonObject, parseJsonObject } from "./files/json.js";
import { CONFIG_NAME, isHfFolder, weightFilesOf } from "./hf/folder.js";
import {
  chooseModel,
  chooseRepository,
  groupModels,
  type ModelFiles,
  shardNames,
  withoutCompanions,
} from "./hub/choose.js";
import { type DownloadProgress, downloadFile } from "./hub/download.js";
import {
  authorised,
  fetchListing,
  type HubAccess,
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

export interface ResolveOptions {
  /** `cacheFolder()`. */
  readonly cacheDir?: string;
  /** HF_ENDPOINT, else the public hub. */
  readonly endpoint?: string;
  /** HF_TOKEN. */
  readonly token?: string;
  /** For an engine that reads a repository itself: every file of it but weights in other forms. */
  readonly isWholeRepository?: boolean;
  readonly onProgress?: (progress: DownloadProgress) => void;
  /** Another process is downloading into the same folder. */
  readonly onWait?: () => void;
  readonly fetch?: typeof fetch;
  /** 5: attempts in a row that bring no byte. */
  readonly maxFruitlessAttempts?: number;
  /** 1000; doubles with each fruitless attempt. */
  readonly retryDelayMs?: number;
}

export interface ResolvedModel {
  /** The model's file (of a split model, its first shard), or the folder of a model of safetensors files. */
  readonly path: string;
  /** The files with weights, in order. */
  readonly files: readonly string[];
}

const PUBLIC_ENDPOINT = "https://huggingface.co";

/**
 * A model that lies in the cache whole is used as it is, without asking the hub: starts are fast, work offline and repeat.
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
    return acquireFileLock(join(folder, LOCK_NAME), options.onWait);
  });
  try {
    const meanwhile = await findCached(folder, spec, isWhole);
    return resolvedIn(folder, meanwhile ?? (await download(folder, spec, options)));
  } finally {
    release();
  }
}

async function download(folder: string, spec: HubSpec, options: ResolveOptions): Promise<ModelFiles> {
  const endpoint = (options.endpoint ?? process.env.HF_ENDPOINT ?? PUBLIC_ENDPOINT).replace(/\/+$/, "");
  const token = options.token ?? process.env.HF_TOKEN;
  const access: HubAccess = { endpoint, fetch: authorised(options.fetch ?? fetch, checkedUrl(endpoint), token) };
  const entries = await fetchListing(access, spec);
  const chosen = choose(entries, spec, options.isWholeRepository === true);
  for (const file of chosen.files) refuseUnsafePath(file);
  await writeCachedListing(folder, await keptListing(folder, entries, chosen));
  for (const file of chosen.files) {
    const entry = entries.find(({ path }) => path === file)!;
    if (await isComplete(folder, entry)) continue;
    await downloadFile(access, resolveUrl(endpoint, spec, file), entry, join(folder, file), {
      onProgress: options.onProgress,
      maxFruitlessAttempts: options.maxFruitlessAttempts ?? 5,
      retryDelayMs: options.retryDelayMs ?? 1000,
    });
  }
  return chosen;
}

/**
 * The listing to keep: it says of each file what lies in the cache under its name, so of those that are not asked for what it said
 * before. Files that are, and that the hub has with other content by now, are removed: their size alone would not tell.
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
  const endpoint = (options.endpoint ?? process.env.HF_ENDPOINT ?? PUBLIC_ENDPOINT).replace(/\/+$/, "");
  const fetchFn = authorised(options.fetch ?? fetch, checkedUrl(endpoint), options.token ?? process.env.HF_TOKEN);
  const what = `${CONFIG_NAME} of ${parsed.repo}`;
  try {
    const response = await fetchFn(resolveUrl(endpoint, parsed, CONFIG_NAME), { signal: AbortSignal.timeout(20_000) });
    if (!response.ok) throw Object.assign(new Error(response.statusText), { statusCode: response.status });
    return parseJsonObject(await response.text(), `${parsed.repo}/${CONFIG_NAME}`);
  } catch (thrown) {
    throw hubError(thrown, what, endpoint);
  }
}

function checkedUrl(endpoint: string): string {
  if (URL.canParse(endpoint)) return endpoint;
  throw new MillraceError("hub_spec", `expected the hub's endpoint as a URL, got ${JSON.stringify(endpoint)}`, {
    hint: `set HF_ENDPOINT to a URL such as ${PUBLIC_ENDPOINT}, or leave it out`,
  });
}

function choose(entries: readonly HubEntry[], { file, repo }: HubSpec, isWhole: boolean): ModelFiles {
  const names = entries.map(({ path }) => path);
  return isWhole && file === undefined ? chooseRepository(names, repo) : chooseModel(names, file, repo);
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

function resolveUrl(endpoint: string, { repo, revision }: HubSpec, file: string): string {
  const encodedFile = file.split("/").map(encodeURIComponent).join("/");
  return `${endpoint}/${repo}/resolve/${encodeURIComponent(revision)}/${encodedFile}`;
}
