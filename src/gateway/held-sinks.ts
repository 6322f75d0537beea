/** Answers that are held in memory up to a size: instead of being sent, or beside it. */
import { type AnswerHead, type AnswerSink, BufferSink, PassingSink, type WholeAnswer } from "./answer.js";
import type { Cancellation } from "./cancellation.js";

/** Keeps an answer instead of sending it, and cancels the request if the answer is longer than allowed. */
export class BoundedSink extends BufferSink {
  #isTooLong = false;

  constructor(
    private readonly maxBytes: number,
    private readonly cancellation: Cancellation,
  ) {
    super();
  }

  get isTooLong(): boolean {
    return this.#isTooLong;
  }

  override write(bytes: Buffer): boolean {
    if (this.#isTooLong) return true;
    this.#isTooLong = this.numBytes + bytes.length > this.maxBytes;
    if (!this.#isTooLong) return super.write(bytes);
    this.cancellation.cancel();
    return true;
  }
}

export interface CopiedAnswer extends WholeAnswer {
  /**
   * For a stream, in alternation: the end of a write in bytes, and its time since the answer's beginning in
   * milliseconds.
   */
  readonly marks: readonly number[];
}

/** Passes an answer on and keeps a copy, up to a size. */
export class CopyingSink extends PassingSink {
  readonly #chunks: Buffer[] = [];
  readonly #marks: number[] = [];
  readonly #beganMs = performance.now();
  #head: AnswerHead | undefined;
  #numBytes = 0;
  #isKept = true;
  #isEnded = false;

  /** @param onEnd called before the end is passed on */
  constructor(
    next: AnswerSink,
    private readonly maxBytes: number,
    private readonly onEnd: () => void = () => {},
  ) {
    super(next);
  }

  override begin(head: AnswerHead): void {
    this.#head = head;
    super.begin(head);
  }

  override write(bytes: Buffer): boolean {
    this.#keep(bytes);
    return super.write(bytes);
  }

  override end(last?: Buffer): void {
    if (last !== undefined && last.length > 0) this.#keep(last);
    this.#isEnded = true;
    this.onEnd();
    super.end(last);
  }

  /** @returns undefined if the answer is too long, or did not end */
  whole(): CopiedAnswer | undefined {
    if (!this.#isKept || !this.#isEnded || this.#head === undefined) return undefined;
    const marks = this.#head.isEventStream ? this.#marks : [];
    return { head: this.#head, body: Buffer.concat(this.#chunks), marks, error: undefined };
  }

  #keep(bytes: Buffer): void {
    this.#numBytes += bytes.length;
    if (!this.#isKept) return;
    if (this.#numBytes > this.maxBytes) {
      this.#isKept = false;
      this.#chunks.length = 0;
      return;
    }
    this.#chunks.push(bytes);
    this.#marks.push(this.#numBytes, Math.round(performance.now() - this.#beganMs));
  }
}
