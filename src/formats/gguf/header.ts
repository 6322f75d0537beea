/**
 * Parses one GGUF file's header: magic, version, metadata, tensor table; checks every tensor's byte range against the
 * file.
 */
import { MillraceError } from "../../core/errors.js";
import type { HeaderReader } from "./header-reader.js";
import {
  DEFAULT_ALIGNMENT,
  MAX_ALIGNMENT,
  MAX_DIMENSIONS,
  MAX_KEY_BYTES,
  MAX_METADATA_ENTRIES,
  MAX_TENSOR_NAME_BYTES,
  MAX_TENSORS,
  MIN_ALIGNMENT,
} from "./limits.js";
import {
  TENSOR_TYPES,
  type TensorTypeInfo,
  tensorBytes,
  tensorTypeById,
  unsupportedTensorTypeName,
} from "./tensor-types.js";
import type { GgufTensor, GgufValue } from "./types.js";
import { type ElementBudget, readValue } from "./values.js";

const MAGIC = 0x46_55_47_47; // "GGUF", little-endian
const SUPPORTED_VERSIONS: readonly number[] = [2, 3];
const ALIGNMENT_KEY = "general.alignment";
/** An entry is at least key length, one byte of key, type and one byte of value. */
const MIN_METADATA_ENTRY_BYTES = 14;
/** A table row is at least name length, one byte of name, dimension count, one dimension, type and offset. */
const MIN_TENSOR_ROW_BYTES = 33;

export interface GgufHeader {
  readonly version: number;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: readonly GgufTensor[];
}

/** @param shard the shard index of the tensors */
export function parseHeader(reader: HeaderReader, shard: number): GgufHeader {
  checkMagic(reader);
  const version = readVersion(reader);
  const numTensors = readCount(reader, "the tensor count", MAX_TENSORS, MIN_TENSOR_ROW_BYTES);
  const numEntries = readCount(reader, "the metadata entry count", MAX_METADATA_ENTRIES, MIN_METADATA_ENTRY_BYTES);
  const metadata = readMetadata(reader, numEntries);
  const rows = readTensorRows(reader, numTensors);
  const alignment = alignmentOf(reader, metadata);
  const dataOffset = Math.ceil(reader.offset / alignment) * alignment;
  const tensors = rows.map((row) => placeTensor(reader, row, { shard, alignment, dataOffset }));
  refuseOverlaps(reader, tensors);
  return { version, metadata, tensors };
}

function checkMagic(reader: HeaderReader): void {
  const found = reader.remainingBytes >= 4 ? reader.u32("the magic number") : undefined;
  if (found === MAGIC) return;
  const got = found === undefined ? `${reader.fileBytes} bytes` : `0x${found.toString(16).padStart(8, "0")}`;
  throw new MillraceError("gguf_not_gguf", `expected the bytes "GGUF" at the start of ${reader.path}, got ${got}`, {
    hint: "pass a .gguf file; other formats must be converted first",
  });
}

function readVersion(reader: HeaderReader): number {
  const version = reader.u32("the version");
  if (SUPPORTED_VERSIONS.includes(version)) return version;
  const isBigEndian = version !== 0 && (version & 0xffff) === 0;
  throw new MillraceError(
    "gguf_version",
    `expected GGUF version 2 or 3, got ${isBigEndian ? "a big-endian file" : version}`,
    {
      hint: isBigEndian
        ? "convert the model again for little-endian machines"
        : "convert the model with a current converter",
    },
  );
}

function readCount(reader: HeaderReader, what: string, max: number, minBytesEach: number): number {
  const count = reader.size(what);
  if (count > max) {
    throw new MillraceError("gguf_limit", `expected ${what} to be at most ${max}, got ${count}`, {
      hint: `${reader.path} is corrupt; download or convert it again`,
    });
  }
  reader.expectBytes(count * minBytesEach, `${what} of ${count}`);
  return count;
}

function readMetadata(reader: HeaderReader, numEntries: number): ReadonlyMap<string, GgufValue> {
  const metadata = new Map<string, GgufValue>();
  const budget: ElementBudget = { numElements: 0 };
  for (let index = 0; index < numEntries; index += 1) {
    const at = reader.offset;
    const key = reader.string(MAX_KEY_BYTES, `metadata key ${index}`);
    if (key === "" || metadata.has(key)) {
      throw new MillraceError(
        "gguf_corrupt",
        `expected a new, non-empty metadata key at byte ${at}, got ${key === "" ? "an empty one" : `"${key}" again`}`,
        { hint: `${reader.path} is corrupt; download or convert it again` },
      );
    }
    metadata.set(key, readValue(reader, key, budget));
  }
  return metadata;
}

interface TensorRow {
  readonly name: string;
  readonly info: TensorTypeInfo;
  readonly shape: readonly number[];
  /** From the start of the tensor data, in bytes. */
  readonly relativeOffset: number;
}

