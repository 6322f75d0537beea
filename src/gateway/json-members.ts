/**
 * Finds the members of a JSON object in its bytes without parsing their values, so that large values can be read apart
 * from small ones.
 */
import { MillraceError } from "../core/errors.js";

/** The bytes of a value: [start, end). */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const MAX_NAME_BYTES = 256;

const decoder = new TextDecoder("utf-8", { fatal: true });

/**
 * Only the outermost structure is checked; parsing the values shows whether they are JSON. Throws invalid_json if the
 * bytes are not an object, have a member twice or continue after it.
 */
export function membersOf(bytes: Uint8Array): ReadonlyMap<string, ByteRange> {
  const members = new Map<string, ByteRange>();
  let at = skipSpace(bytes, 0);
  if (bytes[at] !== OPEN_BRACE) throw invalid("a JSON object", "something else");
  at = skipSpace(bytes, at + 1);
  while (bytes[at] !== CLOSE_BRACE) {
    const nameEnd = bytes[at] === QUOTE ? endOfString(bytes, at) : -1;
    if (nameEnd < 0 || nameEnd - at > MAX_NAME_BYTES) throw invalid("the name of a member", "something else");
    const name = plainName(bytes, at + 1, nameEnd - 1) ?? parsed(bytes, { start: at, end: nameEnd });
    at = skipSpace(bytes, nameEnd);
    if (bytes[at] !== COLON) throw invalid("a colon behind a member's name", "something else");
    const start = skipSpace(bytes, at + 1);
    const end = endOfValue(bytes, start);
    if (end === start) throw invalid("a value behind each member's name", "none");
    if (typeof name !== "string" || members.has(name)) throw invalid("each member once", "one twice");
    members.set(name, { start, end: trimEnd(bytes, start, end) });
    at = end;
    if (bytes[at] === COMMA) {
      at = skipSpace(bytes, at + 1);
      if (bytes[at] !== QUOTE) throw invalid("a member behind each comma", "none");
    } else if (bytes[at] !== CLOSE_BRACE) throw invalid("the object's end", "the text's");
  }
  if (skipSpace(bytes, at + 1) !== bytes.length) throw invalid("nothing behind the object", "more text");
  return members;
}

/** A name of ASCII letters, digits and signs, as nearly all are. @returns undefined: the name has to be parsed */
function plainName(bytes: Uint8Array, start: number, end: number): string | undefined {
  let name = "";
  for (let i = start; i < end; i++) {
    const byte = bytes[i]!;
    if (byte < 0x20 || byte > 0x7e || byte === BACKSLASH) return undefined;
    name += String.fromCharCode(byte);
  }
  return name;
}

/** @returns the parsed value of a small range; throws invalid_json */
export function parsed(bytes: Uint8Array, { start, end }: ByteRange): unknown {
  try {
    return JSON.parse(decoder.decode(bytes.subarray(start, end)));
  } catch {
    throw invalid("JSON in UTF-8", "something else");
  }
}

function invalid(expected: string, got: string): MillraceError {
  return new MillraceError("invalid_json", `expected ${expected}, got ${got}`);
}

function skipSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  while (bytes[at] === 0x20 || bytes[at] === 0x09 || bytes[at] === 0x0d || bytes[at] === 0x0a) at++;
  return at;
}

function trimEnd(bytes: Uint8Array, start: number, end: number): number {
  let at = end;
  while (at > start && bytes[at - 1]! <= 0x20) at--;
  return at;
}

/** @returns the index after the closing quote; −1: there is none */
function endOfString(bytes: Uint8Array, start: number): number {
  for (let at = start + 1; at < bytes.length; at++) {
    if (bytes[at] === BACKSLASH) at++;
    else if (bytes[at] === QUOTE) return at + 1;
  }
  return -1;
}

/** @returns the index of the comma or bracket after the value that begins at `start`, or of the end of the bytes */
function endOfValue(bytes: Uint8Array, start: number): number {
  let depth = 0;
  for (let at = start; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) {
      const end = endOfString(bytes, at);
      if (end < 0) return bytes.length;
      at = end - 1;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++;
    // "]" and "}" differ from their opening brackets by two.
    else if (byte === OPEN_BRACE + 2 || byte === OPEN_BRACKET + 2) {
      if (depth === 0) return at;
      depth--;
    } else if (byte === COMMA && depth === 0) return at;
  }
  return bytes.length;
}
