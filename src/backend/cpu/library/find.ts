/**
 * Finds the compiled addons. This package's own build comes first: a checkout runs its own kernels, and an installed
 * package builds kernels only if the prebuilt ones did not load. Second comes the prebuilt package for this platform,
 * which must have the same version.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { MillraceError } from "../../../core/errors.js";
import { packageRoot, packageVersion } from "../../../core/package-root.js";

type AddonName = "millrace.node" | "probes.node";

/** @example findAddon("millrace.node") // "/srv/node_modules/millrace-linux-x64/millrace.node" */
export function findAddon(
  name: AddonName,
  root = packageRoot(),
  platform = `${process.platform}-${process.arch}`,
): string {
  const own = join(root, "build/native", name);
  if (existsSync(own)) return own;
  const version = packageVersion(root);
  const prebuilt = packageBeside(`millrace-${platform}`, root);
  const file = join(prebuilt?.folder ?? "", name);
  if (prebuilt?.version === version && existsSync(file)) return file;
  const got = prebuilt === undefined ? "neither" : `the package ${prebuilt.version} in ${prebuilt.folder}`;
  throw new MillraceError(
    "kernels_missing",
    `expected ${own} or the package millrace-${platform} ${version}, got ${got}`,
    {
      hint: missingHint(root, platform),
    },
  );
}

function packageBeside(name: string, root: string): { readonly folder: string; readonly version: unknown } | undefined {
  try {
    const manifest = createRequire(join(root, "package.json")).resolve(`${name}/package.json`);
    const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { readonly version?: unknown };
    return { folder: dirname(manifest), version };
  } catch {
    return undefined;
  }
}

/** Advice for a user whose addon is missing or does not load. */
export function missingHint(root = packageRoot(), platform = `${process.platform}-${process.arch}`): string {
  if (existsSync(join(root, "src"))) return "run `npm run build`";
  const binary = `the package millrace-${platform} ${packageVersion(root)}`;
  return existsSync(join(root, "native"))
    ? `install a C++17 compiler and start again, or ${binary} if there is one; see docs/guides/install.md`
    : `install ${binary}, or on other platforms the package with sources, which compiles them; see docs/guides/install.md`;
}
