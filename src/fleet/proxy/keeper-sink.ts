/** Completes and keeps an answer of /v1/responses on its way to the client. */
import type { OpenTurn } from "../../core/response-state.js";
import { type AnswerHead, type AnswerSink, PassingSink } from "../../gateway/answer.js";
import { ResponseKeeper } from "../../gateway/api/response-keeper.js";

export class KeeperSink extends PassingSink {
  #keeper: ResponseKeeper | undefined;
  #isEventStream = false;

  constructor(
    next: AnswerSink,
    private readonly turn: OpenTurn,
  ) {
    super(next);
  }

  override begin(head: AnswerHead): void {
    this.#isEventStream = head.isEventStream;
    if (head.status !== 200) {
      super.begin(head);
      return;
    }
    this.#keeper = new ResponseKeeper(this.turn, head.isEventStream);
    // The answer becomes longer.
    const { "content-length": _, ...headers } = head.headers;
    super.begin({ ...head, headers });
  }

  override write(bytes: Buffer): boolean {
    const shown = this.#keeper?.push(bytes) ?? bytes;
    return shown.length === 0 || super.write(shown);
  }

  override end(last?: Buffer): void {
    if (this.#keeper === undefined) {
      super.end(last);
      return;
    }
    if (last !== undefined && last.length > 0) this.write(last);
    super.end(this.#isEventStream ? undefined : this.#keeper.end());
  }
}
