/** Writes the rendered files into a separate folder. */
import { chmodSync, copyFileSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { MillraceError } from "../core/errors.js";
import type { ImageFile } from "./image-request.js";

export interface WrittenFile {
  readonly path: string;
  readonly numBytes: number;
}

/** Throws invalid_option. */
export function writeFiles(folder: string, files: readonly ImageFile[], isForced: boolean): WrittenFile[] {
  try {
    mkdirSync(folder, { recursive: true });
    if (!isForced && readdirSync(folder).length > 0) throw new Error("files in it");
    return files.map((file) => writeOne(folder, file));
  } catch (cause) {
    const got = cause instanceof Error ? cause.message : String(cause);
    throw new MillraceError("invalid_option", `expected an empty folder at ${folder} to write to, got ${got}`, {
      hint: isForced ? "check the path and its permissions" : "name another folder, or write over it with --force",
      cause,
    });
  }
}

function writeOne(folder: string, { path, content, isExecutable = false }: ImageFile): WrittenFile {
  const target = join(folder, path);
  mkdirSync(dirname(target), { recursive: true });
  // A link or pipe of that name is replaced, never written through.
  rmSync(target, { force: true });
  if ("text" in content) writeFileSync(target, content.text);
  else copyFileSync(content.copyOf, target);
  chmodSync(target, isExecutable ? 0o755 : 0o644);
  return { path, numBytes: statSync(target).size };
}
