/** Writes GGUF files: metadata with explicit types, tensors from bytes. */
import { type TensorBytes, type TensorLog, writeTensors } from "../files/write-tensors.js";
import { TENSOR_TYPES, tensorBytes } from "./tensor-types.js";
import type { TensorType } from "./types.js";

const TYPE_IDS = {
  u8: 0,
  i8: 1,
  u16: 2,
  i16: 3,
  u32: 4,
  i32: 5,
  f32: 6,
  bool: 7,
  string: 8,
  array: 9,
  u64: 10,
  i64: 11,
  f64: 12,
} as const;

type ScalarTypeName = Exclude<keyof typeof TYPE_IDS, "array">;

export type WritableValue =
  | { readonly type: ScalarTypeName; readonly value: number | bigint | boolean | string }
  | {
      readonly type: "array";
      readonly of: ScalarTypeName;
      readonly values: ArrayLike<number | bigint | boolean | string>;
    }
  | { readonly type: "array"; readonly of: "array"; readonly values: readonly WritableValue[] };

export interface WritableTensor {
  readonly name: string;
  readonly type: TensorType;
  /** Fastest dimension first. */
  readonly shape: readonly number[];
  /** The encoded blocks, whole or piece by piece (so that a large model never lies in memory); zeros when left out. */
  readonly data?: Uint8Array | (() => Iterable<Uint8Array>);
}

export interface WritableGguf {
  readonly version?: number;
  readonly metadata?: Readonly<Record<string, WritableValue>>;
  readonly tensors?: readonly WritableTensor[];
  /** Written as `general.alignment` when it is not the default of 32. */
  readonly alignment?: number;
}

export const u8 = (value: number): WritableValue => ({ type: "u8", value });
export const u16 = (value: number): WritableValue => ({ type: "u16", value });
export const u32 = (value: number): WritableValue => ({ type: "u32", value });
export const i32 = (value: number): WritableValue => ({ type: "i32", value });
export const u64 = (value: bigint): WritableValue => ({ type: "u64", value });
export const i64 = (value: bigint): WritableValue => ({ type: "i64", value });
export const f32 = (value: number): WritableValue => ({ type: "f32", value });
export const f64 = (value: number): WritableValue => ({ type: "f64", value });
export const bool = (value: boolean): WritableValue => ({ type: "bool", value });
export const str = (value: string): WritableValue => ({ type: "string", value });
export const arr = (of: ScalarTypeName, values: ArrayLike<number | bigint | boolean | string>): WritableValue => ({
  type: "array",
  of,
  values,
});
export const nested = (values: readonly WritableValue[]): WritableValue => ({ type: "array", of: "array", values });

/** The whole file in memory: for small ones. */
export function encodeGguf(gguf: WritableGguf): Buffer {
  const alignment = alignmentOf(gguf);
  const parts: Uint8Array[] = [headerOf(gguf)];
  for (const { numBytes, pieces } of tensorsOf(gguf)) parts.push(...pieces(), padding(numBytes, alignment));
  return Buffer.concat(parts);
}

export function writeGguf(path: string, gguf: WritableGguf): void {
  for (const _ of writePieces(path, gguf));
}

/**
 * Writes the file piece by piece.
 * @param onWritten called with the bytes of tensors so far, and those of all
 * @param log of a file that may be there, stopped
 * @yields after each piece, so that the caller can end the work there
 */
export const writePieces = (
  path: string,
  gguf: WritableGguf,
  onWritten: (numBytes: number, total: number) => void = () => {},
  log?: TensorLog,
): Generator<void> =>
  writeTensors(path, headerOf(gguf), tensorsOf(gguf), { alignment: alignmentOf(gguf), onWritten, log });

/** Parts of the format, for tests that assemble broken files by hand. */
export function encodeString(text: string): Buffer {
  const bytes = Buffer.from(text, "utf8");
  return Buffer.concat([encodeU64(bytes.length), bytes]);
}

export function encodeU32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

