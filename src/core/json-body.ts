/** Reads a request's body with a byte and a time limit, and parses it as JSON. The content type is not looked at. */
import type { IncomingMessage } from "node:http";
import { MillraceError } from "./errors.js";

export interface BodyLimits {
  readonly maxBodyBytes: number;
  /** A request's body must have arrived within this time of its headers. */
  readonly bodyTimeoutMs: number;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

export function tooLarge(limits: BodyLimits): MillraceError {
  return new MillraceError("body_too_large", `expected a body of at most ${limits.maxBodyBytes} bytes, got more`, {
    hint: "send less at once, or raise the server's body limit",
  });
}

/** The whole body, refused as soon as it is too large or too slow. */
export function readIncoming(incoming: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  if (Number(incoming.headers["content-length"] ?? 0) > limits.maxBodyBytes) return Promise.reject(tooLarge(limits));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let numBytes = 0;
    const settle = (finish: () => void) => {
      clearTimeout(timer);
      incoming.off("data", onData).off("end", onEnd).off("close", onClose);
      finish();
    };
    const onData = (chunk: Buffer) => {
      numBytes += chunk.length;
      if (numBytes > limits.maxBodyBytes) settle(() => reject(tooLarge(limits)));
      else chunks.push(chunk);
    };
    const onEnd = () => settle(() => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, numBytes)));
    const onClose = () =>
      settle(() => reject(new MillraceError("client_closed", "expected the whole body, got a closed connection")));
    const timer = setTimeout(() => {
      const message = `expected the whole body within ${limits.bodyTimeoutMs} ms, got ${numBytes} bytes`;
      settle(() => reject(new MillraceError("request_timeout", message)));
    }, limits.bodyTimeoutMs);
    incoming.on("data", onData).on("end", onEnd).on("close", onClose);
    // A reset arrives as an error before the close; unhandled it would end the process.
    incoming.on("error", () => {});
    if (incoming.destroyed && !incoming.readableEnded) onClose();
  });
}

/** The main thread parses what is smaller by itself; see body-reader.ts. */
export const LARGE_BODY_BYTES = 256 * 1024;

/** No field goes deeper; beyond it JSON.parse gets slower than linear, and walks of what it made overflow the stack. */
export const MAX_JSON_DEPTH = 64;

/** Commas, colons and opening brackets outside of strings: each costs the main thread up to a microsecond, and more where fields are checked. */
export const MAX_JSON_MARKS = 32 * 1024;

/** Backslashes in strings: the parser takes a string with many of them apart character by character. */
export const MAX_JSON_ESCAPES = 2 * 1024 * 1024;

/** What a body is made of, by its bytes. Text that is no JSON may have any: the parser refuses it. */
export interface JsonShape {
  readonly isTooDeep: boolean;
  /** Commas, colons and opening brackets outside of strings. */
  readonly numMarks: number;
  /** Of these, the commas behind numbers in lists. */
  readonly numNumberCommas: number;
  /** Backslashes that begin an escape. */
  readonly numEscapes: number;
}

export function shapeOf(bytes: Uint8Array): JsonShape {
  /** Whether the bracket at each depth is that of a list. */
  const isList = new Uint8Array(MAX_JSON_DEPTH + 2);
  let [depth, numMarks, numNumberCommas, numEscapes, last] = [0, 0, 0, 0, 0];
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte <= SPACE) continue;
    if (byte === QUOTE) {
      for (i++; i < bytes.length && bytes[i] !== QUOTE; i++) {
        if (bytes[i] !== BACKSLASH) continue;
        numEscapes++;
        i++;
      }
    } else if (byte === COMMA) {
      numMarks++;
      if (isList[depth] === 1 && last >= DIGIT_0 && last <= DIGIT_9) numNumberCommas++;
    } else if (byte === COLON) numMarks++;
    // "[" and "{", "]" and "}" differ in one bit, which nothing else in these places does.
    else if ((byte | 0x20) === OPEN_BRACE) {
      numMarks++;
      if (++depth > MAX_JSON_DEPTH) return { isTooDeep: true, numMarks, numNumberCommas, numEscapes };
      isList[depth] = byte === OPEN_BRACE ? 0 : 1;
    } else if ((byte | 0x20) === CLOSE_BRACE && depth > 0) depth--;
    last = byte;
  }
  return { isTooDeep: false, numMarks, numNumberCommas, numEscapes };
}

/** Whether arrays and objects nest too deeply. Text that is no JSON may pass: the parser refuses it. */
export function isTooDeep(bytes: Uint8Array): boolean {
  return shapeOf(bytes).isTooDeep;
}

const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const DIGIT_0 = 0x30;
const DIGIT_9 = 0x39;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

export type JsonObject = Readonly<Record<string, unknown>>;

const tooDeep = (): MillraceError =>
  new MillraceError("invalid_json", `expected JSON nested at most ${MAX_JSON_DEPTH} deep, got more`);

function tooManyMarks(): MillraceError {
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

function notJson(numBytes: number, fault: string): MillraceError {
  return new MillraceError("invalid_json", `expected a JSON object as body, got ${fault} (${numBytes} bytes)`);
}

/** Refuses what nests too deeply, and what has too many parts. @param mayHaveIds there may be any number of numbers in lists */
export function assertShape(shape: JsonShape, mayHaveIds: boolean): void {
  if (shape.isTooDeep) throw tooDeep();
  if (shape.numMarks - (mayHaveIds ? shape.numNumberCommas : 0) > MAX_JSON_MARKS) throw tooManyMarks();
  if (shape.numEscapes > MAX_JSON_ESCAPES) throw tooManyEscapes();
}

export function textOf(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw notJson(bytes.length, "bytes that are not UTF-8");
  }
}

/** @param numBytes that the text was */
export function objectOf(text: string, numBytes: number): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // V8's message quotes the text around the fault: that is prompt text, so only the kind of fault is told.
    throw notJson(numBytes, "text that does not parse");
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  const got = Array.isArray(value) ? "an array" : value === null ? "null" : `a ${typeof value}`;
  throw new MillraceError("invalid_json", `expected a JSON object as body, got ${got}`);
}

/** A body as it was read, as JSON again: its long lists of ids are Int32Arrays, which JSON would write otherwise. */
export function bodyJson(body: JsonObject): string {
  const plain = Object.entries(body).map(
    ([name, value]) => [name, Array.isArray(value) ? value.map(plainList) : plainList(value)] as const,
  );
  // An assignment to a member called __proto__ would drop it.
  return JSON.stringify(Object.fromEntries(plain));
}

const plainList = (value: unknown): unknown => (value instanceof Int32Array ? Array.from(value) : value);
