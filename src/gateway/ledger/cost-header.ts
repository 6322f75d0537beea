/** Gives a whole answer the header of its cost, which is known at its end: the answer is held until then. */
import type { MillraceError } from "../../core/errors.js";
import { type AnswerHead, type AnswerSink, PassingSink, withHeaders } from "../answer.js";

const COST_HEADER = "x-millrace-cost";

/** A larger answer goes on without the header. */
const MAX_HELD_BYTES = 1024 * 1024;

export class CostHeaderSink extends PassingSink {
  #head: AnswerHead | undefined;
  #held: Buffer[] = [];
  #numBytes = 0;

  /** @param cost in dollars, called at the end */
  constructor(
    next: AnswerSink,
    private readonly cost: () => string,
  ) {
    super(next);
  }

  override begin(head: AnswerHead): void {
    if (head.isEventStream) super.begin(head);
    else this.#head = head;
  }

  override write(bytes: Buffer): boolean {
    if (this.#head === undefined) return super.write(bytes);
    this.#held.push(bytes);
    this.#numBytes += bytes.length;
    return this.#numBytes <= MAX_HELD_BYTES || this.#release({});
  }

  override onDrain(listener: () => void): void {
    if (this.#head === undefined) super.onDrain(listener);
    else listener();
  }

  override end(last?: Buffer): void {
    if (this.#head !== undefined) this.#release({ [COST_HEADER]: this.cost() });
    super.end(last);
  }

  override breakOff(error: MillraceError): void {
    if (this.#head !== undefined) this.#release({});
    super.breakOff(error);
  }

  /** @returns whether more is welcome */
  #release(headers: AnswerHead["headers"]): boolean {
    const head = this.#head!;
    this.#head = undefined;
    super.begin(withHeaders(head, headers));
    let isWelcome = true;
    for (const bytes of this.#held) isWelcome = super.write(bytes);
    this.#held = [];
    return isWelcome;
  }
}
