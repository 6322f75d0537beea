/**
 * Reads token counts from the bytes of an answer as they pass. The counts are near the end in every API; Anthropic's
 * streams report the prompt's at the beginning.
 */
import { Pieces } from "../../core/pieces.js";
import type { TokenCounts } from "../usage/record.js";
import { countsOf, laterUsage, promptTokensOf, type ReportedUsage } from "../usage/token-counts.js";
import { eventEndOf } from "./event-usage.js";

export interface TokenUsage {
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
}

const KEPT_BYTES = 4096;
/** Bytes of the end that are held before it is trimmed: trimming at each chunk would cost more. */
const HELD_BYTES = 4 * KEPT_BYTES;
/**
 * Matches an object that may contain flat objects. Quotes inside JSON strings are escaped, so generated text cannot
 * match it.
 */
const USAGE = /"usage(?:Metadata)?":\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})/y;
const MEMBER = '"usage';
/**
 * Matches an answer that reached its token limit, in every API but /v1/responses. Like `USAGE` it matches no generated
 * text.
 */
const TRUNCATED = /"(?:finish_reason|stop_reason)": ?"(?:length|max_tokens)"|"finishReason": ?"MAX_TOKENS"/;
/** The same for /v1/responses, where it precedes the output. */
const INCOMPLETE = /"incomplete_details":\s*\{\s*"reason":\s*"max_output_tokens"/;
/** The event that ends a stream of /v1/responses early. */
const INCOMPLETE_EVENT = /\n(?:event: ?response\.incomplete\b|data: ?\{"type": ?"response\.incomplete")/;
const INCOMPLETE_WORD = "response.incomplete";
/** Characters at a chunk's end that may begin such an event. */
const CARRIED = 50;
/** The first event of an Anthropic stream, after comments. */
const MESSAGE_START = /^(?::.*\s+)*(?:event: ?message_start\b|data: ?\{"type": ?"message_start")/;
/** The first event of a stream of /v1/responses, which repeats the request, and with it the client's tools. */
const REPEATS_REQUEST = /^(?::.*\s+)*(?:event: ?|data: ?\{"type": ?")response\.(?:created|queued|in_progress)\b/;
/** Typical of English, code and JSON. */
const BYTES_PER_TOKEN = 4;
/** Upper bound of an event of one token, log-probabilities included: a longer event counts as text. */
const EVENT_BYTES = 4096;

export class UsageReader {
  /** Chunks of the beginning and of the end. */
  readonly #head: Buffer[] = [];
  readonly #tail: Buffer[] = [];
  #headBytes = 0;
  #tailBytes = 0;
  /** Events not counted yet: one by one they would take longer, since the code is cold between two events. */
  readonly #uncounted = new Pieces();
  #numEvents = 0;
  #numBytes = 0;
  /** The line break at the last chunk's end, which the next chunk may extend to an empty line. */
  #lineEnd = "";
  /** The end of the last chunk of a stream. */
  #carried = "\n";
  /** The beginning of the event that ends a stream early. */
  #incomplete = "";
  /** The usage in the chunks read so far. */
  #known: { readonly usage: ReportedUsage | undefined } | undefined;

  push(chunk: Buffer): void {
    this.#known = undefined;
    this.#numBytes += chunk.length;
    if (this.#headBytes < KEPT_BYTES) {
      this.#head.push(chunk.length > KEPT_BYTES ? chunk.subarray(0, KEPT_BYTES) : chunk);
      this.#headBytes += chunk.length;
    }
    const end = chunk.length > KEPT_BYTES ? chunk.subarray(-KEPT_BYTES) : chunk;
    this.#tail.push(end);
    this.#tailBytes += end.length;
    if (this.#tailBytes > HELD_BYTES) this.#letGo();
  }

  /** Counts the events of a stream's chunk, for an estimate. */
  pushEvents(chunk: Buffer): void {
    this.push(chunk);
    this.#uncounted.push(chunk);
    if (this.#uncounted.numBytes > HELD_BYTES) this.#readEvents();
  }

  /** @returns undefined if the answer has no counts, as in a stream that was not asked for them */
  read(): TokenUsage | undefined {
    const usage = this.#reported();
    if (usage === undefined) return undefined;
    const counts = countsOf(usage);
    const hasPrompt = PROMPT_FIELDS.some((name) => isCount(usage[name]));
    const hasOutput = OUTPUT_FIELDS.some((name) => isCount(usage[name]));
    return {
      inputTokens: counts !== undefined && hasPrompt ? promptTokensOf(counts) : undefined,
      outputTokens: hasOutput ? counts?.output : undefined,
    };
  }

  /** The counts of a whole answer. @returns undefined if it has none */
  counts(): TokenCounts | undefined {
    const usage = this.#reported();
    return usage === undefined ? undefined : countsOf(usage);
  }

  /** Whether a whole answer ends because it reached its limit of tokens. */
  endsByLength(): boolean {
    this.#readEvents();
    const tail = textOf(this.#tail).slice(-KEPT_BYTES);
    if (TRUNCATED.test(tail)) return true;
    return [tail, textOf(this.#head).slice(0, KEPT_BYTES), this.#incomplete].some((text) => INCOMPLETE.test(text));
  }

  /**
   * The counts of an answer that was cut. The prompt is as reported, if it was; the output is one token for each event
   * after the first, which has no text.
   * @param promptTokens as the router counted or estimated them
   * @param reported the upstream's counts before the cut
   */
  estimate(promptTokens: number, reported = this.#countsBeforeCut()): TokenCounts {
    this.#readEvents();
    const events = Math.max(0, this.#numEvents - 1);
    const hasPrompt = reported !== undefined && promptTokensOf(reported) > 0;
    return {
      fresh: hasPrompt ? reported.fresh : promptTokens,
      cacheRead: hasPrompt ? reported.cacheRead : 0,
      cacheWrite: hasPrompt ? reported.cacheWrite : 0,
      output: Math.max(reported?.output ?? 0, events),
      reasoning: reported?.reasoning ?? 0,
      isEstimated: true,
    };
  }

  /**
   * The counts of a complete answer that reports none. A stream that was not recognised as one is counted by its bytes,
   * like any other answer.
   * @param isGeneration whether the answer has generated tokens
   */
  estimateWhole(promptTokens: number, isGeneration: boolean): TokenCounts {
    const estimate = this.estimate(promptTokens, undefined);
    if (!isGeneration) return { ...estimate, output: 0 };
    const textBytes = this.#numBytes - this.#numEvents * EVENT_BYTES;
    return { ...estimate, output: Math.max(estimate.output, Math.ceil(textBytes / BYTES_PER_TOKEN)) };
  }

  /** The last event of /v1/responses has the only report: in a cut stream, a client's tool may look like one. */
  #countsBeforeCut(): TokenCounts | undefined {
    return REPEATS_REQUEST.test(textOf(this.#head)) ? undefined : this.counts();
  }

  #reported(): ReportedUsage | undefined {
    this.#known ??= { usage: this.#read() };
    return this.#known.usage;
  }

  /**
   * The last report. Anthropic's streams report the prompt first and the output last: both reports are merged. The
   * beginning of another answer counts only if its end has no report, since it may repeat the client's text, such as a
   * schema with a property of this name.
   */
  #read(): ReportedUsage | undefined {
    const last = lastUsage(textOf(this.#tail).slice(-KEPT_BYTES));
    if (last !== undefined && !("input_tokens" in last || "output_tokens" in last)) return last;
    const head = textOf(this.#head).slice(0, KEPT_BYTES);
    if (last === undefined) return firstUsage(head);
    return MESSAGE_START.test(head) ? laterUsage(firstUsage(head), last) : last;
  }

  #readEvents(): void {
    if (this.#uncounted.numBytes === 0) return;
    const text = this.#uncounted.take().toString("latin1");
    this.#seekIncomplete(text);
    this.#countEvents(this.#lineEnd + text);
  }

  #countEvents(text: string): void {
    const eventEnd = eventEndOf(text);
    let start = 0;
    for (let at = text.indexOf(eventEnd); at >= 0; at = text.indexOf(eventEnd, start)) {
      start = at + eventEnd.length;
      this.#numEvents++;
    }
    this.#lineEnd = /\n\r?$/.exec(text.slice(Math.max(start, text.length - 2)))?.[0] ?? "";
  }

  #seekIncomplete(text: string): void {
    if (this.#incomplete === "") {
      const all = this.#carried + text;
      // The word is cheap to find, and most streams lack it.
      const at = all.includes(INCOMPLETE_WORD) ? all.search(INCOMPLETE_EVENT) : -1;
      if (at >= 0) this.#incomplete = all.slice(at, at + KEPT_BYTES);
      this.#carried = all.slice(-CARRIED);
    } else if (this.#incomplete.length < KEPT_BYTES) {
      this.#incomplete += text.slice(0, KEPT_BYTES - this.#incomplete.length);
    }
  }

  #letGo(): void {
    let num = 0;
    for (const { length } of this.#tail) {
      if (this.#tailBytes - length < KEPT_BYTES) break;
      this.#tailBytes -= length;
      num++;
    }
    this.#tail.splice(0, num);
  }
}

const PROMPT_FIELDS = ["prompt_tokens", "input_tokens", "promptTokenCount"];
const OUTPUT_FIELDS = ["completion_tokens", "output_tokens", "candidatesTokenCount"];

/** One character for each byte; the patterns match ASCII only. */
function textOf(chunks: readonly Buffer[]): string {
  return (chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)).toString("latin1");
}

function lastUsage(text: string): ReportedUsage | undefined {
  for (let at = text.lastIndexOf(MEMBER); at >= 0; at = at === 0 ? -1 : text.lastIndexOf(MEMBER, at - 1)) {
    const usage = usageAt(text, at);
    if (usage !== undefined) return usage;
  }
  return undefined;
}

function firstUsage(text: string): ReportedUsage | undefined {
  for (let at = text.indexOf(MEMBER); at >= 0; at = text.indexOf(MEMBER, at + 1)) {
    const usage = usageAt(text, at);
    if (usage !== undefined) return usage;
  }
  return undefined;
}

function usageAt(text: string, at: number): ReportedUsage | undefined {
  USAGE.lastIndex = at;
  const json = USAGE.exec(text)?.[1];
  if (json === undefined) return undefined;
  try {
    return JSON.parse(json) as ReportedUsage;
  } catch {
    return undefined;
  }
}

const isCount = (value: unknown): boolean => typeof value === "number" && Number.isFinite(value) && value >= 0;
