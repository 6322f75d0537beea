/**
 * Staleness by stamp: a hash over paths, sizes and modification times of the sources, stored by the last successful
 * build.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Files under `path` (a folder or a file, relative to root), sorted, so that the hash does not depend on the file
 * system.
 */
export function listFiles(root, path, isWanted = () => true) {
  const absolute = join(root, path);
  if (!existsSync(absolute)) return [];
  if (!statSync(absolute).isDirectory()) return [path];
  return readdirSync(absolute, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const child = `${path}/${entry.name}`;
      if (entry.isDirectory()) return listFiles(root, child, isWanted);
      return isWanted(child) ? [child] : [];
    });
}

/** @param salt everything else that determines the result: platform, compiler, flags. */
export function hashSources(root, paths, isWanted, salt = "") {
  const hash = createHash("sha256").update(salt);
  for (const file of paths.flatMap((path) => listFiles(root, path, isWanted))) {
    const { size, mtimeMs } = statSync(join(root, file));
    hash.update(`\n${file} ${size} ${mtimeMs}`);
  }
  return hash.digest("hex");
}

export function readStamp(path) {
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}

export function writeStamp(path, stamp) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, stamp);
}
