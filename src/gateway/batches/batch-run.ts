/**
 * Runs one batch from its creation, or from where a crash left it, to its end: checks the input, has the lines answered
 * in lanes or at their providers, and writes the batch's files.
 */
import { relative } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { BatchLines, callerNow, type LinesContext, termsOf } from "./batch-lines.js";
import type { BatchTable } from "./batch-table.js";
import { checkInput, type InputLimits } from "./check-input.js";
import { writeBatchFiles } from "./finish.js";
import type { HandedModels } from "./handed-models.js";
import { dropParts, HandedRun } from "./handed-run.js";
import { DISK_PAUSE_MS, type LaneContext, LaneRun } from "./lane-run.js";
import type { PartCleanup } from "./part-cleanup.js";
import { BrokenPart } from "./part-file.js";
import type { LineFaultCode } from "./read-line.js";
import { type BatchRecord, type BatchState, type FileRecord, isOver, type LineFault, mayFollow } from "./record.js";

export interface RunContext extends LinesContext, LaneContext {
  readonly table: BatchTable;
  /** Absent: the gateway runs every line itself. */
  readonly handed?: HandedModels | undefined;
  /** Absent: no lines are handed over. */
  readonly cleanup?: PartCleanup | undefined;
  readonly limits: (batch: BatchRecord) => InputLimits;
  /** Life of output files, in seconds. */
  readonly keptSeconds: () => number;
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
}

/** Why no more lines of the batch run. */
type LinesEnd = "done" | "expired" | "cancelled" | "stopped";

/** Time that running lines get to finish after their batch is cancelled: most of their work is already done. */
const CANCEL_GRACE_MS = 10_000;

export class BatchRun {
  #record: BatchRecord;
  #lines: BatchLines | undefined;
  readonly #stopping = new AbortController();
  /** A cancellation of the batch aborts it too. */
  readonly #checking = new AbortController();
  #settle: (end: LinesEnd) => void = () => {};
  #done: Promise<void> | undefined;
  #inLanes: LaneRun | undefined;
  #handed: HandedRun | undefined;

  constructor(
    private readonly context: RunContext,
    record: BatchRecord,
  ) {
    this.#record = record;
  }

  get record(): BatchRecord {
    return this.#record;
  }

  /** Resolves when the batch is over or stopped. Never rejects. */
  start(): Promise<void> {
    this.#done ??= this.#drive();
    return this.#done;
  }

