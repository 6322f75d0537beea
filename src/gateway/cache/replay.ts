/** Sends a kept answer: at once, or at the pace at which it was made. */
import type { OutgoingHttpHeaders } from "node:http";
import type { AnswerSink } from "../answer.js";
import type { Cancellation } from "../cancellation.js";
import type { Ending } from "../pipeline.js";
import type { StoredAnswer } from "./stored-answer.js";

export type Pace = "none" | "original";

/** Size from which writes end, at the next end of an event. */
const WRITE_BYTES = 16 * 1024;

/** @param headers added to the answer's */
export function replay(
  { status, headers: kept, isEventStream, body, marks }: StoredAnswer,
  headers: OutgoingHttpHeaders,
  sink: AnswerSink,
  cancellation: Cancellation,
  pace: Pace,
): Promise<Ending> {
  const length = isEventStream ? {} : { "content-length": body.length };
  sink.begin({ status, headers: { ...kept, ...headers, ...length }, isEventStream });
  if (marks.length === 0 || (pace === "none" && body.length <= WRITE_BYTES)) {
    sink.end(body);
    return Promise.resolve({ kind: "answered", status });
  }
  return new Promise((resolve) => new Replay(status, body, marks, sink, cancellation, pace, resolve).next());
}

class Replay {
  readonly #beganMs = performance.now();
  #sent = 0;
  #mark = 0;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;
  #endWatch = () => {};

  constructor(
    private readonly status: number,
    private readonly body: Buffer,
    private readonly marks: readonly number[],
    private readonly sink: AnswerSink,
    cancellation: Cancellation,
    private readonly pace: Pace,
    private readonly resolve: (ending: Ending) => void,
  ) {
    this.#endWatch = cancellation.onCancel((error) => {
      if (error !== undefined && !this.#isOver) this.sink.breakOff(error);
      this.#settle({ kind: "cancelled" });
    });
  }

  next(): void {
    while (!this.#isOver) {
      const waitMs = this.#waitMs();
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.next(), waitMs);
        return;
      }
      const end = this.#nextEnd();
      const bytes = this.body.subarray(this.#sent, end);
      this.#sent = end;
      if (end >= this.body.length) {
        this.sink.end(bytes);
        this.#settle({ kind: "answered", status: this.status });
      } else if (!this.sink.write(bytes)) {
        this.sink.onDrain(() => this.next());
        return;
      }
    }
  }

  #waitMs(): number {
    const dueMs = this.pace === "original" ? (this.marks[this.#mark + 1] ?? 0) : 0;
    return dueMs - (performance.now() - this.#beganMs);
  }

  /** End of the bytes to send now: all due bytes, in pieces of bounded size that end with an event. */
  #nextEnd(): number {
    let end = this.#sent;
    while (this.#mark < this.marks.length && end - this.#sent < WRITE_BYTES && this.#waitMs() <= 0) {
      end = this.marks[this.#mark]!;
      this.#mark += 2;
    }
    return this.#mark >= this.marks.length ? this.body.length : end;
  }

  #settle(ending: Ending): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#endWatch();
    this.resolve(ending);
  }
}
