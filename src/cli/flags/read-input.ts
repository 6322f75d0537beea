/** Reads a command's text from a file or from standard input. */
import { readFileSync } from "node:fs";
import { MillraceError } from "../../core/errors.js";
import { gotOf, readRegular } from "../../core/read-text.js";

/** @param source a path, or undefined for standard input; throws file_unreadable */
export function readInput(source: string | undefined): string {
  try {
    return source === undefined ? readFileSync(process.stdin.fd, "utf8") : readRegular(source);
  } catch (cause) {
    throw new MillraceError("file_unreadable", `expected a text in ${source ?? "stdin"}, got ${gotOf(cause)}`, {
      hint: "check the path and its permissions",
      cause,
    });
  }
}

/**
 * Piped text. A terminal and an empty pipe are refused: the command neither waits for typing nor takes a forgotten pipe
 * as an empty text.
 *
 * @param hint the ways to give a text
 */
export function readPiped(hint: string, stdin: { readonly isTTY?: boolean } = process.stdin, read = readInput): string {
  const text = stdin.isTTY === true ? "" : read(undefined);
  if (text !== "") return text;
  const got = stdin.isTTY === true ? "a terminal" : "nothing";
  throw new MillraceError("invalid_option", `expected a text on stdin, got ${got}`, { hint });
}
