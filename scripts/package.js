/**
 * `npm run package`: packs what `npm install` takes on a machine without a compiler, into build/packages:
 * millrace-<version>.tgz, and on the platforms below millrace-<platform>-<version>.tgz with the kernels built. docs/guides/install.md tells more.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ensureReady } from "./build.js";
import { buildNativeForPackage } from "./build-native.js";

const root = fileURLToPath(new URL("..", import.meta.url));
const output = join(root, "build", "packages");

/** Where kernels come ready-built: the machines that releases are built and tested on. */
const PREBUILT = ["linux-x64"];

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

/** An empty folder with this manifest; npm packs whole folders only. */
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

/** The files that package.json names, under a manifest for users: nothing to build with, and the ready-built kernels as optional packages. */
function packMain(manifest) {
  const { devDependencies: _, scripts: __, ...kept } = manifest;
  const optionalDependencies = Object.fromEntries(PREBUILT.map((name) => [platformName(name), manifest.version]));
  const folder = stageFolder({ ...kept, optionalDependencies });
  const [{ files }] = JSON.parse(npm(root, "--dry-run"));
  for (const { path } of files) {
    if (path === "package.json") continue;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(root, path), join(folder, path));
  }
  return pack(folder);
}

/** The newest version of glibc whose functions the library asks for, from the names in its symbol table. */
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

async function main() {
  if (!(await ensureReady())) return 1;
  const manifest = readJson(join(root, "package.json"));
  mkdirSync(output, { recursive: true });
  for (const name of readdirSync(output)) if (name.endsWith(".tgz")) rmSync(join(output, name));
  const packed = [packMain(manifest)];
  const platform = `${process.platform}-${process.arch}`;
  const notes = [];
  if (PREBUILT.includes(platform)) {
    const { glibc, ...result } = packPlatform(manifest, platform, await buildNativeForPackage());
    packed.push(result);
    notes.push(`the kernels need glibc ${glibc} or newer`);
  } else notes.push(`no package of kernels: they are built on ${PREBUILT.join(", ")}, this is ${platform}`);
  for (const { file, size } of packed) process.stdout.write(`${file} (${(size / 1e6).toFixed(1)} MB)\n`);
  for (const note of notes) process.stderr.write(`${note}\n`);
  return 0;
}

process.exitCode = await main();