  /** Runs no further lines. Throws invalid_request for a batch that can no longer be cancelled. */
  cancel(): void {
    if (this.#record.state === "cancelling") return;
    if (!mayFollow(this.#record.state, "cancelling")) throw tooLate(this.#record);
    this.#enter("cancelling");
    this.#checking.abort();
    this.#settle("cancelled");
  }

  /** Begins no more lines. */
  leave(): void {
    this.#inLanes?.leave();
    this.#handed?.leave();
  }

  /** Ends the run, but not the batch: another run continues it. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#checking.abort();
    this.#settle("stopped");
    await this.#handed?.stop();
    await this.#done;
  }

  async #drive(): Promise<void> {
    const { signal } = this.#stopping;
    while (!(signal.aborted || isOver(this.#record.state))) {
      try {
        await this.#advance();
      } catch (thrown) {
        if (signal.aborted) return;
        const error = toMillraceError(thrown);
        this.context.logger.warn({ batch: this.#record.id, code: error.code, err: thrown }, "a batch stands still");
        await wait(DISK_PAUSE_MS, undefined, { signal }).catch(() => {});
      }
    }
  }

  /** Takes the batch from its state to the next. */
  async #advance(): Promise<void> {
    try {
      if (this.#record.state === "validating") await this.#validate();
      else if (this.#record.state === "in_progress") await this.#runLines();
      else await this.#finish();
    } catch (thrown) {
      if (thrown instanceof BrokenPart) return await this.#fail([faultOf("file_unreadable", thrown.message)]);
      const { code, path } = thrown as NodeJS.ErrnoException;
      if (this.#stopping.signal.aborted || code !== "ENOENT" || path === undefined) throw thrown;
      // Leaves out the folder's own path, which only the operator may see.
      const file = relative(this.context.folders.root, path);
      this.context.logger.warn({ batch: this.#record.id, err: thrown }, "a file of a batch is missing");
      await this.#fail([faultOf("file_unreadable", `expected the gateway's file ${file} of the batch, got none`)]);
    }
  }

  async #validate(): Promise<void> {
    const { folders, limits, callerOf, modelOf } = this.context;
    const path = folders.input(this.#record.id);
    const caller = await callerNow(callerOf, this.#record.owner);
    if (caller instanceof MillraceError) return await this.#fail([faultOf("invalid_api_key", caller.message)]);
    const terms = termsOf(this.#record, caller, modelOf);
    const check = checkInput(path, terms, limits(this.#record), this.#checking.signal);
    const checked = await check.catch((thrown: unknown) => {
      if (this.#checking.signal.aborted) return undefined;
      throw thrown;
    });
    if (checked === undefined || this.#record.state !== "validating") return;
    const { index, models, faults } = checked;
    if (faults.length > 0) return await this.#fail(faults);
    await index.write(folders.index(this.#record.id));
    if (this.#record.state !== "validating") return;
    this.#enter("in_progress", { numLines: index.length, models });
  }

  async #runLines(): Promise<void> {
    const { nowMs } = this.context;
    const settled = new Promise<LinesEnd>((resolve) => {
      this.#settle = resolve;
    });
    let timer: NodeJS.Timeout | undefined;
    try {
      const lines = await this.#open();
      // The batch may have been cancelled meanwhile.
      if (this.#record.state === "cancelling" || this.#stopping.signal.aborted) return;
      if (lines.numLeft === 0) this.#settle("done");
      timer = setTimeout(() => this.#settle("expired"), Math.max(0, this.#record.expiresAt * 1000 - nowMs()));
      this.#handed = await this.#openHanded(lines);
      this.#inLanes = new LaneRun(this.context, lines);
      this.#inLanes.start((model) => this.#handed?.takes(model) !== true);
      this.#handed?.start();
      const end = await settled;
      this.leave();
      if (end === "done") await this.#handed?.done();
      if (end === "cancelled") await this.#inLanes.done(CANCEL_GRACE_MS, this.#stopping.signal);
      if (end !== "done" && end !== "expired") return;
      // The database's record of the log must hold after a power cut, too.
      await lines.sync();
      if (this.#record.state === "in_progress") this.#enter("finalizing");
    } finally {
      clearTimeout(timer);
      this.leave();
      await this.#handed?.stop();
      await this.#inLanes?.stop();
      await this.#close();
    }
  }

  /** Adds a result for every line without one, and makes the files. */
  async #finish(): Promise<void> {
    const { folders, nowMs, keptSeconds } = this.context;
    const isCancelled = this.#record.state === "cancelling";
    const numLines = this.#record.numLines;
    let isComplete = true;
    try {
      // A batch that was cancelled while it was checked has no index of lines.
      if (numLines > 0) {
        const lines = await this.#open();
        isComplete = lines.numLeft === 0;
        // The disk has lost written results: their lines run again.
        if (!(isComplete || isCancelled) && nowMs() < this.#record.expiresAt * 1000) return await this.#runLines();
        // Parts may still hold reservations after all their lines have results.
        isComplete = await this.#endHanded(lines);
        await lines.endAll(isCancelled ? "cancelled" : "expired");
      }
    } finally {
      await this.#close();
    }
    const nowSeconds = Math.floor(nowMs() / 1000);
    const files = await writeBatchFiles(folders, this.#record, numLines, { nowSeconds, keptSeconds: keptSeconds() });
    const { output, error } = files;
    await this.#dropParts();
    const wasExpired = !isComplete || this.#record.counts.expired > 0;
    this.#enter(
      isCancelled ? "cancelled" : wasExpired ? "expired" : "completed",
      { outputFileId: output?.id, errorFileId: error?.id },
      [output, error].filter((file) => file !== undefined),
    );
    await folders.removeRun(this.#record.id);
  }

  /** @returns whether the providers had results for all remaining lines */
  async #endHanded(lines: BatchLines): Promise<boolean> {
    this.#handed = await this.#openHanded(lines);
    // If the run was stopped meanwhile, it has not stopped these lines.
    this.#stopping.signal.throwIfAborted();
    await this.#handed?.end();
    this.#stopping.signal.throwIfAborted();
    return lines.numLeft === 0;
  }

  async #open(): Promise<BatchLines> {
    await this.#close();
    this.#lines = await BatchLines.open(this.context, this.#record, (lines) => {
      this.#count(lines);
      if (lines.numLeft === 0) this.#settle("done");
    });
    this.#count(this.#lines);
    return this.#lines;
  }

  async #close(): Promise<void> {
    const lines = this.#lines;
    this.#lines = undefined;
    await lines?.close();
  }

  async #openHanded(lines: BatchLines): Promise<HandedRun | undefined> {
    const { handed, cleanup } = this.context;
    if (handed === undefined || cleanup === undefined) return undefined;
    return await HandedRun.open({ ...this.context, handed, cleanup }, lines);
  }

  /** Drops the parts, since nothing looks after those of a batch that is over. */
  async #dropParts(): Promise<void> {
    const { folders, handed, cleanup } = this.context;
    if (handed !== undefined && cleanup !== undefined) await dropParts({ folders, handed, cleanup }, this.#record);
  }

  #count({ counts, usage }: BatchLines): void {
    this.#record = { ...this.#record, counts, usage };
  }

  /** Ends a batch that cannot run at all. */
  async #fail(faults: readonly LineFault[]): Promise<void> {
    const { folders } = this.context;
    await this.#dropParts();
    this.#enter("failed", { faults });
    await folders.removeRun(this.#record.id);
  }

  /** Throws if the row cannot be written; the batch is then unchanged, and the change can be tried again. */
  #enter(state: BatchState, changed: Partial<BatchRecord> = {}, files: readonly FileRecord[] = []): void {
    if (!mayFollow(this.#record.state, state)) {
      throw new MillraceError("internal_error", `expected a state behind ${this.#record.state}, got ${state}`);
    }
    const times = { ...this.#record.times, [state]: Math.floor(this.context.nowMs() / 1000) };
    const next = { ...this.#record, ...changed, state, times };
    this.context.table.updateBatch(next, files);
    this.#record = next;
  }
}

/** A fault of the whole batch. */
function faultOf(code: LineFaultCode, message: string): LineFault {
  return { code, line: null, message, param: null };
}

function tooLate({ id, state }: BatchRecord): MillraceError {
  const message = `expected a batch that is validating or in progress, got ${id}, which is ${state}`;
  return new MillraceError("invalid_request", message);
}
