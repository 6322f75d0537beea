/** Edits single fields of a request's JSON in its bytes: serialising the parsed body would round large numbers and cost more than the rest of the proxy. */

import { bodyJson } from "../../core/json-body.js";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

export interface BodyEdit {
  /** Replaces the request's `model`. */
  readonly model?: string | undefined;
  /** Added if the request has no `seed`. */
  readonly seed?: number | undefined;
  /** Replaces the request's `cache_salt`. */
  readonly cacheSalt?: string | undefined;
  /** Replaces the request's `priority`. */
  readonly priority?: number | undefined;
  /** Replaces the request's `timeout`, in seconds. */
  readonly timeout?: number | undefined;
}

/** Fields that are rarely both set by the gateway and in the request, so that the whole body may then be serialised. */
const REPLACED: readonly (readonly [edit: "cacheSalt" | "priority" | "timeout", field: string])[] = [
  ["cacheSalt", "cache_salt"],
  ["priority", "priority"],
  ["timeout", "timeout"],
];

/** @param bytes the JSON object that `body` was parsed from */
export function editBody(bytes: Buffer, body: Readonly<Record<string, unknown>>, edit: BodyEdit): Buffer {
  const there = REPLACED.filter(([key, field]) => edit[key] !== undefined && field in body);
  if (there.length > 0) {
    const replacedBody = { ...body, ...Object.fromEntries(there.map(([key, field]) => [field, edit[key]])) };
    const rest = { ...edit, ...Object.fromEntries(there.map(([key]) => [key, undefined])) };
    return editBody(Buffer.from(bodyJson(replacedBody)), replacedBody, rest);
  }
  const isRenamed = edit.model !== undefined && edit.model !== body.model;
  if (isRenamed && "model" in body) {
    const range = findModel(bytes);
    if (range !== undefined) return replaced(bytes, newFields(body, edit, false), range, JSON.stringify(edit.model));
    // `model` is spelled with escapes or occurs twice: rare enough to serialise the whole body.
    const named = { ...body, model: edit.model };
    return editBody(Buffer.from(bodyJson(named)), named, edit);
  }
  const fields = newFields(body, edit, isRenamed);
  return fields.length === 0 ? bytes : replaced(bytes, fields, undefined, "");
}

/** @param hasModel whether to include `model` */
function newFields(body: Readonly<Record<string, unknown>>, edit: BodyEdit, hasModel: boolean): string[] {
  const fields: string[] = [];
  if (edit.seed !== undefined && !("seed" in body)) fields.push(`"seed":${edit.seed}`);
  if (hasModel) fields.push(`"model":${JSON.stringify(edit.model)}`);
  for (const [key, field] of REPLACED) {
    if (edit[key] !== undefined && !(field in body)) fields.push(`"${field}":${JSON.stringify(edit[key])}`);
  }
  return fields;
}

interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Inserts fields before all others and replaces a range by other text. Copies the bytes once, since a body may have megabytes. */
function replaced(bytes: Buffer, fields: readonly string[], range: ByteRange | undefined, text: string): Buffer {
  const start = bytes.indexOf(OPEN_BRACE) + 1;
  const comma = fields.length === 0 || bytes[skipSpace(bytes, start)] === CLOSE_BRACE ? "" : ",";
  const parts = [bytes.subarray(0, start), Buffer.from(fields.join(",") + comma)];
  if (range === undefined) parts.push(bytes.subarray(start));
  else parts.push(bytes.subarray(start, range.start), Buffer.from(text), bytes.subarray(range.end));
  return Buffer.concat(parts);
}

/** Range of the string value of the outermost object's `model`; undefined unless the key occurs exactly once, without escapes. */
function findModel(bytes: Buffer): ByteRange | undefined {
  let depth = 0;
  let found: ByteRange | undefined;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte === QUOTE) {
      const end = stringEnd(bytes, i);
      const colon = skipSpace(bytes, end);
      if (depth === 1 && bytes[colon] === COLON) {
        // An escaped key could also spell "model".
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
    // Setting bit 5 maps "[" to "{" and "]" to "}"; no other byte outside strings maps to them.
    else if ((byte | 0x20) === OPEN_BRACE) depth++;
    else if ((byte | 0x20) === CLOSE_BRACE) depth--;
  }
  return found;
}

/** Index after the closing quote of the string that begins at `start`. */
function stringEnd(bytes: Buffer, start: number): number {
  const first = bytes.indexOf(QUOTE, start + 1);
  if (first < 0) return bytes.length;
  if (bytes[first - 1] !== BACKSLASH) return first + 1;
  // After one escaped quote there may be many, so reading every byte is faster than searching for each quote.
  let end = start + 1;
  while (end < bytes.length && bytes[end] !== QUOTE) end += bytes[end] === BACKSLASH ? 2 : 1;
  return Math.min(end + 1, bytes.length);
}

/** All white space of JSON is below 0x21. */
function skipSpace(bytes: Buffer, start: number): number {
  let i = start;
  while (i < bytes.length && bytes[i]! <= 0x20) i++;
  return i;
}
