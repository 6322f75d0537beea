/**
 * Checks, before a command does its work, that its output files can be written at its end. Text may also go into a
 * pipe, a
 * device or an output of the process.
 */
import { existsSync, fstatSync, lstatSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { MillraceError } from "./errors.js";

/** Throws invalid_option if `path` exists, if its folder is missing, or if it cannot be written. */
export function assertNewFile(path: string): void {
  assertFolderOf(path);
  assertNothingAt(path);
  probe(path);
}

/** The same for text, which may also go into a pipe, a device or an output of the process. */
export function assertNewText(path: string): void {
  if (!isOutlet(path)) assertNewFile(path);
}

/**
 * Throws invalid_option if {@link replaceFile} cannot write: the folder is missing, `path` is not a file, or the place
 * is
 * not writable.
 */
export function assertReplaceable(path: string): void {
  if (isOutlet(path)) return;
  assertFolderOf(path);
  if (existsSync(path) && !statSync(path).isFile()) {
    throw new MillraceError("invalid_option", `expected a file or nothing at ${path}, got something else`, {
      hint: "give another name",
    });
  }
  probe(path);
}

/**
 * An output that takes bytes as they come and cannot be replaced: the number of an output of this process, or the path
 * of a pipe or device; undefined: a file.
 */
function outletOf(path: string): number | string | undefined {
  const fd = /^\/(?:dev|proc\/self)\/fd\/(\d+)$/.exec(path)?.[1] ?? STANDARD.get(path);
  if (fd !== undefined) return Number(fd);
  const found = existsSync(path) ? statSync(path) : undefined;
  return found?.isFIFO() || found?.isCharacterDevice() ? path : undefined;
}

const STANDARD: ReadonlyMap<string, number> = new Map([
  ["/dev/stdout", 1],
  ["/dev/stderr", 2],
]);

/**
 * Whether the path is a pipe, a device or an output of this process instead of a file. Throws invalid_option for a
 * closed output of this process.
 */
export function isOutlet(path: string): boolean {
  const outlet = outletOf(path);
  if (typeof outlet === "number") writing(path, () => fstatSync(outlet));
  return outlet !== undefined;
}

/**
 * Sends bytes to an output of this process, after all earlier bytes.
 * @returns false: `path` is no such output, and nothing was written
 */
export function passTo(path: string, bytes: string | Uint8Array): boolean {
  const outlet = outletOf(path);
  if (typeof outlet !== "number") return false;
  // These may be full non-blocking pipes; their streams wait for room.
  if (outlet === 1) process.stdout.write(bytes);
  else if (outlet === 2) process.stderr.write(bytes);
  else writing(path, () => writeFileSync(outlet, bytes));
  return true;
}

/**
 * Tries to write, since permissions show less: a file system may be read-only or full, and a name too long. A process
 * killed here leaves nothing at `path`.
 */
function probe(path: string): void {
  const partial = partialOf(path);
  writing(path, () => {
    writeFileSync(partial, "", { flag: "wx" });
    rmSync(partial);
  });
}

/** Whether two paths lead to the same file, which may be missing. */
export function isSameFile(one: string, other: string): boolean {
  if (!existsSync(one) || !existsSync(other)) return resolve(one) === resolve(other);
  const [a, b] = [statSync(one), statSync(other)];
  return a.dev === b.dev && a.ino === b.ino;
}

/** Writes the complete file, or leaves the present one. Throws invalid_option. */
export function replaceFile(path: string, text: string): void {
  if (passTo(path, text)) return;
  if (isOutlet(path)) {
    writing(path, () => writeFileSync(path, text));
    return;
  }
  const partial = partialOf(path);
  writing(path, () => {
    try {
      writeFileSync(partial, text, { flag: "wx" });
      renameSync(partial, partial.slice(0, -PARTIAL.length));
    } catch (thrown) {
      rmSync(partial, { force: true });
      throw thrown;
    }
  });
}

const PARTIAL = `.${process.pid}.partial`;

/** Beside the file itself, if `path` is a link to one. */
const partialOf = (path: string): string => (existsSync(path) ? realpathSync(path) : path) + PARTIAL;

function writing(path: string, write: () => void): void {
  try {
    write();
  } catch (cause) {
    throw new MillraceError("invalid_option", `expected to write ${path}, got ${(cause as Error).message}`, {
      hint: "give another place, or the right to write there",
      cause,
    });
  }
}

function assertFolderOf(path: string): void {
  const folder = dirname(resolve(path));
  if (existsSync(folder)) return;
  throw new MillraceError("invalid_option", `expected a folder for ${path}, got nothing at ${folder}`, {
    hint: "make the folder, or give another place",
  });
}

function assertNothingAt(path: string): void {
  // A dangling link blocks the path too.
  if (!isThere(path)) return;
  throw new MillraceError("invalid_option", `expected nothing at ${path} yet, got a file or folder`, {
    hint: "remove it, or give another name",
  });
}

/** Also false for a name that is too long, or below a file; writing then fails. */
function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
}
