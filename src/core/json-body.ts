/** Reads a request's body within a byte and a time limit, and parses it as JSON, regardless of its content type. */

import type { IncomingMessage } from "node:http";
import { MillraceError } from "./errors.js";
import { isPlainObject } from "./is-plain-object.js";
import { Pieces } from "./pieces.js";

interface BodyLimits {
  readonly maxBodyBytes: number;
  /** Time limit for a request's body after its headers. */
  readonly bodyTimeoutMs: number;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

export function tooLarge(limits: BodyLimits): MillraceError {
  return new MillraceError("body_too_large", `expected a body of at most ${limits.maxBodyBytes} bytes, got more`, {
    hint: "send less at once, or raise the server's body limit",
  });
}

/** The complete body; refused as soon as it is too large or too slow. */
export async function readIncoming(incoming: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  assertUncompressed(incoming);
  if (Number(incoming.headers["content-length"] ?? 0) > limits.maxBodyBytes) throw tooLarge(limits);
  return await new Promise((resolve, reject) => {
    const pieces = new Pieces();
    const settle = (finish: () => void) => {
      clearTimeout(timer);
      incoming.off("data", onData).off("end", onEnd).off("close", onClose);
      finish();
    };
    const onData = (chunk: Buffer) => {
      if (pieces.numBytes + chunk.length > limits.maxBodyBytes) settle(() => reject(tooLarge(limits)));
      else pieces.push(chunk);
    };
    const onEnd = () => settle(() => resolve(pieces.take()));
    const onClose = () =>
      settle(() => reject(new MillraceError("client_closed", "expected the whole body, got a closed connection")));
    const timer = setTimeout(() => {
      const message = `expected the whole body within ${limits.bodyTimeoutMs} ms, got ${pieces.numBytes} bytes`;
      settle(() => reject(new MillraceError("request_timeout", message)));
    }, limits.bodyTimeoutMs);
    incoming.on("data", onData).on("end", onEnd).on("close", onClose);
    // A reset arrives as an error before the close; unhandled, it would end the process.
    incoming.on("error", () => {});
    if (incoming.destroyed && !incoming.readableEnded) onClose();
  });
}

/** Smaller bodies are parsed on the main thread; see body-reader.ts. */
export const LARGE_BODY_BYTES = 256 * 1024;

/**
 * No field nests deeper. Deeper JSON takes JSON.parse more than linear time, and walks of its result overflow the
 * stack.
 */
export const MAX_JSON_DEPTH = 64;

/**
 * Commas, colons and opening brackets outside strings: each costs the main thread up to a microsecond, and more if
 * fields are checked.
 */
export const MAX_JSON_MARKS = 32 * 1024;

/** Backslashes in strings: the parser takes strings with many of them apart character by character. */
export const MAX_JSON_ESCAPES = 2 * 1024 * 1024;

/** Counts of a body's parts, from its bytes. They are meaningless for malformed JSON, which the parser refuses. */
interface JsonShape {
  readonly isTooDeep: boolean;
  /** Commas, colons and opening brackets outside strings. */
  readonly numMarks: number;
  /** Colons among these marks: one for each member of an object. */
  readonly numMembers: number;
  /** Commas among these marks in lists of only integers, which may be token ids. */
  readonly numIdCommas: number;
  /** Backslashes that begin an escape. */
  readonly numEscapes: number;
}

/** @param mostParts stops reading beyond this number of marks, without the commas between ids */
export function shapeOf(bytes: Uint8Array, mostParts = Number.POSITIVE_INFINITY): JsonShape {
  /** At each depth: the number of commas in a list of only integers so far; −1: not such a list. */
  const idCommas = new Int32Array(MAX_JSON_DEPTH + 2).fill(-1);
  let [depth, numMarks, numMembers, numIdCommas, numEscapes, last] = [0, 0, 0, 0, 0, 0];
  let isFraction = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte <= SPACE) continue;
    if (byte === QUOTE) {
      for (i++; i < bytes.length && bytes[i] !== QUOTE; i++) {
        if (bytes[i] !== BACKSLASH) continue;
        numEscapes++;
        i++;
      }
    } else if (byte === COMMA || (byte | 0x20) === CLOSE_BRACE) {
      const isComma = byte === COMMA;
      if (isComma) numMarks++;
      if (idCommas[depth]! >= 0) {
        if (last >= DIGIT_0 && last <= DIGIT_9 && !isFraction) {
          if (isComma) {
            numIdCommas++;
            idCommas[depth]!++;
          }
        } else {
          numIdCommas -= idCommas[depth]!;
          idCommas[depth] = -1;
        }
      }
      isFraction = false;
      if (!isComma && depth > 0) depth--;
    } else if (byte === COLON) {
      numMarks++;
      numMembers++;
    }
    // "[" and "{", "]" and "}" differ in one bit; no other byte in these places does.
    else if ((byte | 0x20) === OPEN_BRACE) {
      numMarks++;
      if (++depth > MAX_JSON_DEPTH) return { isTooDeep: true, numMarks, numMembers, numIdCommas, numEscapes };
      idCommas[depth] = byte === OPEN_BRACE ? -1 : 0;
      isFraction = false;
    } else if (byte === DOT || (byte | 0x20) === LETTER_E) isFraction = true;
    last = byte;
    if (numMarks - numIdCommas > mostParts) break;
  }
  return { isTooDeep: false, numMarks, numMembers, numIdCommas, numEscapes };
}

