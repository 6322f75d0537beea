/**
 * Fails if an import breaks the layers of docs/background/architecture.md, closes a cycle between files or between
 * folders, or names a package that package.json lacks.
 *
 *   node scripts/check-layers.js [root]
 */
import { existsSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { listFiles } from "./setup/stamp.js";

/** Maps each layer (a folder of src/) to the other layers that it may import. */
const ALLOWED = {
  core: [],
  formats: ["core"],
  text: ["core", "formats"],
  backend: ["core", "formats"],
  model: ["core", "formats", "backend"],
  convert: ["core", "formats", "text", "backend", "model"],
  engine: ["core", "formats", "text", "backend", "model"],
  serve: ["core", "formats", "text", "engine", "observe"],
  bench: ["core", "formats", "text", "backend", "model", "engine", "gateway", "fleet"],
  local: ["core", "formats", "text", "engine", "serve"],
  quality: ["core", "text", "gateway"],
  lab: ["core", "formats", "text", "engine", "model", "bench", "local", "quality", "prompts"],
  compress: ["core", "formats", "text", "backend", "model", "convert", "engine", "bench", "quality", "lab"],
  prompts: ["core", "text"],
  plan: ["core", "formats", "model"],
  library: ["core", "formats", "model", "plan"],
  distill: [
    "core",
    "formats",
    "text",
    "backend",
    "model",
    "convert",
    "compress",
    "engine",
    "bench",
    "local",
    "quality",
  ],
  gateway: ["core", "text"],
  fleet: ["core", "text", "gateway", "observe"],
  routers: ["core", "text", "gateway", "quality", "distill"],
  observe: ["core"],
  image: ["core", "fleet", "observe"],
  boot: ["core", "formats", "gateway", "fleet", "image"],
  web: [],
  cli: [
    "core",
    "formats",
    "text",
    "backend",
    "model",
    "convert",
    "engine",
    "bench",
    "local",
    "quality",
    "lab",
    "compress",
    "prompts",
    "distill",
    "routers",
    "plan",
    "serve",
    "gateway",
    "fleet",
    "observe",
    "image",
    "boot",
    "library",
    "models",
  ],
};

const IMPORT_PATTERNS = [
  // Statements begin a line (the formatter ensures it), which excludes code in strings.
  /^(?:import|export)\s[^"';]*?from\s*["']([^"']+)["']/gm,
  /^import\s*["']([^"']+)["']/gm,
  /\bimport\s*\(\s*["']([^"']+)["']\s*\)/g,
  /\bnew URL\(\s*["'](\.[^"']+\.[jt]s)["']\s*,\s*import\.meta\.url\s*\)/g,
];

const isTest = (file) => /\.test\.ts$|(^|\/)test-helpers?\.ts$|^test\//.test(file);

/** Comments may quote an import. */
const withoutComments = (text) => text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "$1");

/** @returns distinct specifiers, as written */
function importsOf(text) {
  const code = withoutComments(text);
  return [...new Set(IMPORT_PATTERNS.flatMap((pattern) => [...code.matchAll(pattern)].map((match) => match[1])))];
}

/** src/engine/x.ts → engine; models/corpus/y.ts → models */
function layerOf(file) {
  const [top, second] = file.split("/");
  return top === "src" ? second : top;
}

/** The reason why `file` may not import `target` (both relative to the root), or undefined. */
function layerBreach(file, target) {
  const from = layerOf(file);
  const to = layerOf(target);
  if (from === to) return undefined;
  if (from === "models") return "models imports nothing of ours";
  if (isTest(file) && (to === "test" || to === "models" || from === "test")) return undefined;
  const allowed = ALLOWED[from];
  if (allowed === undefined) return `${from} is no known layer (${Object.keys(ALLOWED).join(", ")})`;
  if (allowed.includes(to)) return undefined;
  return `${from} may import ${allowed.length === 0 ? "no other layer" : allowed.join(", ")}; not ${to}`;
}

/** Only these files know which backend computes; the others see a Backend. */
const CPU_BACKEND = "src/backend/cpu/";
const KNOW_CPU_BACKEND = ["src/backend/create/create-backend.ts", CPU_BACKEND, "src/bench/kernels/"];

