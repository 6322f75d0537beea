/**
 * A second device behind the backend's door: the reference device in memory of its own, which works through its queue
 * while the host goes on. Inputs are taken as they are when a program is submitted. Outputs hold nonsense from then on,
 * until the program has ended: an engine that reads them early, or writes inputs late, computes wrong tokens here.
 */
import { closeSync, openSync, readSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import type { Backend, HostArrays, HostBuffer, KvBytes, ProductInputs, WeightSet } from "../../src/backend/backend.js";
import type { BufferHandle, WeightHandle, WeightStackHandle } from "../../src/backend/handles.js";
import { KV_OCTET, type KvType } from "../../src/backend/ops.js";
import { kvEntryBytes, type Program } from "../../src/backend/program.js";
import type { MatrixRows, MatrixSpec } from "../../src/backend/tensor-source.js";
import { rowByteLength } from "../../src/formats/dequantize.js";
import { createReferenceDevice } from "./device.js";

type HostArray = HostArrays[keyof HostArrays];
type AnyHostBuffer = HostBuffer<keyof HostArrays>;

const ARRAYS = { i32: Int32Array, f32: Float32Array, f64: Float64Array };
/** Neither a token id nor a log-probability. */
const NONSENSE = -12_345;

export class ReferenceBackend implements Backend {
  readonly description = { isa: "reference", numThreads: 1 };
  readonly kvBlockMultiple = KV_OCTET;
  readonly stepCostRows = [1, 8, 32];
  readonly #device = createReferenceDevice();
  readonly #inputs: AnyHostBuffer[] = [];
  readonly #outputs: AnyHostBuffer[] = [];
  #queue: Promise<void> = Promise.resolve();
  numSubmitted = 0;

  /** @param memoryBytes free for KV caches */
  constructor(private readonly memoryBytes: number) {}

  freeBytes(): number {
    return this.memoryBytes;
  }

  kvEntryBytes(kvType: KvType, headDim: number): number {
    return kvEntryBytes(kvType, headDim);
  }

  allocate(byteLength: number): BufferHandle {
    return this.#device.allocate(byteLength);
  }

  input<Type extends keyof HostArrays>(type: Type, length: number): HostBuffer<Type> {
    return this.#hostBuffer(type, length, this.#inputs);
  }

  output<Type extends keyof HostArrays>(type: Type, length: number): HostBuffer<Type> {
    return this.#hostBuffer(type, length, this.#outputs);
  }

  #hostBuffer<Type extends keyof HostArrays>(type: Type, length: number, kept: AnyHostBuffer[]): HostBuffer<Type> {
    const values = new ARRAYS[type](length) as HostArrays[Type];
    const buffer = this.#device.allocate(Math.max(1, values.byteLength));
    const made = { buffer, values };
    kept.push(made);
    return made;
  }

  release(buffer: BufferHandle): void {
    void this.#enqueue(() => this.#device.release(buffer));
  }

  read(buffer: BufferHandle, byteOffset: number, target: ArrayBufferView): Promise<void> {
    return this.#enqueue(() => this.#device.read(buffer, byteOffset, bytesOf(target)));
  }

  write(buffer: BufferHandle, byteOffset: number, source: ArrayBufferView): void {
    const bytes = bytesOf(source).slice();
    void this.#enqueue(() => this.#device.write(buffer, byteOffset, bytes));
  }

  submit({ words, numWords }: Program): Promise<void> {
    this.numSubmitted++;
    const program = words.slice(0, numWords);
    const inputs = this.#inputs.map(({ buffer, values }) => ({ buffer, bytes: bytesOf(values).slice() }));
    for (const { values } of this.#outputs) values.fill(NONSENSE);
    return this.#enqueue(() => {
      for (const { buffer, bytes } of inputs) this.#device.write(buffer, 0, bytes);
      this.#device.submit(program, numWords);
      for (const { buffer, values } of this.#outputs) this.#device.read(buffer, 0, bytesOf(values));
    });
  }

  async place({ source, matrices }: WeightSet): Promise<readonly WeightHandle[]> {
    await this.#queue;
    return matrices.map((spec) => this.#place(spec, source.matrix(spec)));
  }

  /** Copies the rows into memory: this device maps no files. */
  #place({ rows, cols }: MatrixSpec, stored: MatrixRows): WeightHandle {
    const bytes = new Uint8Array(rows * rowByteLength(stored.type, cols)!);
    if ("convert" in stored) stored.convert(bytes.buffer);
    else readBytes(stored.path, stored.byteOffset, bytes);
    const buffer = this.#device.allocate(bytes.byteLength);
    this.#device.write(buffer, 0, bytes);
    return this.#device.createWeight(buffer, 0, stored.type, rows, cols);
  }

  stack(weights: readonly WeightHandle[]): WeightStackHandle {
    return this.#device.createWeightStack(weights);
  }

  /** Its products take rows as they are. */
  productInputs(maxRows: number): ProductInputs {
    return {
      prepare: (_program, x, weights) => weights.map(() => x),
      dispatch: (program, x, weights, dispatch, width) => {
        const out = this.allocate(maxRows * width * 4);
        program.record("dispatchRows", { out, x, ...dispatch, width, format: "f32" });
        return weights.map(() => out);
      },
    };
  }

  checkFiles(): void {}

  tidy(): boolean {
    return false;
  }

  kvBytes(): KvBytes {
    return this.#device.kvBytes();
  }

  destroy(): void {
    void this.#enqueue(() => this.#device.destroy());
  }

  /** Runs `work` after all that was enqueued before it, in a later turn of the event loop. */
  #enqueue(work: () => void): Promise<void> {
    const done = this.#queue.then(() => setImmediate()).then(work);
    this.#queue = done.catch(() => {});
    return done;
  }
}

function readBytes(path: string, byteOffset: number, target: Uint8Array): void {
  const file = openSync(path, "r");
  try {
    const numRead = readSync(file, target, 0, target.length, byteOffset);
    if (numRead !== target.length) throw new Error(`expected ${target.length} bytes of ${path}, got ${numRead}`);
  } finally {
    closeSync(file);
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView | HostArray): Uint8Array =>
  new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
