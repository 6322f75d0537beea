/**
 * Runs the lines of one batch that go to their providers' batch endpoints: makes parts within a provider's limits, and
 * drives all parts.
 */
import { open } from "node:fs/promises";
import { setTimeout as wait } from "node:timers/promises";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { MAX_AMOUNT } from "../budget/claims.js";
import type { LineEstimate } from "../budget/handed-limits.js";
import { Cancellation } from "../cancellation.js";
import type { BatchEndpoint } from "../provider-batches/endpoint.js";
import type { BatchLines } from "./batch-lines.js";
import { bookLine } from "./book-line.js";
import type { BatchFolders } from "./folders.js";
import type { HandedModels, PreparedLine } from "./handed-models.js";
import { MAX_BATCH_LINES } from "./limits.js";
import { type LineCost, type Part, PartFiles, type PartName, sumOfOpen } from "./part-file.js";
import { lineId, NOTHING, type PartContext, PartRun, partId } from "./part-run.js";
import type { BatchRecord } from "./record.js";
import { readEntries } from "./result-log.js";
import { MAX_ATTEMPTS, submissionOf } from "./run-line.js";

interface HandedContext extends Pick<PartContext, "nowMs" | "logger" | "cleanup"> {
  readonly folders: BatchFolders;
  readonly handed: HandedModels;
}

/** Half of the providers' limit, so that an upload repeated after a broken connection stays small. */
const MAX_PART_BYTES = 100 * 1024 * 1024;
const WRITE_BYTES = 1024 * 1024;
const RETRY_MS = 1000;
/** Longest time for a provider to end a cancelled batch. OpenAI names ten minutes. */
const END_MS = 15 * 60_000;
/** Time limit for cancelling a provider's batch that nobody waits for. */
const DROP_MS = 10_000;

export class HandedRun {
  readonly #stopping = new AbortController();
  readonly #files: PartFiles;
  #isLeaving = false;
  #running: Promise<unknown> = Promise.resolve();
  /** For each model, the part whose reservation may have been made. */
  readonly #reserving = new Map<number, Part>();

  /** @param parts made by an earlier run */
  private constructor(
    private readonly context: HandedContext,
    private readonly lines: BatchLines,
    private readonly parts: readonly Part[],
  ) {
    this.#files = new PartFiles(context.folders, lines.batchId);
  }

  /** Throws BrokenPart. */
  static async open(context: HandedContext, lines: BatchLines): Promise<HandedRun> {
    const parts = await new PartFiles(context.folders, lines.batchId).read();
    return new HandedRun(
      context,
      lines,
      parts.map((part) => (isLost(part, lines) ? { ...part, stage: "sent" } : part)),
    );
  }

  /**
   * Whether lines of a model are handed over. A part that has begun continues, even if the configuration has changed.
   */
  takes(model: number): boolean {
    return this.context.handed.isHanded(this.lines.models[model]!) || this.parts.some((part) => part.model === model);
  }

  start(): void {
    const models = this.lines.models.map((_, model) => model).filter((model) => this.takes(model));
    this.#running = Promise.all(models.map((model) => this.#runModel(model)));
  }

  /** Makes no more parts. */
  leave(): void {
    this.#isLeaving = true;
  }

  /** Resolves when every part is over. */
  async done(): Promise<void> {
    await this.#running;
  }

  /** Leaves the parts to the next run, which finds them. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  /** Cancels the providers' batches, and takes the results made until then. */
  async end(): Promise<void> {
    const endsMs = this.context.nowMs() + END_MS;
    this.#running = Promise.all(this.parts.map((part) => this.#drive(part, endsMs)));
    await this.#running;
  }

