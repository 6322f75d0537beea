/** Charges and logs a provider's answer to a line of a batch. */
import { setTimeout as wait } from "node:timers/promises";
import { MillraceError } from "../../core/errors.js";
import { Cancellation } from "../cancellation.js";
import type { BatchLines } from "./batch-lines.js";
import type { HandedModels, ProviderAnswer } from "./handed-models.js";
import { runLine } from "./run-line.js";

/** Attempts to book an answer before the line ends with an error. */
const MAX_BOOKINGS = 6;
const PAUSE_MS = 2000;

/**
 * Charges a line for its answer and keeps the result, once: a charged result that the log did not take is only kept.
 */
export async function bookLine(
  lines: BatchLines,
  handed: HandedModels,
  index: number,
  answer: ProviderAnswer | MillraceError,
  signal: AbortSignal,
): Promise<void> {
  const unkept = lines.unkept(index);
  if (unkept !== undefined) return await lines.keep(index, unkept);
  const line = await lines.line(index, true);
  if ("kind" in line) {
    if (line.kind === "done") await lines.keep(index, line.result);
    return;
  }
  const { batch, id, request } = line;
  const isStranded = () => isUntaken(answer) && handed.endpointOf(String(request.body.model)) === undefined;
  for (let attempt = 1; ; attempt++) {
    const end = await runLine((own, sink) => handed.book(own, answer, sink), batch, id, request, new Cancellation());
    if (end.kind === "stopped")
      throw new MillraceError("internal_error", "expected a line that is booked, got one that was stopped");
    // The provider was paid for the answer: the line gets it, and is charged, when the model is back.
    if (isStranded()) throw new MillraceError("model_not_found", "expected the provider of the line, got none");
    const isLast = answer instanceof MillraceError || answer.isTaken || attempt === MAX_BOOKINGS;
    if (end.kind === "done" || isLast) return await lines.keep(index, end.kind === "done" ? end.result : end.giveUp);
    await wait(PAUSE_MS * attempt, undefined, { signal });
  }
}

const isUntaken = (answer: ProviderAnswer | MillraceError): boolean =>
  !(answer instanceof MillraceError || answer.isTaken);
