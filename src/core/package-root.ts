/** The package's place on disk: the same from src/ (tests) and from dist/src/ (the built program). */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { MillraceError } from "./errors.js";

/** Folder of the nearest package.json above this file. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) {
    const parent = dirname(folder);
    if (parent === folder) {
      throw new MillraceError("internal_error", "expected a package.json above the program's code, got none", {
        hint: "reinstall the package",
      });
    }
    folder = parent;
  }
  return folder;
}

export function packageVersion(root = packageRoot()): string {
  const manifest: unknown = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const hasVersion = typeof manifest === "object" && manifest !== null && "version" in manifest;
  return hasVersion && typeof manifest.version === "string" ? manifest.version : "0.0.0";
}
