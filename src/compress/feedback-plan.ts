/**
 * Chooses the layers that are measured together for rounding with feedback. A Gram matrix is as large as a weight
 * matrix, and each turn computes the layers before it again, so turns are as few as the memory allows, and the short
 * one comes first, where it costs least.
 */

/** Most bytes of a turn's Gram matrices and their copies. A single layer is measured even if it needs more. */
const MOST_BYTES = 3 * 2 ** 30;

/** Peak bytes of a turn: every Gram matrix or its factor, and the largest twice, while it is converted. */
export function bytesOfTurn(layers: readonly (readonly number[])[]): number {
  const grams = layers.flat();
  return grams.reduce((sum, bytes) => sum + bytes, 0) + grams.reduce((most, bytes) => Math.max(most, bytes), 0);
}

/**
 * The end of the turn that begins with layer `first`.
 * @param layers bytes of each Gram matrix, by layer
 */
export function endOfTurn(layers: readonly (readonly number[])[], first: number, mostBytes = MOST_BYTES): number {
  let end = layers.length;
  for (;;) {
    let start = end - 1;
    while (start > first && bytesOfTurn(layers.slice(start - 1, end)) <= mostBytes) start--;
    if (start <= first) return end;
    end = start;
  }
}
