/**
 * Runs the lines of one batch that no provider gets: offers them to the lanes of their models, keeps their results, and
 * repeats lines that cannot be answered now.
 */
import { setTimeout as wait } from "node:timers/promises";
import type { Cancellation } from "../cancellation.js";
import type { BatchLines } from "./batch-lines.js";
import { BudgetWait } from "./budget-wait.js";
import type { Lane, LineSource, SourceLine } from "./lane.js";
import type { LineResult } from "./result-lines.js";
import { type LineAgain, type LineEnd, MAX_ATTEMPTS, runLine, type SubmitLine } from "./run-line.js";

export interface LaneContext {
  readonly submit: SubmitLine;
  readonly laneOf: (model: string) => Lane;
  readonly logger: { warn(fields: object, message: string): void };
}

const FIRST_BACKOFF_MS = 1000;
/** Pause after a full disk, or an input that cannot be read. */
export const DISK_PAUSE_MS = 5000;

export class LaneRun {
  readonly #attempts = new Map<number, number>();
  #pausedUntilMs = 0;
  readonly #budget = new BudgetWait();
  readonly #sources = new Map<LineSource, Lane>();
  readonly #running = new Set<Promise<unknown>>();
  readonly #cancellations = new Set<Cancellation>();

  constructor(
    private readonly context: LaneContext,
    private readonly lines: BatchLines,
  ) {}

  /** @param takes whether the lines of a model (by its number) run here */
  start(takes: (model: number) => boolean): void {
    const { tenant } = this.lines;
    for (const [model, name] of this.lines.models.entries()) {
      if (!takes(model)) continue;
      const lane = this.context.laneOf(name);
      const source: LineSource = {
        tenant,
        next: (nowMs) => {
          if (nowMs < Math.max(this.#pausedUntilMs, this.#budget.untilMs)) return undefined;
          const index = this.lines.next(model, nowMs);
          return index === undefined ? undefined : this.#lineAt(index, lane);
        },
      };
      this.#sources.set(source, lane);
      lane.add(source);
    }
  }

  /** Begins no more lines. */
  leave(): void {
    for (const [source, lane] of this.#sources) lane.remove(source);
    this.#sources.clear();
  }

  /** Resolves when the lines under way have ended, or after `limitMs`. */
  async done(limitMs: number, signal: AbortSignal): Promise<void> {
    const stop = new AbortController();
    const limit = wait(limitMs, undefined, { signal: AbortSignal.any([stop.signal, signal]) });
    await Promise.race([Promise.all(this.#running), limit.catch(() => {})]);
    stop.abort();
  }

  /** Stops the lines under way, which count as not run. */
  async stop(): Promise<void> {
    for (const cancellation of [...this.#cancellations]) cancellation.cancel();
    await Promise.all(this.#running);
  }

  #lineAt(index: number, lane: Lane): SourceLine {
    return {
      numBytes: this.lines.numBytes(index),
      run: async (cancellation) => {
        const running = this.#run(index, cancellation, lane);
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

  async #run(index: number, cancellation: Cancellation, lane: Lane): Promise<LineEnd> {
    const { lines } = this;
    try {
      const end = await this.#ask(index, cancellation);
      if (end.kind === "done") {
        this.#budget.settled();
        await this.#keep(index, end.result);
      } else if (end.kind === "stopped") lines.again(index, lane.nowMs());
      else if (end.isFault && this.#countAttempt(index) >= MAX_ATTEMPTS) await this.#keep(index, end.giveUp);
      else if (end.scope === "budget" && !this.#budget.mayWait(lane.nowMs(), this.#running.size > 1)) {
        await this.#keep(index, end.giveUp);
      } else this.#runAgain(index, end, lane);
      return end;
    } catch (thrown) {
      // The result is lost, so the line runs again: only a written entry marks a line as done.
      this.context.logger.warn({ batch: lines.batchId, err: thrown }, "could not keep the result of a line");
      this.#pausedUntilMs = lane.nowMs() + DISK_PAUSE_MS;
      lines.again(index, this.#pausedUntilMs);
      return { kind: "stopped" };
    }
  }

  async #keep(index: number, result: LineResult): Promise<void> {
    await this.lines.keep(index, result);
    this.#attempts.delete(index);
  }

  async #ask(index: number, cancellation: Cancellation): Promise<LineEnd> {
    const line = await this.lines.line(index);
    return "kind" in line ? line : await runLine(this.context.submit, line.batch, line.id, line.request, cancellation);
  }

  #runAgain(index: number, { afterMs, scope }: LineAgain, lane: Lane): void {
    const nowMs = lane.nowMs();
    const attempts = this.#attempts.get(index) ?? 0;
    const backoffMs = afterMs ?? (attempts === 0 ? 0 : FIRST_BACKOFF_MS * 2 ** (attempts - 1));
    if (scope === "batch") this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + backoffMs);
    this.lines.again(index, nowMs + backoffMs);
  }

  #countAttempt(index: number): number {
    const attempts = (this.#attempts.get(index) ?? 0) + 1;
    this.#attempts.set(index, attempts);
    return attempts;
  }
}
