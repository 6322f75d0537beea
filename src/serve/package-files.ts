/** Finds what ships beside the code: the package's version and its assets. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { MillraceError } from "../core/errors.js";

/** The same from src/ and from dist/src/. */
function findPackageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) {
    const parent = dirname(folder);
    if (parent === folder) {
      throw new MillraceError("internal_error", "expected a package.json above the server's code, got none", {
        hint: "reinstall the package",
      });
    }
    folder = parent;
  }
  return folder;
}

const packageRoot = findPackageRoot();

export function readPackageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8"));
  const hasVersion = typeof manifest === "object" && manifest !== null && "version" in manifest;
  return hasVersion && typeof manifest.version === "string" ? manifest.version : "0.0.0";
}

export function readAsset(name: string): string {
  return readFileSync(join(packageRoot, "assets", name), "utf8");
}
