/** Brings matrices into the layout the kernels compute fastest with. */
import type { BufferHandle, Device, WeightHandle } from "../../kernels/kernels.js";
import { type ActivationFormat, packedActivations, packedByteLength } from "../../kernels/packing.js";
import { Program } from "../../kernels/program.js";
import type { MatrixPlace } from "./tensor-source.js";

/** auto: integers for quantised weights; f32: activations stay as they are, at a fraction of the speed. */
export type ActivationDtype = "auto" | "f32";

export interface PlacedWeight {
  readonly weight: WeightHandle;
  /** What the left operand of `linear` must be. */
  readonly activations: ActivationFormat;
}

export class WeightPacker {
  /** Bytes of memory the packed matrices take. */
  numBytes = 0;
  readonly #program = new Program();

  constructor(
    private readonly device: Device,
    private readonly activationDtype: ActivationDtype,
  ) {}

  /** The matrix [rows, cols], packed where its type has a packed form. */
  place({ memory, byteOffset, type, isOwned }: MatrixPlace, rows: number, cols: number): PlacedWeight {
    const inRows = this.device.createWeight(memory, byteOffset, type, rows, cols);
    const activations = packedActivations(type);
    if (activations === undefined || this.activationDtype === "f32") return { weight: inRows, activations: "f32" };
    const numBytes = packedByteLength(type, rows, cols)!;
    const packed: BufferHandle = this.device.allocate(numBytes);
    this.#program.clear();
    this.#program.pack(packed, 0, inRows);
    this.device.submit(this.#program.words, this.#program.numWords);
    this.device.releaseWeight(inRows);
    if (isOwned === true) this.device.release(memory as BufferHandle);
    this.numBytes += numBytes;
    return { weight: this.device.createWeight(packed, 0, type, rows, cols, true), activations };
  }
}
