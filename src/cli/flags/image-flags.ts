/**
 * Flags of `image render` and `image build`, checked: the fleet's file, millrace's packages, and flags that exclude
 * each
 * other.
 */

import { existsSync, readdirSync, statSync } from "node:fs";
import { isIP } from "node:net";
import { basename, dirname, join } from "node:path";
import type { Command } from "commander";
import { MillraceError } from "../../core/errors.js";
import { isLoopback } from "../../core/loopback.js";
import { optionError } from "../../core/option-error.js";
import { packageRoot, packageVersion } from "../../core/package-root.js";
import { gotOf, readRegular } from "../../core/read-text.js";
import type { FleetSource } from "../../image/image-fleet.js";
import type { ImageRequest, ImageTarget, PackageSource } from "../../image/image-request.js";
import { secretIn } from "../../image/image-secrets.js";
import { integerIn, type ValueParser } from "./option-values.js";

export interface ImageFlags {
  readonly target: ImageTarget;
  readonly preset: string;
  readonly model?: string;
  readonly package: readonly string[];
  readonly host?: string;
  readonly port: number;
  readonly image?: string;
  readonly nodes: number;
}

export function addImageOptions(command: Command): Command {
  return command
    .option(
      "--model <spec>",
      "model in place of the preset's: hf:org/repo:Q4_K_M, an absolute path on the machine, or bundled",
    )
    .option(
      "--package <source>",
      "package of millrace: .tgz files, which are included (default: the files of npm run package), https URLs of such files, or a version that you have published; repeatable",
      (text: string, before: readonly string[]) => [...before, text],
      [] as readonly string[],
    )
    .option("--host <address>", "address to listen on (default: 0.0.0.0, with a key)")
    .option("--port <n>", "port to listen on", integerIn("--port", 1, 65_535), 8000);
}

export function addClusterOptions(command: Command): Command {
  return command
    .option("--image <name>", "kubernetes: the container image, built with --target docker")
    .option(
      "--nodes <n>",
      "kubernetes: machines that share one instance, in the engine's own multi-node mode",
      integerIn("--nodes", 1, 64),
      1,
    );
}

export const diskName: ValueParser<string> = (text) => {
  if (/\.(qcow2|raw)$/.test(text)) return text;
  throw optionError("--out", "a file that ends with .qcow2 or .raw", text);
};

/** Restricted, since it becomes a word of mmdebstrap's command line. */
export const suiteName: ValueParser<string> = (text) => {
  if (/^[a-z][a-z-]*$/.test(text)) return text;
  throw optionError("--suite", "a release of Debian such as trixie", text);
};

/** Restricted like suiteName. */
export const mirrorUrl: ValueParser<string> = (text) => {
  if (/^(https?|file):\/\/\S+$/.test(text) && URL.canParse(text)) return text;
  throw optionError("--mirror", "a URL such as https://deb.debian.org/debian", text);
};

/** Throws invalid_option if the disk exists. */
export function assertFree(out: string, isForced: boolean): void {
  if (!existsSync(dirname(out))) throw optionError("--out", "a file in a folder that exists", out);
  if (isForced || !existsSync(out)) return;
  throw conflict("no file at --out", out, "name another, or write over it with --force");
}

/** The platform of rendered machines: Debian and the engines' containers on x86-64. */
const PACKED_PLATFORM = "linux-x64";
const PRESETS = join(packageRoot(), "presets");
const MAX_SHOWN = 60;
const shown = (text: string): string => JSON.stringify(text.slice(0, MAX_SHOWN));

/** Throws invalid_option and file_unreadable. */
export function sourceOf({ preset, model }: ImageFlags): FleetSource {
  const isName = /^[\w.-]+$/.test(preset) && existsSync(join(PRESETS, `${preset}.yaml`));
  const file = isName ? join(PRESETS, `${preset}.yaml`) : preset;
  if (!isName && !/[/\\]|\.ya?ml$/.test(preset)) {
    const names = readdirSync(PRESETS).map((name) => basename(name, ".yaml"));
    throw new MillraceError("invalid_option", `expected a preset or a file as --preset, got ${shown(preset)}`, {
      hint: `presets: ${names.join(", ")}`,
    });
  }
  try {
    return { name: isName ? preset : basename(file), text: readRegular(file), model };
  } catch (cause) {
    throw new MillraceError("file_unreadable", `expected a millrace.yaml at ${shown(file)}, got ${gotOf(cause)}`, {
      hint: "write one with millrace plan --yaml, or name a preset",
      cause,
    });
  }
}