/** Whether arrays and objects nest too deeply. Text that is not JSON may pass, since the parser refuses it. */
export function isTooDeep(bytes: Uint8Array): boolean {
  return shapeOf(bytes).isTooDeep;
}

/** The JSON object in the bytes; undefined: another value, or too deep nesting. */
export function jsonObjectIn(bytes: Buffer): JsonObject | undefined {
  try {
    if (isTooDeep(bytes)) return undefined;
    const value: unknown = JSON.parse(bytes.toString("utf8"));
    return isPlainObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const DOT = 0x2e;
const DIGIT_0 = 0x30;
const DIGIT_9 = 0x39;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const LETTER_E = 0x65;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

export type JsonObject = Readonly<Record<string, unknown>>;

const tooDeep = (): MillraceError =>
  new MillraceError("invalid_json", `expected JSON nested at most ${MAX_JSON_DEPTH} deep, got more`);

export function tooManyMarks(): MillraceError {
  return new MillraceError(
    "invalid_json",
    `expected JSON with at most ${MAX_JSON_MARKS} commas, colons and opening brackets beside lists of token ids, got more`,
    { hint: "Send fewer messages, tools or values at once." },
  );
}

function tooManyEscapes(): MillraceError {
  return new MillraceError(
    "invalid_json",
    `expected JSON with at most ${MAX_JSON_ESCAPES} escapes in its strings, got more`,
    { hint: "Write characters as they are where JSON allows it, or send less text at once." },
  );
}

/** Bodies are never decompressed: a few compressed bytes can become very many. */
function assertUncompressed({ headers }: IncomingMessage): void {
  const encoding = headers["content-encoding"]?.toLowerCase() || "identity";
  if (encoding === "identity") return;
  const message = `expected a body without Content-Encoding, got ${JSON.stringify(encoding.slice(0, 40))}`;
  throw new MillraceError("invalid_request", message, { hint: "send the body uncompressed" });
}

function notJson(numBytes: number, fault: string): MillraceError {
  return new MillraceError("invalid_json", `expected a JSON object as body, got ${fault} (${numBytes} bytes)`);
}

/** Refuses bodies that nest too deeply, or have too many parts beside possible lists of token ids. */
export function assertShape({ isTooDeep, numMarks, numIdCommas, numEscapes }: JsonShape): void {
  if (isTooDeep) throw tooDeep();
  assertFewMarks(numMarks - numIdCommas);
  if (numEscapes > MAX_JSON_ESCAPES) throw tooManyEscapes();
}

/** @param numMarks without the commas in lists of ids */
export function assertFewMarks(numMarks: number): void {
  if (numMarks > MAX_JSON_MARKS) throw tooManyMarks();
}

export function textOf(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw notJson(bytes.length, "bytes that are not UTF-8");
  }
}

/** @param numBytes size of the text's bytes */
export function objectOf(text: string, numBytes: number): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // V8's message quotes the text around the fault, which is prompt text, so only the kind of fault is reported.
    throw notJson(numBytes, text.trim() === "" ? "nothing" : "text that does not parse");
  }
  if (isPlainObject(value)) return value as JsonObject;
  const got = Array.isArray(value) ? "an array" : value === null ? "null" : `a ${typeof value}`;
  throw new MillraceError("invalid_json", `expected a JSON object as body, got ${got}`);
}

/**
 * Refuses JSON in which an object has a member twice: parsers disagree on the value that counts.
 * @param numMembers number of members in the text
 */
export function assertOnce(body: JsonObject, numMembers: number): void {
  if (countMembers(body) === numMembers) return;
  throw new MillraceError("invalid_json", "expected each member of an object once, got one twice", {
    hint: "Send each name once: servers disagree on which of two values counts.",
  });
}

/** Safe from deep recursion: parsed JSON nests at most MAX_JSON_DEPTH deep. */
function countMembers(value: unknown): number {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return 0;
  let count = 0;
  if (Array.isArray(value)) {
    for (const each of value) if (typeof each === "object") count += countMembers(each);
    return count;
  }
  const values = Object.values(value);
  for (const each of values) if (typeof each === "object") count += countMembers(each);
  return count + values.length;
}

/** Serialises a parsed body: its long lists of ids are Int32Arrays, which JSON.stringify would write as objects. */
export function bodyJson(body: JsonObject): string {
  const plain = Object.entries(body).map(
    ([name, value]) => [name, Array.isArray(value) ? value.map(plainList) : plainList(value)] as const,
  );
  // An assignment to a member called __proto__ would drop it.
  return JSON.stringify(Object.fromEntries(plain));
}

const plainList = (value: unknown): unknown => (value instanceof Int32Array ? Array.from(value) : value);
