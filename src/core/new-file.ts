/** Files that a command will write at its end: told before the work if they cannot be. */
import { existsSync, lstatSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { MillraceError } from "./errors.js";

/** Throws invalid_option where something stands at `path`, or where its folder is missing. */
export function assertNewFile(path: string): void {
  const folder = dirname(resolve(path));
  if (!existsSync(folder)) {
    throw new MillraceError("invalid_option", `expected a folder for ${path}, got nothing at ${folder}`, {
      hint: "make the folder, or give another place",
    });
  }
  // A link that leads nowhere stands there too.
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return;
  throw new MillraceError("invalid_option", `expected nothing at ${path} yet, got a file or folder`, {
    hint: "remove it, or give another name",
  });
}
