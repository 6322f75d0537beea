/**
 * What the kernel tests share: devices to test, seeded data, a bench to record operations on, and comparison within a
 * stated tolerance.
 */

import { expect } from "vitest";
import type { Isa, KernelDevice, KernelLibrary } from "../../src/backend/cpu/library/kernels.js";
import { loadKernels } from "../../src/backend/cpu/library/load.js";
import type { BufferHandle, WeightHandle } from "../../src/backend/handles.js";
import { Program } from "../../src/backend/program.js";
import { uniform } from "../../src/core/random.js";
import { BLOCK_LAYOUT, numberToF16, rowByteLength, type WeightType } from "../../src/formats/dequantize.js";
import { F16_SCALE_OFFSETS, setF16Scale } from "../helpers/tensor-bytes.js";
import { createReferenceDevice } from "./device.js";

export const library: KernelLibrary = loadKernels();

/**
 * Every instruction set of this architecture with whether this CPU has it: tests of a missing one are reported as
 * skipped.
 */
export const ISAS: readonly { readonly isa: Isa; readonly isMissing: boolean }[] = [
  { isa: "portable", isMissing: false },
  ...(process.arch === "arm64"
    ? ([
        { isa: "neon", isMissing: !library.cpuFeatures().neon },
        { isa: "neondot", isMissing: !library.cpuFeatures().dotprod },
      ] as const)
    : ([
        { isa: "avx2", isMissing: !library.cpuFeatures().avx2 },
        { isa: "avx512", isMissing: !library.cpuFeatures().avx512 },
        { isa: "avx512vnni", isMissing: !library.cpuFeatures().avx512vnni },
        { isa: "avx512bf16", isMissing: !library.cpuFeatures().avx512bf16 },
        { isa: "amx", isMissing: !library.cpuFeatures().amx },
      ] as const)),
];

/** Computes when first asked, so that the reference runs once for every instruction set and only in tests that run. */
export function once<T>(compute: () => T): () => T {
  let result: { readonly value: T } | undefined;
  return () => {
    result ??= { value: compute() };
    return result.value;
  };
}

/** Standard normal f32 values (Box–Muller). */
export function normals(count: number, seed: number): Float32Array {
  const random = uniform(seed);
  const values = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    values[i] = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  }
  return values;
}

/** Normal values salted with zeros of both signs, denormals and magnitudes up to `largest`. */
export function extremes(count: number, seed: number, largest = 1e30): Float32Array {
  const salt = [0, -0, 1e-40, -1e-40, 1e-30, largest, -largest, 1];
  const random = uniform(seed ^ 0x5a17);
  return normals(count, seed).map((value) => (random() < 0.3 ? salt[Math.floor(random() * salt.length)]! : value));
}

/** Rows of one width, one after the other. */
export function joined(rows: readonly Float32Array[]): Float32Array {
  const width = rows[0]?.length ?? 0;
  const all = new Float32Array(rows.length * width);
  rows.forEach((row, i) => {
    all.set(row, i * width);
  });
  return all;
}

export function integersBelow(limit: number, count: number, seed: number): number[] {
  const random = uniform(seed);
  return Array.from({ length: count }, () => Math.floor(random() * limit));
}

/** 0 … count − 1 in a seeded order. */
export function shuffled(count: number, seed: number): number[] {
  const random = uniform(seed);
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}

/** Bytes of a random matrix [rows, cols]: random quanta under sensible scales, normal values in the float types. */
export function weightBytes(type: WeightType, rows: number, cols: number, seed: number): Uint8Array {
  const rowBytes = rowByteLength(type, cols)!;
  const numBytes = rows * rowBytes;
  const { byteLength } = BLOCK_LAYOUT[type];
  const hasWideScale = type.startsWith("F8_E4M3") || type === "I8" || type === "I8_INT8";
  const scales = hasWideScale ? [] : F16_SCALE_OFFSETS[type];
  const values = normals(scales === undefined ? rows * cols : numBytes, seed);
  if (type === "F32") return new Uint8Array(values.buffer);
  if (type === "F16") return new Uint8Array(Uint16Array.from(values, numberToF16).buffer);
  if (type === "BF16" || type === "BF16_BF16")
    return new Uint8Array(Uint16Array.from(new Uint32Array(values.buffer), (b) => b >> 16).buffer);
  const bytes = Uint8Array.from(integersBelow(256, numBytes, seed));
  const view = new DataView(bytes.buffer);
  for (let at = 0; at < numBytes; at += byteLength) {
    for (const offset of scales ?? []) {
      setF16Scale(type, view, at + offset, numberToF16(values[at + offset]! * 0.02));
    }
    // MXFP4's scale is a byte: 2^−9 to 2^−2 of the grid's unit.
    if (type === "MXFP4") bytes[at] = 119 + (bytes[at]! & 7);
    // NVFP4's scales too, 2^−5 to 2^−2; those in front of blocks are the row's.
    if (type === "NVFP4" || type === "NVFP4_SCALED") {
      const isScaled = type === "NVFP4_SCALED";
      if (isScaled) view.setFloat32(at, values[Math.floor(at / rowBytes)]!, true);
      for (let i = 0; i < 4; i++) bytes[at + (isScaled ? 4 : 0) + i] = 16 + (bytes[at + 4 + i]! % 24);
    }
    // In folders, many columns share a scale: here twenty blocks of a row do, and then five have scales of their own.
    const index = ((at % rowBytes) / byteLength) % 25;
    if (hasWideScale) view.setFloat32(at, values[at - (index < 20 ? index : 0) * byteLength]! * 0.01, true);
    // No NaN, whose exponent and mantissa are all ones, and no value far above the others.
    if (type.startsWith("F8_E4M3")) for (let i = at + 4; i < at + byteLength; i++) bytes[i]! &= 0xcf;
  }
  return bytes;
}

