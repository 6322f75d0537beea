/**
 * Drives one part of a batch through its provider's batch endpoint: sends it once, polls its state, and books its
 * results. Failed steps are tried again, until the batch itself ends.
 */
import { createHash } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { MillraceError } from "../../core/errors.js";
import type { Amounts } from "../budget/store.js";
import type { BatchEndpoint, LineOutcome, Look, ResultLine, SentFile } from "../provider-batches/endpoint.js";
import { Refused } from "../provider-batches/provider-http.js";
import { splitLines } from "../provider-batches/split-lines.js";
import type { BatchLines } from "./batch-lines.js";
import { bookLine } from "./book-line.js";
import type { HandedModels } from "./handed-models.js";
import type { PartCleanup } from "./part-cleanup.js";
import { type LineCost, type Part, type PartFiles, type PartName, sumOfOpen } from "./part-file.js";

export interface PartContext {
  readonly lines: BatchLines;
  readonly files: PartFiles;
  readonly handed: HandedModels;
  readonly cleanup: PartCleanup;
  readonly signal: AbortSignal;
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
  readonly logger: { warn(fields: object, message: string): void };
  /** The batch is cancelled or has expired, and the provider has until then to end. Absent: neither. */
  readonly endsMs?: number | undefined;
}

/** The longest answer held for a line, and the members around it. */
const MAX_LINE_BYTES = 65 * 1024 * 1024;
/** Lines of results beyond the part's own, before the reading stops. */
const MAX_ODD_LINES = 1000;
const MAX_RETRY_AFTER_MS = 15 * 60_000;
/** After this many results, some of the reservation is released. */
const SHRINK_LINES = 100;

export const NOTHING: Amounts = { money: 0, tokens: 0 };

export const partId = (batchId: string, { model, number }: PartName): string => `${batchId}/${model}/${number}`;

/** Twelve hex digits. */
const keyOf = (id: string): string => createHash("sha256").update(id).digest("hex").slice(0, 12);

/** The line's id at the provider, which no line of another part has. */
export const lineId = (id: string, index: number): string => `${keyOf(id)}-${index}`;

export class PartRun {
  readonly #id: string;
  #part: Part;
  #pauseMs: number;
  #isCancelSent = false;
  /** Uploaded by this run: a refusal of this file would hold for another upload too. */
  #isFileNew = false;
  /**
   * When the last request that may have become a batch failed, on the clock of `performance`; after a restart, when the
   * run began to look for it.
   */
  #brokenMs: number | undefined;
  /** Lists of the provider's batches in which the part's was missing, each read after its time to appear. */
  #numWithout = 0;
  #costs: readonly LineCost[] | undefined;
  /** The provider's result files, all of them read. */
  #results: readonly string[] = [];
  /** Why the provider runs none of the lines; undefined: it may. */
  #verdict: string | undefined;

  constructor(
    private readonly context: PartContext,
    part: Part,
  ) {
    this.#part = part;
    this.#id = partId(context.lines.batchId, part);
    this.#pauseMs = context.handed.pauses.firstMs;
  }

  /** Resolves when the part is over, or the signal is aborted. */
  async run(): Promise<void> {
    const { signal, nowMs, endsMs = Number.POSITIVE_INFINITY } = this.context;
    while (this.#part.stage !== "over" && !signal.aborted) {
      try {
        if (this.#verdict !== undefined || this.#numOpen() === 0) await this.#end(this.#verdict);
        else if (nowMs() >= endsMs) await this.#giveUp();
        else await this.#step();
      } catch (thrown) {
        if (signal.aborted) return;
        // Lines that have been sent may be paid for, whatever the provider answers to later questions.
        const isFinal = thrown instanceof Refused && !thrown.isForNow && this.#part.stage === "ready";
        if (isFinal) this.#verdict = thrown.message;
        else await this.#fail(thrown);
      }
    }
  }

  get #isUnsent(): boolean {
    return this.#part.stage === "reserving" || this.#part.stage === "ready";
  }

