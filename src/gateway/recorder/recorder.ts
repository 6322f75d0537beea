/**
 * Records requests with their answers, for audits, tuning, training and replays. Two policies, around the guardrails:
 * redacted texts are not recorded.
 */
import type { AnswerSink } from "../answer.js";
import { directivesOf } from "../cache/directives.js";
import { CopyingSink } from "../held-sinks.js";
import { DEAF_REQUEST } from "../observer.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import type { GatewayRequest } from "../request.js";
import { uniformOf } from "../routes/weighted-choice.js";
import { SeenAnswer } from "../seen-answer.js";
import { sessionOf } from "../session.js";
import { NOTE, type RequestRecord } from "../usage/record.js";
import { RECORDED_PATHS, recordLine } from "./record-line.js";

interface RecorderOptions {
  readonly files: { push(line: () => string): void; close(): Promise<void> };
  readonly appliesTo: (model: string) => boolean;
  /** From 0 to 1. A session is recorded whole or not at all. */
  readonly share: number;
  readonly sessionHeader: () => string;
  /** Counts a request that is too large. */
  readonly onLost: () => void;
  /** A random number in [0, 1). */
  readonly random: () => number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** A larger request or answer is counted as lost. */
const MAX_BYTES = 4 * 1024 * 1024;

interface Recorded {
  /** The request as the guardrails leave it. */
  request: GatewayRequest | undefined;
}

export class Recorder {
  readonly #recorded = new WeakMap<RequestRecord, Recorded>();

  constructor(private readonly options: RecorderOptions) {}

  /** Before the guardrails: sees the answers that clients see. */
  readonly outer: Policy = {
    name: "recorder",
    handle: (request, sink, next) =>
      this.#isWanted(request) ? this.#record(request, sink, next) : next(request, sink),
    close: () => this.options.files.close(),
  };

  /** After the guardrails: sees the requests that models see. */
  readonly inner: Policy = {
    name: "recorder-input",
    handle: (request, sink, next) => {
      const recorded = this.#recorded.get(request.record);
      if (recorded !== undefined) recorded.request = request;
      return next(request, sink);
    },
  };

  #isWanted({ path, body, headers, model, caller, observer, record }: GatewayRequest): boolean {
    // The gateway's own requests, such as an audit, are no client's traffic; lines of batches are.
    const isOwn = observer === DEAF_REQUEST && !record.notes.has(NOTE.batch);
    if (isOwn || !RECORDED_PATHS.includes(path) || !this.options.appliesTo(model)) return false;
    if (record.isPrivate || directivesOf(headers).noStore) return false;
    const { share, random, sessionHeader } = this.options;
    const session = sessionOf(headers, sessionHeader(), body);
    return (session === undefined ? random() : uniformOf(`record\n${caller.tenant}\n${session}`)) < share;
  }

  async #record(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const { files, now, onLost } = this.options;
    const recorded: Recorded = { request: undefined };
    this.#recorded.set(request.record, recorded);
    request.record.wantsUsage = true;
    const startMs = now();
    const timed = new SeenAnswer(sink, now);
    const copy = new CopyingSink(timed, MAX_BYTES);
    const ending = await next(request, copy);
    if (ending.kind !== "answered" || ending.status !== 200) return ending;
    const [whole, sent] = [copy.whole(), recorded.request ?? request];
    if (whole === undefined || sent.bytes.length > MAX_BYTES) {
      onLost();
      return ending;
    }
    const { body, head } = whole;
    const answer = { body, isEventStream: head.isEventStream };
    const exchanged = { request: sent, answer, startMs, firstByteMs: timed.firstByteMs, endMs: now() };
    files.push(() => recordLine(exchanged));
    return ending;
  }
}
