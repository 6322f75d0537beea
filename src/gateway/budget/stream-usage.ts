/**
 * Counts the tokens of a stream from its whole events: from the engine's reports with each event, or else from the
 * texts.
 */

import type { JsonObject } from "../../core/json-body.js";
import { eachEvent, findUsage } from "../api/event-usage.js";
import type { TokenCounts } from "../usage/record.js";
import { countsOf, laterUsage, promptTokensOf, type ReportedUsage } from "../usage/token-counts.js";

const CR = "\r";
/** Comments, and fields of an event other than data. */
const OTHER_LINE = /^(?:event|id|retry)?:/;
/** Members of a delta that are not text of the model. */
const NO_TEXTS: readonly string[] = ["id", "type", "role", "signature", "data"];
/** The end of an event after its own report, which engines write last. */
const EVENT_TAIL = /^\}\s*$/;
const INDEX = /"choices":\s*\[\{"index":\s*(\d+)/;
/** Start of a delta with a text as its only member, as in most events. */
const DELTA = '"delta":{';
const CONTENT = '"content":"';
/** The same for completions, whose first choice begins with its text, or with its index. */
const CHOICES = '"choices":[{';
const FIRST_TEXT = /"choices":\[\{(?:"index":\d+,)?"text":"/y;
/** Members of a choice that have texts, beside `delta`. */
const OTHER_TEXTS: readonly string[] = ['"text":', '"message":'];
/** Members of whole answers that hold their text, if there is any. */
const KNOWN_TEXT = /"(?:choices|content|output|message)"\s*:/;
/** Typical of English, code and JSON. */
const BYTES_PER_TOKEN = 4;

export class StreamUsage {
  #promptTokens: number | undefined;
  /** Tokens by the index of the choice. */
  readonly #outputs = new Map<number, number>();
  #final: TokenCounts | undefined;
  #numTexts = 0;
  #textBytes = 0;
  /** Number of texts before the last report of the whole answer: some upstreams report early. */
  #reportedTexts = 0;
  #reportedBytes = 0;
  /** Whether every event with a choice has had a report. */
  #isReported = true;

  /** @param bytesPerToken fewest bytes of text that count as a token, if nothing is reported */
  constructor(private readonly bytesPerToken: number) {}

  /** Undefined: not reported yet. */
  get promptTokens(): number | undefined {
    return this.#promptTokens;
  }

  /** Upper bound of the tokens of the answers so far. */
  get mostOutputTokens(): number {
    if (this.#final !== undefined) {
      return this.#final.output + (this.#textBytes - this.#reportedBytes) / this.bytesPerToken;
    }
    return this.#isReported ? this.#reported() : Math.max(this.#reported(), this.#textBytes / this.bytesPerToken);
  }

  /** The counts so far. @param promptTokens used if none are reported */
  counts(promptTokens: number): TokenCounts {
    const bytes = this.#textBytes - this.#reportedBytes;
    const texts = Math.max(this.#numTexts - this.#reportedTexts, Math.ceil(bytes / BYTES_PER_TOKEN));
    if (this.#final !== undefined) {
      return texts === 0 ? this.#final : { ...this.#final, output: this.#final.output + texts, isEstimated: true };
    }
    const output = this.#isReported ? this.#reported() : Math.max(this.#reported(), texts);
    const fresh = this.#promptTokens ?? promptTokens;
    return this.#isReported && this.#promptTokens !== undefined
      ? { fresh, cacheRead: 0, cacheWrite: 0, output, reasoning: 0 }
      : { fresh, cacheRead: 0, cacheWrite: 0, output, reasoning: 0, isEstimated: true };
  }

  /** @param bytes whole events, or pieces of an event that is too long to be held */
  push(bytes: Buffer): void {
    const text = bytes.toString();
    // Raw carriage returns end lines: within JSON they are escaped.
    const lines = text.includes(CR) ? text.replaceAll(/\r\n?/g, "\n") : text;
    eachEvent(lines, (event) => this.#event(event));
  }

  /** @param bytes a whole answer, read like one event */
  pushWhole(bytes: Buffer): void {
    const text = bytes.toString();
    this.#event(text);
    // An answer of an unknown form may be text throughout.
    if (this.#final === undefined && this.#textBytes === 0 && !KNOWN_TEXT.test(text)) this.#addText(bytes.length);
  }

  #event(event: string): void {
    const place = findUsage(event);
    const isReported = place !== undefined && event[place.end - 1] === "}";
    if (isReported && EVENT_TAIL.test(event.slice(place.end))) {
      if (this.#chunk(event, event.slice(place.value, place.end))) return;
    }
    const plain = isReported ? undefined : plainTextBytes(event);
    if (plain !== undefined) {
      this.#addText(plain);
      return;
    }
    const json = jsonOf(event);
    if (json === "" || json === "[DONE]") return;
    const data = parse(json);
    // An unreadable event may be text.
    this.#addText(data === undefined ? Buffer.byteLength(json) : textBytesOf(data));
    const usage = data === undefined ? undefined : usageOf(data);
    if (usage !== undefined) this.#report(usage, data!);
  }

  #addText(numBytes: number): void {
    if (numBytes === 0) return;
    this.#isReported = false;
    this.#numTexts++;
    this.#textBytes += numBytes;
  }

  /** A chunk with the usage of its choice so far. @returns false: it is the usage of all choices, at the end */
  #chunk(event: string, json: string): boolean {
    const index = INDEX.exec(event)?.[1];
    const usage = index === undefined ? undefined : parse(json);
    const counts = usage === undefined ? undefined : (plainCounts(usage) ?? countsOf(usage));
    if (counts === undefined) return false;
    this.#outputs.set(Number(index), counts.output);
    this.#promptTokens = Math.max(this.#promptTokens ?? 0, promptTokensOf(counts));
    return true;
  }

  /** A report of the whole answer: OpenAI's at the end; Anthropic's prompt at the beginning, its output at the end. */
  #report(usage: ReportedUsage, { type }: JsonObject): void {
    const all = laterUsage(this.#partial, usage);
    const counts = countsOf(all);
    if (counts === undefined) return;
    this.#partial = all;
    this.#promptTokens = promptTokensOf(counts);
    if (type === "message_start") return;
    this.#final = counts;
    this.#isReported = true;
    this.#reportedTexts = this.#numTexts;
    this.#reportedBytes = this.#textBytes;
  }

  #partial: ReportedUsage = {};

  #reported(): number {
    let sum = 0;
    for (const output of this.#outputs.values()) sum += output;
    return sum;
  }
}

/** The data of an event, which may have several lines. */
function jsonOf(event: string): string {
  const lines = event.split("\n").filter((line) => !OTHER_LINE.test(line));
  return lines
    .map((line) => line.replace(/^data:/, ""))
    .join("\n")
    .trim();
}

function parse(json: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null ? (value as JsonObject) : {};
  } catch {
    return undefined;
  }
}

/**
 * Size of the text of an event that has one line of data and one text without escapes.
 * @returns undefined: the event has to be parsed
 */
function plainTextBytes(event: string): number | undefined {
  const start = deltaStart(event) ?? choiceStart(event);
  if (start === undefined) return undefined;
  const end = event.indexOf('"', start);
  if (end < 0 || event.indexOf("\ndata", start) >= 0) return undefined;
  const text = event.slice(start, end);
  return text.includes("\\") ? undefined : Buffer.byteLength(text);
}

/** Offset of the text in a chat's event, if it is the only field of the only delta. */
function deltaStart(event: string): number | undefined {
  const delta = event.indexOf(DELTA);
  const start = delta + DELTA.length + CONTENT.length;
  if (delta < 0 || !event.startsWith(CONTENT, delta + DELTA.length)) return undefined;
  const end = event.indexOf('"', start);
  const isOnly = event[end + 1] === "}" && event.indexOf(DELTA, end) < 0;
  return isOnly && !OTHER_TEXTS.some((name) => event.includes(name)) ? start : undefined;
}

/** Offset of the text in a completion's event, if no other choice or member has texts. */
function choiceStart(event: string): number | undefined {
  const choices = event.indexOf(CHOICES);
  if (choices < 0) return undefined;
  FIRST_TEXT.lastIndex = choices;
  if (!FIRST_TEXT.test(event)) return undefined;
  const start = FIRST_TEXT.lastIndex;
  const hasOthers = event.includes('"delta":') || OTHER_TEXTS.some((name) => event.indexOf(name, start) >= 0);
  return hasOthers ? undefined : start;
}

/** Counts of an engine that reports with every event, if its report has only the expected members. */
function plainCounts(usage: JsonObject): TokenCounts | undefined {
  const { prompt_tokens: fresh, completion_tokens: output, total_tokens: total } = usage;
  if (!isCount(fresh) || !isCount(output) || total !== fresh + output) return undefined;
  return { fresh, cacheRead: 0, cacheWrite: 0, output, reasoning: 0 };
}

const isCount = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;

function usageOf({ usage, message, response }: JsonObject): ReportedUsage | undefined {
  const found = usage ?? (message as JsonObject | undefined)?.usage ?? (response as JsonObject | undefined)?.usage;
  return typeof found === "object" && found !== null ? (found as ReportedUsage) : undefined;
}

/** Bytes of all text in an event or a whole answer of any API. */
function textBytesOf({ choices, delta, content, output, message }: JsonObject): number {
  const parts = Array.isArray(choices) ? choices.map(partsOfChoice) : [delta, content, output, message];
  return parts.reduce((sum: number, part) => {
    // Some hosts repeat a thought in several members.
    const texts = new Set<string>();
    collect(part, texts, 0);
    return [...texts].reduce((bytes, text) => bytes + Buffer.byteLength(text), sum);
  }, 0);
}

const partsOfChoice = (choice: unknown): unknown => {
  const { text, delta, message } = (choice ?? {}) as JsonObject;
  return [text, delta, message];
};

const MAX_DEPTH = 8;

function collect(value: unknown, texts: Set<string>, depth: number): void {
  if (typeof value === "string") texts.add(value);
  else if (typeof value === "object" && value !== null && depth < MAX_DEPTH) {
    for (const [name, each] of Object.entries(value)) if (!NO_TEXTS.includes(name)) collect(each, texts, depth + 1);
  }
}
