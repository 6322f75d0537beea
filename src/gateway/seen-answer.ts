/** Notes an answer's beginning and its status. */
import { type AnswerHead, type AnswerSink, PassingSink } from "./answer.js";

export class SeenAnswer extends PassingSink {
  firstByteMs: number | undefined;
  status = 0;

  constructor(
    next: AnswerSink,
    private readonly now: () => number,
  ) {
    super(next);
  }

  override begin(head: AnswerHead): void {
    this.firstByteMs = this.now();
    this.status = head.status;
    super.begin(head);
  }
}
