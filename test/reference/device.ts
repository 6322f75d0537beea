/**
 * The whole KernelDevice interface in plain TypeScript: the oracle the kernels are compared with and a device where
 * nothing is compiled. Clarity over speed. Arithmetic is in doubles and rounded once per stored value, so results
 * differ from a kernel's by rounding only.
 */
import { readFileSync } from "node:fs";
import type { KvBytes } from "../../src/backend/backend.js";
import type { FileHandle, KernelDevice } from "../../src/backend/cpu/library/kernels.js";
import { packedByteLength } from "../../src/backend/cpu/library/packing.js";
import type { BufferHandle, WeightHandle, WeightStackHandle } from "../../src/backend/handles.js";
import { OP_NAMES, type OpName, operandsIn } from "../../src/backend/ops.js";
import { CONCURRENT, HEADER_WORDS } from "../../src/backend/program.js";
import { MillraceError } from "../../src/core/errors.js";
import { BLOCK_LAYOUT, rowByteLength, type WeightType } from "../../src/formats/dequantize.js";
import { countAttention, pagedAttention } from "./attention.js";
import { checksum } from "./checksum.js";
import * as experts from "./experts.js";
import { type HandleSpace, Operands, type ReferenceWeight } from "./operands.js";
import * as ops from "./ops.js";
import { pack, quantize, readActivations } from "./packed.js";
import { applyGate, causalConv, deltaRule, gatedNorm, selectiveScan } from "./recurrent.js";
import { sample } from "./sample.js";
import { addGram, addSquares, encodeRows, factorise, keepLargest, roundToScales } from "./weights.js";

const OPERATIONS: { readonly [Name in OpName]: (operands: Operands<Name>) => ops.Work } = {
  embed: ops.embed,
  rmsNorm: ops.rmsNorm,
  layerNorm: ops.layerNorm,
  quantize,
  linear: (operands) => ops.linear(operands, readActivations),
  add: ops.add,
  multiply: ops.multiply,
  scaleAndCap: ops.scaleAndCap,
  scaleByPosition: ops.scaleByPosition,
  activate: ops.activate,
  gatedLinear: (operands) => ops.gatedLinear(operands, readActivations),
  ropeTable: ops.ropeTable,
  ropeAndWriteKv: ops.ropeAndWriteKv,
  pagedAttention,
  countAttention,
  gatherRows: ops.gatherRows,
  copyColumns: ops.copyColumns,
  spreadColumns: ops.spreadColumns,
  sample,
  pack,
  routeExperts: experts.routeExperts,
  groupExperts: experts.groupExperts,
  dispatchRows: experts.dispatchRows,
  expertGatedLinear: (operands) => experts.expertGatedLinear(operands, readActivations),
  expertLinear: (operands) => experts.expertLinear(operands, readActivations),
  combineExperts: experts.combineExperts,
  causalConv,
  deltaRule,
  gatedNorm,
  selectiveScan,
  applyGate,
  encodeRows,
  roundToScales,
  addSquares,
  keepLargest,
  addGram,
  factorise,
};

export function createReferenceDevice(): KernelDevice {
  return new ReferenceDevice();
}

class ReferenceDevice implements KernelDevice, HandleSpace {
  readonly isa = "portable";
  readonly numThreads = 1;
  readonly #buffers = new Map<number, ArrayBuffer>();
  readonly #files = new Map<number, Uint8Array>();
  readonly #weights = new Map<number, { readonly weight: ReferenceWeight; readonly source: number }>();
  readonly #stacks = new Map<number, readonly WeightHandle[]>();
  #lastHandle = 0;
  #isDestroyed = false;

  allocate(byteLength: number): BufferHandle {
    this.#requireAlive();
    if (!Number.isSafeInteger(byteLength) || byteLength < 0) {
      throw refusal(`allocate: expected a byte length of at least 0, got ${byteLength}`);
    }
    try {
      return this.#keep(this.#buffers, new ArrayBuffer(byteLength)) as BufferHandle;
    } catch (cause) {
      throw new MillraceError("out_of_memory", `expected ${byteLength} bytes to be free, got none`, {
        hint: "lower the memory budget",
        cause,
      });
    }
  }

