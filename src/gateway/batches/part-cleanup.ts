/**
 * The last tasks of finished parts: ends their reservations, and deletes their files at the provider. While the budget
 * store or the provider is down, a task is kept on the disk and tried again, so that no batch waits for it.
 */
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import type { LineEstimate } from "../budget/handed-limits.js";
import type { Amounts } from "../budget/store.js";
import { Refused } from "../provider-batches/provider-http.js";
import type { BatchFolders } from "./folders.js";
import type { HandedModels } from "./handed-models.js";

interface CleanupContext {
  readonly folders: BatchFolders;
  readonly handed: Pick<HandedModels, "budget" | "endpointOf">;
  readonly logger: { warn(fields: object, message: string): void };
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
}

const release = z.object({
  kind: z.literal("release"),
  /** The part's id. */
  id: z.string(),
  spent: z.object({ money: z.number(), tokens: z.number() }),
});
const removal = z.object({
  kind: z.literal("removal"),
  id: z.string(),
  /** The model's name as the lines send it. */
  model: z.string(),
  /** The provider's ids of the remaining files. */
  files: z.array(z.string()),
  numTries: z.number().int().min(0),
  /** A provider's batch that may still run and need its file. Absent: it is over. */
  batch: z
    .object({
      /** Absent: it is unknown whether there is a batch. */
      id: z.string().optional(),
      /** When the batch is over, whatever the provider says. */
      overMs: z.number(),
    })
    .optional(),
});
const task = z.discriminatedUnion("kind", [release, removal]);
type Release = Readonly<z.output<typeof release>>;
type Removal = Readonly<z.output<typeof removal>>;

/** Tries and the waits between them take nine hours. */
const MAX_TRIES = 10;
const RETRY_MS = 60_000;
/** Wait between two polls whether an abandoned batch is over. */
const LOOK_MS = 30 * 60_000;
/** Providers give a batch one day; a cancelled one ends within minutes. */
const LONGEST_BATCH_MS = 25 * 3_600_000;
const REMOVE_MS = 30_000;

export class PartCleanup {
  /** Releases by the parts' ids. */
  readonly #releases = new Map<string, Release>();
  readonly #removals = new Map<string, Removal & { readonly atMs: number }>();
  readonly #closing = new AbortController();
  #releasing: Promise<void> | undefined;
  #removing: Promise<void> | undefined;

  private constructor(private readonly context: CleanupContext) {}

  /** Takes over the tasks of an earlier process. */
  static async open(context: CleanupContext): Promise<PartCleanup> {
    const cleanup = new PartCleanup(context);
    const { cleanups } = context.folders;
    for (const name of await readdir(cleanups)) {
      const path = join(cleanups, name);
      const written = name.endsWith(".new")
        ? undefined
        : await readFile(path, "utf8").catch((thrown: unknown) => {
            context.logger.warn({ path, err: thrown }, "could not read what is left to do for a part of a batch");
            return null;
          });
      if (written === null) continue;
      const { data } = task.safeParse(parsedOf(written));
      if (data?.kind === "release") cleanup.#releases.set(data.id, data);
      else if (data?.kind === "removal") cleanup.#removals.set(data.id, { ...data, atMs: 0 });
      // A crash interrupted the writing: the task's owner notes it again.
      else await rm(path, { force: true });
    }
    return cleanup;
  }

  /** Ends a reservation, now or as soon as possible. Rejects if the task cannot be noted. */
  async release(id: string, spent: Amounts): Promise<void> {
    try {
      await this.context.handed.budget.release(id, spent);
    } catch (thrown) {
      const { code, message } = toMillraceError(thrown);
      const noted: Release = { kind: "release", id, spent };
      await this.#note(noted);
      this.#releases.set(id, noted);
      this.context.logger.warn({ part: id, code, message }, "the reservation of a part of a batch is ended later");
      return;
    }
    await this.#released(id);
  }

  /** Reserves for a part whose id may have had a reservation before. */
  async reserve(id: string, estimate: LineEstimate): Promise<void> {
    const { budget } = this.context.handed;
    await this.#releasing;
    const before = this.#releases.get(id);
    if (before !== undefined) {
      // From here on, the end of the part releases the id's reservation.
      this.#releases.delete(id);
      await budget.release(id, before.spent).catch(() => {});
      await this.#released(id);
    }
    await budget.reserve(id, estimate);
  }

  /**
   * Deletes files of a part at the provider, in the background. Rejects if the task cannot be noted.
   * @param givenUp the part's abandoned batch: its files are deleted when it is over
   */
  async remove(
    id: string,
    model: string,
    files: readonly string[],
    givenUp?: { readonly batchId?: string | undefined },
  ): Promise<void> {
    const endpoint = this.context.handed.endpointOf(model);
    if (files.length === 0 || (endpoint !== undefined && endpoint.remove === undefined)) return;
    const batch = givenUp && { id: givenUp.batchId, overMs: this.context.nowMs() + LONGEST_BATCH_MS };
    const noted: Removal = { kind: "removal", id, model, files: [...files], numTries: 0, batch };
    await this.#note(noted);
    this.#removals.set(id, { ...noted, atMs: 0 });
    this.#tryRemovals();
  }

