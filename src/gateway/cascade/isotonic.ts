/** Isotonic calibration: turns scores into probabilities by the increasing function that fits the labels best. */

/**
 * A step function: a score at or above `from[i]`, and below `from[i + 1]`, has the probability `values[i]`. Scores are
 * at least 0, as `from[0]` is.
 */
export interface Isotonic {
  readonly from: readonly number[];
  readonly values: readonly number[];
}

interface Block {
  from: number;
  numRight: number;
  count: number;
}

/** Blocks have at least this many examples, so that a few lucky ones do not make a certainty. */
const MIN_BLOCK = 10;

const rateOf = ({ numRight, count }: Block): number => numRight / count;
/** Laplace's rule: between one half and the observed share. */
const smoothRate = ({ numRight, count }: Block): number => (numRight + 1) / (count + 2);

/** Pools adjacent violators. @param labels 0 or 1 */
export function fitIsotonic(scores: readonly number[], labels: readonly number[]): Isotonic {
  const order = scores.map((_, index) => index).sort((a, b) => scores[a]! - scores[b]!);
  const blocks: Block[] = [];
  for (const index of order) {
    const score = scores[index]!;
    const last = blocks.at(-1);
    // Equal scores cannot have different probabilities.
    if (last !== undefined && (last.from === score || last.count < MIN_BLOCK)) {
      last.numRight += labels[index]!;
      last.count++;
    } else blocks.push({ from: score, numRight: labels[index]!, count: 1 });
    pool(blocks);
  }
  const last = blocks.at(-1);
  if (blocks.length > 1 && last!.count < MIN_BLOCK) merge(blocks);
  pool(blocks);
  const from = blocks.map((block, index) => (index === 0 ? 0 : block.from));
  // Smoothing pulls small blocks more than large ones, so the values may need the running maximum.
  let highest = 0;
  const values = blocks.map((block) => {
    highest = Math.max(highest, smoothRate(block));
    return highest;
  });
  return { from, values };
}

/** Joins the last two blocks while they fall, unless the last one still grows. */
function pool(blocks: Block[]): void {
  while (blocks.length > 1 && blocks.at(-1)!.count >= MIN_BLOCK && rateOf(blocks.at(-2)!) >= rateOf(blocks.at(-1)!)) {
    merge(blocks);
  }
}

function merge(blocks: Block[]): void {
  const { numRight, count } = blocks.pop()!;
  const before = blocks.at(-1)!;
  before.numRight += numRight;
  before.count += count;
}

export function calibrated({ from, values }: Isotonic, score: number): number {
  let [low, high] = [0, from.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (from[middle]! <= score) low = middle;
    else high = middle - 1;
  }
  return values[low] ?? 0;
}
