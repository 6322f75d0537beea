/** Reads a request's priority and deadline from its headers and body, and ends a request whose deadline has passed. */
import { MillraceError } from "../../core/errors.js";
import { type AnswerHead, type AnswerSink, PassingSink } from "../answer.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import type { GatewayRequest } from "../request.js";

/** A whole number, or the name of a class. */
export const PRIORITY_HEADER = "x-millrace-priority";
/** Seconds from the request's arrival within which the answer must be complete. */
export const TIMEOUT_HEADER = "x-millrace-timeout";

/** Priority classes; a lower number goes first. */
const PRIORITY_CLASSES: Readonly<Record<string, number>> = { high: -10, normal: 0, low: 10, batch: 100 };

const MAX_PRIORITY = 2 ** 31 - 1;
const MAX_TIMEOUT_S = 86_400;

export class TermsPolicy implements Policy {
  readonly name = "terms";

  constructor(private readonly now: () => number = () => performance.now()) {}

  handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const { headers, body } = request;
    const isPlain = headers[PRIORITY_HEADER] === undefined && headers[TIMEOUT_HEADER] === undefined;
    return isPlain && body.timeout === undefined ? next(request, sink) : this.#run(request, sink, next);
  }

  async #run(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const priority = priorityOf(request.headers[PRIORITY_HEADER]);
    const timeoutS = timeoutOf(request.headers[TIMEOUT_HEADER], request.body.timeout);
    if (timeoutS === undefined) return next(priority === undefined ? request : { ...request, priority }, sink);
    const timeoutMs = timeoutS * 1000;
    const cancellation = request.cancellation.child();
    const watched = new BegunSink(sink);
    let late: MillraceError | undefined;
    const timer = setTimeout(() => {
      late = new MillraceError(
        "deadline_exceeded",
        `expected the whole answer within ${timeoutMs} ms, got a part or none`,
        { param: "timeout" },
      );
      cancellation.cancel(late);
    }, timeoutMs);
    try {
      const ending = await next({ ...request, priority, deadlineMs: this.now() + timeoutMs, cancellation }, watched);
      if (ending.kind !== "cancelled" || late === undefined) return ending;
      if (watched.status === undefined) throw late;
      return { kind: "broken", status: watched.status, error: late };
    } finally {
      clearTimeout(timer);
      // The request's stages are over; its cancellation no longer needs to reach them.
      cancellation.cancel();
    }
  }
}

class BegunSink extends PassingSink {
  /** Undefined while the answer has not begun. */
  status: number | undefined;

  override begin(head: AnswerHead): void {
    this.status = head.status;
    super.begin(head);
  }
}

function priorityOf(header: string | string[] | undefined): number | undefined {
  if (header === undefined) return undefined;
  const text = String(header).trim().toLowerCase();
  const value = Object.hasOwn(PRIORITY_CLASSES, text)
    ? PRIORITY_CLASSES[text]!
    : Number(text === "" ? Number.NaN : text);
  if (Number.isInteger(value) && Math.abs(value) <= MAX_PRIORITY) return value;
  const classes = Object.keys(PRIORITY_CLASSES).join(", ");
  throw new MillraceError(
    "invalid_parameter",
    `expected a whole number or one of ${classes} in ${PRIORITY_HEADER}, got ${JSON.stringify(text.slice(0, 40))}`,
    { param: PRIORITY_HEADER },
  );
}

/** The shorter of the header's and the body's timeout. An invalid body field is left to the engine. */
function timeoutOf(header: string | string[] | undefined, field: unknown): number | undefined {
  const own = typeof field === "number" && field > 0 && field <= MAX_TIMEOUT_S ? field : undefined;
  if (header === undefined) return own;
  const seconds = Number(header);
  if (seconds > 0 && seconds <= MAX_TIMEOUT_S) return Math.min(seconds, own ?? seconds);
  throw new MillraceError(
    "invalid_parameter",
    `expected seconds above 0 and at most ${MAX_TIMEOUT_S} in ${TIMEOUT_HEADER}, got ${JSON.stringify(String(header).slice(0, 40))}`,
    { param: TIMEOUT_HEADER },
  );
}
