/**
 * Asks the upstream for token counts that the gateway needs and a stream's client did not ask for, and removes them
 * from the client's stream. OpenAI's chat and completions alone need this: the streams of every other API have counts.
 */
import { type AnswerHead, type AnswerSink, PassingSink } from "./answer.js";
import { eachEvent, findUsage, hasUsage, type UsagePlace } from "./api/event-usage.js";
import type { Policy } from "./pipeline.js";
import { type GatewayRequest, type RequestBody, withBody } from "./request.js";

const PATHS: readonly string[] = ["/v1/chat/completions", "/v1/completions"];
const NO_CHOICES = /"choices":\s*\[\]/;
const NULL = "null";

/** The usage that a stream's client asked for, and the usage that the upstream is asked for. */
interface UsageTerms {
  /** The client wants the counts of the whole answer, at its end. */
  readonly wantsLast: boolean;
  /** The upstream is asked for counts with every event, and the client has not asked for these. */
  readonly hidesEach: boolean;
}

/** Runs after the caches, so that they and retries see the client's own body. */
export const usageAsker: Policy = {
  name: "usage",
  handle(request, sink, next) {
    return request.record.wantsUsage ? next(...askUsage(request, sink)) : next(request, sink);
  },
};

/**
 * @param isContinuous asks for counts with every event, which not every engine knows
 * @returns the request to send and the sink for its answer, both unchanged if nothing has to be asked
 */
export function askUsage(
  request: GatewayRequest,
  sink: AnswerSink,
  isContinuous = false,
): readonly [GatewayRequest, AnswerSink] {
  if (!request.isStream || !PATHS.includes(request.path)) return [request, sink];
  const options = request.body.stream_options ?? {};
  // The engine refuses a value that is not an object.
  if (typeof options !== "object" || Array.isArray(options)) return [request, sink];
  const given = options as RequestBody;
  // OpenRouter's clients ask for usage under a name that other engines do not know.
  const usage = request.body.usage as { readonly include?: unknown } | null | undefined;
  const wantsLast = given.include_usage === true || usage?.include === true;
  const hidesEach = isContinuous && !(wantsLast && given.continuous_usage_stats === true);
  if (given.include_usage === true && !hidesEach) return [request, sink];
  const asked = { ...given, include_usage: true, ...(isContinuous ? { continuous_usage_stats: true } : {}) };
  return [withBody(request, { stream_options: asked }), new UsageStripper(sink, { wantsLast, hidesEach })];
}

class UsageStripper extends PassingSink {
  #isEventStream = false;

  constructor(
    next: AnswerSink,
    private readonly terms: UsageTerms,
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
    if (!hasUsage(bytes)) return bytes;
    // One call reads the bytes and one writes them; the work between is cheap on strings.
    const text = bytes.toString("latin1");
    let kept = "";
    eachEvent(text, (event) => {
      const place = findUsage(event);
      kept += place === undefined ? event : this.#shown(event, place);
    });
    return kept.length === text.length ? bytes : Buffer.from(kept, "latin1");
  }

  #shown(event: string, place: UsagePlace): string {
    const { wantsLast, hidesEach } = this.terms;
    const isNull = event.startsWith(NULL, place.end - NULL.length);
    if (isNull) return wantsLast ? event : withoutMember(event, place);
    if (NO_CHOICES.test(event)) return wantsLast ? event : "";
    if (!hidesEach) return event;
    return wantsLast ? event.slice(0, place.value) + NULL + event.slice(place.end) : withoutMember(event, place);
  }
}

/** The event without the member and its comma. */
function withoutMember(event: string, { start, end }: UsagePlace): string {
  const before = event.slice(0, start).trimEnd();
  const after = event.slice(end);
  return before.endsWith(",") ? before.slice(0, -1) + after : event.slice(0, start) + after.replace(/^\s*,/, "");
}
