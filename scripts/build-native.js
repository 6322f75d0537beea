/**
 * Compiles the native kernels: native/cpu/{kernels,runtime,binding} into build/native/millrace.node with the system's
 * C++ compiler, kernel files once per instruction set. Only stale files are compiled: a stamp beside each object has
 * the hash of its source, headers and flags.
 */
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const NATIVE = path.join(ROOT, "native", "cpu");
const BASE_FLAGS = [
  "-std=c++17",
  "-fPIC",
  // Only explicit fused multiply-adds, so that results do not depend on the compiler.
  "-ffp-contract=off",
  "-fno-math-errno",
  "-fno-trapping-math",
  "-fvisibility=hidden",
  "-pthread",
  "-Wall",
  "-Wextra",
  "-Wno-psabi",
];
/** Uncalled kernels have no definition; -w silences the compiler's warnings about them. */
const DECODE_FLAGS = ["-DMILLRACE_ONLY_DECODES", "-w"];
const AVX2_FLAGS = ["-mavx2", "-mfma", "-mf16c", "-DMILLRACE_ISA_AVX2"];
const WIDE_FLAGS = ["-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"];
const AVX512_FLAGS = [...WIDE_FLAGS, "-DMILLRACE_ISA_AVX512"];
const VNNI_FLAGS = [...WIDE_FLAGS, "-mavx512vnni", "-DMILLRACE_ISA_AVX512VNNI"];
const PAIRS_FLAGS = [...WIDE_FLAGS, "-mavx512vbmi", "-mavx512vnni", "-mavx512bf16"];
const BF16_FLAGS = [...PAIRS_FLAGS, "-DMILLRACE_ISA_AVX512BF16"];
const AMX_FLAGS = [...PAIRS_FLAGS, "-DMILLRACE_ISA_AMX"];
const NEON_FLAGS = ["-DMILLRACE_ISA_NEON"];
const NEONDOT_FLAGS = ["-march=armv8.2-a+dotprod", "-DMILLRACE_ISA_NEONDOT"];
/** Kernel files that differ between avx512 and the instruction sets above it: see native/cpu/kernels/isa.h. */
const LINEAR = ["experts", "gated_linear", "linear", "table"];
/**
 * Per architecture (Node's names): suffix of the objects and flags of each instruction set besides the portable one,
 * and its own kernel files.
 */
export const VARIANTS = {
  x64: [
    ["avx2", AVX2_FLAGS],
    ["avx512", AVX512_FLAGS],
    ["avx512vnni", VNNI_FLAGS, [...LINEAR, "linear_packed", "linear_packed_super_blocks", "linear_packed_grids"]],
    ["avx512bf16", BF16_FLAGS, [...LINEAR, "linear_packed_16bit", "linear_packed_bfloats"]],
    ["amx", AMX_FLAGS, [...LINEAR, "linear_packed_bfloat_tiles", "linear_packed_byte_tiles"]],
  ],
  arm64: [
    ["neon", NEON_FLAGS],
    ["neondot", NEONDOT_FLAGS],
  ],
};
/**
 * Flags for libraries that run on other machines. GCC's C++ library is linked in, because a system may have an older
 * one. Unused parts are dropped, because some need newer versions of the C library, and its names are hidden, because
 * Node has its own copy.
 */
const SELF_CONTAINED_FLAGS = ["-static-libstdc++", "-Wl,--exclude-libs,ALL", "-Wl,--gc-sections"];
const SANITIZE_FLAGS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g"];

/** A build that cannot start; its message says what the user can do. */
class BuildError extends Error {}

function findCompiler(candidates = process.env.CXX ? [process.env.CXX] : ["c++", "g++", "clang++"]) {
  for (const candidate of candidates) {
    const probe = spawnSync(candidate, ["--version"], { encoding: "utf8" });
    if (probe.status === 0) return { command: candidate, version: probe.stdout.split("\n")[0] ?? "" };
  }
  throw new BuildError(
    `expected a C++17 compiler (tried ${candidates.join(", ")}), got none. Install one:\n` +
      "  Debian, Ubuntu:  sudo apt install g++\n" +
      "  Fedora, RHEL:    sudo dnf install gcc-c++\n" +
      "  macOS:           xcode-select --install\n" +
      "or name one in the environment variable CXX.",
  );
}

