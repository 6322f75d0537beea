/** Encodes rows into blocks on kernel threads. */
import { rowByteLength } from "../../formats/dequantize.js";
import type { RowEncoder } from "../backend.js";
import { type BufferHandle, NO_BUFFER } from "../handles.js";
import type { BlockType } from "../ops.js";
import { Program } from "../program.js";
import type { KernelDevice } from "./library/kernels.js";
import { loadKernels } from "./library/load.js";

export class CpuRowEncoder implements RowEncoder {
  readonly #device: KernelDevice;
  readonly #program = new Program();
  /** Kept between calls, and replaced by larger ones. */
  readonly #buffers = new Map<string, { readonly handle: BufferHandle; readonly byteLength: number }>();

  constructor(numThreads: number) {
    this.#device = loadKernels().createDevice({ numThreads });
  }

  encode(type: BlockType, values: Float32Array, cols: number, importance: Float32Array | undefined): Uint8Array {
    const numRows = values.length / cols;
    const bytes = new Uint8Array(numRows * rowByteLength(type, cols)!);
    const out = this.#buffer("out", bytes.byteLength);
    this.#program.clear();
    this.#program.record("encodeRows", {
      out,
      x: this.#filled("x", values),
      importance: importance === undefined ? NO_BUFFER : this.#filled("importance", importance),
      numRows,
      width: cols,
      type,
    });
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
