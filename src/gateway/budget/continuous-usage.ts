/** Asks an engine for the token counts with every event of a stream, and takes them out again for a client that did not ask. */
import { type AnswerHead, type AnswerSink, PassingSink } from "../answer.js";
import { type GatewayRequest, type RequestBody, withBody } from "../request.js";

const PATHS: readonly string[] = ["/v1/chat/completions", "/v1/completions"];
const EVENT_END = Buffer.from("\n\n");
/** The last field of an event that has a choice. */
const CHUNK_USAGE = /,"usage":\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}(\}\s*)$/;
const NO_CHOICES = /"choices":\s*\[\]/;
const USAGE_BYTES = 512;

/** @returns the request to send and the sink for its answer, the same where nothing has to be asked */
export function askContinuousUsage(request: GatewayRequest, sink: AnswerSink): readonly [GatewayRequest, AnswerSink] {
  if (!request.isStream || !PATHS.includes(request.path)) return [request, sink];
  const { stream_options: options } = request.body;
  // Something else than an object is the engine's to refuse.
  if (options !== undefined && options !== null && (typeof options !== "object" || Array.isArray(options))) {
    return [request, sink];
  }
  const given = (options ?? {}) as RequestBody;
  const wantsLast = given.include_usage === true;
  if (wantsLast && given.continuous_usage_stats === true) return [request, sink];
  const asked = { ...given, include_usage: true, continuous_usage_stats: true };
  return [withBody(request, { stream_options: asked }), new ChunkUsageStripper(sink, wantsLast)];
}

class ChunkUsageStripper extends PassingSink {
  #isEventStream = false;

  /** @param wantsLast the client asked for the counts at the end */
  constructor(
    next: AnswerSink,
    private readonly wantsLast: boolean,
  ) {
    super(next);
  }

  override begin(head: AnswerHead): void {
    this.#isEventStream = head.isEventStream && head.status === 200;
    super.begin(head);
  }

  override write(bytes: Buffer): boolean {
    const kept = this.#isEventStream ? this.#stripped(bytes) : bytes;
    return kept.length === 0 ? true : super.write(kept);
  }

  override end(last?: Buffer): void {
    super.end(last !== undefined && this.#isEventStream ? this.#stripped(last) : last);
  }

  #stripped(bytes: Buffer): Buffer {
    const kept: Buffer[] = [];
    let start = 0;
    while (start < bytes.length) {
      const found = bytes.indexOf(EVENT_END, start);
      const end = found < 0 ? bytes.length : found + EVENT_END.length;
      this.#keep(bytes.subarray(start, end), kept);
      start = end;
    }
    return kept.length === 1 ? kept[0]! : Buffer.concat(kept);
  }

  #keep(event: Buffer, kept: Buffer[]): void {
    const tailStart = Math.max(0, event.length - USAGE_BYTES);
    const tail = event.toString("latin1", tailStart);
    const match = CHUNK_USAGE.exec(tail);
    if (match === null) {
      kept.push(event);
      return;
    }
    if (NO_CHOICES.test(tail)) {
      if (this.wantsLast) kept.push(event);
      return;
    }
    kept.push(event.subarray(0, tailStart + match.index));
    kept.push(Buffer.from(this.wantsLast ? `,"usage":null${match[1]}` : match[1]!));
  }
}
