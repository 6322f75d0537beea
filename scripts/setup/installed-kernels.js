/**
 * The kernels of an installed package: those that load, or else, where the package has their sources, compiled once
 * into its own folder.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** Why no kernels load here, as the program itself would say it; undefined = they do. */
async function whyMissing(root) {
  const { loadKernels } = await import(pathToFileURL(join(root, "dist/src/backend/cpu/library/load.js")).href);
  try {
    loadKernels();
    return undefined;
  } catch (error) {
    return error;
  }
}

/** @returns whether kernels are there; if not, the error is on stderr by then */
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
