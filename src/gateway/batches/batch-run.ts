/**
 * One batch from its creation, or from where a crash left it, to its end: checks the input, offers its lines to the
 * lanes, writes its files.
 */
import { type FileHandle, open } from "node:fs/promises";
import { relative } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import type { CallerOf } from "../caller-identity.js";
import type { Cancellation } from "../cancellation.js";
import type { Caller } from "../request.js";
import type { BatchLines, ReadyLine } from "./batch-lines.js";
import type { BatchTable } from "./batch-table.js";
import { BudgetWait } from "./budget-wait.js";
import { checkInput, type InputLimits } from "./check-input.js";
import { writeBatchFiles } from "./finish.js";
import type { BatchFolders } from "./folders.js";
import type { HandedModels } from "./handed-models.js";
import { HandedRun } from "./handed-run.js";
import type { Lane, LineSource, SourceLine } from "./lane.js";
import { LineIndex } from "./line-index.js";
import { LineQueue } from "./line-queue.js";
import { customIdOf, LineError, type LineFaultCode, type LineModelOf, type LineTerms, readLine } from "./read-line.js";
import {
  type BatchRecord,
  type BatchState,
  type BatchUsage,
  type FileRecord,
  isOver,
  type LineFault,
  mayFollow,
  NO_LINES,
  NO_USAGE,
  sumOf,
} from "./record.js";
import { type LineId, type LineResult, unrunLine } from "./result-lines.js";
import { type LogEntry, type Outcome, ResultLog } from "./result-log.js";
import { type LineAgain, type LineEnd, MAX_ATTEMPTS, refused, runLine, type SubmitLine } from "./run-line.js";

export interface RunContext {
  readonly folders: BatchFolders;
  readonly table: BatchTable;
  readonly submit: SubmitLine;
  /** Absent: the gateway runs every line itself. */
  readonly handed?: HandedModels | undefined;
  readonly modelOf: LineModelOf;
  readonly callerOf: CallerOf;
  readonly laneOf: (model: string) => Lane;
  readonly limits: (batch: BatchRecord) => InputLimits;
  /** Life of output files, in seconds. */
  readonly keptSeconds: () => number;
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
  readonly logger: { warn(fields: object, message: string): void };
}

/** The batch's end, as far as its lines go. */
type LinesEnd = "done" | "expired" | "cancelled" | "stopped";

const FIRST_BACKOFF_MS = 1000;
/** Pause after a full disk, or an input that cannot be read. */
const DISK_PAUSE_MS = 5000;
/** Time that running lines get to finish after their batch is cancelled: most of their work is already done. */
const CANCEL_GRACE_MS = 10_000;
const APPEND_GROUP = 256;

export class BatchRun {
  #record: BatchRecord;
  #queue: LineQueue | undefined;
  #index = new LineIndex(0);
  #log: ResultLog | undefined;
  #input: FileHandle | undefined;
  #attempts = new Map<number, number>();
  #pausedUntilMs = 0;
  readonly #budget = new BudgetWait();
  readonly #sources = new Map<LineSource, Lane>();
  readonly #running = new Set<Promise<unknown>>();
  readonly #cancellations = new Set<Cancellation>();
  readonly #stopping = new AbortController();
  /** Aborted by a cancellation of the batch, too. */
  readonly #checking = new AbortController();
  #settle: (end: LinesEnd) => void = () => {};
  #done: Promise<void> | undefined;
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
    for (const [source, lane] of this.#sources) lane.remove(source);
    this.#sources.clear();
    this.#handed?.leave();
  }

  /** Ends the run, and leaves the batch as it is: another run goes on with it. */
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