/** The reason why `file` may not know the CPU backend, or undefined. */
function backendBreach(file, target) {
  if (!target.startsWith(CPU_BACKEND) || isTest(file)) return undefined;
  if (KNOW_CPU_BACKEND.some((path) => file.startsWith(path))) return undefined;
  return `only ${KNOW_CPU_BACKEND.join(", ")} and tests may import ${CPU_BACKEND}`;
}

/** Imports of types only, which the compiler drops. */
const TYPE_IMPORT = /^import type\s[^"';]*?from\s*["']([^"']+)["']/gm;

/** @param code the file's text */
function packageBreach(file, code, specifier, manifest) {
  const name = specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
  if (specifier.startsWith("node:")) return undefined;
  if (builtinModules.includes(name)) return `write node:${specifier}`;
  if ((manifest.dependencies?.[name] ?? manifest.optionalDependencies?.[name]) !== undefined) return undefined;
  // The bundle of the app contains its packages.
  const isTypes = importsOf(code.replace(TYPE_IMPORT, "")).every((each) => each !== specifier);
  const isBuiltIn = isTest(file) || layerOf(file) === "web" || isTypes;
  if (isBuiltIn && manifest.devDependencies?.[name] !== undefined) return undefined;
  return `package ${name} is not in package.json's dependencies`;
}

/**
 * Cycles as paths of files, each found once: in a depth-first search, an edge back into the current path closes one.
 */
function findCycles(graph) {
  const cycles = [];
  const done = new Set();
  const visit = (file, path) => {
    const start = path.indexOf(file);
    if (start >= 0) {
      cycles.push([...path.slice(start), file]);
      return;
    }
    if (done.has(file)) return;
    for (const target of graph.get(file) ?? []) visit(target, [...path, file]);
    done.add(file);
  };
  for (const file of graph.keys()) visit(file, []);
  return cycles;
}

/**
 * Considers only product files: a test may use layers above its own.
 * @returns maps each folder to the folders that its own files import, with one such import each
 */
function foldersOf(graph) {
  const folders = new Map();
  for (const [file, targets] of graph) {
    if (isTest(file)) continue;
    const from = dirname(file);
    for (const target of targets) {
      const to = dirname(target);
      if (to === from) continue;
      if (!folders.has(from)) folders.set(from, new Map());
      folders.get(from).set(to, `${file} imports ${target}`);
    }
  }
  return folders;
}

/** Circular imports between folders, including subfolders: a folder's own files count as a separate folder. */
function folderProblems(graph) {
  const folders = foldersOf(graph);
  const edges = new Map([...folders].map(([folder, targets]) => [folder, [...targets.keys()]]));
  return findCycles(edges).map((cycle) => {
    const imports = cycle.slice(1).map((to, i) => folders.get(cycle[i]).get(to));
    return `${cycle[0]}: folders import each other: ${cycle.join(" → ")} (${imports.join("; ")})`;
  });
}

/** @returns lines "file: problem" */
export function checkLayers(root) {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const files = ["src", "models", "test"].flatMap((folder) => listFiles(root, folder, (path) => /\.tsx?$/.test(path)));
  const problems = [];
  const graph = new Map();
  for (const file of files) {
    const targets = [];
    const code = readFileSync(join(root, file), "utf8");
    for (const specifier of importsOf(code)) {
      if (!specifier.startsWith(".")) {
        const breach = packageBreach(file, code, specifier, manifest);
        if (breach !== undefined) problems.push(`${file}: imports "${specifier}": ${breach}`);
        continue;
      }
      const script = posix.join(dirname(file), specifier).replace(/\.js$/, ".ts");
      const target = existsSync(join(root, script)) ? script : script.replace(/\.ts$/, ".tsx");
      const breach = layerBreach(file, target) ?? backendBreach(file, target);
      if (breach !== undefined) problems.push(`${file}: imports ${target}: ${breach}`);
      if (existsSync(join(root, target)) && /\.tsx?$/.test(target)) targets.push(target);
    }
    graph.set(file, targets);
  }
  const cycles = findCycles(graph).map((cycle) => `${cycle[0]}: import cycle: ${cycle.join(" → ")}`);
  return [...problems, ...cycles, ...folderProblems(graph)];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problems = checkLayers(process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url)));
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  process.stdout.write(
    problems.length === 0 ? "layers: imports go one way\n" : `layers: ${problems.length} problems\n`,
  );
  process.exitCode = problems.length === 0 ? 0 : 1;
}