  view(buffer: BufferHandle): ArrayBuffer {
    this.#requireAlive();
    return this.buffer(buffer) ?? refuseHandle("view", "a buffer", buffer);
  }

  read(buffer: BufferHandle, byteOffset: number, target: Uint8Array): void {
    target.set(this.#bytes(buffer, byteOffset, target.length));
  }

  write(buffer: BufferHandle, byteOffset: number, source: Uint8Array): void {
    this.#bytes(buffer, byteOffset, source.length).set(source);
  }

  #bytes(buffer: BufferHandle, byteOffset: number, length: number): Uint8Array {
    const view = this.view(buffer);
    if (Number.isInteger(byteOffset) && byteOffset >= 0 && byteOffset + length <= view.byteLength) {
      return new Uint8Array(view, byteOffset, length);
    }
    throw refusal(`expected ${length} bytes inside a buffer of ${view.byteLength}, got them at ${byteOffset}`);
  }

  release(buffer: BufferHandle): void {
    detach(this.view(buffer));
    this.#buffers.delete(buffer);
  }

  mapFile(path: string): FileHandle {
    this.#requireAlive();
    try {
      return this.#keep(this.#files, new Uint8Array(readFileSync(path))) as FileHandle;
    } catch (cause) {
      throw new MillraceError("file_unreadable", `expected a readable file, got ${path}`, {
        hint: "check the path and its permissions",
        cause,
      });
    }
  }