function sourcesIn(folder) {
  const names = readdirSync(path.join(NATIVE, folder)).filter((name) => name.endsWith(".cc"));
  return names.sort().map((name) => path.join(NATIVE, folder, name));
}

/** Searched beside this package and above it, since npm may put it in either place. */
function napiFlags() {
  try {
    const manifest = createRequire(import.meta.url).resolve("node-api-headers/package.json");
    return [`-I${path.join(path.dirname(manifest), "include")}`, "-DNAPI_VERSION=8"];
  } catch {
    throw new BuildError("expected the npm package node-api-headers, got none: run npm ci first");
  }
}

/** Adds `file` and every header that it includes, directly or indirectly, to `found`. */
function findIncluded(file, found = new Set()) {
  if (found.has(file)) return found;
  found.add(file);
  for (const [, name] of readFileSync(file, "utf8").matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)) {
    findIncluded(path.resolve(path.dirname(file), name), found);
  }
  return found;
}

/** Hash of a source and the project headers that it includes: a change to one of these makes an object stale. */
function hashSource(source) {
  const hash = createHash("sha256");
  for (const file of [...findIncluded(source)].sort()) {
    hash.update(`${path.relative(NATIVE, file)}\0`).update(readFileSync(file));
  }
  return hash.digest("hex");
}

/**
 * One object per source and instruction set, for all of them or for `variants`. Variants without special instructions
 * come first: if the linker must choose between two copies of a library's inline function, it takes the first, which
 * runs everywhere. If `variants` leaves out the portable kernels, their files still provide the functions that decode
 * operations.
 */
function listObjects(folders, outputFolder, extraFlags, { arch = process.arch, variants } = {}) {
  const objects = [];
  const add = (source, suffix, flags) => {
    const name = `${path.basename(path.dirname(source))}-${path.basename(source, ".cc")}`;
    const object = path.join(outputFolder, `${name}${suffix}.o`);
    objects.push({ source, object, flags: [...BASE_FLAGS, ...extraFlags, ...flags] });
  };
  const isWanted = (isa) => variants === undefined || variants.includes(isa);
  for (const folder of folders) {
    const flags = folder === "binding" ? napiFlags() : [];
    for (const source of sourcesIn(folder)) {
      if (folder !== "kernels" || isWanted("portable")) add(source, "", flags);
      else if (readFileSync(source, "utf8").includes("MILLRACE_DECODES")) add(source, ".decode", DECODE_FLAGS);
    }
  }
  for (const [isa, isaFlags, own] of folders.includes("kernels") ? (VARIANTS[arch] ?? []) : []) {
    if (!isWanted(isa)) continue;
    for (const source of sourcesIn("kernels")) {
      if (own === undefined || own.includes(path.basename(source, ".cc"))) add(source, `.${isa}`, isaFlags);
    }
  }
  return objects;
}

function run(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    child.stdout.on("data", (chunk) => {
      output += chunk;
    });
    child.stderr.on("data", (chunk) => {
      output += chunk;
    });
    child.on("error", reject);
    child.on("close", (status) => {
      if (status === 0) resolve(output);
      else reject(new BuildError(`expected ${command} to succeed, got exit status ${status}:\n${output}`));
    });
  });
}

function isFresh(file, stamp) {
  return existsSync(file) && existsSync(`${file}.stamp`) && readFileSync(`${file}.stamp`, "utf8") === stamp;
}

/** Kernel files with the longest compile times: ten to thirty seconds each. */
const LONGEST = /kernels-(linear_packed|linear_packed_super_blocks|linear_packed_grids|paged_attention)\./;

/** Number of compilers for the cores and the memory: the largest file takes three quarters of a gibibyte. */
function numCompilers() {
  // Older versions of Node ignore a container's limit.
  const bytes = process.availableMemory?.() ?? os.freemem();
  return Math.max(1, Math.min(os.availableParallelism(), Math.floor(bytes / 2 ** 30)));
}

/** Runs `job` for every item, at most `limit` at a time. */
async function forEachLimited(items, limit, job) {
  const queue = [...items];
  const runners = Array.from({ length: limit }, async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await job(item);
  });
  await Promise.all(runners);
}