/** Throws invalid_option. */
function packageOf(text: string): PackageSource {
  if (/^\d+\.\d+\.\d+(-[\w.-]+)?$/.test(text)) return { kind: "spec", spec: `millrace@${text}` };
  if (/^https?:\/\//.test(text) && URL.canParse(text)) {
    const url = new URL(text);
    const isSafe = url.protocol === "https:" || isLoopback(url.hostname.replace(/^\[|\]$/g, ""));
    if (isSafe && secretIn(url.href) === undefined) return { kind: "spec", spec: url.href };
    throw optionError("--package", "an https URL without user, password and key", text);
  }
  if (!/\.t(ar\.)?gz$/.test(text)) throw optionError("--package", "a version, a .tgz file or an https URL", text);
  const name = basename(text);
  // The name becomes part of shell commands on the machine.
  if (!/^\w[\w.+-]*$/.test(name))
    throw optionError("--package", "a file named by letters, digits, dots and hyphens", text);
  if (statSync(text, { throwIfNoEntry: false })?.isFile() === true) return { kind: "file", path: text, name };
  throw new MillraceError("file_unreadable", `expected a package at ${shown(text)}, got none`, {
    hint: "make one with npm pack",
  });
}

/**
 * The files of `npm run package`, millrace and its kernels, which become part of the rendered files. A name in the npm
 * registry is never the default: millrace is not published there, so another publisher of the name could run code on
 * the machine.
 *
 * Throws invalid_option if the files are missing.
 */
export function packedPackages(folder: string, version: string): PackageSource[] {
  return [`millrace-${version}.tgz`, `millrace-${PACKED_PLATFORM}-${version}.tgz`].map((name) => {
    const path = join(folder, name);
    if (existsSync(path)) return { kind: "file", path, name };
    throw new MillraceError("invalid_option", `expected the packed millrace at ${path}, got nothing`, {
      hint: "run npm run package in a checkout of this version, or give --package its .tgz files or https URLs of them",
    });
  });
}

function packagesOf({ target, package: given }: ImageFlags): PackageSource[] {
  if (given.length > 0) return given.map(packageOf);
  // A cluster's container image contains millrace.
  if (target === "kubernetes") return [];
  if (target === "cloud-init") {
    throw conflict(
      "--package with https URLs of millrace's two .tgz files for cloud-init",
      "none",
      "user data cannot contain the files: put the files of npm run package on a server of yours, or use the target packer or systemd",
    );
  }
  const packages = packedPackages(join(packageRoot(), "build", "packages"), packageVersion());
  const stale = staleWarning(packages, join(packageRoot(), "dist"));
  if (stale !== undefined) process.stderr.write(`${stale}\n`);
  return packages;
}

/** A warning if a package is older than the newest compiled file in `folder`. */
export function staleWarning(packages: readonly PackageSource[], folder: string): string | undefined {
  const timeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const compiled = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".js"));
  const newestMs = Math.max(0, ...compiled.map((name) => timeOf(join(folder, name))));
  const old = packages.find((each) => each.kind === "file" && timeOf(each.path) < newestMs);
  if (old?.kind !== "file") return undefined;
  return `warning: ${old.path} is older than this checkout's compiled files; to pack them: npm run package`;
}

const conflict = (expected: string, got: string, hint: string): MillraceError =>
  new MillraceError("invalid_option", `expected ${expected}, got ${got}`, { hint });

/** Throws invalid_option, also for a flag without meaning for the target. */
export function requestOf(flags: ImageFlags): ImageRequest {
  const { target, host, image, nodes, port } = flags;
  const isCluster = target === "kubernetes";
  if (host !== undefined && (isCluster || target === "docker")) {
    throw conflict(
      `${target} without --host`,
      host,
      "a container listens on all its addresses: restrict the published port",
    );
  }
  if (host !== undefined && isIP(host) === 0 && host !== "localhost")
    throw optionError("--host", "an IP address", host);
  if (isCluster && image === undefined) {
    throw conflict(
      "--image with --target kubernetes",
      "none",
      "build one with --target docker and push it to your registry",
    );
  }
  if (!isCluster && image !== undefined)
    throw conflict("--image with --target kubernetes only", target, "leave it out");
  if (!isCluster && nodes > 1) {
    throw conflict("--nodes with --target kubernetes only", target, "one machine is one node: leave it out");
  }
  if (isCluster && flags.package.length > 0) {
    throw conflict(
      "kubernetes without --package",
      flags.package[0]!,
      "the container image contains millrace: --target docker --package",
    );
  }
  // The distribution project's syntax of references, without its finer rules.
  if (image !== undefined && !/^[a-z0-9][a-z0-9._/:-]*(@sha256:[0-9a-f]{64})?$/i.test(image)) {
    throw optionError("--image", "a container image such as registry.example/millrace:1", image);
  }
  const packages = packagesOf(flags);
  const names = packages.map((each) => (each.kind === "file" ? each.name : each.spec));
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) throw optionError("--package", "given once for each package", twice);
  return { target, packages, host: host ?? "0.0.0.0", port, image: image ?? "", numNodes: nodes };
}
