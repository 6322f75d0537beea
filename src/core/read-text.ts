/** Text files that the user names. */
import { readFileSync, statSync } from "node:fs";
import { MillraceError } from "./errors.js";

/** V8 has no longer strings. */
const MOST_BYTES = 2 ** 29 - 32;

/** The whole file. @param what for the error, such as "chats" @throws file_unreadable */
export function readText(path: string, what: string): string {
  try {
    const found = statSync(path);
    if (found.isDirectory()) throw new Error("a folder");
    // A pipe would hold the process up until it has a writer, and a device may never end.
    if (!found.isFile()) throw new Error("something that is not a regular file");
    if (found.size > MOST_BYTES) throw new Error(`${found.size} bytes, more than ${MOST_BYTES}`);
    return readFileSync(path, "utf8");
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const got = code === "ENOENT" ? "no file of that name" : message;
    throw new MillraceError("file_unreadable", `expected ${what} in ${path}, got ${got}`, {
      hint: "check the path and its permissions",
      cause,
    });
  }
}
