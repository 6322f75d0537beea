/**
 * Parses a tree's TypeScript and JavaScript to syntax trees with the TypeScript compiler, for the checks of `npm run
 * lint`.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { API } from "typescript/unstable/sync";
import { listFiles } from "./setup/stamp.js";

const FOLDERS = ["bin", "scripts", "src", "models", "test"];
const isSource = (path) => /\.(tsx?|js|mjs)$/.test(path) && !/\/(\.venv|node_modules)\//.test(path);

/** @returns {Map<string, import("typescript/unstable/ast").SourceFile>} path relative to the root → its tree */
export function parseSources(root) {
  const paths = FOLDERS.flatMap((folder) => listFiles(root, folder, isSource));
  const folder = mkdtempSync(join(tmpdir(), "millrace-syntax-"));
  const api = new API({ cwd: folder });
  try {
    // Only syntax matters: without libraries and imported modules the compiler parses only these files.
    const compilerOptions = {
      allowJs: true,
      jsx: "preserve",
      noLib: true,
      noResolve: true,
      types: [],
      module: "esnext",
    };
    const config = join(folder, "tsconfig.json");
    writeFileSync(config, JSON.stringify({ compilerOptions, files: paths.map((path) => resolve(root, path)) }));
    const program = api.updateSnapshot({ openProjects: [config] }).getProjects()[0].program;
    return new Map(paths.map((path) => [path, program.getSourceFile(resolve(root, path))]));
  } finally {
    api.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @example "src/a.ts:12", counted from one */
export function placeOf(path, file, position) {
  return `${path}:${file.text.slice(0, position).split("\n").length}`;
}
