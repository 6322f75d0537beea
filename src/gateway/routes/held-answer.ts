/** Holds an answer back while another one could still replace it. */
import type { MillraceError } from "../../core/errors.js";
import { Pieces } from "../../core/pieces.js";
import { type AnswerHead, type AnswerSink, PassingSink, type WholeAnswer } from "../answer.js";

/** A longer answer is passed on as it arrives. */
const MAX_HELD_BYTES = 1024 * 1024;

export class HoldingSink extends PassingSink {
  #head: AnswerHead | undefined;
  readonly #pieces = new Pieces();
  #held: WholeAnswer | undefined;
  #isPassing = false;

  /**
   * @param holds whether an answer with this head is held
   * @param onPass called once, before the client gets the head
   */
  constructor(
    next: AnswerSink,
    private readonly holds: (head: AnswerHead) => boolean,
    private readonly onPass: () => void,
  ) {
    super(next);
  }

  /** The answer, if it has ended and the client has no part of it. */
  get held(): WholeAnswer | undefined {
    return this.#held;
  }

  /** Gives the client the held answer. */
  release(): void {
    const { body, error } = this.#held!;
    this.#pass();
    if (error === undefined) super.end(body);
    else {
      super.write(body);
      super.breakOff(error);
    }
  }

  override begin(head: AnswerHead): void {
    this.#head = head;
    if (!this.holds(head)) this.#pass();
  }

  override write(bytes: Buffer): boolean {
    if (this.#isPassing) return super.write(bytes);
    this.#pieces.push(bytes);
    if (this.#pieces.numBytes > MAX_HELD_BYTES) this.#pass();
    return true;
  }

  override onDrain(listener: () => void): void {
    if (this.#isPassing) super.onDrain(listener);
    else listener();
  }

  override end(last?: Buffer): void {
    if (this.#isPassing) super.end(last);
    else this.#endHeld(last);
  }

  override breakOff(error: MillraceError): void {
    if (this.#isPassing) super.breakOff(error);
    else this.#hold(error);
  }

  #endHeld(last: Buffer | undefined): void {
    if (last !== undefined) this.write(last);
    if (this.#isPassing) super.end();
    else this.#hold(undefined);
  }

  #hold(error: MillraceError | undefined): void {
    this.#held = { head: this.#head!, body: this.#pieces.take(), error };
  }

  #pass(): void {
    this.#isPassing = true;
    this.onPass();
    super.begin(this.#head!);
    if (this.#pieces.numBytes > 0) super.write(this.#pieces.take());
  }
}
