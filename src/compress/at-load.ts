/** Quantised copies of models for `serve --quantization`: made at the first start, reused at later ones. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { createRowEncoder } from "../backend/create/create-backend.js";
import { convertModel } from "../convert/convert.js";
import { cacheFolder } from "../core/cache-folder.js";
import { MillraceError } from "../core/errors.js";
import type { StartStage } from "../core/stages.js";
import { isFolderMethod } from "./folder-formats.js";
import { ENCODERS, versionsOf } from "./identity.js";
import { METHODS, type Method, quantisedStorage } from "./storage.js";

/** Names that users know from vLLM and bitsandbytes. */
const ALIASES: Readonly<Record<string, Method>> = { INT8: "Q8_0", INT4: "Q4_K_M" };

export const QUANTIZATIONS: readonly string[] = [
  ...new Set([...Object.keys(ALIASES), ...METHODS].map((name) => name.toLowerCase())),
];

/** @example methodOf("int8") // "Q8_0" */
export function methodOf(name: string): Method | undefined {
  const upper = name.toUpperCase();
  return ALIASES[upper] ?? METHODS.find((method) => method === upper);
}

/** A finished copy's name after its prefix; an unfinished copy has another form. */
const COPY = /^[0-9a-f]{16}(\.gguf)?$/;

const DAY_MS = 86_400_000;

/**
 * The path of a quantised copy in the cache. Several processes may call this at once: each writes a copy, and the first
 * finished one is kept.
 * @param path of a model on this disk
 */
export async function quantisedCopy(
  path: string,
  method: Method,
  numThreads: number,
  startStage: StartStage,
): Promise<string> {
  const folder = join(cacheFolder(), "quantized");
  makeFolder(folder);
  const prefix = `${hashOf(resolve(path))}-${method}-`;
  const copy = join(
    folder,
    `${prefix}${hashOf([ENCODERS, ...versionsOf(path)])}${isFolderMethod(method) ? "" : ".gguf"}`,
  );
  const stage = startStage(method);
  if (existsSync(copy)) {
    stage.done(`${copy}, of an earlier start`);
    return copy;
  }
  const encoder = createRowEncoder(numThreads);
  try {
    const type = (model: Parameters<typeof quantisedStorage>[1]) =>
      quantisedStorage(method, model, { encoder, importance: undefined });
    const tell = (done: number, total: number): void => stage.update(`${Math.floor((100 * done) / total)} % written`);
    await convertModel({ model: path, out: copy, type }, tell, (text) => stage.note(text));
  } catch (thrown) {
    // If the copy exists, another process was faster.
    if (!(thrown instanceof MillraceError)) throw thrown;
    // If not, the cache is full: the error of `--out` would name an option that the user did not give.
    if (!existsSync(copy))
      throw thrown.code === "invalid_option" && isSystemError(thrown.cause) ? cannotKeep(folder, thrown.cause) : thrown;
  } finally {
    encoder.close();
  }
  for (const name of readdirSync(folder)) {
    const each = join(folder, name);
    // An earlier copy of the model, from before its files changed.
    const isOlder = name.startsWith(prefix) && COPY.test(name.slice(prefix.length)) && each !== copy;
    if (isOlder || isLeftOver(each)) rmSync(each, { recursive: true, force: true });
  }
  stage.done(copy);
  return copy;
}

/** Throws invalid_option. */
function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (cause) {
    throw cannotKeep(folder, cause);
  }
}

const isSystemError = (cause: unknown): boolean => (cause as NodeJS.ErrnoException | undefined)?.code !== undefined;

function cannotKeep(folder: string, cause: unknown): MillraceError {
  return new MillraceError("invalid_option", `expected to keep copies in ${folder}, got ${(cause as Error).message}`, {
    hint: "set MILLRACE_CACHE to a folder that can be written and has room for the copy",
    cause,
  });
}

/** Whether a stopped process left the copy unfinished: no process works on a copy for a day. */
function isLeftOver(path: string): boolean {
  if (!path.includes(".partial-")) return false;
  const found = statSync(path, { throwIfNoEntry: false });
  return found !== undefined && Date.now() - found.mtimeMs > DAY_MS;
}

const hashOf = (value: unknown): string =>
  createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 16);
