/** The folder of a tuning, with one writing process at a time. */
import { join } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { tryFileLock } from "../../core/file-lock.js";

/** Throws storage_locked while another process holds the folder. */
export async function inTuningFolder<T>(out: string, work: () => Promise<T>): Promise<T> {
  const giveBack = tryFileLock(join(out, "tune.lock"));
  if (giveBack === undefined) {
    throw new MillraceError("storage_locked", `expected ${out} for this tuning alone, got one of another process`, {
      hint: "wait until it has ended, or give another --out",
    });
  }
  try {
    return await work();
  } finally {
    giveBack();
  }
}
