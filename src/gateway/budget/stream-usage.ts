/** Counts the tokens of a stream from its whole events: as the engine reports them with each, or else from the texts. */

import { eachEvent, findUsage } from "../api/event-usage.js";
import type { TokenCounts } from "../usage/record.js";
import { countsOf, promptTokensOf, type ReportedUsage } from "../usage/token-counts.js";

const DATA = "data:";
const INDEX = /"choices":\s*\[\{"index":\s*(\d+)/;
/** A delta that is a text and nothing else, as most are. */
const DELTA = '"delta":{';
const CONTENT = '"content":"';
/** Typical of English, code and JSON. */
const BYTES_PER_TOKEN = 4;

export class StreamUsage {
  #promptTokens: number | undefined;
  /** By the index of the choice. */
  readonly #outputs = new Map<number, number>();
  #final: TokenCounts | undefined;
  #numTexts = 0;
  #textBytes = 0;
  /** Whether every event with a choice has had a report. */
  #isReported = true;

  /** @param bytesPerToken fewest bytes of text that a token is taken to have, where nothing is reported */
  constructor(private readonly bytesPerToken: number) {}

  /** Undefined: not reported yet. */
  get promptTokens(): number | undefined {
    return this.#promptTokens;
  }

  /** Tokens of the answers so far, at most. */
  get mostOutputTokens(): number {
    if (this.#final !== undefined) return this.#final.output;
    return this.#isReported ? this.#reported() : Math.max(this.#reported(), this.#textBytes / this.bytesPerToken);
  }

  /** The counts so far. @param promptTokens where none are reported */
  counts(promptTokens: number): TokenCounts {
    if (this.#final !== undefined) return this.#final;
    const texts = Math.max(this.#numTexts, Math.ceil(this.#textBytes / BYTES_PER_TOKEN));
    const output = this.#isReported ? this.#reported() : Math.max(this.#reported(), texts);
    const counts = { fresh: this.#promptTokens ?? promptTokens, cacheRead: 0, cacheWrite: 0, output, reasoning: 0 };
    return this.#isReported && this.#promptTokens !== undefined ? counts : { ...counts, isEstimated: true };
  }

  /** @param bytes whole events */
  push(bytes: Buffer): void {
    eachEvent(bytes.toString(), (event) => this.#event(event));
  }

  #event(event: string): void {
    const place = findUsage(event);
    const isReported = place !== undefined && event[place.end - 1] === "}";
    if (isReported && this.#chunk(event, event.slice(place.value, place.end))) return;
    const plain = isReported ? undefined : plainText(event);
    if (plain !== undefined) {
      this.#addText(plain);
      return;
    }
    const data = dataOf(event);
    if (data === undefined) return;
    const usage = usageOf(data);
    if (usage !== undefined) this.#report(usage, data);
    this.#addText(textOf(data));
  }

  #addText(text: string): void {
    if (text === "") return;
    this.#isReported = false;
    this.#numTexts++;
    this.#textBytes += Buffer.byteLength(text);
  }

  /** A chunk with the usage of its choice so far. @returns false: it is the usage of all, at the end */
  #chunk(event: string, json: string): boolean {
    const index = INDEX.exec(event)?.[1];
    const usage = index === undefined ? undefined : parse(json);
    const counts = usage === undefined ? undefined : (plainCounts(usage) ?? countsOf(usage));
    if (counts === undefined) return false;
    this.#outputs.set(Number(index), counts.output);
    this.#promptTokens = Math.max(this.#promptTokens ?? 0, promptTokensOf(counts));
    return true;
  }

  /** A report of the whole answer: OpenAI's at the end; Anthropic's prompt at the beginning, and its output in the end. */
  #report(usage: ReportedUsage, { type }: Json): void {
    const counts = countsOf({ ...this.#partial, ...usage });
    if (counts === undefined) return;
    this.#partial = { ...this.#partial, ...usage };
    this.#promptTokens = promptTokensOf(counts);
    if (type === "message_start") return;
    this.#final = counts;
    this.#isReported = true;
  }

  #partial: ReportedUsage = {};

  #reported(): number {
    let sum = 0;
    for (const output of this.#outputs.values()) sum += output;
    return sum;
  }
}

type Json = Readonly<Record<string, unknown>>;

function parse(json: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === "object" && value !== null ? (value as Json) : undefined;
  } catch {
    return undefined;
  }
}

function dataOf(event: string): Json | undefined {
  const start = event.startsWith(DATA) ? 0 : event.indexOf(`\n${DATA}`) + 1;
  if (!event.startsWith(DATA, start)) return undefined;
  const end = event.indexOf("\n", start);
  return parse(event.slice(start + DATA.length, end < 0 ? event.length : end));
}

/** The text of an event that has one delta, with one field and no escapes. @returns undefined: the event has to be parsed */
function plainText(event: string): string | undefined {
  const delta = event.indexOf(DELTA);
  const start = delta + DELTA.length + CONTENT.length;
  if (delta < 0 || !event.startsWith(CONTENT, delta + DELTA.length)) return undefined;
  const end = event.indexOf('"', start);
  if (event[end + 1] !== "}" || event.indexOf(DELTA, end) >= 0) return undefined;
  const text = event.slice(start, end);
  return text.includes("\\") ? undefined : text;
}

/** Counts of an engine that reports with every event, where they say nothing but what is needed to go on. */
function plainCounts(usage: Json): TokenCounts | undefined {
  const { prompt_tokens: fresh, completion_tokens: output, total_tokens: total } = usage;
  if (!isCount(fresh) || !isCount(output) || total !== fresh + output) return undefined;
  return { fresh, cacheRead: 0, cacheWrite: 0, output, reasoning: 0 };
}

const isCount = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;

function usageOf({ usage, message, response }: Json): ReportedUsage | undefined {
  const found = usage ?? (message as Json | undefined)?.usage ?? (response as Json | undefined)?.usage;
  return typeof found === "object" && found !== null ? (found as ReportedUsage) : undefined;
}

/** All text of an event, whichever API's. */
function textOf({ choices, delta }: Json): string {
  if (typeof delta === "string") return delta;
  const parts = Array.isArray(choices) ? choices.flatMap(partsOfChoice) : partsOfDelta(delta);
  return parts.filter((part) => typeof part === "string").join("");
}

const partsOfChoice = (choice: unknown): unknown[] => {
  const { text, delta } = (choice ?? {}) as Json;
  return [text, ...partsOfDelta(delta)];
};

function partsOfDelta(delta: unknown): unknown[] {
  const { content, reasoning, reasoning_content, refusal, tool_calls, text, thinking, partial_json } = (delta ??
    {}) as Json;
  const calls = Array.isArray(tool_calls) ? tool_calls.flatMap(partsOfCall) : [];
  return [content, reasoning ?? reasoning_content, refusal, text, thinking, partial_json, ...calls];
}

function partsOfCall(call: unknown): unknown[] {
  const { name, arguments: args } = ((call as Json | null)?.function ?? {}) as Json;
  return [name, args];
}
