/**
 * Finds test data: the small files of this repository first, then the larger set beside it (`MILLRACE_FIXTURES` or
 * ../shared/fixtures).
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The repository's root, from test/helpers/ as source and as compiled to dist/test/helpers/. */
export function repositoryRoot(): string {
  const here = fileURLToPath(new URL(".", import.meta.url));
  const root = join(here, "../..");
  return existsSync(join(root, "package.json")) ? root : join(root, "..");
}

/** The folder of the larger set, whether or not it exists. */
export function fixturesDir(): string {
  return process.env.MILLRACE_FIXTURES ?? join(repositoryRoot(), "../shared/fixtures");
}

function findFixture(name: string): string | undefined {
  return [join(repositoryRoot(), "test/fixtures"), fixturesDir()].map((dir) => join(dir, name)).find(existsSync);
}

/** @example test.skipIf(!hasFixture("models/qwen3.gguf"))("…", …) */
export function hasFixture(name: string): boolean {
  return findFixture(name) !== undefined;
}

/** Path of the named file or folder. Tests that can live without it ask `hasFixture` and skip aloud. */
export function fixture(name: string): string {
  const path = findFixture(name);
  if (path === undefined) {
    throw new Error(`expected fixture ${name} in test/fixtures or ${fixturesDir()}, got none; set MILLRACE_FIXTURES`);
  }
  return path;
}
