/** The orders in which files have the value heads of layers with a recurrent state. */
import type { DeltaMixer } from "./model-description.js";

/**
 * Where each value head of the wanted order is in the mixer's own.
 * @param isTiled the wanted order: head h shares the key head h modulo their number; false: neighbours share one
 * @returns undefined: both orders are the same
 * @example headOrder({ ...mixer, numHeads: 4, numKeyHeads: 2, isTiled: false }, true) // [0, 2, 1, 3]
 */
export function headOrder(mixer: DeltaMixer, isTiled: boolean): readonly number[] | undefined {
  const { numHeads, numKeyHeads } = mixer;
  const perKeyHead = numHeads / numKeyHeads;
  if (mixer.isTiled === isTiled || perKeyHead === 1 || numKeyHeads === 1) return undefined;
  const [inner, outer] = isTiled ? [numKeyHeads, perKeyHead] : [perKeyHead, numKeyHeads];
  return Array.from({ length: numHeads }, (_, head) => (head % inner) * outer + Math.floor(head / inner));
}

/** The same of each value of all heads, which the layer's output matrix reads. */
export function valueOrder(mixer: DeltaMixer, isTiled: boolean): Int32Array | undefined {
  const { numHeads, valueDim } = mixer;
  const heads = headOrder(mixer, isTiled);
  if (heads === undefined) return undefined;
  return Int32Array.from(
    { length: numHeads * valueDim },
    (_, at) => heads[Math.floor(at / valueDim)]! * valueDim + (at % valueDim),
  );
}
