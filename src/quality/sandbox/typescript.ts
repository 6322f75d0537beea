/** Runs generated TypeScript in a Node process that can only read the compiler. */
import { readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { packageRoot } from "../../core/package-root.js";
import { type ConfinedProgram, librariesOf } from "./jail.js";

const HARNESS = "dist/src/quality/sandbox/typescript-harness.js";
const HEAP_MB = 64;
/** Private memory: heap, other memory, stacks, and from Node 24 on 512 MiB reserved for machine code. */
const DATA_BYTES = 1 << 30;
/** Node's five threads and a watchdog; a second Node does not fit. */
const NUM_THREADS = 8;
/** Folder from which distributions' builds of Node read parts of Node. */
const NODE_PARTS = "/usr/share/nodejs";

let program: ConfinedProgram | undefined;

export function typescriptProgram(): ConfinedProgram {
  program ??= makeProgram();
  return program;
}

function makeProgram(): ConfinedProgram {
  const compiler = realpathSync(createRequire(import.meta.url).resolve("@swc/wasm-typescript"));
  const compilerFolder = dirname(compiler);
  const node = realpathSync(process.execPath);
  const libraries = librariesOf([node]);
  const parts = libraries.some((path) => path.includes("libnode")) ? [NODE_PARTS] : [];
  const permission = process.allowedNodeEnvironmentFlags.has("--permission") ? "" : "experimental-";
  const flags = [`--${permission}permission`, `--allow-fs-read=${join(compilerFolder, "*")}`, "--no-warnings"];
  flags.push("--no-addons", `--max-old-space-size=${HEAP_MB}`, "--v8-pool-size=0", "--input-type=module");
  return {
    command: node,
    args: [...flags, "--eval", readFileSync(join(packageRoot(), HARNESS), "utf8"), compiler],
    reads: [node, ...libraries, ...parts, compilerFolder],
    limits: { numThreads: NUM_THREADS, dataBytes: DATA_BYTES, cpuSeconds: 15 },
  };
}
