/**
 * Turns the bytes of a provider's answer into those of a client's dialect, piece by piece. The provider's bytes are
 * untrusted: every size is bounded, and unreadable bytes cause an error of their own.
 */

import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import { isTooDeep, type JsonObject } from "../../core/json-body.js";
import type { AnswerHead } from "../answer.js";
import type { TokenCounts } from "../usage/record.js";
import { failedInStream } from "./conversation/answer-parts.js";
import { DROPPED_HEADER } from "./conversation/losses.js";
import { type ClientDialect, clientErrorBody, clientStatus, readProviderError } from "./provider-error.js";
import { FrameReader } from "./wire/aws-frames.js";
import { ByteList } from "./wire/byte-list.js";
import { encodingOf, mediaTypeOf } from "./wire/encoding.js";
import { retryDelayOf } from "./wire/rate-limits.js";
import type { Redactor } from "./wire/redact.js";
import { EventReader } from "./wire/sse.js";

/** An event of a provider's stream, from either framing. */
export interface ProviderEvent {
  readonly name: string;
  readonly data: string;
}

/** The two halves of a translation: reading the provider's answer, and writing the client's. */
export interface AnswerCourse {
  /** Whether the provider speaks the client's dialect. */
  readonly isNative: boolean;
  /** @returns the client's bytes */
  event(event: JsonObject, raw: ProviderEvent): string;
  /** Data that is not JSON ends the stream, as OpenAI's [DONE] does. Throws if the answer is not complete. */
  end(): string;
  /** @param raw the bytes of the answer */
  whole(body: JsonObject, raw: Buffer): Buffer;
  counts(): TokenCounts | undefined;
}

interface TranslationTerms {
  /** Names the provider in messages. */
  readonly provider: string;
  readonly client: ClientDialect;
  /** The client wants a stream. */
  readonly isStream: boolean;
  readonly redactor: Redactor;
  /** Fields of the request that were left out. */
  readonly dropped: readonly string[];
  readonly course: AnswerCourse;
}

const MAX_WHOLE_BYTES = 16 * 2 ** 20;
const MAX_ERROR_BYTES = 64 * 1024;
const REQUEST_ID = /^[\w-]{1,128}$/;

type Mode = "error" | "whole" | "sse" | "frames";

export class Translation {
  #mode: Mode = "whole";
  #status = 0;
  #headers: IncomingHttpHeaders = {};
  #isDone = false;
  readonly #events = new EventReader();
  readonly #frames = new FrameReader();
  /** A whole answer, or the beginning of an error. */
  readonly #held = new ByteList();
  #failure: MillraceError | undefined;

  constructor(private readonly terms: TranslationTerms) {}

  /** Why the provider's answer cannot be read any further; undefined: no failure. */
  get failure(): MillraceError | undefined {
    return this.#failure;
  }

