/**
 * The kernels of an installed package: those that load, or otherwise, if the package has their sources, ones compiled
 * once into its own folder.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** The reason why no kernels load here, in the program's own words; undefined: they load. */
async function whyMissing(root) {
  const { loadKernels } = await import(pathToFileURL(join(root, "dist/src/backend/cpu/library/load.js")).href);
  try {
    loadKernels();
    return undefined;
  } catch (error) {
    return error;
  }
}

/** @returns whether kernels load; if not, the error is on stderr */
export async function ensureInstalledKernels(root) {
  const missing = await whyMissing(root);
  if (missing === undefined) return true;
  if (!existsSync(join(root, "native"))) {
    process.stderr.write(`error [kernels_missing]: ${missing.message}\nhint: ${missing.hint}\n`);
    return false;
  }
  process.stderr.write(`notice: ${missing.message}\n  compiling the kernels here, once: that takes minutes\n`);
  let failure = "";
  try {
    const { ensureReady } = await import("../build.js");
    const { hostVariants } = await import("./host-variants.js");
    if (await ensureReady({ root, isCheckout: false, variants: hostVariants() })) return true;
  } catch (error) {
    failure = `: ${error.message}`;
  }
  process.stderr.write(
    `error [kernels_missing]: ${missing.message}; and compiling them failed${failure}\nhint: ${missing.hint}\n`,
  );
  return false;
}
