/**
 * Ends the reservations of parts that are over. While the budget store is down, a reservation that is to end is noted
 * on the disk and ended when the store is back, so that no batch waits for the store.
 */
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { toMillraceError } from "../../core/errors.js";
import type { LineEstimate } from "../budget/handed-limits.js";
import type { Amounts } from "../budget/store.js";
import type { BatchFolders } from "./folders.js";
import type { HandedModels } from "./handed-models.js";

interface CleanupContext {
  readonly folders: BatchFolders;
  readonly budget: HandedModels["budget"];
  readonly logger: { warn(fields: object, message: string): void };
}

const release = z.object({ id: z.string(), spent: z.object({ money: z.number(), tokens: z.number() }) });
type Release = Readonly<z.output<typeof release>>;

export class PartCleanup {
  /** By the parts' ids. */
  readonly #due = new Map<string, Release>();
  #tending: Promise<void> | undefined;

  private constructor(private readonly context: CleanupContext) {}

  /** With what an earlier process has left to do. */
  static async open(context: CleanupContext): Promise<PartCleanup> {
    const cleanup = new PartCleanup(context);
    const { cleanups } = context.folders;
    for (const name of await readdir(cleanups)) {
      const read = release.safeParse(await readJson(join(cleanups, name)));
      if (read.success) cleanup.#due.set(read.data.id, read.data);
      // A crash has cut it off: the part is not over.
      else await rm(join(cleanups, name), { force: true });
    }
    return cleanup;
  }

  /** Ends a reservation, now or as soon as that is possible. Rejects where that cannot be noted. */
  async release(id: string, spent: Amounts): Promise<void> {
    try {
      await this.context.budget.release(id, spent);
    } catch (thrown) {
      const { code, message } = toMillraceError(thrown);
      await this.#note({ id, spent });
      this.context.logger.warn({ part: id, code, message }, "the reservation of a part of a batch is ended later");
      return;
    }
    await this.#forget(id);
  }

  /** Reserves for a part whose id may have had a reservation before. */
  async reserve(id: string, estimate: LineEstimate): Promise<void> {
    await this.#tending;
    const before = this.#due.get(id);
    if (before !== undefined) {
      // From here on, the end of the part ends what the id has reserved.
      this.#due.delete(id);
      await this.context.budget.release(id, before.spent).catch(() => {});
      await this.#forget(id);
    }
    await this.context.budget.reserve(id, estimate);
  }

  /** Tries again what is left to do. Never rejects. */
  tend(): Promise<void> {
    this.#tending ??= this.#tend().finally(() => {
      this.#tending = undefined;
    });
    return this.#tending;
  }

  async close(): Promise<void> {
    await this.#tending;
  }

  async #tend(): Promise<void> {
    try {
      for (const { id, spent } of [...this.#due.values()]) {
        await this.context.budget.release(id, spent);
        await this.#forget(id);
      }
    } catch (thrown) {
      const { code, message } = toMillraceError(thrown);
      const fields = { reservations: this.#due.size, code, message };
      this.context.logger.warn(fields, "reservations of batches wait for the budget store");
    }
  }

  async #note(due: Release): Promise<void> {
    const path = this.#path(due.id);
    await writeFile(`${path}.new`, JSON.stringify(due), { mode: 0o600, flush: true });
    await rename(`${path}.new`, path);
    this.#due.set(due.id, due);
  }

  async #forget(id: string): Promise<void> {
    this.#due.delete(id);
    await rm(this.#path(id), { force: true });
  }

  #path(id: string): string {
    return join(this.context.folders.cleanups, `${id.replaceAll("/", "-")}.json`);
  }
}

async function readJson(path: string): Promise<unknown> {
  const text = await readFile(path, "utf8");
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