  /** Tries the open tasks again, in the background. */
  tend(): void {
    this.#releasing ??= this.#endReservations().finally(() => {
      this.#releasing = undefined;
    });
    this.#tryRemovals();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.settled();
  }

  /** Resolves when no task is under way. */
  async settled(): Promise<void> {
    await this.#releasing;
    await this.#removing;
  }

  #tryRemovals(): void {
    this.#removing ??= this.#removeAll().finally(() => {
      this.#removing = undefined;
    });
  }

  async #removeAll(): Promise<void> {
    const { nowMs, logger } = this.context;
    for (let due = this.#nextRemoval(nowMs()); due !== undefined; due = this.#nextRemoval(nowMs())) {
      try {
        await this.#tryRemoval(due);
      } catch (thrown) {
        // The task could not be written to the disk.
        logger.warn({ part: due.id, err: thrown }, "could not delete a part's files at its provider");
        return;
      }
    }
  }

  async #endReservations(): Promise<void> {
    const { handed, logger } = this.context;
    try {
      for (const { id, spent } of [...this.#releases.values()]) {
        await handed.budget.release(id, spent);
        await this.#released(id);
      }
    } catch (thrown) {
      const { code, message } = toMillraceError(thrown);
      const fields = { reservations: this.#releases.size, code, message };
      logger.warn(fields, "reservations of batches wait for the budget store");
    }
  }

  #nextRemoval(nowMs: number): Removal | undefined {
    if (this.#closing.signal.aborted) return undefined;
    return [...this.#removals.values()].find(({ atMs }) => atMs <= nowMs);
  }

  async #tryRemoval(due: Removal): Promise<void> {
    const { logger, nowMs } = this.context;
    if (due.batch !== undefined) return await this.#tryEnd(due, due.batch);
    const { left, error } = await this.#removeFiles(due);
    if (this.#closing.signal.aborted) return;
    const { id } = due;
    const numTries = due.numTries + 1;
    const isLast = numTries >= MAX_TRIES;
    if (left.length === 0 || isLast) {
      this.#removals.delete(id);
      await rm(this.#path(due), { force: true });
    } else {
      const next: Removal = { ...due, files: left, numTries };
      this.#removals.set(id, { ...next, atMs: nowMs() + RETRY_MS * 2 ** due.numTries });
      await this.#note(next);
    }
    if (left.length === 0) return;
    const fields = { part: id, files: left, message: error?.message };
    const what = isLast ? "a part's files stay at its provider" : "a part's files at its provider are deleted later";
    logger.warn(fields, what);
  }

  /** Once the batch is over, its result files are known, and go with the others. */
  async #tryEnd(due: Removal, batch: NonNullable<Removal["batch"]>): Promise<void> {
    const nowMs = this.context.nowMs();
    const results = await this.#resultsOf(due.model, batch.id);
    if (this.#closing.signal.aborted) return;
    if (results === undefined && nowMs < batch.overMs) {
      this.#removals.set(due.id, { ...due, atMs: nowMs + LOOK_MS });
      return;
    }
    const next: Removal = { ...due, files: [...due.files, ...(results ?? [])], batch: undefined };
    await this.#note(next);
    this.#removals.set(due.id, { ...next, atMs: nowMs });
  }

  /** @returns undefined while the batch may still run */
  async #resultsOf(model: string, batchId: string | undefined): Promise<readonly string[] | undefined> {
    const endpoint = this.context.handed.endpointOf(model);
    if (endpoint === undefined || batchId === undefined) return undefined;
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(REMOVE_MS)]);
    try {
      const look = await endpoint.look(batchId, signal);
      return look.kind === "running" ? undefined : look.kind === "ended" ? look.results : [];
    } catch (thrown) {
      return thrown instanceof Refused && thrown.status === 404 ? [] : undefined;
    }
  }

  /** @returns the remaining files */
  async #removeFiles({ model, files }: Removal): Promise<{ readonly left: string[]; readonly error?: Error }> {
    const endpoint = this.context.handed.endpointOf(model);
    if (endpoint === undefined) {
      return {
        left: [...files],
        error: new MillraceError("model_not_found", "expected the files' provider, got none"),
      };
    }
    const left: string[] = [];
    let error: Error | undefined;
    for (const file of files) {
      const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(REMOVE_MS)]);
      try {
        await endpoint.remove?.(file, signal);
      } catch (thrown) {
        if (thrown instanceof Refused && thrown.status === 404) continue;
        left.push(file);
        error = thrown as Error;
      }
    }
    return error === undefined ? { left } : { left, error };
  }

  async #note(noted: Release | Removal): Promise<void> {
    const path = this.#path(noted);
    await writeFile(`${path}.new`, JSON.stringify(noted), { mode: 0o600, flush: true });
    await rename(`${path}.new`, path);
  }

  async #released(id: string): Promise<void> {
    this.#releases.delete(id);
    await rm(this.#path({ kind: "release", id }), { force: true });
  }

  #path({ kind, id }: Pick<Release | Removal, "kind" | "id">): string {
    return join(this.context.folders.cleanups, `${kind}-${id.replaceAll("/", "-")}.json`);
  }
}

function parsedOf(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
