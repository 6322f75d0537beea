/** Sends one line of a batch through the gateway, as a client's request, and reports its result. */
import { MillraceError, toMillraceError } from "../../core/errors.js";
import type { AnswerSink } from "../answer.js";
import type { Cancellation } from "../cancellation.js";
import { BoundedSink } from "../held-sinks.js";
import type { Ending } from "../pipeline.js";
import type { Caller, RequestBody } from "../request.js";
import { NOTE, RequestRecord } from "../usage/record.js";
import { usageOf } from "./answer-usage.js";
import type { LineRequest } from "./read-line.js";
import { type BatchRecord, NO_USAGE } from "./record.js";
import { answeredLine, type LineId, type LineResult, refusedLine } from "./result-lines.js";

/** A request that the gateway itself makes. */
export interface LineSubmission {
  readonly id: string;
  readonly path: string;
  readonly body: RequestBody;
  readonly bytes?: Buffer;
  readonly headers: Readonly<Record<string, string>>;
  readonly caller: Caller;
  readonly cancellation: Cancellation;
  readonly record: RequestRecord;
}

/** Passes a request to the gateway's policies; rejects like a Handler. */
export type SubmitLine = (line: LineSubmission, sink: AnswerSink) => Promise<Ending>;

export type LineEnd =
  | { readonly kind: "done"; readonly result: LineResult }
  | LineAgain
  /** The line was stopped; it is as if it had not run. */
  | { readonly kind: "stopped" };

/** The line is to run again later. */
export interface LineAgain {
  readonly kind: "again";
  /** Undefined: the caller chooses. */
  readonly afterMs: number | undefined;
  /**
   * The other lines that would fail too, for now. budget: lines of the batch, until running requests return the money
   * that they have reserved.
   */
  readonly scope: "model" | "batch" | "budget";
  /** The line itself may be the reason, so there is a limit to its attempts. */
  readonly isFault: boolean;
  /** The line's result if it does not run again. */
  readonly giveUp: LineResult;
}

/** The lowest priority: priorities are integers of 32 bits. */
export const LINE_PRIORITY = 2 ** 31 - 1;
/** Bound of the attempts of a line that may cause its failures itself. */
export const MAX_ATTEMPTS = 4;
/** Larger answers are errors, since they are held in memory. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** Temporary refusals, for which the line is not to blame. */
const BUSY: readonly number[] = [429, 503];
/** An engine or the gateway failed, perhaps because of the line. */
const FAILED: readonly number[] = [408, 500, 502, 504];

export type LineBatch = Pick<BatchRecord, "id" | "endpoint" | "headers"> & { readonly caller: Caller };

/** Never rejects. */
export async function runLine(
  submit: SubmitLine,
  batch: LineBatch,
  line: LineId,
  request: LineRequest,
  cancellation: Cancellation,
): Promise<LineEnd> {
  const own = cancellation.child();
  const sink = new BoundedSink(MAX_ANSWER_BYTES, own);
  const submission = submissionOf(batch, line, request, own);
  const { record } = submission;
  try {
    const ending = await submit(submission, sink);
    if (sink.isTooLong) return refused(line, tooLong());
    if (ending.kind === "cancelled") return { kind: "stopped" };
    if (ending.kind === "broken") return afterError(line, ending.error, record);
    return afterAnswer(line, ending.status, sink.answer()?.body ?? Buffer.alloc(0));
  } catch (thrown) {
    const error = toMillraceError(thrown);
    const isStopped = cancellation.isCancelled || error.code === "client_closed";
    return isStopped ? { kind: "stopped" } : afterError(line, error, record);
  } finally {
    // Removes the child from its parent, which may live much longer.
    own.cancel();
  }
}

/** The line ends here, with the gateway's error. */
export function refused(line: LineId, error: MillraceError): LineEnd {
  return { kind: "done", result: errorResult(refusedLine(line, error)) };
}

export function submissionOf(
  batch: LineBatch,
  line: LineId,
  request: LineRequest,
  cancellation: Cancellation,
): LineSubmission {
  const record = new RequestRecord();
  record.notes.set(NOTE.batch, batch.id);
  // A line always goes last, whatever priority it asks for, and its engine may refuse priorities.
  const { priority: _, ...body } = request.body;
  return {
    id: line.requestId,
    path: batch.endpoint,
    body,
    ...("priority" in request.body ? {} : { bytes: request.bytes }),
    headers: batch.headers,
    caller: { ...batch.caller, priority: LINE_PRIORITY },
    cancellation,
    record,
  };
}

function afterAnswer(line: LineId, status: number, body: Buffer): LineEnd {
  const json = answeredLine(line, status, body);
  if (status < 400) return { kind: "done", result: { outcome: "succeeded", usage: usageOf(body), json } };
  const giveUp = errorResult(json);
  const [isBusy, isFault] = [BUSY.includes(status), FAILED.includes(status)];
  if (!isBusy && !isFault) return { kind: "done", result: giveUp };
  return { kind: "again", afterMs: undefined, scope: "model", isFault, giveUp };
}

function afterError(line: LineId, error: MillraceError, { isPayableLater }: RequestRecord): LineEnd {
  const { code, status, retryAfterSeconds } = error;
  const giveUp = errorResult(refusedLine(line, error));
  if (code === "budget_exceeded" && isPayableLater) {
    return { kind: "again", afterMs: undefined, scope: "budget", isFault: false, giveUp };
  }
  const [isBusy, isFault] = [BUSY.includes(status), FAILED.includes(status)];
  // A limit of the tenant says when the request may be repeated. Without that time, as with a spent budget, waiting
  // does not help.
  const isOwnLimit = status === 429 && !QUEUES.includes(code);
  if ((!isBusy && !isFault) || (isOwnLimit && retryAfterSeconds === undefined)) return refused(line, error);
  const afterMs = isOwnLimit ? retryAfterSeconds! * 1000 : undefined;
  return { kind: "again", afterMs, scope: isOwnLimit ? "batch" : "model", isFault, giveUp };
}

/** Codes of 429s that concern everybody's requests. */
const QUEUES: readonly string[] = ["queue_full", "body_queue"];

const errorResult = (json: Buffer): LineResult => ({ outcome: "errored", usage: NO_USAGE, json });

function tooLong(): MillraceError {
  return new MillraceError("upstream_failed", `expected an answer of at most ${MAX_ANSWER_BYTES} bytes, got more`);
}