  get #isEnding(): boolean {
    return this.context.endsMs !== undefined;
  }

  async #step(): Promise<void> {
    const { stage, model } = this.#part;
    if (this.#isUnsent && this.#isEnding) return await this.#end();
    const endpoint = this.context.handed.endpointOf(this.context.lines.models[model]!);
    if (endpoint === undefined)
      throw new MillraceError("model_not_found", "expected the provider of the lines, got none");
    if (stage === "ready") await this.#send(endpoint);
    else if (stage === "sending") await this.#find(endpoint);
    else await this.#look(endpoint);
  }

  async #send(endpoint: BatchEndpoint): Promise<void> {
    const { signal, nowMs } = this.context;
    let { fileId } = this.#part;
    if (fileId === undefined) {
      fileId = await endpoint.upload(this.#sent(), signal);
      this.#isFileNew = true;
    }
    await this.#write({ stage: "sending", fileId, sentMs: nowMs() });
    await this.#post(endpoint);
  }

  async #post(endpoint: BatchEndpoint): Promise<void> {
    this.#numWithout = 0;
    try {
      const batchId = await endpoint.send(this.#sent(), this.context.signal);
      await this.#write({ stage: "sent", batchId });
      this.#pauseMs = this.context.handed.pauses.firstMs;
    } catch (thrown) {
      this.#brokenMs = performance.now();
      // After any other error, the request may still have become a batch.
      if (!(thrown instanceof Refused && thrown.isCertain)) throw thrown;
      const isOld = !(thrown.isForNow || this.#isFileNew) && this.#part.fileId !== undefined;
      await this.#write({ stage: "ready", ...(isOld ? { fileId: undefined } : {}) });
      if (!isOld) throw thrown;
      // The provider may have deleted the file.
      await this.#fail(thrown);
    }
  }

  /** Finds out whether the part was sent before this process began, or before the connection broke. */
  async #find(endpoint: BatchEndpoint): Promise<void> {
    const { signal, handed } = this.context;
    this.#brokenMs ??= performance.now();
    const leftMs = this.#brokenMs + handed.pauses.settleMs - performance.now();
    const found = await endpoint.find(this.#sent(), signal);
    if (found.kind === "found") return await this.#write({ stage: "sent", batchId: found.id });
    if (found.kind === "unsure") await this.#pause();
    else if (leftMs > 0) await wait(leftMs, undefined, { signal });
    else if (++this.#numWithout < endpoint.numLists) this.#brokenMs = performance.now();
    else if (this.#isEnding) await this.#end();
    else await this.#post(endpoint);
  }

  async #look(endpoint: BatchEndpoint): Promise<void> {
    const { signal } = this.context;
    const id = this.#part.batchId!;
    if (this.#isEnding) await this.#cancel(endpoint);
    const look = await endpoint.look(id, signal);
    if (look.kind === "running") await this.#pause();
    else if (look.kind === "ended") await this.#collect(endpoint, look);
    else if (look.isForNow && !this.#isEnding) await this.#sendAgain(look.message);
    else await this.#end(look.message);
  }

  /** Asks again until the provider accepts or refuses for good. */
  async #cancel(endpoint: BatchEndpoint): Promise<void> {
    if (this.#isCancelSent) return;
    try {
      await endpoint.cancel(this.#part.batchId!, this.context.signal);
      this.#isCancelSent = true;
    } catch (thrown) {
      // A refusal may mean that the batch is over: its state will tell.
      this.#isCancelSent = thrown instanceof Refused && thrown.isCertain && !thrown.isForNow;
    }
  }

  /** Sends the part again: the provider's batch failed before any line ran, for a lack of room that will pass. */
  async #sendAgain(why: string): Promise<void> {
    this.context.logger.warn({ batch: this.#id, why }, "the provider has no room for a part of a batch; waiting");
    const { attempt } = this.#part;
    const { firstMs, mostMs } = this.context.handed.pauses;
    await this.#pause(Math.min(mostMs, firstMs * 2 ** attempt));
    this.#isFileNew = false;
    await this.#write({ stage: "ready", attempt: attempt + 1, batchId: undefined });
  }

  async #collect(endpoint: BatchEndpoint, { results }: Extract<Look, { kind: "ended" }>): Promise<void> {
    const { signal, logger } = this.context;
    let [numLines, numOdd, numBooked] = [0, 0, 0];
    for (const name of results) {
      for await (const bytes of splitLines(endpoint.results(name, signal), MAX_LINE_BYTES)) {
        if (++numLines > this.#part.numLines + MAX_ODD_LINES) break;
        const line = readResult(endpoint, bytes);
        const index = line === undefined ? undefined : this.#indexOf(line.id);
        if (line === undefined || index === undefined) numOdd++;
        // The first result of a line counts.
        else if (this.#isOpen(index)) {
          await this.#book(index, line.outcome);
          if (++numBooked % SHRINK_LINES === 0) await this.#shrink();
        }
        if (signal.aborted) return;
      }
    }
    if (numOdd > 0)
      logger.warn({ batch: this.#id, lines: numOdd }, "the provider's results have lines that are none of a batch's");
    if (endpoint.remove !== undefined) this.#results = results;
    await this.#end();
  }

  async #book(index: number, outcome: LineOutcome): Promise<void> {
    const { lines, handed, signal } = this.context;
    switch (outcome.kind) {
      case "answer":
        return await bookLine(lines, handed, index, { ...outcome, price: this.#part.price, isTaken: false }, signal);
      case "failed":
        return await bookLine(lines, handed, index, this.#failure(outcome.message), signal);
      case "expired":
        // At its own end, the batch gives each open line its reason.
        if (!this.#isEnding) await lines.expire(index);
        return;
      case "cancelled":
        return;
    }
  }

  /**
   * Ends the part, for which the provider has nothing more. @param why no line has run; absent: the results have come
   */
  async #end(why?: string): Promise<void> {
    const { lines, handed, signal } = this.context;
    if (!this.#isEnding) {
      const error = this.#failure(why ?? "no result of the line");
      for (const index of this.#open()) await bookLine(lines, handed, index, error, signal);
    }
    await this.#leave(false);
  }

  /** The provider may charge for lines without a result: their reservation becomes a charge. */
  async #giveUp(): Promise<void> {
    const { model, batchId } = this.#part;
    const endpoint = this.context.handed.endpointOf(this.context.lines.models[model]!);
    if (endpoint !== undefined && batchId !== undefined) await this.#cancel(endpoint);
    const fields = { batch: this.#id, providerBatch: batchId, lines: this.#numOpen() };
    this.context.logger.warn(fields, "the provider's batch did not end in time; its lines are charged as estimated");
    await this.#leave(!this.#isUnsent);
  }

  /** @param isSpent charge the reservations of lines without a result, instead of releasing them */
  async #leave(isSpent: boolean): Promise<void> {
    const { lines, cleanup, files } = this.context;
    // Nothing asks the provider of a finished part again for results that a power cut has taken.
    await lines.sync();
    const left = await this.#reservedNow();
    if (left !== undefined) await cleanup.release(this.#id, isSpent ? left : NOTHING);
    const { fileId } = this.#part;
    const inputs = fileId === undefined ? [] : [fileId];
    await this.#write({ stage: "over", files: [...inputs, ...this.#results], isGivenUp: isSpent });
    await files.removeLines(this.#part);
  }

  async #fail(thrown: unknown): Promise<void> {
    const { logger } = this.context;
    const message = (thrown as Error).message;
    logger.warn(
      { batch: this.#id, stage: this.#part.stage, message },
      "a provider's batch endpoint failed; trying again",
    );
    const retryAfterMs = thrown instanceof Refused ? (thrown.retryAfterMs ?? 0) : 0;
    await this.#pause(Math.min(retryAfterMs, MAX_RETRY_AFTER_MS));
  }

  async #pause(leastMs = 0): Promise<void> {
    const { signal, handed, endsMs, nowMs } = this.context;
    const leftMs = endsMs === undefined ? 0 : endsMs - nowMs();
    const ms = Math.min(Math.max(leastMs, this.#pauseMs), leftMs > 0 ? leftMs : Number.POSITIVE_INFINITY);
    this.#pauseMs = Math.min(handed.pauses.mostMs, 1.5 * this.#pauseMs);
    await wait(ms, undefined, { signal }).catch(() => {});
  }

  async #shrink(): Promise<void> {
    const left = await this.#reservedNow();
    if (left !== undefined) await this.context.handed.budget.shrink(this.#id, left);
  }

  /** The sum of the reservations of lines without a result. Undefined: no budget applies. */
  async #reservedNow(): Promise<Part["reserved"]> {
    const { reserved } = this.#part;
    if (reserved === undefined) return undefined;
    this.#costs ??= await this.context.files.costs(this.#part);
    return this.#costs === undefined ? reserved : sumOfOpen(this.#costs, (index) => this.#isOpen(index));
  }

  #failure(got: string): MillraceError {
    return new MillraceError("upstream_failed", `expected an answer of the provider's batch endpoint, got ${got}`);
  }

  *#open(): Generator<number> {
    const { from, to } = this.#part;
    for (let index = from; index < to; index++) if (this.#isOpen(index)) yield index;
  }

  #numOpen(): number {
    let count = 0;
    for (const _ of this.#open()) count++;
    return count;
  }

  #isOpen(index: number): boolean {
    return this.context.lines.isOpen(index, this.#part.model);
  }

  #indexOf(id: string): number | undefined {
    const match = /^([0-9a-f]{12})-(\d{1,9})$/.exec(id);
    const index = match?.[1] === keyOf(this.#id) ? Number(match[2]) : -1;
    return index >= this.#part.from && index < this.#part.to ? index : undefined;
  }

  #sent(): SentFile {
    const { numLines, path, headers, fileId, attempt, sentMs = this.context.nowMs() } = this.#part;
    const key = keyOf(this.#id);
    return {
      key,
      mark: `${key}-${attempt}`,
      numLines,
      path,
      headers,
      fileId,
      sentMs,
      lines: this.context.files.lines(this.#part),
    };
  }

  async #write(changed: Partial<Part>): Promise<void> {
    const next = { ...this.#part, ...changed };
    await this.context.files.write(next);
    this.#part = next;
  }
}

function readResult(endpoint: BatchEndpoint, bytes: Buffer | undefined): ResultLine | undefined {
  try {
    return bytes === undefined ? undefined : endpoint.read(bytes);
  } catch {
    return undefined;
  }
}
