/**
 * Reorders measurements of the inputs of recurrent layers' output matrices, whose heads may have another order in the
 * copy than in the measured model.
 */
import type { ServableModel } from "../model/description/servable.js";
import { valueOrder } from "../model/description/value-heads.js";

type Layered = Pick<ServableModel, "layers">;

/**
 * Place of each column of a matrix's input in the measured model.
 * @param name of the matrix, without `.weight` @returns undefined: the order is the copy's
 */
export function columnsOf(measured: Layered, copy: Layered, name: string): Int32Array | undefined {
  const [, layer] = /^blk\.(\d+)\.ssm_out$/.exec(name) ?? [];
  if (layer === undefined) return undefined;
  const [from, to] = [measured, copy].map(({ layers }) => layers[Number(layer)]?.mixer);
  return from?.kind === "delta" && to?.kind === "delta" ? valueOrder(from, to.isTiled) : undefined;
}

/** @param values [cols] */
export const inOrder = (values: Float64Array, columns: Int32Array | undefined): Float64Array =>
  columns === undefined ? values : values.map((_, col) => values[columns[col]!]!);

/** Reorders the columns of a Gram matrix [cols, cols] whose lower half alone is filled. */
export function reorderGram(gram: Float32Array, columns: Int32Array): void {
  const cols = columns.length;
  for (let i = 0; i < cols; i++) for (let j = i + 1; j < cols; j++) gram[i * cols + j] = gram[j * cols + i]!;
  const row = new Float32Array(cols);
  const isMoved = new Uint8Array(cols);
  for (let first = 0; first < cols; first++) {
    if (isMoved[first] === 1) continue;
    // Moves rows along each cycle of the permutation: each row takes the place of the one before it.
    const kept = gram.slice(first * cols, (first + 1) * cols);
    for (let i = first; ; ) {
      const from = columns[i]!;
      isMoved[i] = 1;
      row.set(from === first ? kept : gram.subarray(from * cols, (from + 1) * cols));
      for (let j = 0; j < cols; j++) gram[i * cols + j] = row[columns[j]!]!;
      if (from === first) break;
      i = from;
    }
  }
}
