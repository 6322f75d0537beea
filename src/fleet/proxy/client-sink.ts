/** The client's end of an answer: an HTTP response, sent at the client's pace. */
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { MillraceError } from "../../core/errors.js";
import type { AnswerHead, AnswerSink } from "../../gateway/answer.js";
import type { ProxyDialect } from "../../gateway/api/dialect.js";

export class ClientSink implements AnswerSink {
  #isEventStream = false;

  constructor(
    private readonly outgoing: ServerResponse,
    private readonly dialect: ProxyDialect,
    private readonly requestId: string,
  ) {}

  begin({ status, headers, isEventStream }: AnswerHead): void {
    this.#isEventStream = isEventStream;
    const { requestIdHeader } = this.dialect;
    const sent: OutgoingHttpHeaders = { "X-Request-Id": this.requestId };
    if (requestIdHeader !== "X-Request-Id") sent[requestIdHeader] = this.requestId;
    for (const name in headers) sent[name] = headers[name];
    this.outgoing.writeHead(status, sent);
  }

  write(bytes: Buffer): boolean {
    return this.outgoing.write(bytes);
  }

  onDrain(listener: () => void): void {
    this.outgoing.once("drain", listener);
  }

  end(last?: Buffer): void {
    this.outgoing.end(last);
  }

  breakOff(error: MillraceError): void {
    // Any other answer must end with a cut connection, so that the client does not take it for complete.
    if (this.#isEventStream) this.outgoing.end(this.dialect.streamError(error, this.requestId));
    else this.outgoing.destroy();
  }
}
