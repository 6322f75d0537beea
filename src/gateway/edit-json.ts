/**
 * Sets fields of a JSON object in its bytes: serialising the parsed object would round large numbers and cost more than
 * the rest of the proxy.
 */
import { bodyJson, type JsonObject } from "../core/json-body.js";
import { type ByteRange, membersOf } from "./json-members.js";

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/**
 * Puts absent fields before all others, and replaces the values of existing ones.
 * @param bytes the JSON that `body` was parsed from
 * @returns the same bytes if nothing changes
 */
export function withFields(bytes: Buffer, body: JsonObject, fields: JsonObject): Buffer {
  const names = Object.keys(fields).filter((name) => fields[name] !== own(body, name));
  if (names.length === 0) return bytes;
  const there = names.filter((name) => Object.hasOwn(body, name));
  if (there.some((name) => fields[name] === undefined)) return withoutFields(bytes, body, fields);
  const ranges = there.length === 0 ? [] : findValues(bytes, there);
  // A name that has escapes or occurs twice is rare enough to serialise the whole object.
  if (ranges === undefined) return Buffer.from(bodyJson({ ...body, ...fields }));
  const added = names.filter((name) => !there.includes(name));
  let start = bytes.indexOf(OPEN_BRACE) + 1;
  const comma = added.length === 0 || bytes[skipSpace(bytes, start)] === CLOSE_BRACE ? "" : ",";
  const member = (name: string): string => `${JSON.stringify(name)}:${valueJson(fields[name])}`;
  const parts = [bytes.subarray(0, start), Buffer.from(added.map(member).join(",") + comma)];
  for (const [name, range] of ranges) {
    parts.push(bytes.subarray(start, range.start), Buffer.from(valueJson(fields[name])));
    start = range.end;
  }
  return Buffer.concat([...parts, bytes.subarray(start)]);
}

/**
 * The fields of an edited body that have other values, or are gone. With these, withFields keeps the bytes of all other
 * fields, and so every digit of their numbers.
 */
export function changedFields(before: JsonObject, after: JsonObject): JsonObject {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  const changed = [...names].filter((name) => own(before, name) !== own(after, name));
  return Object.fromEntries(changed.map((name) => [name, own(after, name)]));
}

/** A client may give a field the name of an inherited member. */
const own = (body: JsonObject, name: string): unknown => (Object.hasOwn(body, name) ? body[name] : undefined);

/** Like withFields, but with fields to remove: the remaining members are joined again. */
function withoutFields(bytes: Buffer, body: JsonObject, fields: JsonObject): Buffer {
  let members: ReadonlyMap<string, ByteRange>;
  try {
    members = membersOf(bytes);
  } catch {
    // A byte order mark, or a name without end.
    return Buffer.from(bodyJson({ ...body, ...fields }));
  }
  const parts: Buffer[] = [];
  const add = (name: string, value: Buffer): void => {
    parts.push(Buffer.from(`${parts.length === 0 ? "{" : ","}${JSON.stringify(name)}:`), value);
  };
  for (const name of new Set([...members.keys(), ...Object.keys(fields)])) {
    const range = members.get(name);
    if (!Object.hasOwn(fields, name)) add(name, bytes.subarray(range!.start, range!.end));
    else if (fields[name] !== undefined) add(name, Buffer.from(valueJson(fields[name])));
  }
  return Buffer.concat([...(parts.length === 0 ? [Buffer.from("{")] : parts), Buffer.from("}")]);
}

/** Lists of token ids are Int32Arrays. */
function valueJson(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return bodyJson({ value }).slice('{"value":'.length, -1);
}

/**
 * Ranges of values of the outermost object, in order; undefined unless each name occurs exactly once, and none has
 * escapes.
 */
function findValues(bytes: Buffer, names: readonly string[]): readonly (readonly [string, ByteRange])[] | undefined {
  const found = new Map<string, ByteRange>();
  let open: { readonly name: string; readonly start: number } | undefined;
  let depth = 0;
  const close = (end: number): void => {
    if (open !== undefined) found.set(open.name, { start: open.start, end: skipSpaceBack(bytes, end) });
    open = undefined;
  };
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte === QUOTE) {
      const end = stringEnd(bytes, i);
      const colon = skipSpace(bytes, end);
      if (depth === 1 && bytes[colon] === COLON) {
        const name = bytes.toString("utf8", i + 1, end - 1);
        if (name.includes("\\") || found.has(name)) return undefined;
        if (names.includes(name)) open = { name, start: skipSpace(bytes, colon + 1) };
      }
      i = end - 1;
    }
    // Setting bit 5 maps "[" to "{" and "]" to "}"; no other byte outside strings maps to them.
    else if ((byte | 0x20) === OPEN_BRACE) depth++;
    else if ((byte | 0x20) === CLOSE_BRACE) {
      if (--depth === 0) close(i);
    } else if (byte === COMMA && depth === 1) close(i);
  }
  return found.size === names.length ? [...found] : undefined;
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

function skipSpaceBack(bytes: Buffer, end: number): number {
  let i = end;
  while (i > 0 && bytes[i - 1]! <= 0x20) i--;
  return i;
}
