/** Text files that the user names. */
import { readFileSync } from "node:fs";
import { MillraceError } from "./errors.js";

/** The whole file. @param what for the error, such as "chats" @throws file_unreadable */
export function readText(path: string, what: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const got = code === "ENOENT" ? "no file of that name" : code === "EISDIR" ? "a folder" : message;
    throw new MillraceError("file_unreadable", `expected ${what} in ${path}, got ${got}`, {
      hint: "check the path and its permissions",
      cause,
    });
  }
}
