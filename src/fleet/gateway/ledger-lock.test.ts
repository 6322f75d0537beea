import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { lockLedger } from "./ledger-lock.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-ledger-lock-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

test("a second gateway does not get the ledger of a folder, and gets it after the first one's end", async () => {
  const logger = { warn: vi.fn() };
  const giveBack = await lockLedger(folder, logger);
  expect(logger.warn).not.toHaveBeenCalled();
  await expect(lockLedger(folder, logger, 50)).rejects.toMatchObject({ code: "storage_locked" });
  expect(logger.warn).toHaveBeenCalledTimes(1);
  const waiting = lockLedger(folder, logger);
  giveBack();
  (await waiting)();
});
