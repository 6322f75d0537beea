/** Rounds activation rows to the integer formats of packed weights, once per format for all products that share the rows. */
import type { ProductInputs } from "../backend.js";
import type { BufferHandle, WeightHandle } from "../handles.js";
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
    private readonly formats: ReadonlyMap<WeightHandle, ActivationFormat>,
    private readonly maxRows: number,
  ) {}

  prepare(
    program: Program,
    x: BufferHandle,
    weights: readonly WeightHandle[],
    numRows: number,
    cols: number,
  ): readonly BufferHandle[] {
    const prepared = new Map<ActivationFormat, BufferHandle>();
    return weights.map((weight) => {
      const format = this.formats.get(weight) ?? "f32";
      if (format === "f32") return x;
      const out = prepared.get(format) ?? this.#bufferFor(format, cols);
      if (!prepared.has(format)) program.record("quantize", { out, x, numRows, width: cols, format });
      prepared.set(format, out);
      return out;
    });
  }

  #bufferFor(format: ActivationFormat, cols: number): BufferHandle {
    const key = `${format} ${cols}`;
    const known = this.#buffers.get(key) ?? this.device.allocate(this.maxRows * activationRowBytes(format, cols));
    this.#buffers.set(key, known);
    return known;
  }
}
