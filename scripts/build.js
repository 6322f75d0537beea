/**
 * `npm run build`: compiles the kernels and the TypeScript, and bundles the browser app, where they are stale. The
 * launcher and the test script call the same functions. build-native.js compiles native code.
 */
import { spawn } from "node:child_process";
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { areDependenciesCurrent, installDependencies } from "./setup/dependencies.js";
import { withLock } from "./setup/lock.js";
import { startStage } from "./setup/stage-log.js";
import { hashSources, listFiles, readStamp, writeStamp } from "./setup/stamp.js";

const packageRoot = fileURLToPath(new URL("..", import.meta.url));

const isProgramSource = (path) => path.endsWith(".ts") && !path.endsWith(".test.ts") && !path.startsWith("src/web/");

/** Targets, their sources, and the check that their results exist. */
const TARGETS = {
  kernels: {
    outputPath: "build/native/millrace.node",
    stampPath: "build/native.stamp",
    hash: (root) =>
      hashSources(
        root,
        ["native", "scripts/build-native.js"],
        (path) => !/^native\/cpu\/(test|bench)\//.test(path),
        [process.platform, process.arch, process.env.CXX, process.env.CXXFLAGS].join(" "),
      ),
    build: buildKernels,
  },
  probes: {
    outputPath: "build/native/probes.node",
    stampPath: "build/probes.stamp",
    hash: (root) =>
      hashSources(
        root,
        ["native", "scripts/build-native.js"],
        (path) => !path.startsWith("native/cpu/test/"),
        [process.platform, process.arch, process.env.CXX, process.env.CXXFLAGS].join(" "),
      ),
    build: buildProbes,
  },
  TypeScript: {
    outputPath: "dist/src/cli/main.js",
    stampPath: "build/typescript.stamp",
    hash: (root) =>
      hashSources(root, ["src", "models/corpus", "tsconfig.json", "tsconfig.build.json", "package-lock.json"], (path) =>
        isProgramSource(path),
      ),
    build: compileTypeScript,
  },
  app: {
    outputPath: "dist/web/index.html",
    stampPath: "build/web.stamp",
    hash: (root) =>
      hashSources(root, ["src/web", "scripts/build-web.js", "package-lock.json"], (path) => !path.endsWith(".test.ts")),
    build: bundleApp,
  },
};

/**
 * A stamp is the hash of the sources and, unless the kernels are built for all instruction sets, the names of the built
 * ones.
 */
function readBuild(root, target) {
  const [hash, ...variants] = readStamp(join(root, target.stampPath)).split(" ");
  const isCurrent = hash === target.hash(root);
  return { isFirst: hash === "", isCurrent, variants: variants.length === 0 ? undefined : variants };
}

/** @param wanted instruction sets of the kernels; undefined: all */
function isStale(root, target, wanted) {
  const { isCurrent, variants } = readBuild(root, target);
  if (!existsSync(join(root, target.outputPath)) || !isCurrent) return true;
  return variants !== undefined && !wanted?.every((name) => variants.includes(name));
}

/**
 * Instruction sets to build: the wanted ones and those of the last build, since machines may share a checkout. If the
 * last build had all of them, as after tests, so has this one.
 */
function variantsToBuild(root, target, wanted) {
  const { isFirst, variants } = readBuild(root, target);
  if (wanted === undefined || (!isFirst && variants === undefined)) return undefined;
  return [...new Set([...wanted, ...(variants ?? [])])];
}

async function buildKernels(_root, stage, variants) {
  const { buildNative } = await import("./build-native.js");
  await buildNative({ log: (line) => stage.update(line), variants });
}

async function buildProbes(_root, stage) {
  const { buildNativeProbes } = await import("./build-native.js");
  await buildNativeProbes({ log: (line) => stage.update(line) });
}

async function bundleApp(root) {
  const { buildWeb } = await import("./build-web.js");
  await buildWeb(root);
}

/** dist/ mirrors the sources, except for the bundled app; output of a deleted or renamed source must not be loaded. */
function removeOrphans(root) {
  for (const file of listFiles(root, "dist", (path) => /^dist\/(?!web\/).*\.js(\.map)?$/.test(path))) {
    const source = file.replace(/^dist\//, "").replace(/\.js(\.map)?$/, ".ts");
    if (!existsSync(join(root, source))) rmSync(join(root, file));
  }
}

async function compileTypeScript(root) {
  // The type check of `npm run lint` keeps its own incremental state; sharing it could make tsc believe that dist/ is
  // complete.
  const buildInfoPath = join(root, "build", "tsbuildinfo.emit.json");
  rmSync(buildInfoPath, { force: true });
  const args = [
    join(root, "node_modules/typescript/bin/tsc"),
    "-p",
    "tsconfig.build.json",
    "--tsBuildInfoFile",
    buildInfoPath,
  ];
  const child = spawn(process.execPath, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => {
      output += text;
    });
  }
  const exitCode = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (exitCode !== 0) throw new Error(`the TypeScript compiler found errors\n${output.trimEnd()}`);
  removeOrphans(root);
}

/**
 * @returns whether the target is built now. The stamp is taken before the build, so that a later edit counts as stale.
 */
async function bringUpToDate(root, name, target, wanted) {
  const stage = startStage(name);
  const variants = target === TARGETS.kernels ? variantsToBuild(root, target, wanted) : undefined;
  const stamp = [target.hash(root), ...(variants ?? [])].join(" ");
  try {
    await target.build(root, stage, variants);
  } catch (error) {
    stage.fail(error.message);
    if (error.hint !== undefined) process.stderr.write(`hint: ${error.hint}\n`);
    return false;
  }
  writeStamp(join(root, target.stampPath), stamp);
  stage.done("compiled");
  return true;
}

/**
 * Installs, compiles kernels, compiles TypeScript: only missing or stale parts, under a lock, because another start may
 * do the same.
 * @param withKernels false leaves native code alone
 * @param variants instruction sets that the kernels need; undefined: all
 * @param withProbes true also builds the probes, which measure this machine
 * @param isCheckout false in a published package: dist/ exists, and only kernels can be missing
 * @returns whether everything is in place; if not, the error is on stderr
 */
export async function ensureReady({
  root = packageRoot,
  withKernels = true,
  variants,
  withProbes = false,
  isCheckout = true,
} = {}) {
  const isWanted = { kernels: withKernels, probes: withProbes, TypeScript: isCheckout, app: isCheckout };
  const targets = Object.entries(TARGETS).filter(([name]) => isWanted[name]);
  const isAnythingStale = () =>
    (isCheckout && !areDependenciesCurrent(root)) || targets.some(([, target]) => isStale(root, target, variants));
  if (!isAnythingStale()) return true;
  const onWait = () => process.stderr.write("  waiting for another start that is building this checkout …\n");
  return withLock(
    join(root, "build", "setup.lock"),
    async () => {
      if (isCheckout && !areDependenciesCurrent(root) && !(await installDependencies(root))) return false;
      for (const [name, target] of targets) {
        if (isStale(root, target, variants) && !(await bringUpToDate(root, name, target, variants))) return false;
      }
      return true;
    },
    onWait,
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const isReady = await ensureReady();
  if (isReady) process.stderr.write("build is up to date\n");
  process.exitCode = isReady ? 0 : 1;
}