  unmapFile(file: FileHandle): void {
    this.#requireAlive();
    if (!this.#files.delete(file)) refuseHandle("unmapFile", "a file", file);
  }

  releasePages(): void {}

  prefetch(): void {}

  checksum(source: FileHandle | BufferHandle, byteOffset: number, byteLength: number): string {
    this.#requireAlive();
    const buffer = this.#buffers.get(source);
    const bytes = this.#files.get(source) ?? (buffer && new Uint8Array(buffer));
    if (bytes === undefined) return refuseHandle("checksum", "a file or buffer", source);
    return checksum(bytes.subarray(byteOffset, byteOffset + byteLength));
  }

  /** Files are copied when they are mapped. */
  requireUnchanged(): void {}

  pinThreads(): void {}

  createWeight(
    source: FileHandle | BufferHandle,
    byteOffset: number,
    type: WeightType,
    rows: number,
    cols: number,
    isPacked = false,
  ): WeightHandle {
    this.#requireAlive();
    const buffer = this.#buffers.get(source);
    const bytes = this.#files.get(source) ?? (buffer && new Uint8Array(buffer));
    if (bytes === undefined) return refuseHandle("createWeight", "a file or buffer", source);
    if (!Object.hasOwn(BLOCK_LAYOUT, type)) throw refusal(`createWeight: expected a tensor type, got ${type}`);
    for (const [name, value, min] of [
      ["byteOffset", byteOffset, 0],
      ["rows", rows, 1],
      ["cols", cols, 1],
    ] as const) {
      if (!Number.isSafeInteger(value) || value < min) {
        throw refusal(`createWeight: expected ${name} to be an integer of at least ${min}, got ${value}`);
      }
    }
    const rowBytes = rowByteLength(type, cols);
    if (rowBytes === undefined) throw refusal(`createWeight: expected cols to be whole ${type} blocks, got ${cols}`);
    const packedBytes = packedByteLength(type, rows, cols);
    if (isPacked && packedBytes === undefined) {
      throw refusal(`createWeight: expected a type with a packed form, got ${type}`);
    }
    const end = byteOffset + (isPacked ? packedBytes! : rows * rowBytes);
    if (end > bytes.byteLength) throw refusal(`createWeight: expected at least ${end} bytes, got ${bytes.byteLength}`);
    const weight = { type, rows, cols, rowBytes, isPacked, bytes: bytes.subarray(byteOffset, end) };
    return this.#keep(this.#weights, { weight, source }) as WeightHandle;
  }

  createWeightStack(weights: readonly WeightHandle[]): WeightStackHandle {
    this.#requireAlive();
    const found = weights.map((weight) => this.weight(weight) ?? refuseHandle("createWeightStack", "a weight", weight));
    const kindOf = ({ type, rows, cols, isPacked }: ReferenceWeight) => `${type} ${rows} ${cols} ${isPacked}`;
    if (found.length === 0 || found.some((weight) => kindOf(weight) !== kindOf(found[0]!))) {
      throw refusal("createWeightStack: expected weights of one type and shape, got none or another");
    }
    return this.#keep(this.#stacks, weights) as WeightStackHandle;
  }

  releaseWeight(weight: WeightHandle): void {
    this.#requireAlive();
    if (!this.#weights.delete(weight)) refuseHandle("releaseWeight", "a weight", weight);
  }

  submit(program: Float64Array, numWords: number): void {
    this.#requireAlive();
    if (!Number.isInteger(numWords) || numWords < 0 || numWords > program.length) {
      throw refusal(`submit: expected numWords in [0, ${program.length}], got ${numWords}`);
    }
    const work: ops.Work[] = [];
    for (let at = 0; at < numWords; ) {
      const { name, args } = decodeOperation(program.subarray(at, numWords), at);
      work.push(this.#check(name, args));
      at += HEADER_WORDS + args.length;
    }
    for (const run of work) run();
  }

  #check<Name extends OpName>(name: Name, args: Float64Array): ops.Work {
    return OPERATIONS[name](new Operands(this, name, args));
  }

  /** Nothing is counted here: the reference reads entries one by one. */
  kvBytes(): KvBytes {
    return { read: 0, unshared: 0 };
  }

  destroy(): void {
    this.#requireAlive();
    for (const buffer of this.#buffers.values()) detach(buffer);
    this.#buffers.clear();
    this.#files.clear();
    this.#weights.clear();
    this.#isDestroyed = true;
  }

  buffer(handle: number): ArrayBuffer | undefined {
    return this.#buffers.get(handle);
  }

  /** A weight lives no longer than the file or buffer it was made from. */
  weight(handle: number): ReferenceWeight | undefined {
    const found = this.#weights.get(handle);
    const isAlive = found !== undefined && (this.#buffers.has(found.source) || this.#files.has(found.source));
    return isAlive ? found.weight : undefined;
  }

  weightStack(handle: number): readonly ReferenceWeight[] | undefined {
    const found = this.#stacks.get(handle)?.map((weight) => this.weight(weight));
    return found?.includes(undefined) === true ? undefined : (found as ReferenceWeight[] | undefined);
  }

  #keep<T>(table: Map<number, T>, value: T): number {
    this.#lastHandle += 1;
    table.set(this.#lastHandle, value);
    return this.#lastHandle;
  }

  #requireAlive(): void {
    if (this.#isDestroyed) throw refusal("expected a living device, got one that was destroyed");
  }
}

/** words: the rest of the program; at: where they start in it. */
function decodeOperation(words: Float64Array, at: number): { readonly name: OpName; readonly args: Float64Array } {
  const [opcode = Number.NaN, flags = Number.NaN, numArgs = Number.NaN] = words;
  const name = OP_NAMES[opcode];
  if (name === undefined) throw refusal(`submit: expected an opcode at word ${at}, got ${opcode}`);
  if (flags !== 0 && flags !== CONCURRENT) throw refusal(`${name}: expected flags 0 or ${CONCURRENT}, got ${flags}`);
  const expected = operandsIn(name).length;
  if (numArgs !== expected || words.length < HEADER_WORDS + expected) {
    const got = Math.min(numArgs, words.length - HEADER_WORDS);
    throw refusal(`${name}: expected ${expected} arguments, got ${got}`);
  }
  return { name, args: words.subarray(HEADER_WORDS, HEADER_WORDS + expected) };
}

/** Leaves every view of the buffer empty, as releasing native memory does. */
function detach(buffer: ArrayBuffer): void {
  structuredClone(buffer, { transfer: [buffer] });
}

function refusal(message: string): MillraceError {
  return new MillraceError("kernels_argument", message, { hint: "this is a defect of the caller" });
}

function refuseHandle(operation: string, expected: string, got: number): never {
  throw refusal(`${operation}: expected the handle of ${expected}, got ${got}`);
}
