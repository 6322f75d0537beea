/** Products of rows with matrices, whose kernels may want the rows rounded to integers first; and the norm before them. */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { ActivationFormat } from "../../backend/ops.js";
import { activationRowBytes } from "../../backend/packing.js";
import type { LinearOperands, Program } from "../../backend/program.js";
import type { Linear } from "./weights.js";

interface ProductOptions {
  /** Add to what `out` has. */
  readonly accumulate?: boolean;
  /** The next operation does not depend on this one. */
  readonly concurrent?: boolean;
}

export const ADDED: ProductOptions = { accumulate: true };

/** out[r] = x[r] over its root mean square, times gain; rows of `width`. */
interface Norm {
  readonly gain: BufferHandle;
  readonly width: number;
  readonly eps: number;
}

export function recordNorm(program: Program, out: BufferHandle, x: BufferHandle, numRows: number, norm: Norm): void {
  const { gain, width, eps } = norm;
  program.record("rmsNorm", { out, x, gain, numRows, width, eps });
}

export class Products {
  /** Rounded rows, by format and columns. */
  readonly #inputs = new Map<string, BufferHandle>();

  /** @param maxRows of any product */
  constructor(
    private readonly backend: Backend,
    private readonly maxRows: number,
  ) {}

  /** out [rows, outputs] = (+) x [rows, cols] · linearᵀ */
  multiply(
    program: Program,
    out: BufferHandle,
    x: BufferHandle,
    linear: Linear,
    numRows: number,
    cols: number,
    options: ProductOptions = {},
  ): void {
    const [operands] = this.operands(program, x, [linear], numRows, cols);
    record(program, out, operands!, numRows, options);
  }

  /** Each out [rows, outputs] = x [rows, cols] · linearᵀ; none depends on another. */
  multiplyAll(
    program: Program,
    products: readonly { readonly out: BufferHandle; readonly linear: Linear }[],
    x: BufferHandle,
    numRows: number,
    cols: number,
  ): void {
    const linears = products.map(({ linear }) => linear);
    const operands = this.operands(program, x, linears, numRows, cols);
    products.forEach(({ out }, i) => {
      record(program, out, operands[i]!, numRows, { concurrent: i < products.length - 1 });
    });
  }

  /** What computes x [rows, cols] · linearᵀ for each of `linears`, until others are asked for with as many columns. */
  operands(
    program: Program,
    x: BufferHandle,
    linears: readonly Linear[],
    numRows: number,
    cols: number,
  ): readonly LinearOperands[] {
    const rounded = new Map<ActivationFormat, BufferHandle>();
    return linears.map(({ weight, bias, activations }) => {
      if (activations === "f32") return { x, weight, bias };
      let input = rounded.get(activations);
      if (input === undefined) {
        input = this.#inputOf(activations, cols);
        program.record("quantize", { out: input, x, numRows, width: cols, format: activations });
        rounded.set(activations, input);
      }
      return { x: input, weight, bias };
    });
  }

  #inputOf(format: Exclude<ActivationFormat, "f32">, cols: number): BufferHandle {
    const key = `${format} ${cols}`;
    const known = this.#inputs.get(key) ?? this.backend.allocate(this.maxRows * activationRowBytes(format, cols));
    this.#inputs.set(key, known);
    return known;
  }
}

function record(
  program: Program,
  out: BufferHandle,
  { x, weight, bias }: LinearOperands,
  numRows: number,
  { accumulate = false, concurrent = false }: ProductOptions,
): void {
  program.record("linear", { out, x, weight, bias, numRows, accumulate }, { concurrent });
}
