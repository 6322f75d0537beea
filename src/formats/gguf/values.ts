/** Reads metadata values: the scalar types of the GGUF specification and (nested) arrays of them. */
import { MillraceError } from "../../core/errors.js";
import type { HeaderReader } from "./header-reader.js";
import { MAX_ARRAY_DEPTH, MAX_ARRAY_ELEMENTS, MAX_ARRAY_LENGTH, MAX_STRING_BYTES } from "./limits.js";
import type { GgufArray, GgufValue } from "./types.js";

const TYPE_BOOL = 7;
const TYPE_STRING = 8;
const TYPE_ARRAY = 9;

type NumericArray = Exclude<GgufArray, readonly GgufValue[]>;

interface NumericType {
  readonly bytes: number;
  readonly decode: (view: DataView, position: number) => number | bigint;
  /** Typed arrays use the machine's byte order; every machine millrace runs on is little-endian, like the file. */
  readonly createArray: (length: number) => NumericArray;
}

const NUMERIC_TYPES: Readonly<Record<number, NumericType>> = {
  0: { bytes: 1, decode: (view, at) => view.getUint8(at), createArray: (n) => new Uint8Array(n) },
  1: { bytes: 1, decode: (view, at) => view.getInt8(at), createArray: (n) => new Int8Array(n) },
  2: { bytes: 2, decode: (view, at) => view.getUint16(at, true), createArray: (n) => new Uint16Array(n) },
  3: { bytes: 2, decode: (view, at) => view.getInt16(at, true), createArray: (n) => new Int16Array(n) },
  4: { bytes: 4, decode: (view, at) => view.getUint32(at, true), createArray: (n) => new Uint32Array(n) },
  5: { bytes: 4, decode: (view, at) => view.getInt32(at, true), createArray: (n) => new Int32Array(n) },
  6: { bytes: 4, decode: (view, at) => view.getFloat32(at, true), createArray: (n) => new Float32Array(n) },
  10: { bytes: 8, decode: (view, at) => view.getBigUint64(at, true), createArray: (n) => new BigUint64Array(n) },
  11: { bytes: 8, decode: (view, at) => view.getBigInt64(at, true), createArray: (n) => new BigInt64Array(n) },
  12: { bytes: 8, decode: (view, at) => view.getFloat64(at, true), createArray: (n) => new Float64Array(n) },
};

/** Array elements read so far in one file; shared by all its values. */
export interface ElementBudget {
  numElements: number;
}

export function readValue(reader: HeaderReader, key: string, budget: ElementBudget): GgufValue {
  const typeAt = reader.offset;
  const typeId = reader.u32(`the type of "${key}"`);
  if (typeId === TYPE_ARRAY) return readArray(reader, key, budget, 1);
  if (typeId === TYPE_STRING) return reader.string(MAX_STRING_BYTES, `the value of "${key}"`);
  if (typeId === TYPE_BOOL) return readBoolean(reader, key);
  const numeric = NUMERIC_TYPES[typeId];
  if (numeric === undefined) throw unknownType(reader, key, typeId, typeAt);
  return reader.scalar(numeric.bytes, `the value of "${key}"`, numeric.decode);
}

function readArray(reader: HeaderReader, key: string, budget: ElementBudget, depth: number): GgufArray {
  if (depth > MAX_ARRAY_DEPTH) {
    throw limit(
      reader,
      `expected at most ${MAX_ARRAY_DEPTH} nested arrays under "${key}", got more at byte ${reader.offset}`,
    );
  }
  const typeAt = reader.offset;
  const typeId = reader.u32(`the element type of "${key}"`);
  const minElementBytes = smallestElementBytes(typeId);
  if (minElementBytes === undefined) throw unknownType(reader, key, typeId, typeAt);
  const length = reader.size(`the length of array "${key}"`);
  reader.expectBytes(length * minElementBytes, `${length} array elements of "${key}"`);
  if (length > MAX_ARRAY_LENGTH) {
    throw limit(reader, `expected at most ${MAX_ARRAY_LENGTH} array elements under "${key}", got ${length}`);
  }
  budget.numElements += length;
  if (budget.numElements > MAX_ARRAY_ELEMENTS) {
    throw limit(reader, `expected at most ${MAX_ARRAY_ELEMENTS} array elements in all, got more at "${key}"`);
  }
  const numeric = NUMERIC_TYPES[typeId];
  if (numeric !== undefined) return readNumericArray(reader, key, numeric.createArray(length));
  if (typeId === TYPE_STRING) return readStringArray(reader, key, length);
  if (typeId === TYPE_BOOL) return Array.from({ length }, () => readBoolean(reader, key));
  return Array.from({ length }, () => readArray(reader, key, budget, depth + 1));
}

/** Undefined for a type that does not exist. */
function smallestElementBytes(typeId: number): number | undefined {
  if (typeId === TYPE_STRING) return 8;
  if (typeId === TYPE_ARRAY) return 12;
  if (typeId === TYPE_BOOL) return 1;
  return NUMERIC_TYPES[typeId]?.bytes;
}

function readNumericArray(reader: HeaderReader, key: string, array: NumericArray): NumericArray {
  reader.bytes(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), `the elements of "${key}"`);
  return array;
}

function readStringArray(reader: HeaderReader, key: string, length: number): readonly string[] {
  // One description for all elements: composing one per element would cost as much as reading it.
  const what = `a string of array "${key}"`;
  const strings = new Array<string>(length);
  for (let index = 0; index < length; index += 1) strings[index] = reader.string(MAX_STRING_BYTES, what);
  return strings;
}

function readBoolean(reader: HeaderReader, key: string): boolean {
  const at = reader.offset;
  const byte = reader.u8(`the value of "${key}"`);
  if (byte > 1) {
    throw new MillraceError("gguf_corrupt", `expected 0 or 1 for boolean "${key}" at byte ${at}, got ${byte}`, {
      hint: `${reader.path} is corrupt; download or convert it again`,
    });
  }
  return byte === 1;
}

function unknownType(reader: HeaderReader, key: string, typeId: number, at: number): MillraceError {
  return new MillraceError(
    "gguf_corrupt",
    `expected a metadata type from 0 to 12 for "${key}" at byte ${at}, got ${typeId}`,
    { hint: `${reader.path} is corrupt, or of a GGUF version newer than 3` },
  );
}

function limit(reader: HeaderReader, message: string): MillraceError {
  return new MillraceError("gguf_limit", message, {
    hint: `${reader.path} is corrupt: no model needs this much metadata`,
  });
}
