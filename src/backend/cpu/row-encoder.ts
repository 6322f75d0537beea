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
    const factor = this.#placed(order === undefined ? gram : inOrder(gram, cols, order));
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

/** The lower half with rows and columns in another order. */
function inOrder(gram: Float32Array, cols: number, order: Int32Array): Float32Array {
  const moved = new Float32Array(gram.length);
  for (let i = 0; i < cols; i++) {
    for (let j = 0; j <= i; j++) {
      const [a, b] = [order[i]!, order[j]!];
      moved[i * cols + j] = gram[Math.max(a, b) * cols + Math.min(a, b)]!;
    }
  }
  return moved;
}
