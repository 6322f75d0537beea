/**
 * Finds the free parameters of a source from its figures without the one to predict, so that no figure helps to predict
 * itself.
 */
import type { PublishedFigure } from "./data/published.js";

const sharesReading = (a: PublishedFigure, b: PublishedFigure): boolean =>
  (a.readings ?? []).some((reading) => b.readings?.includes(reading) === true);

interface Told {
  /** Index among the options of the figure's family. */
  readonly option: number;
  readonly numSiblings: number;
}

/**
 * The option with the least error over the family's other figures: the sum of |log(predicted ÷ published)|, in which
 * one outlier does not dominate. Figures from the same published number are left out too.
 * @param predictions of each figure, under each option of its family
 */
export function toldByOthers(
  figures: readonly PublishedFigure[],
  predictions: readonly (readonly number[])[],
  index: number,
): Told {
  const own = figures[index]!;
  const isSibling = (other: PublishedFigure, i: number): boolean =>
    i !== index &&
    own.family !== undefined &&
    other.family === own.family &&
    other.metric === own.metric &&
    !sharesReading(own, other);
  const siblings = figures.flatMap((other, i) =>
    isSibling(other, i) ? [{ value: other.value, of: predictions[i]! }] : [],
  );
  if (siblings.length === 0) return { option: 0, numSiblings: 0 };
  const offs = predictions[index]!.map((_, option) =>
    siblings.reduce((sum, { value, of }) => sum + Math.abs(Math.log(of[option]! / value)), 0),
  );
  // Among equally good options, the one nearest to their middle counts.
  const least = Math.min(...offs);
  const best = offs.flatMap((off, option) => (off <= least + 1e-9 ? [option] : []));
  return { option: best[Math.floor((best.length - 1) / 2)]!, numSiblings: siblings.length };
}