  async #runModel(model: number): Promise<void> {
    const all = this.parts.filter((part) => part.model === model);
    const parts = all.filter(({ stage }) => stage !== "reserving");
    for (const part of all) if (part.stage === "reserving") this.#reserving.set(model, part);
    const running = parts.map((part) => this.#drive(part));
    let [from, number] = [parts.at(-1)?.to ?? 0, parts.length];
    while (from < this.lines.numLines && !this.#isLeaving && !this.#stopping.signal.aborted) {
      try {
        const { part, to } = await this.#makePart(model, number, from);
        from = to;
        if (part === undefined) continue;
        number++;
        running.push(this.#drive(part));
      } catch (thrown) {
        if (this.#stopping.signal.aborted) break;
        const error = toMillraceError(thrown);
        const fields = { batch: this.lines.batchId, code: error.code, err: thrown };
        this.context.logger.warn(fields, "could not make a part of a batch; trying again");
        await this.#wait(this.context.handed.pauses.mostMs / 12);
      }
    }
    await Promise.all(running);
  }

  #drive(part: Part, endsMs?: number): Promise<void> {
    const { signal } = this.#stopping;
    return new PartRun({ ...this.context, lines: this.lines, files: this.#files, signal, endsMs }, part).run();
  }

  /** A part with the next lines of a model, ready to be sent; none if all of them have results. */
  async #makePart(model: number, number: number, from: number): Promise<{ readonly part?: Part; readonly to: number }> {
    const { handed } = this.context;
    const endpoint = handed.endpointOf(this.lines.models[model]!);
    if (endpoint === undefined)
      throw new MillraceError("model_not_found", "expected the provider of the lines, got none");
    await this.#unreserve(model);
    const written = await this.#writeLines(endpoint, { model, number }, from);
    const { to, numLines, path, headers, price, estimate, costs } = written;
    if (numLines === 0) return { to };
    const id = partId(this.lines.batchId, { model, number });
    const reserved = estimate === undefined ? {} : { reserved: estimate.amounts };
    const part: Part = {
      model,
      number,
      from,
      to,
      numLines,
      path,
      headers,
      price,
      ...reserved,
      stage: "reserving",
      attempt: 0,
    };
    if (estimate !== undefined) await this.#files.writeCosts(part, costs);
    await this.#files.write(part);
    this.#reserving.set(model, part);
    try {
      if (estimate !== undefined) await this.context.cleanup.reserve(id, estimate);
    } catch (thrown) {
      const error = toMillraceError(thrown);
      if (error.code !== "budget_exceeded") throw thrown;
      for (let index = from; index < to; index++) {
        if (this.lines.isOpen(index, model)) await this.#book(index, error);
      }
      await this.#unreserve(model);
      return { to };
    }
    const ready: Part = { ...part, stage: "ready" };
    await this.#files.write(ready);
    this.#reserving.delete(model);
    return { part: ready, to };
  }

  /** Releases and removes an unfinished part: made again, it may have other lines. */
  async #unreserve(model: number): Promise<void> {
    const part = this.#reserving.get(model);
    if (part === undefined) return;
    if (part.reserved !== undefined) await this.context.cleanup.release(partId(this.lines.batchId, part), NOTHING);
    await this.#files.remove(part);
    this.#reserving.delete(model);
  }

  async #writeLines(endpoint: BatchEndpoint, of: PartName, from: number) {
    const { signal } = this.#stopping;
    const id = partId(this.lines.batchId, of);
    const handle = await open(this.#files.lines(of), "w", 0o600);
    let [to, numLines, numBytes, path] = [from, 0, 0, ""];
    let headers: PreparedLine["headers"] = {};
    let price: PreparedLine["price"];
    let estimate: LineEstimate | undefined;
    const costs: LineCost[] = [];
    let pending: Buffer[] = [];
    let numPending = 0;
    const flush = async (): Promise<void> => {
      await handle.appendFile(Buffer.concat(pending));
      [pending, numPending] = [[], 0];
    };
    try {
      while (to < this.lines.numLines && numLines < MAX_BATCH_LINES && numBytes < MAX_PART_BYTES) {
        signal.throwIfAborted();
        const index = to++;
        const prepared = this.lines.isOpen(index, of.model) ? await this.#prepare(index) : undefined;
        if (prepared === undefined) continue;
        const line = endpoint.lineOf(lineId(id, index), prepared.path, prepared.body);
        pending.push(...(numLines === 0 ? [] : [NEWLINE]), line);
        numPending += line.length;
        numBytes += line.length;
        numLines++;
        ({ path, headers, price } = prepared);
        estimate = sumOf(estimate, prepared.estimate);
        if (prepared.estimate !== undefined) costs.push({ index, ...prepared.estimate.amounts });
        if (numPending < WRITE_BYTES) continue;
        await flush();
      }
      await flush();
      await handle.sync();
    } finally {
      await handle.close();
    }
    return { to, numLines, path, headers, price, estimate, costs };
  }

  /** @returns undefined if the line was refused, and so has its result */
  async #prepare(index: number): Promise<PreparedLine | undefined> {
    const { handed } = this.context;
    const line = await this.lines.line(index, false);
    if ("kind" in line) {
      if (line.kind === "done") await this.lines.keep(index, line.result);
      return undefined;
    }
    // Clients get their turn between lines.
    await wait(0);
    for (let attempt = 1; ; attempt++) {
      try {
        return await handed.prepare(submissionOf(line.batch, line.id, line.request, new Cancellation()));
      } catch (thrown) {
        this.#stopping.signal.throwIfAborted();
        const error = toMillraceError(thrown);
        if (error.status < 500 || attempt === MAX_ATTEMPTS) {
          await this.#book(index, error);
          return undefined;
        }
        await this.#wait(RETRY_MS * 2 ** attempt);
        this.#stopping.signal.throwIfAborted();
      }
    }
  }

