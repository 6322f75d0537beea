/**
 * Reads one recorded operation's operands by name and checks them, for the reference device. What is checked here is
 * what any device must check before it runs a program: a bad operand is `kernels_argument`, never a wild read.
 */

import {
  CODES,
  KV_OCTET,
  type OperandName,
  type OperandSpec,
  type OperandsOf,
  type OpName,
  operandsIn,
} from "../../src/backend/ops.js";
import { type KvShape, kvEntryBytes } from "../../src/backend/program.js";
import { MillraceError } from "../../src/core/errors.js";
import { dequantizeRow, type WeightType } from "../../src/formats/dequantize.js";
import type { KvCacheView } from "./kv-entries.js";

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
  weightStack(handle: number): readonly ReferenceWeight[] | undefined;
}

type CodeSpec = Extract<OperandSpec, { readonly kind: "code" }>;
type CodeOf<Name extends OpName, Operand> = Operand extends keyof OperandsOf<Name> ? OperandsOf<Name>[Operand] : never;

const HINT = "this is a defect of the caller: a step was recorded that its buffers cannot hold";

/** Of an operation: each method takes the operands whose kind it reads. */
export class Operands<Name extends OpName> {
  readonly #handles: HandleSpace;
  readonly #op: Name;
  readonly #args: Readonly<Record<string, number>>;

  /** @param args the operation's words, in the order of its operands */
  constructor(handles: HandleSpace, op: Name, args: Float64Array) {
    this.#handles = handles;
    this.#op = op;
    this.#args = Object.fromEntries(operandsIn(op).map(([operand], i) => [operand, args[i]!]));
  }

  /** @param operand or a part of one, such as params.mode */
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
  integer(operand: OperandName<Name, "integer">, min = 0, max = 2 ** 31 - 1): number {
    return this.#integer(operand, min, max);
  }

  flag(operand: OperandName<Name, "flag">): boolean {
    return this.#integer(operand, 0, 1) === 1;
  }