export function encodeU64(value: number | bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

const alignmentOf = ({ alignment }: WritableGguf): number => alignment ?? 32;

/** With the padding before the first tensor. */
function headerOf(gguf: WritableGguf): Buffer {
  const alignment = alignmentOf(gguf);
  const header = encodeHeader(gguf, alignment);
  const hasTensors = gguf.tensors !== undefined && gguf.tensors.length > 0;
  return hasTensors ? Buffer.concat([header, padding(header.length, alignment)]) : header;
}

const tensorsOf = ({ tensors = [] }: WritableGguf): readonly TensorBytes[] =>
  tensors.map((tensor) => {
    const numBytes = byteLengthOf(tensor);
    return { name: tensor.name, numBytes, pieces: () => dataPieces(tensor, numBytes) };
  });

function encodeHeader(gguf: WritableGguf, alignment: number): Buffer {
  const metadata: Record<string, WritableValue> = { ...gguf.metadata };
  if (alignment !== 32) metadata["general.alignment"] ??= u32(alignment);
  const tensors = gguf.tensors ?? [];
  const parts = [
    Buffer.from("GGUF"),
    encodeU32(gguf.version ?? 3),
    encodeU64(tensors.length),
    encodeU64(Object.keys(metadata).length),
  ];
  for (const [key, value] of Object.entries(metadata)) {
    parts.push(encodeString(key), encodeU32(TYPE_IDS[value.type]), encodeValue(value));
  }
  let offset = 0;
  for (const tensor of tensors) {
    parts.push(encodeString(tensor.name), encodeU32(tensor.shape.length));
    for (const dimension of tensor.shape) parts.push(encodeU64(dimension));
    parts.push(encodeU32(TENSOR_TYPES[tensor.type].id), encodeU64(offset));
    offset += Math.ceil(byteLengthOf(tensor) / alignment) * alignment;
  }
  return Buffer.concat(parts);
}

function encodeValue(value: WritableValue): Buffer {
  if (value.type !== "array") return encodeScalar(value.type, value.value);
  const head = Buffer.concat([encodeU32(TYPE_IDS[value.of]), encodeU64(value.values.length)]);
  if (value.of === "array") return Buffer.concat([head, ...value.values.map(encodeValue)]);
  const { of } = value;
  return Buffer.concat([head, ...Array.from(value.values, (element) => encodeScalar(of, element))]);
}

interface NumberEncoding {
  readonly bytes: number;
  readonly write: (view: DataView, value: number | bigint) => void;
}

const NUMBER_ENCODINGS: Readonly<Record<Exclude<ScalarTypeName, "string">, NumberEncoding>> = {
  u8: { bytes: 1, write: (view, value) => view.setUint8(0, Number(value)) },
  i8: { bytes: 1, write: (view, value) => view.setInt8(0, Number(value)) },
  bool: { bytes: 1, write: (view, value) => view.setUint8(0, Number(value)) },
  u16: { bytes: 2, write: (view, value) => view.setUint16(0, Number(value), true) },
  i16: { bytes: 2, write: (view, value) => view.setInt16(0, Number(value), true) },
  u32: { bytes: 4, write: (view, value) => view.setUint32(0, Number(value), true) },
  i32: { bytes: 4, write: (view, value) => view.setInt32(0, Number(value), true) },
  f32: { bytes: 4, write: (view, value) => view.setFloat32(0, Number(value), true) },
  f64: { bytes: 8, write: (view, value) => view.setFloat64(0, Number(value), true) },
  u64: { bytes: 8, write: (view, value) => view.setBigUint64(0, BigInt(value), true) },
  i64: { bytes: 8, write: (view, value) => view.setBigInt64(0, BigInt(value), true) },
};

function encodeScalar(type: ScalarTypeName, value: number | bigint | boolean | string): Buffer {
  if (type === "string") return encodeString(String(value));
  const { bytes, write } = NUMBER_ENCODINGS[type];
  const buffer = Buffer.alloc(bytes);
  write(new DataView(buffer.buffer, buffer.byteOffset, bytes), typeof value === "bigint" ? value : Number(value));
  return buffer;
}

function byteLengthOf(tensor: WritableTensor): number {
  return tensorBytes(
    tensor.type,
    tensor.shape.reduce((product, dimension) => product * dimension, 1),
  );
}

function* dataPieces(tensor: WritableTensor, numBytes: number): Generator<Uint8Array> {
  if (tensor.data === undefined) yield new Uint8Array(numBytes);
  else if (typeof tensor.data === "function") yield* tensor.data();
  else yield tensor.data;
}

function padding(numBytes: number, alignment: number): Uint8Array {
  return new Uint8Array((alignment - (numBytes % alignment)) % alignment);
}