function readTensorRows(reader: HeaderReader, numTensors: number): readonly TensorRow[] {
  const rows: TensorRow[] = [];
  const names = new Set<string>();
  for (let index = 0; index < numTensors; index += 1) {
    const at = reader.offset;
    const name = reader.string(MAX_TENSOR_NAME_BYTES, `the name of tensor ${index}`);
    if (name === "" || names.has(name)) {
      const got = name === "" ? "an empty one" : `"${name}" again`;
      throw tensorError(reader, `expected a new, non-empty tensor name at byte ${at}, got ${got}`);
    }
    names.add(name);
    const shape = readShape(reader, name);
    const info = readTensorType(reader, name);
    const relativeOffset = reader.size(`the offset of tensor "${name}"`);
    rows.push({ name, info, shape, relativeOffset });
  }
  return rows;
}

function readShape(reader: HeaderReader, name: string): readonly number[] {
  const numDimensions = reader.u32(`the dimension count of tensor "${name}"`);
  if (numDimensions < 1 || numDimensions > MAX_DIMENSIONS) {
    throw tensorError(reader, `expected 1 to ${MAX_DIMENSIONS} dimensions for tensor "${name}", got ${numDimensions}`);
  }
  const shape: number[] = [];
  for (let axis = 0; axis < numDimensions; axis += 1) shape.push(reader.size(`dimension ${axis} of tensor "${name}"`));
  if (shape.some((dimension) => dimension === 0)) {
    throw tensorError(reader, `expected dimensions of at least 1 for tensor "${name}", got [${shape.join(", ")}]`);
  }
  return shape;
}

function readTensorType(reader: HeaderReader, name: string): TensorTypeInfo {
  const typeId = reader.u32(`the type of tensor "${name}"`);
  const info = tensorTypeById(typeId);
  if (info !== undefined) return info;
  const knownName = unsupportedTensorTypeName(typeId);
  if (knownName === undefined) {
    throw tensorError(reader, `expected a tensor type GGML defines for tensor "${name}", got id ${typeId}`);
  }
  throw new MillraceError(
    "tensor_type_unsupported",
    `expected tensor "${name}" of a type millrace reads, got ${knownName}`,
    { hint: `choose another quantisation, one of ${Object.keys(TENSOR_TYPES).join(", ")}` },
  );
}

function alignmentOf(reader: HeaderReader, metadata: ReadonlyMap<string, GgufValue>): number {
  const alignment = metadata.get(ALIGNMENT_KEY) ?? DEFAULT_ALIGNMENT;
  const isPowerOfTwo = typeof alignment === "number" && Number.isInteger(Math.log2(alignment));
  if (isPowerOfTwo && alignment >= MIN_ALIGNMENT && alignment <= MAX_ALIGNMENT) return alignment;
  const got = typeof alignment === "object" ? "an array" : String(alignment).slice(0, 40);
  throw new MillraceError(
    "gguf_metadata",
    `expected ${ALIGNMENT_KEY} to be a power of two from ${MIN_ALIGNMENT} to ${MAX_ALIGNMENT}, got ${got}`,
    { hint: `${reader.path} is corrupt; download or convert it again` },
  );
}

interface Placement {
  readonly shard: number;
  readonly alignment: number;
  readonly dataOffset: number;
}

function placeTensor(reader: HeaderReader, row: TensorRow, { shard, alignment, dataOffset }: Placement): GgufTensor {
  const { name, info, shape, relativeOffset } = row;
  const [numColumns = 1] = shape;
  if (numColumns % info.blockSize !== 0) {
    const expected = `expected rows of tensor "${name}" to be a multiple of ${info.blockSize} values (${info.name})`;
    throw tensorError(reader, `${expected}, got ${numColumns}`);
  }
  const numValues = shape.reduce((product, dimension) => product * dimension, 1);
  // Four bytes a value at most, so a product this small cannot leave the safe integers.
  if (numValues > Number.MAX_SAFE_INTEGER / 4) {
    throw tensorError(reader, `expected tensor "${name}" to fit in memory, got dimensions [${shape.join(", ")}]`);
  }
  if (relativeOffset % alignment !== 0) {
    throw tensorError(
      reader,
      `expected the offset of tensor "${name}" to be a multiple of ${alignment}, got ${relativeOffset}`,
    );
  }
  const byteOffset = dataOffset + relativeOffset;
  const byteLength = tensorBytes(info.name, numValues);
  if (byteOffset > reader.fileBytes || byteLength > reader.fileBytes - byteOffset) {
    throw new MillraceError(
      "gguf_truncated",
      `expected ${byteLength} bytes of tensor "${name}" at byte ${byteOffset}, got the end of the file at byte ${reader.fileBytes}`,
      { hint: `${reader.path} is incomplete; download or convert it again` },
    );
  }
  return { name, type: info.name, shape, shard, byteOffset, byteLength };
}

function refuseOverlaps(reader: HeaderReader, tensors: readonly GgufTensor[]): void {
  const sorted = [...tensors].sort((a, b) => a.byteOffset - b.byteOffset);
  for (let index = 1; index < sorted.length; index += 1) {
    const before = sorted[index - 1]!;
    const after = sorted[index]!;
    const endOfBefore = before.byteOffset + before.byteLength;
    if (endOfBefore > after.byteOffset) {
      throw tensorError(
        reader,
        `expected tensor "${after.name}" after the end of "${before.name}" at byte ${endOfBefore}, got byte ${after.byteOffset}`,
      );
    }
  }
}

function tensorError(reader: HeaderReader, message: string): MillraceError {
  return new MillraceError("gguf_tensor", message, { hint: `${reader.path} is corrupt; download or convert it again` });
}
