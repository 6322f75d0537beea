/**
 * Rounds activation rows to the integer formats of packed weights, once per format for all products that share the
 * rows.
 */
import type { AnyWeight, Dispatch, ProductInputs } from "../backend.js";
import type { BufferHandle, WeightStackHandle } from "../handles.js";
import type { ActivationFormat } from "../ops.js";
import type { Program } from "../program.js";
import type { KernelDevice } from "./library/kernels.js";
import { activationRowBytes } from "./library/packing.js";

export class RoundedInputs implements ProductInputs {
  /** Keyed by format and number of columns. */
  readonly #buffers = new Map<string, BufferHandle>();

  /** @param formats activation format of each packed weight; weights that are absent take f32 */
  constructor(
    private readonly device: KernelDevice,
    private readonly formats: ReadonlyMap<AnyWeight, ActivationFormat>,
    private readonly maxRows: number,
  ) {}

  prepare(
    program: Program,
    x: BufferHandle,
    weights: readonly AnyWeight[],
    numRows: number,
    cols: number,
  ): readonly BufferHandle[] {
    return this.#forFormats(weights, (format) => {
      if (format === "f32") return x;
      const out = this.#bufferFor(format, cols);
      program.record("quantize", { out, x, numRows, width: cols, format });
      return out;
    });
  }

  dispatch(
    program: Program,
    x: BufferHandle,
    weights: readonly WeightStackHandle[],
    dispatch: Dispatch,
    cols: number,
  ): readonly BufferHandle[] {
    return this.#forFormats(weights, (format) => {
      const out = this.#bufferFor(format, cols);
      program.record("dispatchRows", { out, x, ...dispatch, width: cols, format });
      return out;
    });
  }

  /** @param prepare called once for each format */
  #forFormats(weights: readonly AnyWeight[], prepare: (format: ActivationFormat) => BufferHandle) {
    const prepared = new Map<ActivationFormat, BufferHandle>();
    return weights.map((weight) => {
      const format = this.formats.get(weight) ?? "f32";
      const buffer = prepared.get(format) ?? prepare(format);
      prepared.set(format, buffer);
      return buffer;
    });
  }

  #bufferFor(format: ActivationFormat, cols: number): BufferHandle {
    const key = `${format} ${cols}`;
    const known = this.#buffers.get(key) ?? this.device.allocate(this.maxRows * activationRowBytes(format, cols));
    this.#buffers.set(key, known);
    return known;
  }
}
