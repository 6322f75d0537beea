/**
 * The lines of a batch under way: reads them from the input, tracks the lines without a result, and keeps each result
 * in the log. Lanes and parts for providers take their lines from here.
 */
import { type FileHandle, open } from "node:fs/promises";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import type { CallerIdentity, CallerOf } from "../caller-identity.js";
import type { Caller } from "../request.js";
import type { BatchFolders } from "./folders.js";
import { LineIndex } from "./line-index.js";
import { LineQueue } from "./line-queue.js";
import { customIdOf, LineError, type LineModelOf, type LineRequest, type LineTerms, readLine } from "./read-line.js";
import { type BatchRecord, type BatchUsage, NO_LINES, NO_USAGE, sumOf } from "./record.js";
import { type LineId, type LineResult, unrunLine } from "./result-lines.js";
import { type EntryHead, type LogEntry, ResultLog } from "./result-log.js";
import { type LineBatch, type LineEnd, refused } from "./run-line.js";

export interface LinesContext {
  readonly folders: BatchFolders;
  readonly callerOf: CallerOf;
  readonly modelOf: LineModelOf;
}

interface ReadyLine {
  readonly batch: LineBatch;
  readonly id: LineId;
  readonly request: LineRequest;
}

const APPEND_GROUP = 256;

export class BatchLines {
  readonly #queue: LineQueue;
  #counts = NO_LINES;
  #usage = NO_USAGE;
  #log: ResultLog | undefined;
  /** Results that could not be written to the log yet. */
  readonly #unkept = new Map<number, LineResult>();

  private constructor(
    private readonly context: LinesContext,
    private readonly record: BatchRecord,
    private readonly index: LineIndex,
    private readonly input: FileHandle,
    private readonly onResult: (lines: BatchLines) => void,
  ) {
    this.#queue = new LineQueue(index);
  }

  /**
   * Reads the index and the existing log of results.
   * @param record of a batch whose input is checked
   * @param onResult called for each result after the existing ones
   */
  static async open(
    context: LinesContext,
    record: BatchRecord,
    onResult: (lines: BatchLines) => void,
  ): Promise<BatchLines> {
    const { folders } = context;
    const index = await LineIndex.read(folders.index(record.id));
    const input = await open(folders.input(record.id), "r");
    try {
      const lines = new BatchLines(context, record, index, input, onResult);
      lines.#log = await ResultLog.open(folders.log(record.id), (entry) => lines.#count(entry));
      return lines;
    } catch (thrown) {
      await input.close();
      throw thrown;
    }
  }

  get batchId(): string {
    return this.record.id;
  }

  get tenant(): string {
    return this.record.owner.tenant;
  }

  /** The models' names as clients send them. */
  get models(): readonly string[] {
    return this.record.models;
  }

  get numLines(): number {
    return this.record.numLines;
  }

  /** Number of lines with a result, by outcome. */
  get counts(): BatchRecord["counts"] {
    return this.#counts;
  }

  /** Tokens of the lines with a result. */
  get usage(): BatchUsage {
    return this.#usage;
  }

  /** Lines without a result, those under way among them. */
  get numLeft(): number {
    return this.#queue.numLeft;
  }

  /** Whether a line of a model has no result yet. */
  isOpen(index: number, model: number): boolean {
    return this.index.modelAt(index) === model && !this.#queue.isDone(index);
  }

  /** Takes the next line of a model. The line comes again only after `again`. */
  next(model: number, nowMs: number): number | undefined {
    return this.#queue.next(model, nowMs);
  }

  again(index: number, atMs: number): void {
    this.#queue.again(index, atMs);
  }

  numBytes(index: number): number {
    return this.index.at(index).length;
  }

