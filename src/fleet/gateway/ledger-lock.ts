/**
 * A ledger has one writer: two gateways on one folder would give the same positions to different requests, and each
 * would count the other's running requests as lost.
 */
import { join } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { acquireFileLock } from "../../core/file-lock.js";

interface LockLogger {
  warn(fields: object, message: string): void;
}

/** Longer than the time for which a dead machine's lock counts as held. */
const LIMIT_MS = 70_000;

/**
 * Waits for the end of a gateway that is stopping, or that died on another machine.
 *
 * @param folder the data folder
 * @returns a function that releases the lock
 * @throws storage_locked if another gateway keeps the ledger
 */
export async function lockLedger(folder: string, logger: LockLogger, limitMs = LIMIT_MS): Promise<() => void> {
  const onWait = () => logger.warn({ folder }, "another gateway writes the ledger of this folder; waiting for its end");
  const limit = AbortSignal.timeout(limitMs);
  try {
    return await acquireFileLock(join(folder, "ledger.lock"), onWait, limit);
  } catch (cause) {
    if (!limit.aborted) throw cause;
    const message = `expected the ledger in ${folder} for this gateway alone, got one that another gateway writes`;
    throw new MillraceError("storage_locked", message, {
      hint: "give each gateway with a ledger a data-folder of its own",
      cause,
    });
  }
}