  #book(index: number, error: MillraceError): Promise<void> {
    return bookLine(this.lines, this.context.handed, index, error, this.#stopping.signal);
  }

  async #wait(ms: number): Promise<void> {
    await wait(ms, undefined, { signal: this.#stopping.signal }).catch(() => {});
  }
}

const NEWLINE = Buffer.from("\n");

function sumOf(a: LineEstimate | undefined, b: LineEstimate | undefined): LineEstimate | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  const sum = (x: number, y: number) => Math.min(MAX_AMOUNT, x + y);
  const amounts = { money: sum(a.amounts.money, b.amounts.money), tokens: sum(a.amounts.tokens, b.amounts.tokens) };
  return { claims: a.claims, amounts };
}

/** Whether a power cut has taken results of a finished part; its provider still has them. */
function isLost({ stage, batchId, model, from, to }: Part, lines: BatchLines): boolean {
  if (stage !== "over" || batchId === undefined) return false;
  for (let index = from; index < to; index++) if (lines.isOpen(index, model)) return true;
  return false;
}

/**
 * Deletes the files that providers keep of a finished batch's parts. If the batch's lines are lost, parts may still
 * run: ends them, and their reservations.
 */
export async function dropParts(
  { folders, handed, cleanup }: Pick<HandedContext, "folders" | "handed" | "cleanup">,
  { id: batchId, models }: Pick<BatchRecord, "id" | "models">,
): Promise<void> {
  const files = new PartFiles(folders, batchId);
  const names = await files.names();
  if (names.length === 0) return;
  let done: Promise<ReadonlySet<number>> | undefined;
  for (const name of names) {
    const part = await files.one(name).catch(() => undefined);
    const id = partId(batchId, name);
    const model = models[name.model]!;
    if (part?.stage === "over") {
      await cleanup.remove(id, model, part.files ?? [], part.isGivenUp === true ? part : undefined);
      continue;
    }
    done ??= linesIn(folders.log(batchId));
    const ended = await done;
    const isUnsent = part?.stage === "reserving" || part?.stage === "ready";
    const costs = await files.costs(name);
    const left = costs === undefined ? (part?.reserved ?? NOTHING) : sumOfOpen(costs, (index) => !ended.has(index));
    await cleanup.release(id, isUnsent ? NOTHING : left);
    if (part?.batchId !== undefined) {
      const endpoint = handed.endpointOf(model);
      await endpoint?.cancel(part.batchId, AbortSignal.timeout(DROP_MS)).catch(() => {});
    }
    if (part?.fileId !== undefined) await cleanup.remove(id, model, [part.fileId], isUnsent ? undefined : part);
  }
}

async function linesIn(log: string): Promise<ReadonlySet<number>> {
  const lines = new Set<number>();
  await readEntries(log, async ({ index }) => void lines.add(index));
  return lines;
}
