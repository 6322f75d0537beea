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
  const isRenamed = edit.model !== undefined && edit.model !== body.model;
  if (isRenamed && "model" in body) {
    const range = findModel(bytes);
    if (range !== undefined) return replaced(bytes, newFields(body, edit, false), range, JSON.stringify(edit.model));
    // Spelled with escapes, or there twice: rare enough to be written anew.
    const named = { ...body, model: edit.model };
    return editBody(Buffer.from(bodyJson(named)), named, edit);
  }
  const fields = newFields(body, edit, isRenamed);
  return fields.length === 0 ? bytes : replaced(bytes, fields, undefined, "");
}

/** @param hasModel the model's name is among them */
function newFields(body: Readonly<Record<string, unknown>>, edit: BodyEdit, hasModel: boolean): string[] {
  const fields: string[] = [];
  if (edit.seed !== undefined && !("seed" in body)) fields.push(`"seed":${edit.seed}`);
  if (hasModel) fields.push(`"model":${JSON.stringify(edit.model)}`);
  if (edit.cacheSalt !== undefined) fields.push(`"cache_salt":${JSON.stringify(edit.cacheSalt)}`);
  return fields;
}

interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** With fields before all others, and other text in place of a range: copied once, as a body may have megabytes. */
function replaced(bytes: Buffer, fields: readonly string[], range: ByteRange | undefined, text: string): Buffer {
  const start = bytes.indexOf(OPEN_BRACE) + 1;
  const comma = fields.length === 0 || bytes[skipSpace(bytes, start)] === CLOSE_BRACE ? "" : ",";
  const parts = [bytes.subarray(0, start), Buffer.from(fields.join(",") + comma)];
  if (range === undefined) parts.push(bytes.subarray(start));
  else parts.push(bytes.subarray(start, range.start), Buffer.from(text), bytes.subarray(range.end));
  return Buffer.concat(parts);
}

/** Where the string stands that is the outermost object's `model`; undefined unless there is exactly one written plainly. */
function findModel(bytes: Buffer): ByteRange | undefined {
  let depth = 0;
  let found: ByteRange | undefined;
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
  const first = bytes.indexOf(QUOTE, start + 1);
  if (first < 0) return bytes.length;
  if (bytes[first - 1] !== BACKSLASH) return first + 1;
  // Where one quote is escaped, many may be: a search for each costs more than a look at each byte.
  let end = start + 1;
  while (end < bytes.length && bytes[end] !== QUOTE) end += bytes[end] === BACKSLASH ? 2 : 1;
  return Math.min(end + 1, bytes.length);
}

/** JSON's white space is all below 0x21. */
function skipSpace(bytes: Buffer, start: number): number {
  let i = start;
  while (i < bytes.length && bytes[i]! <= 0x20) i++;
  return i;
}