/** Compiles the stale `objects` and links all of them. Returns whether anything was built. */
async function buildTarget({ objects, output, linkFlags, log, compiler = findCompiler() }) {
  mkdirSync(path.dirname(output), { recursive: true });
  const link = createHash("sha256").update(JSON.stringify([compiler, linkFlags]));
  const stale = [];
  for (const item of objects) {
    const settings = JSON.stringify([compiler, item.flags, hashSource(item.source)]);
    const stamp = createHash("sha256").update(settings).digest("hex");
    link.update(stamp);
    if (!isFresh(item.object, stamp)) stale.push({ ...item, stamp });
  }
  const linkStamp = link.digest("hex");
  if (stale.length === 0 && isFresh(output, linkStamp)) return false;
  // The longest come first, so that no core waits for one at the end.
  stale.sort((a, b) => Number(LONGEST.test(b.object)) - Number(LONGEST.test(a.object)));
  let numCompiled = 0;
  await forEachLimited(stale, numCompilers(), async ({ source, object, flags, stamp }) => {
    // Written under another name and then renamed, so that two builds at once, or a killed one, leave whole files.
    const compiled = `${object}.${process.pid}`;
    const warnings = await run(compiler.command, [...flags, "-c", source, "-o", compiled]);
    renameSync(compiled, object);
    if (warnings !== "") log(warnings.trimEnd());
    writeFileSync(`${object}.stamp`, stamp);
    numCompiled += 1;
    log(`compiled ${path.basename(object)} (${numCompiled}/${stale.length})`);
  });
  // A process that has the old file loaded keeps it.
  const linked = `${output}.${process.pid}`;
  await run(compiler.command, [...objects.map((item) => item.object), ...linkFlags, "-pthread", "-o", linked]);
  renameSync(linked, output);
  writeFileSync(`${output}.stamp`, linkStamp);
  log(`linked ${path.relative(ROOT, output)} with ${compiler.version}`);
  return true;
}

/**
 * Builds build/native/millrace.node if anything is stale.
 * @param {{ log?: (line: string) => void, variants?: readonly string[] }} [options] `variants`: the instruction sets
 * beside the portable one; absent: all
 * @returns {Promise<boolean>} whether anything was built
 */
export async function buildNative({ log = () => {}, variants } = {}) {
  const folder = path.join(ROOT, "build", "native");
  const linkFlags = process.platform === "darwin" ? ["-bundle", "-undefined", "dynamic_lookup"] : ["-shared"];
  const objects = listObjects(["runtime", "binding", "kernels"], folder, ["-O3"], { variants });
  return buildTarget({ objects, output: path.join(folder, "millrace.node"), linkFlags, log });
}

/** Linux machines with packages of kernels, and the cross compiler for the foreign ones. */
const PACKAGE_TARGETS = {
  "linux-x64": { arch: "x64", crossCompiler: "x86_64-linux-gnu-g++" },
  "linux-arm64": { arch: "arm64", crossCompiler: "aarch64-linux-gnu-g++" },
};

/**
 * @returns {string[]} platforms whose kernels can be packed here: this machine's, and those with an installed cross
 *   compiler
 */
export function packageTargets() {
  if (process.platform !== "linux") return [];
  return Object.keys(PACKAGE_TARGETS).filter((platform) => {
    const { arch, crossCompiler } = PACKAGE_TARGETS[platform];
    return arch === process.arch || spawnSync(crossCompiler, ["--version"]).status === 0;
  });
}

/**
 * Builds build/packages/<platform>/{millrace,probes}.node, linked for other machines of the platform, and returns their
 * paths.
 * @param {string} platform one of packageTargets()
 * @param {{ log?: (line: string) => void }} [options]
 * @returns {Promise<string[]>}
 */
export async function buildNativeForPackage(platform, { log = () => {} } = {}) {
  const { arch, crossCompiler } = PACKAGE_TARGETS[platform];
  const isCross = arch !== process.arch;
  const compiler = isCross ? findCompiler([crossCompiler]) : findCompiler();
  const objects = path.join(ROOT, "build", isCross ? `native-${arch}` : "native");
  const probes = path.join(ROOT, "build", isCross ? `native-probes-${arch}` : "native-probes");
  const libraries = {
    "millrace.node": listObjects(["runtime", "binding", "kernels"], objects, ["-O3"], { arch }),
    "probes.node": listProbeObjects(probes, arch),
  };
  mkdirSync(objects, { recursive: true });
  const folder = path.join(ROOT, "build", "packages", platform);
  for (const [name, each] of Object.entries(libraries)) {
    const linkFlags = ["-shared", ...SELF_CONTAINED_FLAGS];
    await buildTarget({ objects: each, output: path.join(folder, name), linkFlags, log, compiler });
  }
  return Object.keys(libraries).map((name) => path.join(folder, name));
}