  /**
   * @param isPaid the provider has answered, so the line no longer needs the right to use the model
   * @returns the line, or its end if it cannot run
   */
  async line(index: number, isPaid = false): Promise<ReadyLine | LineEnd> {
    const bytes = await this.#read(index);
    const refusedWith = (error: MillraceError) => refused(this.#idOf(index, customIdOf(bytes) ?? ""), error);
    const { callerOf } = this.context;
    const found = await callerNow(callerOf, this.record.owner);
    if (found instanceof MillraceError && !isPaid) return refusedWith(found);
    const caller = found instanceof MillraceError ? await payerNow(callerOf, this.record.owner) : found;
    const model = this.record.models[this.index.modelAt(index)]!;
    try {
      const request = await readLine(bytes, termsOf(this.record, caller, isPaid ? () => model : this.context.modelOf));
      return { batch: { ...this.record, caller }, id: this.#idOf(index, request.customId), request };
    } catch (thrown) {
      if (!(thrown instanceof LineError)) throw thrown;
      // The line was valid when it was checked: since then, the model was removed, or the key lost its right to use it.
      const { code, message } = thrown;
      const isOfModel = code === "model_not_found" || code === "model_not_allowed";
      return refusedWith(new MillraceError(isOfModel ? code : "invalid_request", message));
    }
  }

  async keep(index: number, result: LineResult): Promise<void> {
    const { outcome, usage, json } = result;
    const entry: LogEntry = { index, outcome, usage, json };
    this.#unkept.set(index, result);
    await this.#log!.append([entry]);
    this.#unkept.delete(index);
    this.#mark(entry);
  }

  /** A result that the log could not take: the line has run and is charged. */
  unkept(index: number): LineResult | undefined {
    return this.#unkept.get(index);
  }

  async expire(index: number): Promise<void> {
    await this.keep(index, await this.#unrun(index, "expired"));
  }

  /** Gives a result to every line without one. */
  async endAll(outcome: "expired" | "cancelled"): Promise<void> {
    let group: LogEntry[] = [];
    const flush = async (): Promise<void> => {
      if (group.length > 0) await this.#log!.append(group);
      group = [];
    };
    for (const index of [...this.#queue.left()]) {
      const entry: LogEntry = { index, ...(this.#unkept.get(index) ?? (await this.#unrun(index, outcome))) };
      group.push(entry);
      this.#mark(entry);
      if (group.length === APPEND_GROUP) await flush();
    }
    await flush();
  }

  /** Resolves when the log would survive a power cut. */
  async sync(): Promise<void> {
    await this.#log!.sync();
  }

  async close(): Promise<void> {
    await this.#log!.close();
    await this.input.close();
  }

  #mark(entry: EntryHead): void {
    if (this.#count(entry)) this.onResult(this);
  }

  /** @returns false if the line had a result before, or does not exist */
  #count({ index, outcome, usage }: EntryHead): boolean {
    if (!this.#queue.markDone(index)) return false;
    this.#counts = { ...this.#counts, [outcome]: this.#counts[outcome] + 1 };
    this.#usage = sumOf(this.#usage, usage);
    return true;
  }

  async #unrun(index: number, outcome: "expired" | "cancelled"): Promise<LineResult> {
    const json = unrunLine(this.#idOf(index, customIdOf(await this.#read(index)) ?? ""), outcome);
    return { outcome, usage: NO_USAGE, json };
  }

  async #read(index: number): Promise<Buffer> {
    const { offset, length } = this.index.at(index);
    const bytes = Buffer.allocUnsafeSlow(length);
    const { bytesRead } = await this.input.read(bytes, 0, length, offset);
    return bytes.subarray(0, bytesRead);
  }

  #idOf(index: number, customId: string): LineId {
    const { id, kind } = this.record;
    const requestId = `${id.slice(id.indexOf("_") + 1)}-${this.index.at(index).number}`;
    return { kind, requestId, customId };
  }
}

/** The caller for whom lines run, with its current rights. @returns the error if the key or its owner is gone */
export async function callerNow(callerOf: CallerOf, owner: CallerIdentity): Promise<Caller | MillraceError> {
  try {
    return await callerOf(owner);
  } catch (thrown) {
    const error = toMillraceError(thrown);
    if (error.code === "invalid_api_key") return error;
    throw error;
  }
}

/** The payer of lines whose key has been deleted: its team and organisation, as far as they still exist. */
async function payerNow(callerOf: CallerOf, { tenant, keyId, scopes = [] }: CallerIdentity): Promise<Caller> {
  for (let count = scopes.length - 1; count > 0; count--) {
    const found = await callerNow(callerOf, { tenant, scopes: scopes.slice(0, count) });
    if (!(found instanceof MillraceError)) return { tenant, keyId, scopes: found.scopes };
  }
  return { tenant, keyId };
}

export function termsOf({ kind, endpoint }: BatchRecord, caller: Caller, modelOf: LineModelOf): LineTerms {
  return { kind, endpoint, caller, modelOf };
}
