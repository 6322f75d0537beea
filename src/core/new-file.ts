/** Files that a command will write at its end: told before the work if they cannot be. */
import { existsSync, lstatSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { MillraceError } from "./errors.js";

/** Throws invalid_option where something stands at `path`, where its folder is missing, or where nothing can be written. */
export function assertNewFile(path: string): void {
  assertFolderOf(path);
  assertNothingAt(path);
  probe(path);
}

/** Throws invalid_option where {@link replaceFile} cannot write: no folder, something that is no file, or a place that cannot be written. */
export function assertReplaceable(path: string): void {
  assertFolderOf(path);
  if (existsSync(path) && !statSync(path).isFile()) {
    throw new MillraceError("invalid_option", `expected a file or nothing at ${path}, got something else`, {
      hint: "give another name",
    });
  }
  probe(path);
}

/** Permissions say less: a file system may be read-only or full, and a name too long. A process that is killed here leaves nothing at `path`. */
function probe(path: string): void {
  const partial = partialOf(path);
  writing(path, () => {
    writeFileSync(partial, "", { flag: "wx" });
    rmSync(partial);
  });
}

/** Writes the whole file or leaves the one that stands there. Throws invalid_option. */
export function replaceFile(path: string, text: string): void {
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

/** Beside the file itself, where a link leads to one. */
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
  // A link that leads nowhere stands there too.
  if (!isThere(path)) return;
  throw new MillraceError("invalid_option", `expected nothing at ${path} yet, got a file or folder`, {
    hint: "remove it, or give another name",
  });
}

/** False also where the name is too long, or behind a file: writing tells. */
function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
}
