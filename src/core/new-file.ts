/** Files that a command will write at its end: told before the work if they cannot be. */
import { existsSync, lstatSync, rmSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { MillraceError } from "./errors.js";

/** Throws invalid_option where something stands at `path`, where its folder is missing, or where nothing can be written. */
export function assertNewFile(path: string): void {
  assertNothingAt(path);
  try {
    // Permissions say less: a file system may be read-only or full, and a name too long.
    writeFileSync(path, "", { flag: "wx" });
    rmSync(path);
  } catch (cause) {
    throw new MillraceError("invalid_option", `expected to write ${path}, got ${(cause as Error).message}`, {
      hint: "give another place, or the right to write there",
      cause,
    });
  }
}

function assertNothingAt(path: string): void {
  const folder = dirname(resolve(path));
  if (!existsSync(folder)) {
    throw new MillraceError("invalid_option", `expected a folder for ${path}, got nothing at ${folder}`, {
      hint: "make the folder, or give another place",
    });
  }
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
