/**
 * `npm run package`: packs millrace for machines without a compiler, into build/packages: millrace-<version>.tgz
 * without sources, and millrace-<platform>-<version>.tgz with compiled kernels for each platform that this machine can
 * build for, or for the platforms in the arguments. See docs/guides/install.md.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ensureReady } from "./build.js";
import { buildNativeForPackage, packageTargets } from "./build-native.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const output = join(root, "build", "packages");

/** Platforms with packages of kernels; the main package lists all of them as optional dependencies. */
const PLATFORMS = ["linux-x64", "linux-arm64"];

/**
 * Files of `npm pack` that are only for building. `npm pack`'s own package keeps them, for machines without a package
 * of kernels.
 */
const IS_FOR_BUILDING = /^native\/|^scripts\/(?!setup\/installed-kernels\.js$)/;

const platformName = (platform) => `millrace-${platform}`;
const readJson = (path) => JSON.parse(readFileSync(path, "utf8"));

function npm(folder, ...args) {
  return execFileSync("npm", ["pack", "--ignore-scripts", "--json", ...args], {
    cwd: folder,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    maxBuffer: 2 ** 26,
  });
}

/** Creates an empty folder with this manifest, since npm only packs whole folders. */
function stageFolder(manifest) {
  const folder = join(output, "stage", manifest.name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  return folder;
}

function pack(folder) {
  const [{ filename, size }] = JSON.parse(npm(folder, "--pack-destination", output));
  return { file: join(output, filename), size };
}

/**
 * The files in package.json except sources, under a manifest for users: without build tools, and with packages of
 * kernels as optional dependencies.
 */
function packMain(manifest) {
  const { devDependencies: _, scripts: __, dependencies, ...kept } = manifest;
  const { "node-api-headers": ___, ...needed } = dependencies;
  const optionalDependencies = Object.fromEntries(PLATFORMS.map((name) => [platformName(name), manifest.version]));
  const folder = stageFolder({ ...kept, dependencies: needed, optionalDependencies });
  const [{ files }] = JSON.parse(npm(root, "--dry-run"));
  for (const { path } of files) {
    if (path === "package.json" || IS_FOR_BUILDING.test(path)) continue;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(root, path), join(folder, path));
  }
  return pack(folder);
}

/** The newest glibc version that the library's symbols need. */
function glibcOf(library) {
  const names = readFileSync(library, "latin1").matchAll(/GLIBC_2\.(\d+)/g);
  return `2.${Math.max(...[...names].map(([, minor]) => Number(minor)))}`;
}

/** @param addons paths of the built libraries */
function packPlatform({ version, license, engines, private: isPrivate }, platform, addons) {
  const [os, cpu] = platform.split("-");
  const glibc = glibcOf(addons[0]);
  const folder = stageFolder({
    name: platformName(platform),
    version,
    description: `Kernels of millrace ${version} for ${platform} with glibc ${glibc} or newer`,
    license,
    private: isPrivate,
    engines,
    os: [os],
    cpu: [cpu],
    libc: ["glibc"],
    files: ["*.node"],
  });
  for (const addon of addons) cpSync(addon, join(folder, addon.split("/").at(-1)));
  cpSync(join(root, "LICENSE"), join(folder, "LICENSE"));
  writeFileSync(
    join(folder, "README.md"),
    `# ${platformName(platform)}\n\nCompiled kernels for the npm package \`millrace\` ${version}, which loads them; nothing to call by itself. They need glibc ${glibc} or newer.\n`,
  );
  return { ...pack(folder), glibc };
}

/** @param platforms to pack kernels for; empty: all that this machine can build for */
async function main(platforms) {
  const unknown = platforms.find((platform) => !PLATFORMS.includes(platform));
  if (unknown !== undefined) {
    process.stderr.write(`error: expected platforms among ${PLATFORMS.join(", ")}, got ${unknown}\n`);
    return 1;
  }
  if (!(await ensureReady())) return 1;
  const manifest = readJson(join(root, "package.json"));
  mkdirSync(output, { recursive: true });
  for (const name of readdirSync(output)) if (name.endsWith(".tgz")) rmSync(join(output, name));
  const packed = [packMain(manifest)];
  const notes = [];
  const targets = packageTargets().filter((platform) => platforms.length === 0 || platforms.includes(platform));
  for (const platform of targets) {
    process.stderr.write(`kernels for ${platform}\n`);
    const { glibc, ...result } = packPlatform(manifest, platform, await buildNativeForPackage(platform));
    packed.push(result);
    notes.push(`the kernels for ${platform} need glibc ${glibc} or newer`);
  }
  const wanted = platforms.length === 0 ? PLATFORMS : platforms;
  const others = wanted.filter((platform) => !targets.includes(platform));
  if (others.length > 0) notes.push(`no kernels for ${others.join(", ")}: this machine has no compiler for them`);
  for (const { file, size } of packed) process.stdout.write(`${file} (${(size / 1e6).toFixed(1)} MB)\n`);
  for (const note of notes) process.stderr.write(`${note}\n`);
  return 0;
}

process.exitCode = await main(process.argv.slice(2));
