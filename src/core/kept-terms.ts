/** The terms of a folder's results, in a file beside them, so that results under other terms are not added. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MillraceError } from "./errors.js";

/**
 * Creates the folder and writes the terms, or compares them with the present ones.
 * @param file name of the terms' file in the folder
 * @throws invalid_option if the folder has answers under other terms
 */
export function keepTerms(folder: string, file: string, terms: object): void {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, file);
  const text = `${JSON.stringify(terms)}\n`;
  if (!existsSync(path)) writeFileSync(path, text);
  const there = readFileSync(path, "utf8");
  if (there === text) return;
  const message = `expected answers under ${text.trim()} in ${folder}, got ${there.trim()}`;
  throw new MillraceError("invalid_option", message, { hint: "use another --out, or the same terms" });
}
