/**
 * Samples requests as the first policy after the ledger: copies the client's answer, and hands the copy on when the
 * client has the answer.
 */
import type { AnswerSink } from "../answer.js";
import { CopyingSink } from "../held-sinks.js";
import { DEAF_REQUEST } from "../observer.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import type { GatewayRequest } from "../request.js";
import { NOTE } from "../usage/record.js";
import { SAMPLED_PATHS } from "./read-sample.js";
import type { Draw } from "./sampler.js";

/** A larger request or answer is counted as dropped. */
const MAX_BYTES = 1024 * 1024;

export interface AnsweredSample {
  readonly request: GatewayRequest;
  readonly draw: Draw;
  readonly answer: { readonly body: Buffer; readonly isEventStream: boolean };
}

interface QualityPolicyOptions {
  /** Called with every request whose answer might be sampled. */
  readonly onRequest: (request: GatewayRequest) => void;
  /** @returns undefined: the request cannot be sampled */
  readonly draw: (request: GatewayRequest) => Draw | undefined;
  /** Must neither throw nor wait. */
  readonly onSample: (sample: AnsweredSample) => void;
  readonly onTooLarge: () => void;
}

export class QualityPolicy implements Policy {
  readonly name = "quality";

  constructor(private readonly options: QualityPolicyOptions) {}

  async handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const { path, observer, record } = request;
    // The gateway's own requests, such as an audit, are no client's traffic; lines of batches are.
    const isOwn = observer === DEAF_REQUEST && !record.notes.has(NOTE.batch);
    if (isOwn || !SAMPLED_PATHS.includes(path)) return await next(request, sink);
    this.options.onRequest(request);
    const draw = this.options.draw(request);
    if (draw === undefined) return await next(request, sink);
    const copy = draw.isTaken ? new CopyingSink(sink, MAX_BYTES) : undefined;
    let isNew = false;
    try {
      const ending = await next(request, copy ?? sink);
      // A cached answer was judged when it was made.
      const isCached = record.notes.get(NOTE.cache)?.startsWith("hit") === true;
      isNew = ending.kind === "answered" && ending.status === 200 && !isCached;
      if (isNew && copy !== undefined) this.#pass(request, draw, copy);
      return ending;
    } finally {
      if (!isNew) draw.giveBack();
    }
  }

  #pass(request: GatewayRequest, draw: Draw, copy: CopyingSink): void {
    const whole = copy.whole();
    if (whole === undefined || request.bytes.length > MAX_BYTES) this.options.onTooLarge();
    else {
      const { head, body } = whole;
      this.options.onSample({ request, draw, answer: { body, isEventStream: head.isEventStream } });
    }
  }
}