  /** From one state to the next. */
  async #advance(): Promise<void> {
    try {
      if (this.#record.state === "validating") await this.#validate();
      else if (this.#record.state === "in_progress") await this.#runLines();
      else await this.#finish();
    } catch (thrown) {
      const { code, path } = thrown as NodeJS.ErrnoException;
      if (this.#stopping.signal.aborted || code !== "ENOENT" || path === undefined) throw thrown;
      // Without the path before it, which is the operator's.
      const file = relative(this.context.folders.root, path);
      this.context.logger.warn({ batch: this.#record.id, err: thrown }, "a file of a batch is missing");
      await this.#fail([faultOf("file_unreadable", `expected the gateway's file ${file} of the batch, got none`)]);
    }
  }

  async #validate(): Promise<void> {
    const { folders, limits } = this.context;
    const path = folders.input(this.#record.id);
    const caller = await this.#caller();
    if (caller instanceof MillraceError) return await this.#fail([faultOf("invalid_api_key", caller.message)]);
    const check = checkInput(path, this.#terms(caller), limits(this.#record), this.#checking.signal);
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
      const queue = await this.#open();
      // The batch may have been cancelled meanwhile.
      if (this.#record.state === "cancelling" || this.#stopping.signal.aborted) return;
      if (queue.numLeft === 0) this.#settle("done");
      timer = setTimeout(() => this.#settle("expired"), Math.max(0, this.#record.expiresAt * 1000 - nowMs()));
      this.#handed = await this.#openHanded();
      this.#enterLanes(queue);
      this.#handed?.start();
      const end = await settled;
      this.leave();
      if (end === "done") await this.#handed?.done();
      if (end === "cancelled") await this.#awaitLines(CANCEL_GRACE_MS);
      if (end !== "done" && end !== "expired") return;
      // The database's record of the log must hold after a power cut, too.
      await this.#log!.sync();
      if (this.#record.state === "in_progress") this.#enter("finalizing");
    } finally {
      clearTimeout(timer);
      this.leave();
      await this.#handed?.stop();
      for (const cancellation of [...this.#cancellations]) cancellation.cancel();
      await Promise.all(this.#running);
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
      const queue = numLines === 0 ? new LineQueue(new LineIndex(0)) : await this.#open();
      isComplete = queue.numLeft === 0;
      // The disk has lost results that had been written: their lines run again.
      if (!(isComplete || isCancelled) && nowMs() < this.#record.expiresAt * 1000) return await this.#runLines();
      if (!isComplete) {
        this.#handed = await this.#openHanded();
        // A run that was stopped meanwhile has not stopped these lines.
        this.#stopping.signal.throwIfAborted();
        await this.#handed?.end();
        this.#stopping.signal.throwIfAborted();
        isComplete = queue.numLeft === 0;
      }
      await this.#appendUnrun(queue, isCancelled ? "cancelled" : "expired");
    } finally {
      await this.#close();
    }
    const nowSeconds = Math.floor(nowMs() / 1000);
    const files = await writeBatchFiles(folders, this.#record, numLines, { nowSeconds, keptSeconds: keptSeconds() });
    const { output, error } = files;
    const wasExpired = !isComplete || this.#record.counts.expired > 0;
    this.#enter(
      isCancelled ? "cancelled" : wasExpired ? "expired" : "completed",
      { outputFileId: output?.id, errorFileId: error?.id },
      [output, error].filter((file) => file !== undefined),
    );
    await folders.removeRun(this.#record.id);
  }

  /** Reads the index and the log. */
  async #open(): Promise<LineQueue> {
    const { folders } = this.context;
    const { id } = this.#record;
    await this.#close();
    this.#index = await LineIndex.read(folders.index(id));
    this.#input = await open(folders.input(id), "r");
    const queue = new LineQueue(this.#index);
    this.#record = { ...this.#record, counts: NO_LINES, usage: NO_USAGE };
    this.#log = await ResultLog.open(folders.log(id), ({ index, outcome, usage }) => {
      if (queue.markDone(index)) this.#count(outcome, usage);
    });
    this.#queue = queue;
    return queue;
  }

  async #close(): Promise<void> {
    const [log, input] = [this.#log, this.#input];
    [this.#log, this.#input] = [undefined, undefined];
    await log?.close();
    await input?.close();
  }

  #enterLanes(queue: LineQueue): void {
    const { tenant } = this.#record.owner;
    for (const [model, name] of this.#record.models.entries()) {
      if (this.#handed?.takes(model) === true) continue;
      const lane = this.context.laneOf(name);
      const source: LineSource = {
        tenant,
        next: (nowMs) => {
          const index =
            nowMs < Math.max(this.#pausedUntilMs, this.#budget.untilMs) ? undefined : queue.next(model, nowMs);
          return index === undefined ? undefined : this.#lineAt(index, lane);
        },
      };
      this.#sources.set(source, lane);
      lane.add(source);
    }
  }

  #lineAt(index: number, lane: Lane): SourceLine {
    return {
      numBytes: this.#index.at(index).length,
      run: async (cancellation) => {
        const running = this.#runLine(index, cancellation, lane);
        this.#running.add(running);
        this.#cancellations.add(cancellation);
        try {
          return await running;
        } finally {
          this.#running.delete(running);
          this.#cancellations.delete(cancellation);
        }
      },
    };
  }

  async #runLine(index: number, cancellation: Cancellation, lane: Lane): Promise<LineEnd> {
    try {
      const end = await this.#ask(index, cancellation);
      if (end.kind === "done") {
        this.#budget.settled();
        await this.#keep(index, end.result);
      } else if (end.kind === "stopped") this.#queue!.again(index, lane.nowMs());
      else if (end.isFault && this.#countAttempt(index) >= MAX_ATTEMPTS) await this.#keep(index, end.giveUp);
      else if (end.scope === "budget" && !this.#budget.mayWait(lane.nowMs(), this.#running.size > 1)) {
        await this.#keep(index, end.giveUp);
      } else this.#runAgain(index, end, lane);
      return end;
    } catch (thrown) {
      // The result is lost, so the line runs again: only a written entry marks a line as done.
      this.context.logger.warn({ batch: this.#record.id, err: thrown }, "could not keep the result of a line");
      this.#pausedUntilMs = lane.nowMs() + DISK_PAUSE_MS;
      this.#queue!.again(index, this.#pausedUntilMs);
      return { kind: "stopped" };
    }
  }

  async #ask(index: number, cancellation: Cancellation): Promise<LineEnd> {
    const line = await this.#line(index);
    return "kind" in line ? line : await runLine(this.context.submit, line.batch, line.id, line.request, cancellation);
  }

  /** @param isPaid rights that are gone do not count any more */
  async #line(index: number, isPaid = false): Promise<ReadyLine | LineEnd> {
    const bytes = await this.#read(index);
    const refusedWith = (error: MillraceError) => refused(this.#idOf(index, customIdOf(bytes) ?? ""), error);
    const found = await this.#caller();
    if (found instanceof MillraceError && !isPaid) return refusedWith(found);
    const { tenant, keyId } = this.#record.owner;
    const caller: Caller = found instanceof MillraceError ? { tenant, keyId } : found;
    const model = this.#record.models[this.#index.modelAt(index)]!;
    const terms = isPaid ? { ...this.#terms(caller), modelOf: () => model } : this.#terms(caller);
    try {
      const request = await readLine(bytes, terms);
      return { batch: { ...this.#record, caller }, id: this.#idOf(index, request.customId), request };
    } catch (thrown) {
      if (!(thrown instanceof LineError)) throw thrown;
      // The line was valid when it was checked: since then, the model was removed, or the key lost its right to use it.
      const { code, message } = thrown;
      const isOfModel = code === "model_not_found" || code === "model_not_allowed";
      return refusedWith(new MillraceError(isOfModel ? code : "invalid_request", message));
    }
  }

  #runAgain(index: number, { afterMs, scope }: LineAgain, lane: Lane): void {
    const nowMs = lane.nowMs();
    const attempts = this.#attempts.get(index) ?? 0;
    const backoffMs = afterMs ?? (attempts === 0 ? 0 : FIRST_BACKOFF_MS * 2 ** (attempts - 1));
    if (scope === "batch") this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + backoffMs);
    this.#queue!.again(index, nowMs + backoffMs);
  }

  #countAttempt(index: number): number {
    const attempts = (this.#attempts.get(index) ?? 0) + 1;
    this.#attempts.set(index, attempts);
    return attempts;
  }

  async #keep(index: number, { outcome, usage, json }: LineResult): Promise<void> {
    await this.#log!.append([{ index, outcome, usage, json }]);
    this.#attempts.delete(index);
    if (this.#queue!.markDone(index)) this.#count(outcome, usage);
    if (this.#queue!.numLeft === 0) this.#settle("done");
  }

  async #openHanded(): Promise<HandedRun | undefined> {
    const { handed } = this.context;
    if (handed === undefined) return undefined;
    const { id: batchId, models, numLines } = this.#record;
    const lines: BatchLines = {
      batchId,
      models,
      numLines,
      isOpen: (index, model) => this.#index.modelAt(index) === model && !this.#queue!.isDone(index),
      line: (index, isPaid) => this.#line(index, isPaid),
      keep: (index, result) => this.#keep(index, result),
      expire: async (index) => await this.#keep(index, await this.#unrun(index, "expired")),
    };
    return await HandedRun.open({ ...this.context, handed }, lines);
  }

  async #unrun(index: number, outcome: "expired" | "cancelled"): Promise<LineResult> {
    const json = unrunLine(this.#idOf(index, customIdOf(await this.#read(index)) ?? ""), outcome);
    return { outcome, usage: NO_USAGE, json };
  }

  async #appendUnrun(queue: LineQueue, outcome: "expired" | "cancelled"): Promise<void> {
    let group: LogEntry[] = [];
    const flush = async (): Promise<void> => {
      if (group.length > 0) await this.#log!.append(group);
      group = [];
    };
    for (const index of [...queue.left()]) {
      group.push({ index, ...(await this.#unrun(index, outcome)) });
      queue.markDone(index);
      this.#count(outcome, NO_USAGE);
      if (group.length === APPEND_GROUP) await flush();
    }
    await flush();
  }

  async #read(index: number): Promise<Buffer> {
    const { offset, length } = this.#index.at(index);
    const bytes = Buffer.allocUnsafeSlow(length);
    const { bytesRead } = await this.#input!.read(bytes, 0, length, offset);
    return bytes.subarray(0, bytesRead);
  }

  async #awaitLines(limitMs: number): Promise<void> {
    const stop = new AbortController();
    const limit = wait(limitMs, undefined, { signal: AbortSignal.any([stop.signal, this.#stopping.signal]) });
    await Promise.race([Promise.all(this.#running), limit.catch(() => {})]);
    stop.abort();
  }

  #idOf(index: number, customId: string): LineId {
    const { id, kind } = this.#record;
    const requestId = `${id.slice(id.indexOf("_") + 1)}-${this.#index.at(index).number}`;
    return { kind, requestId, customId };
  }

  /** On whose behalf lines run, with the rights of now. @returns the error where the key or its owner is gone */
  async #caller(): Promise<Caller | MillraceError> {
    try {
      return await this.context.callerOf(this.#record.owner);
    } catch (thrown) {
      const error = toMillraceError(thrown);
      if (error.code === "invalid_api_key") return error;
      throw error;
    }
  }

  #terms(caller: Caller): LineTerms {
    const { kind, endpoint } = this.#record;
    return { kind, endpoint, caller, modelOf: this.context.modelOf };
  }

  #count(outcome: Outcome, usage: BatchUsage): void {
    const { counts } = this.#record;
    this.#record = {
      ...this.#record,
      counts: { ...counts, [outcome]: counts[outcome] + 1 },
      usage: sumOf(this.#record.usage, usage),
    };
  }

  /** The whole batch cannot run. */
  async #fail(faults: readonly LineFault[]): Promise<void> {
    this.#enter("failed", { faults });
    const handed = await this.#openHanded().catch(() => undefined);
    handed?.drop();
    await this.context.folders.removeRun(this.#record.id);
  }

  /** Throws where the row cannot be written; the batch is then as before, and its change can be tried again. */
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
