/**
 * Results of long builds. Each has a folder named after all its inputs, so that no build gets another's result. One
 * process builds while the others wait; the folder gets its name only when the result is complete.
 */
import { createHash } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { acquireFileLock } from "../../core/file-lock.js";
import { samplesOf } from "../../core/file-samples.js";

/** Lists a result's files and sources. */
const MANIFEST = "build.json";
const ID_DIGITS = 24;

interface CachedBuild {
  readonly root: string;
  readonly name: string;
  /** All inputs of the result. */
  readonly inputs: object;
  /** Names of files that a complete result has. */
  readonly files: readonly string[];
  /** Builds the result in an empty folder. */
  make(into: string): Promise<void>;
  /** Called if another instance or process is building the result. */
  onWait(): void;
  /** Called with the reason if a kept result is unusable. */
  onFault(text: string): void;
}

/** @returns the folder with the complete result; removes the remains of an interrupted build */
export async function cachedBuild(build: CachedBuild, signal: AbortSignal): Promise<string> {
  const { root, name, inputs, files, make, onWait, onFault } = build;
  const id = createHash("sha256").update(JSON.stringify(inputs)).digest("hex").slice(0, ID_DIGITS);
  const folder = join(root, `${name}-${id}`);
  const release = await acquireFileLock(`${folder}.lock`, onWait, signal);
  try {
    const fault = await faultOf(folder);
    if (fault === undefined) return folder;
    if (fault !== "absent") onFault(`${basename(folder)} is made again: ${fault}`);
    const partial = `${folder}.partial`;
    for (const each of [folder, partial]) await rm(each, { recursive: true, force: true });
    await mkdir(partial, { recursive: true });
    try {
      await make(partial);
      const made = await fingerprint(partial);
      expectFiles(files, made);
      await writeFile(join(partial, MANIFEST), JSON.stringify({ inputs, files: made }));
    } catch (thrown) {
      // After one of our errors, a later attempt would fail too, and may never come to remove the remains.
      if (thrown instanceof MillraceError) await rm(partial, { recursive: true, force: true });
      throw thrown;
    }
    await rename(partial, folder);
    return folder;
  } finally {
    release();
  }
}

function expectFiles(files: readonly string[], made: Readonly<Record<string, string>>): void {
  const missing = files.find((file) => made[file] === undefined);
  if (missing === undefined) return;
  throw new MillraceError("build_failed", `expected ${missing} among the files that were built, got none`, {
    hint: "The instance's log has the builder's output.",
  });
}

/** The reason why a folder is not a complete result: "absent", or its fault. */
async function faultOf(folder: string): Promise<string | undefined> {
  if ((await stat(folder).catch(() => undefined)) === undefined) return "absent";
  try {
    const { files } = JSON.parse(await readFile(join(folder, MANIFEST), "utf8")) as { files: Record<string, string> };
    const found = await fingerprint(folder);
    const changed = Object.keys(files).find((file) => files[file] !== found[file]);
    return changed === undefined ? undefined : `${changed} is not as it was built`;
  } catch {
    return `expected ${MANIFEST}, got none that can be read`;
  }
}

/**
 * Size and samples of each file below a folder except hidden ones, by path. Weights are too large for complete reading
 * at
 * every start; a cut file differs in its size, and another model's weights in their samples.
 */
export async function fingerprint(folder: string): Promise<Readonly<Record<string, string>>>;
/** @returns undefined if there are more than `maxFiles` files and folders */
export async function fingerprint(
  folder: string,
  maxFiles: number,
): Promise<Readonly<Record<string, string>> | undefined>;
export async function fingerprint(folder: string, maxFiles = Number.POSITIVE_INFINITY) {
  const names = (await readdir(folder, { recursive: true })).sort();
  if (names.length > maxFiles) return undefined;
  const prints: Record<string, string> = {};
  for (const name of names) {
    if (name === MANIFEST || name.split("/").some((part) => part.startsWith("."))) continue;
    const print = await fingerprintOfFile(join(folder, name));
    if (print !== undefined) prints[name] = print;
  }
  return prints;
}

/** Size and samples of a file; undefined for a folder. */
export async function fingerprintOfFile(path: string): Promise<string | undefined> {
  const file = await open(path, "r");
  try {
    const about = await file.stat();
    if (!about.isFile()) return undefined;
    const hash = createHash("sha256");
    for (const { byteOffset, byteLength } of samplesOf(about.size)) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(byteLength), 0, byteLength, byteOffset);
      hash.update(buffer.subarray(0, bytesRead));
    }
    return `${about.size} ${hash.digest("hex")}`;
  } finally {
    await file.close();
  }
}
