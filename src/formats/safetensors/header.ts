/**
 * Parses one safetensors file's header: eight bytes of length, a JSON table, then the tensors' bytes without a gap
 * (format: https://github.com/huggingface/safetensors#format). Every number is checked against the file before use.
 */

import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import { openFile, readExactly } from "../files/read-file.js";
import { DTYPE_BITS, type Dtype, type SafetensorsTensor } from "./types.js";

/**
 * The format's own bound is 100 MB; published files stay below 2 MB, and the table costs a multiple of its text in
 * memory.
 */
const MAX_HEADER_BYTES = 16 * 1024 * 1024;
const MAX_TENSORS = 131_072;
const MAX_DIMENSIONS = 8;
const LENGTH_BYTES = 8;
const METADATA_KEY = "__metadata__";

interface SafetensorsHeader {
  readonly byteLength: number;
  readonly tensors: readonly SafetensorsTensor[];
}

/** @param shard the shard index of the tensors */
export function readHeader(path: string, shard: number): SafetensorsHeader {
  using file = openFile(path);
  const { byteLength } = file;
  if (byteLength < LENGTH_BYTES) throw truncated(path, `${LENGTH_BYTES} bytes of header length`, byteLength);
  const headerBytes = Number(readExactly(file, 0, LENGTH_BYTES).readBigUInt64LE());
  if (headerBytes > MAX_HEADER_BYTES) {
    throw corrupt(path, `expected a header of at most ${MAX_HEADER_BYTES} bytes, got a length of ${headerBytes}`);
  }
  if (headerBytes > byteLength - LENGTH_BYTES) {
    throw truncated(path, `${headerBytes} bytes of header`, byteLength - LENGTH_BYTES);
  }
  const dataOffset = LENGTH_BYTES + headerBytes;
  const table = parseTable(path, readExactly(file, LENGTH_BYTES, headerBytes));
  const tensors = Object.entries(table)
    .filter(([name]) => name !== METADATA_KEY)
    .map(([name, entry]) => placeTensor(path, name, entry, { shard, dataOffset }));
  checkCover(path, tensors, dataOffset, byteLength);
  return { byteLength, tensors };
}

function parseTable(path: string, bytes: Buffer): Readonly<Record<string, unknown>> {
  let table: unknown;
  try {
    table = JSON.parse(bytes.toString("utf8"));
  } catch (cause) {
    throw corrupt(path, `expected a header of JSON, got ${cause instanceof Error ? cause.message : "none"}`);
  }
  if (!isPlainObject(table)) throw corrupt(path, "expected a JSON object as header, got another value");
  const numEntries = Object.keys(table).length;
  if (numEntries > MAX_TENSORS) throw corrupt(path, `expected at most ${MAX_TENSORS} tensors, got ${numEntries}`);
  return table;
}

interface Placement {
  readonly shard: number;
  readonly dataOffset: number;
}

function placeTensor(path: string, name: string, entry: unknown, { shard, dataOffset }: Placement): SafetensorsTensor {
  const shown = JSON.stringify(name.slice(0, 80));
  if (!isPlainObject(entry)) throw corrupt(path, `expected an object for tensor ${shown}, got another value`);
  const dtype = readDtype(path, shown, entry.dtype);
  const { shape, data_offsets: range } = entry;
  if (!Array.isArray(shape) || shape.length > MAX_DIMENSIONS || !shape.every(isCount)) {
    throw corrupt(path, `expected a shape of up to ${MAX_DIMENSIONS} counts for tensor ${shown}, got another`);
  }
  if (!Array.isArray(range) || range.length !== 2 || !range.every(isCount)) {
    throw corrupt(path, `expected two data_offsets for tensor ${shown}, got others`);
  }
  const [begin, end] = range as [number, number];
  const numBytes = shape.reduce((product, size) => product * size, DTYPE_BITS[dtype] / 8);
  // A product beyond the safe integers is inexact, but no file is as long, so it never equals.
  if (end - begin !== numBytes) {
    throw corrupt(path, `expected ${numBytes} bytes for tensor ${shown} (${dtype}, [${shape}]), got ${end - begin}`);
  }
  return { name, dtype, shape: shape as number[], shard, byteOffset: dataOffset + begin, byteLength: numBytes };
}

function readDtype(path: string, shown: string, dtype: unknown): Dtype {
  if (typeof dtype === "string" && Object.hasOwn(DTYPE_BITS, dtype)) return dtype as Dtype;
  if (typeof dtype !== "string") throw corrupt(path, `expected a dtype for tensor ${shown}, got none`);
  throw new MillraceError(
    "tensor_type_unsupported",
    `expected tensor ${shown} of a type millrace reads, got ${JSON.stringify(dtype.slice(0, 40))}`,
    { hint: `Known: ${Object.keys(DTYPE_BITS).join(", ")}.` },
  );
}

/** The format wants the data covered whole, without gap or overlap; a name listed twice leaves a gap, too. */
function checkCover(path: string, tensors: readonly SafetensorsTensor[], dataOffset: number, byteLength: number): void {
  let end = dataOffset;
  for (const tensor of [...tensors].sort((a, b) => a.byteOffset - b.byteOffset || a.byteLength - b.byteLength)) {
    if (tensor.byteOffset !== end) {
      const start = tensor.byteOffset - dataOffset;
      throw corrupt(
        path,
        `expected tensor ${JSON.stringify(tensor.name.slice(0, 80))} to start at byte ${end - dataOffset}, got ${start}`,
      );
    }
    end += tensor.byteLength;
  }
  if (end > byteLength) throw truncated(path, `${end - dataOffset} bytes of tensor data`, byteLength - dataOffset);
  if (end < byteLength) {
    throw corrupt(path, `expected ${end - dataOffset} bytes of tensor data, got ${byteLength - dataOffset}`);
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function corrupt(path: string, message: string): MillraceError {
  return new MillraceError("safetensors_corrupt", `${path}: ${message}`, {
    hint: "The file is damaged or no safetensors file; download it again.",
  });
}

function truncated(path: string, expected: string, numBytes: number): MillraceError {
  return new MillraceError("safetensors_truncated", `${path}: expected ${expected}, got ${numBytes}`, {
    hint: "The file is incomplete; download it again.",
  });
}
