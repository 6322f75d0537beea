/** A list of the sampler's inputs in memory that grows on demand, because only some requests have it. */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";

interface ListValues {
  readonly i32: Int32Array;
  readonly f32: Float32Array;
}

export class GrowingList<Type extends keyof ListValues> {
  /** Valid until the list grows. */
  buffer: BufferHandle;
  /** Values in use, from the beginning. */
  length = 0;
  #values: ListValues[Type];

  constructor(
    private readonly backend: Backend,
    private readonly type: Type,
    capacity: number,
  ) {
    const { buffer, values } = backend.input(type, capacity);
    this.buffer = buffer;
    this.#values = values as ListValues[Type];
  }

  push(value: number): void {
    this.#reserve(this.length + 1);
    this.#values[this.length++] = value;
  }

  append(values: ArrayLike<number>): void {
    this.#reserve(this.length + values.length);
    this.#values.set(values, this.length);
    this.length += values.length;
  }

  #reserve(length: number): void {
    if (length <= this.#values.length) return;
    const { buffer, values } = this.backend.input(this.type, Math.max(length, 2 * this.#values.length));
    values.set(this.#values.subarray(0, this.length));
    this.backend.release(this.buffer);
    this.buffer = buffer;
    this.#values = values as ListValues[Type];
  }
}
