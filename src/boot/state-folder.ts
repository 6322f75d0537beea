/** The folder that keeps a machine's report and key. */
import { accessSync, constants, mkdirSync } from "node:fs";
import { MillraceError } from "../core/errors.js";

/** Throws file_unreadable before any start: without the folder, the machine could keep neither report nor key. */
export function makeStateFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
  } catch (cause) {
    const got = (cause as NodeJS.ErrnoException).code ?? String(cause);
    throw new MillraceError(
      "file_unreadable",
      `expected a folder that can be written as --state ${folder}, got ${got}`,
      {
        hint: "name another folder, or change its owner",
        cause,
      },
    );
  }
}
