/** The lines of a batch, as those see them who hand them to a provider. */
import { setTimeout as wait } from "node:timers/promises";
import { MillraceError } from "../../core/errors.js";
import { Cancellation } from "../cancellation.js";
import type { HandedModels, ProviderAnswer } from "./handed-models.js";
import type { LineRequest } from "./read-line.js";
import type { LineId, LineResult } from "./result-lines.js";
import { type LineBatch, type LineEnd, runLine } from "./run-line.js";

export interface ReadyLine {
  readonly batch: LineBatch;
  readonly id: LineId;
  readonly request: LineRequest;
}

export interface BatchLines {
  readonly batchId: string;
  /** By the names that clients send. */
  readonly models: readonly string[];
  readonly numLines: number;
  /** Whether a line of a model has no result yet. */
  isOpen(index: number, model: number): boolean;
  /**
   * @param isPaid the provider has answered: rights that are gone meanwhile do not count any more
   * @returns the line's end where it cannot be run
   */
  line(index: number, isPaid: boolean): Promise<ReadyLine | LineEnd>;
  keep(index: number, result: LineResult): Promise<void>;
  expire(index: number): Promise<void>;
}

/** Attempts to pass an answer through policies, such as one whose checker is away. */
const MAX_BOOKINGS = 6;
const PAUSE_MS = 2000;

/** Gives a line its result, and accounts for it. */
export async function bookLine(
  lines: BatchLines,
  handed: HandedModels,
  index: number,
  answer: ProviderAnswer | MillraceError,
  signal: AbortSignal,
): Promise<void> {
  const line = await lines.line(index, true);
  if ("kind" in line) {
    if (line.kind === "done") await lines.keep(index, line.result);
    return;
  }
  const { batch, id, request } = line;
  for (let attempt = 1; ; attempt++) {
    const end = await runLine((own, sink) => handed.book(own, answer, sink), batch, id, request, new Cancellation());
    if (end.kind === "stopped")
      throw new MillraceError("internal_error", "expected a line that is booked, got one that was stopped");
    const isLast = answer instanceof MillraceError || answer.isTaken || attempt === MAX_BOOKINGS;
    if (end.kind === "done" || isLast) return await lines.keep(index, end.kind === "done" ? end.result : end.giveUp);
    await wait(PAUSE_MS * attempt, undefined, { signal });
  }
}