/**
 * Builds the native tests as a program without Node, and returns its path.
 * @param {{ sanitize?: boolean, log?: (line: string) => void }} [options]
 * @returns {Promise<string>}
 */
export async function buildNativeTests({ sanitize = false, log = () => {} } = {}) {
  const name = sanitize ? "native-test-asan" : "native-test";
  const folder = path.join(ROOT, "build", name);
  const output = path.join(folder, name);
  const sanitized = ["-O1", ...SANITIZE_FLAGS];
  // Without sanitizers the tests use the addon's own kernel objects.
  const objects = sanitize
    ? listObjects(["runtime", "test", "kernels"], folder, sanitized)
    : [
        ...listObjects(["runtime", "kernels"], path.join(ROOT, "build", "native"), ["-O3"]),
        ...listObjects(["test"], folder, ["-O3"]),
      ];
  await buildTarget({ objects, output, linkFlags: sanitize ? SANITIZE_FLAGS : [], log });
  return output;
}

/**
 * Builds the native tests for 64-bit Arm Linux with a cross compiler, statically, so that an emulator needs nothing
 * else. Returns the path.
 * @param {{ log?: (line: string) => void }} [options]
 * @returns {Promise<string>}
 */
export async function buildNativeTestsForArm({ log = () => {} } = {}) {
  const folder = path.join(ROOT, "build", "native-test-aarch64");
  const output = path.join(folder, "native-test-aarch64");
  const compiler = findCompiler(["aarch64-linux-gnu-g++"]);
  const objects = listObjects(["runtime", "test", "kernels"], folder, ["-O3"], { arch: "arm64" });
  await buildTarget({ objects, output, linkFlags: ["-static"], log, compiler });
  return output;
}

function listProbeObjects(folder = path.join(ROOT, "build", "native-probes"), arch = process.arch) {
  const napi = napiFlags();
  const item = (source, suffix, flags) => ({
    source: path.join(NATIVE, source),
    object: path.join(folder, `${source.replace("/", "-").replace(".cc", "")}${suffix}.o`),
    flags: [...BASE_FLAGS, "-O3", ...flags],
  });
  mkdirSync(folder, { recursive: true });
  return [
    item("bench/probe_loops.cc", "", []),
    ...(arch === "x64" ? VARIANTS.x64 : []).map(([isa, flags]) => item("bench/probe_loops.cc", `.${isa}`, flags)),
    item("bench/probe_addon.cc", "", napi),
    item("binding/values.cc", "", napi),
    item("runtime/lost_pages.cc", "", []),
    item("runtime/memory.cc", "", []),
  ];
}

/**
 * Builds build/native/probes.node, which measures the ceilings for `millrace bench kernels`, and returns its path.
 * @param {{ log?: (line: string) => void }} [options]
 * @returns {Promise<string>}
 */
export async function buildNativeProbes({ log = () => {} } = {}) {
  const output = path.join(ROOT, "build", "native", "probes.node");
  const linkFlags = process.platform === "darwin" ? ["-bundle", "-undefined", "dynamic_lookup"] : ["-shared"];
  await buildTarget({ objects: listProbeObjects(), output, linkFlags, log });
  return output;
}

async function main() {
  const isTest = process.argv.includes("--tests");
  const log = (line) => console.log(line);
  if (process.argv.includes("--probes")) log(await buildNativeProbes({ log }));
  else if (isTest && process.argv.includes("aarch64")) log(await buildNativeTestsForArm({ log }));
  else if (isTest) log(await buildNativeTests({ sanitize: process.argv.includes("--sanitize"), log }));
  else if (!(await buildNative({ log }))) log("build/native/millrace.node is up to date");
}

if (process.argv[1] !== undefined && path.resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  main().catch((error) => {
    console.error(error instanceof BuildError ? error.message : error);
    process.exitCode = 1;
  });
}
