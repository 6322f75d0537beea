/** Counts the tokens of a stream from its whole events: as the engine reports them with each, or else from the texts. */
import type { TokenCounts } from "../usage/record.js";
import { countsOf, promptTokensOf, type ReportedUsage } from "../usage/token-counts.js";

const EVENT_END = Buffer.from("\n\n");
const DATA = "data:";
/** At the end of an event's JSON, where engines write it. Quotes inside texts are escaped, so no text looks like this. */
const LAST_USAGE = /,"usage":(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}|null)\}\s*$/;
const USAGE_BYTES = 512;
const INDEX = /"choices":\s*\[\{"index":\s*(\d+)/;
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
    let start = 0;
    while (start < bytes.length) {
      const found = bytes.indexOf(EVENT_END, start);
      const end = found < 0 ? bytes.length : found;
      if (end > start) this.#event(bytes, start, end);
      start = end + EVENT_END.length;
    }
  }

  #event(bytes: Buffer, start: number, end: number): void {
    const tail = bytes.toString("latin1", Math.max(start, end - USAGE_BYTES), end);
    const reported = LAST_USAGE.exec(tail)?.[1];
    if (reported !== undefined && reported !== "null" && this.#chunk(bytes, start, end, reported)) return;
    const data = dataOf(bytes.toString("utf8", start, end));
    if (data === undefined) return;
    const usage = usageOf(data);
    if (usage !== undefined) this.#report(usage, data);
    const text = textOf(data);
    if (text === "") return;
    this.#isReported = false;
    this.#numTexts++;
    this.#textBytes += Buffer.byteLength(text);
  }

  /** A chunk with the usage of its choice so far. @returns false: it is the usage of all, at the end */
  #chunk(bytes: Buffer, start: number, end: number, json: string): boolean {
    const index = INDEX.exec(bytes.toString("latin1", start, Math.min(end, start + USAGE_BYTES)))?.[1];
    if (index === undefined) return false;
    try {
      const counts = countsOf(JSON.parse(json) as ReportedUsage);
      if (counts === undefined) return false;
      this.#outputs.set(Number(index), counts.output);
      this.#promptTokens = Math.max(this.#promptTokens ?? 0, promptTokensOf(counts));
      return true;
    } catch {
      return false;
    }
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

function dataOf(event: string): Json | undefined {
  const line = event.split("\n").find((each) => each.startsWith(DATA));
  if (line === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(line.slice(DATA.length));
    return typeof value === "object" && value !== null ? (value as Json) : undefined;
  } catch {
    return undefined;
  }
}

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
