/** Products of rows with matrices, from rows prepared by the backend; and the norm before them. */
import type { AnyWeight, Backend, ProductInputs } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { LinearOperands, Program } from "../../backend/program.js";
import type { Linear } from "./binder.js";
import type { NormWeights } from "./weights.js";

interface ProductOptions {
  /** Add to the contents of `out`. */
  readonly accumulate?: boolean | undefined;
  /** The next operation does not depend on this one. */
  readonly concurrent?: boolean;
}

export const ADDED: ProductOptions = { accumulate: true };

/** An RMS norm (each row over its root mean square, times gain) or a LayerNorm; rows have `width` values. */
interface Norm {
  /** undefined: there is no norm */
  readonly weights: NormWeights | undefined;
  readonly width: number;
  readonly eps: number;
}

/** @returns where the result is: `out`, or `x` where there is no norm */
export function recordNorm(
  program: Program,
  out: BufferHandle,
  x: BufferHandle,
  numRows: number,
  { weights, width, eps }: Norm,
): BufferHandle {
  if (weights === undefined) return x;
  const { gain, bias } = weights;
  if (bias === undefined) program.record("rmsNorm", { out, x, gain, numRows, width, eps });
  else program.record("layerNorm", { out, x, gain, bias, numRows, width, eps });
  return out;
}

/**
 * Sums or ranges of an input of products: the squares of its columns, f64 [cols], the products of all pairs of them,
 * f32 [cols, cols], or the largest magnitudes of columns, f32 [cols].
 */
export interface InputMeter {
  readonly op: "addSquares" | "addGram" | "keepLargest";
  readonly sums: BufferHandle;
}

export class Products {
  readonly #inputs: ProductInputs;
  /** By the first matrix of those that share an input. */
  meters: ReadonlyMap<AnyWeight, InputMeter> = new Map();

  /** @param maxRows most rows of a product */
  constructor(backend: Backend, maxRows: number) {
    this.#inputs = backend.productInputs(maxRows);
  }

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

  /** Each out [rows, outputs] = (+) x [rows, cols] · linearᵀ; none depends on another. */
  multiplyAll(
    program: Program,
    products: readonly { readonly out: BufferHandle; readonly linear: Linear }[],
    x: BufferHandle,
    numRows: number,
    cols: number,
    { accumulate }: Pick<ProductOptions, "accumulate"> = {},
  ): void {
    const linears = products.map(({ linear }) => linear);
    const operands = this.operands(program, x, linears, numRows, cols);
    products.forEach(({ out }, i) => {
      record(program, out, operands[i]!, numRows, { accumulate, concurrent: i < products.length - 1 });
    });
  }

  /**
   * Operands of x [rows, cols] · linearᵀ for each of `linears`; valid until the next call with the same number of
   * columns.
   */
  operands(
    program: Program,
    x: BufferHandle,
    linears: readonly Linear[],
    numRows: number,
    cols: number,
  ): readonly LinearOperands[] {
    const weights = linears.map(({ weight }) => weight);
    this.measure(program, weights[0]!, x, numRows, cols);
    const inputs = this.#inputs.prepare(program, x, weights, numRows, cols);
    return linears.map(({ weight, bias }, i) => ({ x: inputs[i]!, weight, bias }));
  }

  /** Meters x [rows, cols], where `meters` has `first`: for products that are recorded elsewhere. */
  measure(program: Program, first: AnyWeight, x: BufferHandle, numRows: number, cols: number): void {
    const meter = this.meters.get(first);
    if (meter === undefined) return;
    const { op, sums } = meter;
    if (op === "addSquares") program.record(op, { sums, x, numRows, width: cols });
    else if (op === "addGram") program.record(op, { gram: sums, x, numRows, width: cols });
    else program.record(op, { largest: sums, x, numRows, width: cols });
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
