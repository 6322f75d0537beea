/** The two courses of an answer: translated into another dialect, or passed on in its own. */
import { isPlainObject } from "../../core/is-plain-object.js";
import type { JsonObject } from "../../core/json-body.js";
import type { TokenCounts } from "../usage/record.js";
import { countsOf, laterUsage, type ReportedUsage } from "../usage/token-counts.js";
import {
  type AnswerPart,
  type AnswerReader,
  type AnswerWriter,
  failedInStream,
  MAX_CHARACTERS,
  malformed,
  objectAt,
} from "./conversation/answer-parts.js";
import type { AnswerCourse, ProviderEvent } from "./translation.js";

/** Upper bound of the pieces of an answer that is put together for a client. */
const MAX_PARTS = 1 << 20;

/** A provider may stream to a client that wants a whole answer, and the other way round. */
export class TranslatedCourse implements AnswerCourse {
  readonly isNative = false;
  #counts: TokenCounts | undefined;
  readonly #parts: AnswerPart[] = [];
  #numCharacters = 0;

  constructor(
    private readonly reader: AnswerReader,
    private readonly writer: AnswerWriter,
    private readonly isStream: boolean,
  ) {}

  event(event: JsonObject, { name }: ProviderEvent): string {
    return this.#take(this.reader.event(event, name));
  }

  end(): string {
    const last = this.#take(this.reader.end());
    return this.isStream ? last + this.writer.streamEnd() : JSON.stringify(this.writer.whole(this.#parts));
  }

  whole(body: JsonObject): Buffer {
    const parts = this.reader.whole(body);
    this.#note(parts);
    const text = this.isStream
      ? this.writer.stream(parts) + this.writer.streamEnd()
      : JSON.stringify(this.writer.whole(parts));
    return Buffer.from(text);
  }

  counts(): TokenCounts | undefined {
    return this.#counts;
  }

  #take(parts: readonly AnswerPart[]): string {
    this.#note(parts);
    if (this.isStream) return this.writer.stream(parts);
    if (this.#parts.length > MAX_PARTS) throw malformed(`at most ${MAX_PARTS} pieces`, this.#parts.length);
    for (const part of parts) {
      this.#parts.push(part);
      this.#numCharacters += textOf(part).length;
    }
    if (this.#numCharacters > MAX_CHARACTERS) throw malformed(`at most ${MAX_CHARACTERS} characters`, "more");
    return "";
  }

  #note(parts: readonly AnswerPart[]): void {
    for (const part of parts) if (part.kind === "usage") this.#counts = part.counts;
  }
}

function textOf(part: AnswerPart): string {
  if (part.kind === "text" || part.kind === "thought") return part.text;
  if (part.kind === "arguments") return part.json;
  return part.kind === "hidden-thought" ? part.data : "";
}

/** OpenAI's own dialect: counts that only the gateway asked for are removed from clients' streams. */
export class ChatCourse implements AnswerCourse {
  readonly isNative = true;
  #counts: TokenCounts | undefined;
  #isFinished = false;

  /**
   * @param includesUsage the client asked for the counts
   * @param isChat the path is chat completions, whose streams say when they are complete
   */
  constructor(
    private readonly includesUsage: boolean,
    private readonly isChat: boolean,
  ) {}

  event(event: JsonObject, { name, data }: ProviderEvent): string {
    if (this.isChat && isPlainObject(event.error)) throw failedInStream(event.error.message);
    const response = objectAt(event, "response");
    const usage = objectAt(event, "usage") ?? (response === undefined ? undefined : objectAt(response, "usage"));
    if (usage !== undefined) this.#counts = countsOf(usage) ?? this.#counts;
    const choices = Array.isArray(event.choices) ? event.choices : undefined;
    if (choices?.some((choice) => isPlainObject(choice) && choice.finish_reason != null) === true)
      this.#isFinished = true;
    if (usage !== undefined && choices?.length === 0 && !this.includesUsage) return "";
    // A client that did not ask for counts may not know the member.
    const shown =
      this.isChat && !this.includesUsage && "usage" in event ? JSON.stringify({ ...event, usage: undefined }) : data;
    return `${name === "" ? "" : `event: ${name}\n`}${lines(shown)}\n`;
  }

  end(): string {
    if (!this.isChat) return "";
    if (!this.#isFinished) throw malformed("a finish_reason", undefined);
    return "data: [DONE]\n\n";
  }

  whole(body: JsonObject, raw: Buffer): Buffer {
    const usage = objectAt(body, "usage");
    if (usage !== undefined) this.#counts = countsOf(usage) ?? this.#counts;
    return raw;
  }

  counts(): TokenCounts | undefined {
    return this.#counts;
  }
}

/** Anthropic's own dialect, from Anthropic itself or out of Bedrock's frames. */
export class MessagesCourse implements AnswerCourse {
  readonly isNative = true;
  #usage: ReportedUsage = {};
  #isStopped = false;

  event(event: JsonObject, raw: ProviderEvent): string {
    const inner = raw.name === "chunk" ? framed(event) : undefined;
    const data = inner?.data ?? raw.data;
    const told = inner?.event ?? event;
    const type = typeof told.type === "string" ? told.type : raw.name;
    if (type === "error") throw failedInStream(objectAt(told, "error")?.message);
    if (type === "message_stop") this.#isStopped = true;
    const message = objectAt(told, "message");
    this.#note(message === undefined ? undefined : objectAt(message, "usage"));
    this.#note(objectAt(told, "usage"));
    return `event: ${type.replace(/[\r\n]/g, "")}\n${lines(data)}\n`;
  }

  end(): string {
    if (!this.#isStopped) throw malformed("a message_stop", undefined);
    return "";
  }

  whole(body: JsonObject, raw: Buffer): Buffer {
    this.#note(objectAt(body, "usage"));
    return raw;
  }

  counts(): TokenCounts | undefined {
    return countsOf(this.#usage);
  }

  #note(usage: JsonObject | undefined): void {
    if (usage !== undefined) this.#usage = laterUsage(this.#usage, usage);
  }
}

/** Unwraps an event of Claude's API, which Bedrock wraps into its own in base64. */
export function framed(event: JsonObject): { readonly event: JsonObject; readonly data: string } {
  const data = typeof event.bytes === "string" ? Buffer.from(event.bytes, "base64").toString("utf8") : "";
  try {
    const value: unknown = JSON.parse(data);
    if (isPlainObject(value)) return { event: value, data };
  } catch {
    // The error below states the expected form.
  }
  throw malformed("the JSON of an event in a chunk", event.bytes);
}

const lines = (data: string): string =>
  data
    .split("\n")
    .map((line) => `data: ${line}\n`)
    .join("");
