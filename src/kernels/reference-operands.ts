/**
 * Reads one recorded operation's operands by name and checks them, for the reference device. What is checked here is what any device
 * must check before it runs a program: a bad operand is `kernels_argument`, never a wild read.
 */
import { MillraceError } from "../core/errors.js";
import { dequantizeRow, type WeightType } from "./dequantize.js";
import { KV_OCTET, KV_TYPES, KV_VALUE_BYTES, type KvShape, kvEntryBytes, type OpName } from "./program.js";

const KV_OPERANDS = ["numHeads", "numKvHeads", "headDim", "blockSize", "kvType"] as const;

/** Operand names in the order program.ts records them. */
export const OPERAND_NAMES = {
  embed: ["out", "weight", "ids", "numRows", "scale"],
  rmsNorm: ["out", "x", "gain", "numRows", "width", "eps"],
  quantize: ["out", "x", "numRows", "width", "format"],
  linear: ["out", "x", "weight", "bias", "numRows", "accumulate"],
  add: ["out", "x", "numRows", "width"],
  gatedLinear: [
    ...["out", "room", "gateX", "gateWeight", "gateBias", "upX", "upWeight", "upBias"],
    ...["numRows", "kind"],
  ],
  ropeTable: ["out", "positions", "invFreq", "numRows", "half", "magnitude"],
  ropeAndWriteKv: [
    ...["q", "k", "v", "table", "keyCache", "valueCache", "slots", "numRows"],
    ...KV_OPERANDS,
    ...["half", "isNeox"],
  ],
  pagedAttention: [
    ...["out", "q", "keyCache", "valueCache", "kvLengths", "sequenceIndex", "blockTables", "tableStride", "numRows"],
    ...KV_OPERANDS,
    ...["scale", "window"],
  ],
  gatherRows: ["out", "x", "rows", "numRows", "width"],
  sample: [
    ...["logits", "numRows", "vocabSize", "params", "history", "biasIds", "biasValues"],
    ...["bannedIds", "masks", "outIds", "outLogprobs", "outRanks", "topIds", "topLogprobs", "topStride"],
  ],
  pack: ["out", "byteOffset", "weight"],
} as const satisfies Readonly<Record<OpName, readonly string[]>>;

export interface ReferenceWeight {
  readonly type: WeightType;
  readonly rows: number;
  readonly cols: number;
  readonly bytes: Uint8Array;
  readonly rowBytes: number;
  /** Stands for the packed layout: linear takes quantised activations. Here the bytes are the rows all the same. */
  readonly isPacked: boolean;
}

/** Row `row` of the weight as f32 [cols]. */
export function weightRow(weight: ReferenceWeight, row: number): Float32Array {
  const bytes = weight.bytes.subarray(row * weight.rowBytes, (row + 1) * weight.rowBytes);
  return dequantizeRow(weight.type, bytes, weight.cols);
}

/** What the operands' handles refer to; undefined for a handle that is not alive. */
export interface HandleSpace {
  buffer(handle: number): ArrayBuffer | undefined;
  weight(handle: number): ReferenceWeight | undefined;
}

const HINT = "this is a defect of the caller: a step was recorded that its buffers cannot hold";

export class Operands {
  readonly #handles: HandleSpace;
  readonly #op: OpName;
  readonly #args: Float64Array;

  constructor(handles: HandleSpace, op: OpName, args: Float64Array) {
    this.#handles = handles;
    this.#op = op;
    this.#args = args;
  }

  refuse(operand: string, expected: string, got: unknown): never {
    throw new MillraceError(
      "kernels_argument",
      `${this.#op}: expected ${operand} to be ${expected}, got ${String(got)}`,
      {
        hint: HINT,
      },
    );
  }

  /** An integer in [min, max]. */
  integer(operand: string, min = 0, max = 2 ** 31 - 1): number {
    const value = this.#arg(operand);
    if (!Number.isInteger(value) || value < min || value > max) {
      this.refuse(operand, `an integer in [${min}, ${max}]`, value);
    }
    return value;
  }

  /** A finite number. */
  number(operand: string): number {
    const value = this.#arg(operand);
    if (!Number.isFinite(value)) this.refuse(operand, "finite", value);
    return value;
  }