/** A device with one program: puts data into buffers, records, runs, reads back. */
export class Bench {
  readonly device: KernelDevice;
  readonly program = new Program();

  constructor(device: KernelDevice) {
    this.device = device;
  }

  static reference(): Bench {
    return new Bench(createReferenceDevice());
  }

  static native(isa: Isa, numThreads = 1): Bench {
    return new Bench(library.createDevice({ numThreads, isa }));
  }

  bytes(content: Uint8Array): BufferHandle {
    const handle = this.device.allocate(Math.max(content.byteLength, 1));
    new Uint8Array(this.device.view(handle)).set(content);
    return handle;
  }

  f32(values: Float32Array | readonly number[]): BufferHandle {
    const packed = values instanceof Float32Array ? values : Float32Array.from(values);
    return this.bytes(new Uint8Array(packed.buffer, packed.byteOffset, packed.byteLength));
  }

  i32(values: Iterable<number>): BufferHandle {
    return this.bytes(new Uint8Array(Int32Array.from(values).buffer));
  }

  f64(values: Iterable<number>): BufferHandle {
    return this.bytes(new Uint8Array(Float64Array.from(values).buffer));
  }

  /** Memory for `count` f32, all NaN, so that a value nobody wrote shows. */
  unwritten(count: number): BufferHandle {
    return this.f32(new Float32Array(count).fill(Number.NaN));
  }

  weight(type: WeightType, rows: number, cols: number, content: Uint8Array): WeightHandle {
    return this.device.createWeight(this.bytes(content), 0, type, rows, cols);
  }

  run(): void {
    this.device.submit(this.program.words, this.program.numWords);
    this.program.clear();
  }

  readF32(handle: BufferHandle): Float32Array {
    const bytes = this.device.view(handle);
    return new Float32Array(bytes.slice(0, bytes.byteLength - (bytes.byteLength % 4)));
  }

  readI32(handle: BufferHandle): Int32Array {
    return new Int32Array(this.readF32(handle).buffer);
  }

  readU16(handle: BufferHandle): Uint16Array {
    return new Uint16Array(this.device.view(handle).slice(0));
  }
}

/** Runs `use` on a bench and destroys its device whatever happens. */
export function withBench<T>(bench: Bench, use: (bench: Bench) => T): T {
  try {
    return use(bench);
  } finally {
    bench.device.destroy();
  }
}

export interface Tolerance {
  readonly relative: number;
  /** One bound for all values, or one per value. */
  readonly absolute: number | ArrayLike<number>;
}

/** Without `expect` where it holds: rows are compared by the hundred thousand. */
function expectSameLength(got: Float32Array, want: Float32Array): void {
  if (got.length !== want.length) expect.fail(`expected ${want.length} values, got ${got.length}`);
}

/** Every value within tolerance; infinities and NaN must be the same. */
export function expectClose(got: Float32Array, want: Float32Array, { relative, absolute }: Tolerance): void {
  expectSameLength(got, want);
  for (let i = 0; i < want.length; i++) {
    const allowed = relative * Math.abs(want[i]!) + (typeof absolute === "number" ? absolute : absolute[i]!);
    const isSame = Object.is(got[i], want[i]) || Math.abs(got[i]! - want[i]!) <= allowed;
    if (!isSame) expect.fail(`value ${i}: expected ${want[i]} ± ${allowed}, got ${got[i]}`);
  }
}

/** The same bits; NaN is never right here. */
export function expectSameBits(got: Float32Array, want: Float32Array): void {
  const gotBits = new Uint32Array(got.buffer, got.byteOffset, got.length);
  const wantBits = new Uint32Array(want.buffer, want.byteOffset, want.length);
  expectSameLength(got, want);
  for (let i = 0; i < wantBits.length; i++) {
    if (gotBits[i] !== wantBits[i] || Number.isNaN(got[i])) {
      expect.fail(`value ${i}: expected exactly ${want[i]}, got ${got[i]}`);
    }
  }
}