  /** The name that a code stands for. */
  code<Operand extends OperandName<Name, "code">>(operand: Operand): CodeOf<Name, Operand> {
    const spec = operandsIn(this.#op).find(([name]) => name === operand)![1] as CodeSpec;
    const names: readonly string[] = CODES[spec.of];
    return names[this.#integer(operand, spec.min ?? 0, spec.max ?? names.length - 1)] as CodeOf<Name, Operand>;
  }

  /** A finite number. */
  number(operand: OperandName<Name, "number">): number {
    const value = this.#args[operand]!;
    if (!Number.isFinite(value)) this.refuse(operand, "finite", value);
    return value;
  }

  /** A buffer of at least `count` f32. */
  f32(operand: OperandName<Name, "f32"> | OperandName<Name, "activations">, count: number): Float32Array {
    return new Float32Array(this.#bytes(operand, 4 * count), 0, count);
  }

  /** As f32(); undefined when the operand is NO_BUFFER. */
  optionalF32(operand: OperandName<Name, "f32">, count: number): Float32Array | undefined {
    return this.#args[operand] === 0 ? undefined : this.f32(operand, count);
  }

  /** As i32(); undefined when the operand is NO_BUFFER. */
  optionalI32(operand: OperandName<Name, "i32">, count: number): Int32Array | undefined {
    return this.#args[operand] === 0 ? undefined : this.i32(operand, count);
  }

  /** `count` bytes of a buffer from `offset` on. */
  bytes(
    operand: OperandName<Name, "bytes"> | OperandName<Name, "activations">,
    offset: number,
    count: number,
  ): Uint8Array {
    return new Uint8Array(this.#bytes(operand, offset + count), offset, count);
  }

  f64(operand: OperandName<Name, "f64">, count: number): Float64Array {
    return new Float64Array(this.#bytes(operand, 8 * count), 0, count);
  }

  /** A buffer of at least `count` i32, to write. */
  i32(operand: OperandName<Name, "i32">, count: number): Int32Array {
    return new Int32Array(this.#bytes(operand, 4 * count), 0, count);
  }

  /** As indices(); undefined when the operand is NO_BUFFER. */
  optionalIndices(operand: OperandName<Name, "i32">, count: number, min: number, max: number): Int32Array | undefined {
    return this.#args[operand] === 0 ? undefined : this.indices(operand, count, min, max);
  }

  /** A buffer of at least `count` i32, each in [min, max]. */
  indices(operand: OperandName<Name, "i32">, count: number, min: number, max: number): Int32Array {
    const values = this.i32(operand, count);
    for (const value of values) {
      if (value < min || value > max) this.refuse(operand, `indices in [${min}, ${max}]`, value);
    }
    return values;
  }

  /** A buffer of any length as i32, or an empty array for NO_BUFFER. */
  allI32(operand: OperandName<Name, "i32">): Int32Array {
    const bytes = this.#anyBytes(operand);
    return new Int32Array(bytes, 0, Math.floor(bytes.byteLength / 4));
  }

  /** As allI32(). */
  allF32(operand: OperandName<Name, "f32">): Float32Array {
    const bytes = this.#anyBytes(operand);
    return new Float32Array(bytes, 0, Math.floor(bytes.byteLength / 4));
  }

  /** Refuses a buffer that is also another operand. */
  requireApart(operand: string, other: string): void {
    if (this.#args[operand] === this.#args[other]) this.refuse(operand, `another buffer than ${other}`, "the same");
  }

  weight(operand: OperandName<Name, "weight">): ReferenceWeight {
    const handle = this.#args[operand]!;
    return this.#handles.weight(handle) ?? this.refuse(operand, "a weight", handle);
  }

  /** At least one weight; all have one type and shape. */
  weights(operand: OperandName<Name, "weights">): readonly ReferenceWeight[] {
    const handle = this.#args[operand]!;
    return this.#handles.weightStack(handle) ?? this.refuse(operand, "a stack of weights", handle);
  }

  /** A weight that is not packed. */
  rowWeight(operand: OperandName<Name, "weight">): ReferenceWeight {
    const weight = this.weight(operand);
    return weight.isPacked ? this.refuse(operand, "a weight in rows", "a packed one") : weight;
  }

  /** A cache of keys or values of the shape's KV type. */
  kvCache(operand: OperandName<Name, "kvCache">, shape: KvShape): KvCacheView {
    const bytes = this.#bytes(operand, 0);
    const blockBytes = shape.numKvHeads * shape.blockSize * kvEntryBytes(shape.kvType, shape.headDim);
    const numBlocks = Math.floor(bytes.byteLength / blockBytes);
    return { bytes: new DataView(bytes), shape, numBlocks };
  }

  #integer(operand: string, min: number, max: number): number {
    const value = this.#args[operand]!;
    if (!Number.isInteger(value) || value < min || value > max) {
      this.refuse(operand, `an integer in [${min}, ${max}]`, value);
    }
    return value;
  }

  #anyBytes(operand: string): ArrayBuffer {
    return this.#args[operand] === 0 ? new ArrayBuffer(0) : this.#bytes(operand, 0);
  }

  #bytes(operand: string, minBytes: number): ArrayBuffer {
    const handle = this.#args[operand]!;
    const bytes = this.#handles.buffer(handle) ?? this.refuse(operand, "a buffer", handle);
    if (bytes.byteLength < minBytes) this.refuse(operand, `at least ${minBytes} bytes`, bytes.byteLength);
    return bytes;
  }
}

/** Of the operations on the KV caches. */
export function readKvShape(
  operands: Operands<"ropeAndWriteKv"> | Operands<"pagedAttention"> | Operands<"countAttention">,
): KvShape {
  const numKvHeads = operands.integer("numKvHeads", 1);
  const numHeads = operands.integer("numHeads", 1);
  if (numHeads % numKvHeads !== 0) operands.refuse("numHeads", `a multiple of ${numKvHeads}`, numHeads);
  const kvType = operands.code("kvType");
  const blockSize = operands.integer("blockSize", 1);
  if (blockSize % KV_OCTET !== 0) operands.refuse("blockSize", `a multiple of ${KV_OCTET}`, blockSize);
  return { kvType, numHeads, numKvHeads, headDim: operands.integer("headDim", 1), blockSize };
}