  /** A buffer of at least `count` f32. */
  f32(operand: string, count: number): Float32Array {
    return new Float32Array(this.#bytes(operand, 4 * count), 0, count);
  }

  /** As f32(); undefined when the operand is NO_BUFFER. */
  optionalF32(operand: string, count: number): Float32Array | undefined {
    return this.#arg(operand) === 0 ? undefined : this.f32(operand, count);
  }

  /** `count` bytes of a buffer from `offset` on. */
  bytes(operand: string, offset: number, count: number): Uint8Array {
    return new Uint8Array(this.#bytes(operand, offset + count), offset, count);
  }

  f64(operand: string, count: number): Float64Array {
    return new Float64Array(this.#bytes(operand, 8 * count), 0, count);
  }

  /** A buffer of at least `count` i32, to write. */
  i32(operand: string, count: number): Int32Array {
    return new Int32Array(this.#bytes(operand, 4 * count), 0, count);
  }

  /** A buffer of at least `count` i32, each in [min, max]. */
  indices(operand: string, count: number, min: number, max: number): Int32Array {
    const values = this.i32(operand, count);
    for (const value of values) {
      if (value < min || value > max) this.refuse(operand, `indices in [${min}, ${max}]`, value);
    }
    return values;
  }

  /** A buffer of any length as i32, or an empty array for NO_BUFFER. */
  allI32(operand: string): Int32Array {
    if (this.#arg(operand) === 0) return new Int32Array(0);
    const bytes = this.#bytes(operand, 0);
    return new Int32Array(bytes, 0, Math.floor(bytes.byteLength / 4));
  }

  allF32(operand: string): Float32Array {
    const values = this.allI32(operand);
    return new Float32Array(values.buffer, 0, values.length);
  }

  weight(operand: string): ReferenceWeight {
    const handle = this.#arg(operand);
    return this.#handles.weight(handle) ?? this.refuse(operand, "a weight", handle);
  }

  /** A weight that is not packed. */
  rowWeight(operand: string): ReferenceWeight {
    const weight = this.weight(operand);
    return weight.isPacked ? this.refuse(operand, "a weight in rows", "a packed one") : weight;
  }

  kvShape(): KvShape {
    const numKvHeads = this.integer("numKvHeads", 1);
    const numHeads = this.integer("numHeads", 1);
    if (numHeads % numKvHeads !== 0) this.refuse("numHeads", `a multiple of ${numKvHeads}`, numHeads);
    const kvType = KV_TYPES[this.integer("kvType", 0, KV_TYPES.length - 1)]!;
    const blockSize = this.integer("blockSize", 1);
    if (blockSize % KV_OCTET !== 0) this.refuse("blockSize", `a multiple of ${KV_OCTET}`, blockSize);
    return { kvType, numHeads, numKvHeads, headDim: this.integer("headDim", 1), blockSize };
  }

  /** A cache of keys or values of the shape's KV type. */
  kvCache(operand: string, shape: KvShape): KvCacheView {
    const bytes = this.#bytes(operand, 0);
    const blockBytes = shape.numKvHeads * shape.blockSize * kvEntryBytes(shape.kvType, shape.headDim);
    const numBlocks = Math.floor(bytes.byteLength / blockBytes);
    return { bytes: new DataView(bytes), shape, numBlocks };
  }

  #arg(operand: string): number {
    const index = (OPERAND_NAMES[this.#op] as readonly string[]).indexOf(operand);
    return this.#args[index]!;
  }

  #bytes(operand: string, minBytes: number): ArrayBuffer {
    const handle = this.#arg(operand);
    const bytes = this.#handles.buffer(handle) ?? this.refuse(operand, "a buffer", handle);
    if (bytes.byteLength < minBytes) this.refuse(operand, `at least ${minBytes} bytes`, bytes.byteLength);
    return bytes;
  }
}

export interface KvCacheView {
  readonly bytes: DataView;
  readonly shape: KvShape;
  readonly numBlocks: number;
}

/**
 * Byte offset of value d of head h at `slot` = block · blockSize + offset. A block's entries lie eight by eight: keys as [D, 8], values as
 * [8, D].
 */
export function kvByteOffset(side: "key" | "value", shape: KvShape, slot: number, head: number, d: number): number {
  const lane = slot % KV_OCTET;
  const index = side === "key" ? d * KV_OCTET + lane : lane * shape.headDim + d;
  return octetOffset(shape, slot, head) + index * KV_VALUE_BYTES[shape.kvType];
}

/** Byte offset of an int8 entry's f32 scale. */
export function kvScaleOffset(shape: KvShape, slot: number, head: number): number {
  return octetOffset(shape, slot, head) + KV_OCTET * shape.headDim + 4 * (slot % KV_OCTET);
}

function octetOffset(shape: KvShape, slot: number, head: number): number {
  const block = Math.floor(slot / shape.blockSize);
  const octetInBlock = Math.floor((slot % shape.blockSize) / KV_OCTET);
  const octet = ((block * shape.numKvHeads + head) * shape.blockSize) / KV_OCTET + octetInBlock;
  return octet * KV_OCTET * kvEntryBytes(shape.kvType, shape.headDim);
}
