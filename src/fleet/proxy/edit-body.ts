/** Changes single fields of a request's JSON in its bytes: parsing and writing it anew would round large numbers and cost more than all the rest. */

import { bodyJson } from "../../core/json-body.js";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

export interface BodyEdit {
  /** In place of the request's own. */
  readonly model?: string | undefined;
  /** Where the request has none. */
  readonly seed?: number | undefined;
  /** In place of the request's own. */
  readonly cacheSalt?: string | undefined;
}

/** @param bytes a JSON object that `body` was parsed from */
export function editBody(bytes: Buffer, body: Readonly<Record<string, unknown>>, edit: BodyEdit): Buffer {
  if (edit.cacheSalt !== undefined && "cache_salt" in body) {
    // Rare enough to be written anew.
    const salted = { ...body, cache_salt: edit.cacheSalt };
    return editBody(Buffer.from(bodyJson(salted)), salted, { ...edit, cacheSalt: undefined });
  }
  let edited = edit.cacheSalt === undefined ? bytes : insert(bytes, "cache_salt", edit.cacheSalt);
  if (edit.model !== undefined && edit.model !== body.model) {
    edited = "model" in body ? replaceModel(edited, body, edit.model) : insert(edited, "model", edit.model);
  }
  return edit.seed === undefined || "seed" in body ? edited : insert(edited, "seed", edit.seed);
}

/** As the first field. */
function insert(bytes: Buffer, name: string, value: string | number): Buffer {
  const start = bytes.indexOf(OPEN_BRACE) + 1;
  const comma = bytes[skipSpace(bytes, start)] === CLOSE_BRACE ? "" : ",";
  const field = Buffer.from(`${JSON.stringify(name)}:${JSON.stringify(value)}${comma}`);
  return Buffer.concat([bytes.subarray(0, start), field, bytes.subarray(start)]);
}

function replaceModel(bytes: Buffer, body: Readonly<Record<string, unknown>>, model: string): Buffer {
  const range = findModel(bytes);
  // Spelled with escapes, or there twice: rare enough to be written anew.
  if (range === undefined) return Buffer.from(bodyJson({ ...body, model }));
  return Buffer.concat([bytes.subarray(0, range.start), Buffer.from(JSON.stringify(model)), bytes.subarray(range.end)]);
}

/** Where the string stands that is the outermost object's `model`; undefined unless there is exactly one written plainly. */
function findModel(bytes: Buffer): { readonly start: number; readonly end: number } | undefined {
  let depth = 0;
  let found: { readonly start: number; readonly end: number } | undefined;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte === QUOTE) {
      const end = stringEnd(bytes, i);
      const colon = skipSpace(bytes, end);
      if (depth === 1 && bytes[colon] === COLON) {
        // An escaped name could be this one too.
        const name = bytes.toString("latin1", i + 1, end - 1);
        if (name.includes("\\")) return undefined;
        if (name === "model") {
          const start = skipSpace(bytes, colon + 1);
          if (found !== undefined || bytes[start] !== QUOTE) return undefined;
          found = { start, end: stringEnd(bytes, start) };
        }
      }
      i = end - 1;
    }
    // "[" and "{", "]" and "}" differ in one bit, which nothing else in these places does.
    else if ((byte | 0x20) === OPEN_BRACE) depth++;
    else if ((byte | 0x20) === CLOSE_BRACE) depth--;
  }
  return found;
}

/** Behind the closing quote of the string that begins at `start`. */
function stringEnd(bytes: Buffer, start: number): number {
  for (let end = bytes.indexOf(QUOTE, start + 1); end >= 0; end = bytes.indexOf(QUOTE, end + 1)) {
    let numBackslashes = 0;
    while (bytes[end - 1 - numBackslashes] === BACKSLASH) numBackslashes++;
    if (numBackslashes % 2 === 0) return end + 1;
  }
  return bytes.length;
}

/** JSON's white space is all below 0x21. */
function skipSpace(bytes: Buffer, start: number): number {
  let i = start;
  while (i < bytes.length && bytes[i]! <= 0x20) i++;
  return i;
}
