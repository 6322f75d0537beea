/** Encodes rows into blocks on kernel threads. */
import { rowByteLength } from "../../formats/dequantize.js";
import type { Feedback, RowEncoder } from "../backend.js";
import { type BufferHandle, NO_BUFFER } from "../handles.js";
import type { BlockType, ScaledType } from "../ops.js";
import { Program } from "../program.js";
import type { KernelDevice } from "./library/kernels.js";
import { loadKernels } from "./library/load.js";

/** Added to the diagonal of a Gram matrix, as a share of its mean: GPTQ's usual value. */
const DAMPING = 0.01;

export class CpuRowEncoder implements RowEncoder {
  readonly #device: KernelDevice;
  readonly #program = new Program();
  /** Kept between calls, and replaced by larger ones. */
  readonly #buffers = new Map<string, { readonly handle: BufferHandle; readonly byteLength: number }>();

  constructor(numThreads: number) {
    this.#device = loadKernels().createDevice({ numThreads });
  }

  encode(
    type: BlockType,
    values: Float32Array,
    cols: number,
    importance: Float32Array | undefined,
    feedback?: Feedback,
  ): Uint8Array {
    const numRows = values.length / cols;
    const bytes = new Uint8Array(numRows * rowByteLength(type, cols)!);
    const out = this.#buffer("out", bytes.byteLength);
    this.#program.clear();
    this.#program.record("encodeRows", {
      out,
      x: this.#filled("x", values),
      importance: importance === undefined ? NO_BUFFER : this.#filled("importance", importance),
      factor: feedback?.factor ?? NO_BUFFER,
      numRows,
      width: cols,
      type,
    });
    return this.#run(out, bytes);
  }

  round(
    type: ScaledType,
    values: Float32Array,
    cols: number,
    scales: Float32Array,
    group: number,
    feedback?: Feedback,
  ): Uint8Array {
    const codes = new Uint8Array(values.length);
    const out = this.#buffer("out", codes.byteLength);
    this.#program.clear();
    this.#program.record("roundToScales", {
      out,
      x: this.#filled("x", values),
      scales: this.#filled("scales", scales),
      factor: feedback?.factor ?? NO_BUFFER,
      order: feedback?.order ?? NO_BUFFER,
      numRows: values.length / cols,
      width: cols,
      group,
      type,
    });
    return this.#run(out, codes);
  }

  feedback(gram: Float32Array, cols: number, isOrdered: boolean): Feedback {
    const order = isOrdered ? orderOf(gram, cols) : undefined;
    if (order !== undefined) putInOrder(gram, cols, order);
    const factor = this.#placed(gram);
    this.#program.clear();
    this.#program.record("factorise", { gram: factor, width: cols, damping: DAMPING });
    this.#device.submit(this.#program.words, this.#program.numWords);
    const placedOrder = order === undefined ? NO_BUFFER : this.#placed(order);
    const release = (): void => {
      this.#device.release(factor);
      if (placedOrder !== NO_BUFFER) this.#device.release(placedOrder);
    };
    return { factor, order: placedOrder, release };
  }

  #placed({ buffer, byteOffset, byteLength }: Float32Array | Int32Array): BufferHandle {
    const handle = this.#device.allocate(byteLength);
    this.#device.write(handle, 0, new Uint8Array(buffer, byteOffset, byteLength));
    return handle;
  }

  #run(out: BufferHandle, bytes: Uint8Array): Uint8Array {
    this.#device.submit(this.#program.words, this.#program.numWords);
    this.#device.read(out, 0, bytes);
    return bytes;
  }

  close(): void {
    this.#device.destroy();
  }

  #filled(name: string, { buffer, byteOffset, byteLength }: Float32Array): BufferHandle {
    const handle = this.#buffer(name, byteLength);
    this.#device.write(handle, 0, new Uint8Array(buffer, byteOffset, byteLength));
    return handle;
  }

  #buffer(name: string, byteLength: number): BufferHandle {
    const present = this.#buffers.get(name);
    if (present !== undefined && present.byteLength >= byteLength) return present.handle;
    if (present !== undefined) this.#device.release(present.handle);
    const handle = this.#device.allocate(byteLength);
    this.#buffers.set(name, { handle, byteLength });
    return handle;
  }
}

/** Columns by the mean squares of their inputs, the largest last. */
function orderOf(gram: Float32Array, cols: number): Int32Array {
  const square = (col: number): number => gram[col * (cols + 1)]!;
  return Int32Array.from({ length: cols }, (_, col) => col).sort((a, b) => square(a) - square(b));
}

/**
 * Puts rows and columns of a symmetric matrix, of which the lower half is given, into another order: in its place,
 * since it may be as large as a weight matrix.
 */
function putInOrder(gram: Float32Array, cols: number, order: Int32Array): void {
  for (let i = 0; i < cols; i++) {
    for (let j = 0; j < i; j++) gram[j * cols + i] = gram[i * cols + j]!;
  }
  const row = new Float32Array(cols);
  for (let i = 0; i < cols; i++) {
    const own = gram.subarray(i * cols, (i + 1) * cols);
    row.set(own);
    for (let j = 0; j < cols; j++) own[j] = row[order[j]!]!;
  }
  // Rows follow the cycles of the order, each of which keeps its first row aside.
  const isPlaced = new Uint8Array(cols);
  for (let first = 0; first < cols; first++) {
    if (isPlaced[first]) continue;
    row.set(gram.subarray(first * cols, (first + 1) * cols));
    for (let to = first; ; to = order[to]!) {
      isPlaced[to] = 1;
      const from = order[to]!;
      if (from === first) {
        gram.set(row, to * cols);
        break;
      }
      gram.copyWithin(to * cols, from * cols, (from + 1) * cols);
    }
  }
}