  /** Fails at once if the head is not that of an answer. */
  begin(status: number, headers: IncomingHttpHeaders): void {
    this.#status = status;
    this.#headers = headers;
    this.#guarded(() => {
      this.#mode = this.#modeOf(status, headers);
    });
  }

  /** Head of the client's answer, at its first byte or at its end. */
  head(): AnswerHead {
    const { client, isStream, course } = this.terms;
    const isStreamed = this.#mode === "sse" || this.#mode === "frames";
    const isEventStream = this.#mode !== "error" && (course.isNative ? isStreamed : isStream);
    const status = this.#status >= 400 ? clientStatus(this.#status, client) : this.#status;
    return { status, headers: this.#clientHeaders(isEventStream), isEventStream };
  }

  /** @returns the client's bytes, possibly none; a failure keeps the bytes before it */
  push(chunk: Buffer): Buffer {
    return this.#guarded((give) => {
      if (this.#mode === "sse") this.#events.push(chunk, (event) => give(this.#event(event)));
      else if (this.#mode === "frames")
        this.#frames.push(chunk, ({ headers, payload }) => give(this.#frame(headers, payload)));
      else this.#hold(chunk);
    });
  }

  /** @returns the last bytes */
  end(): Buffer {
    return this.#guarded((give) => {
      if (this.#mode === "error") give(this.#error(this.#held.view()));
      else if (this.#mode === "whole") {
        const raw = this.#held.view();
        const body = this.#object(raw.toString("utf8"));
        const whole = this.terms.course.whole(body, raw);
        // Some hosts send errors with status 200.
        give(isPlainObject(body.error) ? this.terms.redactor.text(whole.toString("utf8")) : whole);
      } else {
        if (this.#mode === "frames") this.#frames.end();
        give(this.#end());
      }
    });
  }

  /** The text of a provider's error answer, as far as it has been read. */
  get errorBody(): Buffer | undefined {
    return this.#mode === "error" ? this.#held.view() : undefined;
  }

  counts(): TokenCounts | undefined {
    return this.terms.course.counts();
  }

  #clientHeaders(isEventStream: boolean): OutgoingHttpHeaders {
    const { dropped, redactor } = this.terms;
    const { "x-request-id": xRequestId, "request-id": requestId, "x-amzn-requestid": amazonId } = this.#headers;
    const id = [xRequestId, requestId, amazonId].find((each) => typeof each === "string" && REQUEST_ID.test(each));
    return {
      "content-type": isEventStream ? "text/event-stream; charset=utf-8" : "application/json",
      ...(isEventStream ? { "cache-control": "no-cache" } : {}),
      ...(dropped.length === 0 ? {} : { [DROPPED_HEADER]: dropped.join(", ") }),
      // The provider's support asks for this id.
      ...(id === undefined ? {} : { "x-millrace-upstream-request-id": redactor.own(String(id)) }),
      ...this.#retryAfter(),
    };
  }

  /** Google states the time in the body. */
  #retryAfter(): OutgoingHttpHeaders {
    if (this.#status < 400) return {};
    const { "retry-after": told } = this.#headers;
    if (told !== undefined) return told.length <= 64 ? { "retry-after": this.terms.redactor.own(told) } : {};
    const ms = this.#status === 429 ? retryDelayOf(this.#held.view()) : undefined;
    return ms === undefined ? {} : { "retry-after": String(Math.ceil(ms / 1000)) };
  }

  #modeOf(status: number, headers: IncomingHttpHeaders): Mode {
    const encoding = encodingOf(headers);
    const type = mediaTypeOf(headers);
    // The gateway asks for no encoding, and follows no redirect: the next host must not get the key.
    if (encoding !== undefined) {
      throw this.#unexpected(`the encoding ${JSON.stringify(encoding.slice(0, 20))}`);
    }
    if (status < 200 || (status >= 300 && status < 400)) throw this.#unexpected(`status ${status}`);
    if (status >= 400) return "error";
    if (type.startsWith("text/event-stream")) return "sse";
    if (type.startsWith("application/vnd.amazon.eventstream")) return "frames";
    if (type.startsWith("application/json")) return "whole";
    throw this.#unexpected(`the type ${JSON.stringify(type.slice(0, 60))}`);
  }

  #hold(chunk: Buffer): void {
    if (this.#mode === "error") {
      // The beginning of an error names its cause.
      this.#held.append(chunk.subarray(0, MAX_ERROR_BYTES - this.#held.length));
      return;
    }
    if (this.#held.length + chunk.length > MAX_WHOLE_BYTES)
      throw this.#unexpected(`more than ${MAX_WHOLE_BYTES} bytes`);
    this.#held.append(chunk);
  }

  #event(event: ProviderEvent): string {
    // Some hosts send more after [DONE].
    if (this.#isDone) return "";
    if (event.data.trim() !== "[DONE]") return this.terms.course.event(this.#object(event.data), event);
    return this.#end();
  }

  #frame(headers: ReadonlyMap<string, string>, payload: Buffer): string {
    const kind = headers.get(":message-type");
    const data = payload.toString("utf8");
    if (kind === "exception" || kind === "error") {
      const what = headers.get(":exception-type") ?? headers.get(":error-code") ?? "an error";
      throw failedInStream(`${what.slice(0, 80)}: ${messageIn(data) ?? headers.get(":error-message") ?? ""}`);
    }
    if (kind !== "event") return "";
    const name = headers.get(":event-type") ?? "";
    return this.#event({ name, data });
  }

  #end(): string {
    if (this.#isDone) return "";
    this.#isDone = true;
    return this.terms.course.end();
  }

  #error(body: Buffer): string {
    const { provider, client, redactor } = this.terms;
    const { message, code, ...own } = readProviderError(provider, this.#status, this.#headers, body, redactor);
    const error = { message, code, ...(this.terms.course.isNative ? own : {}) };
    return JSON.stringify(clientErrorBody(error, clientStatus(this.#status, client), client));
  }

  #object(text: string): JsonObject {
    // Beyond a depth, the parser is slower than linear.
    if (!isTooDeep(Buffer.from(text))) {
      try {
        const value: unknown = JSON.parse(text);
        if (isPlainObject(value)) return value;
      } catch {
        // The error below states the expected form; the parser's own would quote the answer.
      }
    }
    throw this.#unexpected("something that is no JSON object");
  }

  #unexpected(got: string): MillraceError {
    return new MillraceError("upstream_failed", `expected an answer of ${this.terms.provider}'s API, got ${got}`);
  }

  /** After a failure, reads nothing more. */
  #guarded(read: (give: (made: string | Buffer) => void) => void): Buffer {
    const made: Buffer[] = [];
    if (this.#failure === undefined) {
      try {
        read((piece) => {
          const bytes = typeof piece === "string" ? Buffer.from(piece) : Buffer.from(piece);
          if (bytes.length > 0) made.push(this.terms.redactor.ownBytes(bytes));
        });
      } catch (thrown) {
        const { code, message } = toMillraceError(thrown, "upstream_failed");
        this.#failure = new MillraceError(code, this.terms.redactor.text(message));
        this.#held.clear();
      }
    }
    return made.length === 1 ? made[0]! : Buffer.concat(made);
  }
}

function messageIn(data: string): string | undefined {
  const found = /"message"\s*:\s*"((?:[^"\\]|\\.){0,300})"/i.exec(data.slice(0, 4096));
  return found?.[1];
}
