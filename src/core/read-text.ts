/** Text files from the user. */
import { accessSync, constants, readFileSync, statSync } from "node:fs";
import { MillraceError } from "./errors.js";

/** The longest string in V8. */
const MOST_BYTES = 2 ** 29 - 32;

const WORDS: Readonly<Record<string, string>> = {
  ENOENT: "no file of that name",
  EISDIR: "a folder",
  EACCES: "a file that this user may not read",
};

/** Names the obstacle to reading a file. @param cause the error of opening or reading it */
export function gotOf(cause: unknown): string {
  const { code, message } = cause as NodeJS.ErrnoException;
  return WORDS[code ?? ""] ?? message;
}

/**
 * The complete file. Throws an error for {@link gotOf} if it is missing, or is a named pipe or a device: a pipe would
 * block the process until it has a writer, and a device may never end. Inputs that this process has open are read to
 * their end.
 */
export function readRegular(path: string): string {
  if (!OPEN_INPUT.test(path)) {
    const size = sizeOfRegular(path);
    if (size > MOST_BYTES) throw new Error(`${size} bytes, more than ${MOST_BYTES}`);
  }
  return readFileSync(path, "utf8");
}

/** Paths at which a shell gives a command's output as a file. */
const OPEN_INPUT = /^\/dev\/stdin$|^\/(?:dev|proc\/self)\/fd\/\d+$/;

/** The complete file. @param what for the error, such as "chats" @throws file_unreadable */
export function readText(path: string, what: string): string {
  try {
    return readRegular(path);
  } catch (cause) {
    throw unreadable(path, what, cause);
  }
}

/** Checks a file that is read in pieces, or later. @param what for the error @throws file_unreadable */
export function assertReadable(path: string, what: string): void {
  try {
    sizeOfRegular(path);
    accessSync(path, constants.R_OK);
  } catch (cause) {
    throw unreadable(path, what, cause);
  }
}

/** The size of a regular file. Throws an error that names the path's actual kind. */
export function sizeOfRegular(path: string): number {
  const found = statSync(path);
  if (found.isDirectory()) throw new Error("a folder");
  if (!found.isFile()) throw new Error("something that is not a regular file");
  return found.size;
}

function unreadable(path: string, what: string, cause: unknown): MillraceError {
  return new MillraceError("file_unreadable", `expected ${what} in ${path}, got ${gotOf(cause)}`, {
    hint: "check the path and its permissions",
    cause,
  });
}
