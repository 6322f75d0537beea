/**
 * Takes the elements of `requests` out of a JSON body as it arrives, so that neither the body nor its parse is ever
 * whole in memory.
 */
import { MillraceError } from "../../core/errors.js";
import { Pieces } from "../../core/pieces.js";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const SPACE = 0x20;
const ZERO = 0x30;
/** Upper bound of the body without its elements: two bytes for each of them, and a few words. */
const MAX_FRAME_BYTES = 1024 * 1024;

interface SplitLimits {
  readonly maxElements: number;
  readonly maxElementBytes: number;
}

/**
 * Elements are objects in an array that is a member of the body. The rest of the body is small, and is parsed at the
 * end: this shows whether it has the form {"requests":[…]}. Parsing the elements shows whether they are JSON.
 */
export class RequestSplitter {
  readonly #frame = Buffer.alloc(MAX_FRAME_BYTES);
  #numFrameBytes = 0;
  readonly #parts = new Pieces();
  #numElements = 0;
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  /** The brackets that open the outer two levels. */
  #opened: number[] = [];

  constructor(private readonly limits: SplitLimits) {}

  get numElements(): number {
    return this.#numElements;
  }

  /**
   * @returns the elements that end in this chunk, each as one line. Throws invalid_json, invalid_request or
   * body_too_large
   */
  push(chunk: Buffer): Buffer[] {
    const elements: Buffer[] = [];
    let from = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]!;
      const isElement = this.#depth > 2;
      if (this.#isInString) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (byte === BACKSLASH) this.#isEscaped = true;
        else if (byte === QUOTE) this.#isInString = false;
      } else if (byte === QUOTE) this.#isInString = true;
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        if (this.#depth < 2) this.#opened[this.#depth] = byte;
        this.#depth++;
        const isFirst = this.#depth === 3 && byte === OPEN_BRACE;
        if (isFirst && this.#opened[0] === OPEN_BRACE && this.#opened[1] === OPEN_BRACKET) {
          from = at;
          continue;
        }
        if (this.#depth === 3) throw notRequests();
      } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
        this.#depth--;
        if (this.#depth < 0) throw notRequests();
        if (isElement && this.#depth === 2) {
          this.#add(chunk.subarray(from, at + 1));
          elements.push(this.#takeElement());
          this.#addFrame(ZERO);
          continue;
        }
      } else if (isElement && byte < SPACE) chunk[at] = SPACE;
      if (!isElement) this.#addFrame(byte);
    }
    if (this.#depth > 2) this.#add(chunk.subarray(from));
    return elements;
  }

  /** Throws if the body is not whole. */
  end(): void {
    let body: unknown;
    try {
      body = JSON.parse(this.#frame.toString("utf8", 0, this.#numFrameBytes));
    } catch {
      throw new MillraceError("invalid_json", "expected a JSON object as body, got text that does not parse");
    }
    const { requests, ...others } = body as { readonly requests?: unknown };
    const [unknown] = Object.keys(others);
    if (unknown !== undefined) {
      const field = unknown.slice(0, 80);
      throw new MillraceError("unknown_field", `expected no field beside requests, got ${field}`, { param: field });
    }
    const isList =
      Array.isArray(requests) && requests.length === this.#numElements && requests.every((each) => each === 0);
    if (!isList || this.#numElements === 0) throw notRequests();
  }

  #add(part: Buffer): void {
    const { maxElementBytes } = this.limits;
    if (this.#parts.numBytes + part.length > maxElementBytes) {
      const message = `expected requests of at most ${maxElementBytes} bytes each, got a larger one at requests[${this.#numElements}]`;
      throw new MillraceError("body_too_large", message, { param: "requests" });
    }
    this.#parts.push(Buffer.from(part));
  }

  #takeElement(): Buffer {
    const element = this.#parts.take();
    if (++this.#numElements <= this.limits.maxElements) return element;
    const message = `expected at most ${this.limits.maxElements} requests, got more`;
    throw new MillraceError("invalid_request", message, { param: "requests" });
  }

  #addFrame(byte: number): void {
    if (this.#numFrameBytes === MAX_FRAME_BYTES) throw notRequests();
    this.#frame[this.#numFrameBytes++] = byte;
  }
}

function notRequests(): MillraceError {
  return new MillraceError(
    "invalid_request",
    'expected a body {"requests":[{"custom_id":…,"params":{…}},…]} with at least one request, got something else',
    { param: "requests" },
  );
}
