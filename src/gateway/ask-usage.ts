/**
 * Asks the upstream for the token counts of a stream whose client did not ask, and keeps their event from that client. OpenAI's chat and completions alone
 * need this: the streams of every other API have counts.
 */
import { type AnswerHead, type AnswerSink, PassingSink } from "./answer.js";
import { type GatewayRequest, type RequestBody, withBody } from "./request.js";

const PATHS: readonly string[] = ["/v1/chat/completions", "/v1/completions"];
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const FIELD = '"stream_options":{"include_usage":true}';
const EVENT_END = "\n\n";
/** Every other event has a choice. Quotes inside texts are escaped, so no text looks like this. */
const NO_CHOICES = '"choices":[]';
const NO_CHOICES_SPACED = '"choices": []';

/** @returns the request to send and the sink for its answer, which are the same where nothing has to be asked */
export function askUsage(request: GatewayRequest, sink: AnswerSink): readonly [GatewayRequest, AnswerSink] {
  if (!request.isStream || !PATHS.includes(request.path)) return [request, sink];
  const { stream_options: options } = request.body;
  const given = typeof options === "object" && options !== null ? (options as RequestBody) : undefined;
  if (given?.include_usage === true) return [request, sink];
  // Something else than an object is the engine's to refuse.
  if (options !== undefined && options !== null && given === undefined) return [request, sink];
  return [withUsage(request, given), new UsageStripper(sink)];
}

function withUsage(request: GatewayRequest, given: RequestBody | undefined): GatewayRequest {
  const body = { stream_options: { ...given, include_usage: true } };
  if ("stream_options" in request.body) return withBody(request, body);
  // The client's bytes remain: serialising the body would round large numbers and cost more.
  const start = request.bytes.indexOf(OPEN_BRACE) + 1;
  const rest = request.bytes.subarray(start);
  const comma = rest[rest.findIndex((byte) => byte > 0x20)] === CLOSE_BRACE ? "" : ",";
  const bytes = Buffer.concat([request.bytes.subarray(0, start), Buffer.from(FIELD + comma), rest]);
  return { ...request, body: { ...request.body, ...body }, bytes };
}

/** Drops the event that has counts and no choice. */
class UsageStripper extends PassingSink {
  #isEventStream = false;

  override begin(head: AnswerHead): void {
    this.#isEventStream = head.isEventStream && head.status === 200;
    super.begin(head);
  }

  override write(bytes: Buffer): boolean {
    const kept = this.#stripped(bytes);
    return kept.length === 0 ? true : super.write(kept);
  }

  override end(last?: Buffer): void {
    super.end(last === undefined ? undefined : this.#stripped(last));
  }

  #stripped(bytes: Buffer): Buffer {
    if (!this.#isEventStream || !(bytes.includes(NO_CHOICES) || bytes.includes(NO_CHOICES_SPACED))) return bytes;
    const events = bytes.toString("utf8").split(EVENT_END);
    const kept = events.filter((event) => !isUsageEvent(event));
    return kept.length === events.length ? bytes : Buffer.from(kept.join(EVENT_END));
  }
}

function isUsageEvent(event: string): boolean {
  const data = /^data: *(\{.*\})\s*$/.exec(event)?.[1];
  if (data === undefined) return false;
  try {
    const { choices, usage } = JSON.parse(data) as { readonly choices?: unknown; readonly usage?: unknown };
    return Array.isArray(choices) && choices.length === 0 && typeof usage === "object" && usage !== null;
  } catch {
    return false;
  }
}
