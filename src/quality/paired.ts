/**
 * Statistics of two models on the same items. `before` and `after` are 1 for a right answer and 0 for a wrong one; the
 * drop is the share of right answers before minus the share after, so a negative drop is a gain.
 */

const Z_TWO_SIDED_95 = 1.959964;
/** One-sided 95 % confidence. */
const Z_CONFIDENCE = 1.644854;

/** Differences between paired answers. */
export interface Flips {
  readonly numItems: number;
  /** Right before, wrong after. */
  readonly numLost: number;
  /** Wrong before, right after. */
  readonly numWon: number;
}

export interface Pair {
  readonly before: boolean;
  readonly after: boolean;
}

export function flipsOf(pairs: readonly Pair[]): Flips {
  const numLost = pairs.filter(({ before, after }) => before && !after).length;
  const numWon = pairs.filter(({ before, after }) => !before && after).length;
  return { numItems: pairs.length, numLost, numWon };
}

export const dropOf = ({ numItems, numLost, numWon }: Flips): number => (numLost - numWon) / Math.max(1, numItems);

/**
 * McNemar's test with the mid-p correction: the probability of flips at least this uneven if both models are equally
 * good.
 *
 * @returns two-sided p, 1 if nothing flipped
 */
export function mcnemarMidP({ numLost, numWon }: Flips): number {
  const numFlips = numLost + numWon;
  if (numFlips === 0) return 1;
  const least = Math.min(numLost, numWon);
  let logTerm = -numFlips * Math.LN2;
  let tail = 0;
  for (let k = 0; k <= least; k++) {
    tail += k === least ? Math.exp(logTerm) / 2 : Math.exp(logTerm);
    logTerm += Math.log((numFlips - k) / (k + 1));
  }
  return Math.min(1, 2 * tail);
}

/**
 * Variance of one pair's difference if the drop is `drop` and the flips are the likeliest for it.
 * @param lost and won as shares
 */
function varianceAt(drop: number, lost: number, won: number): number {
  const linear = -lost - won + (2 - lost + won) * drop;
  const root = Math.sqrt(Math.max(0, linear ** 2 + 8 * won * drop * (1 - drop)));
  return Math.max((root - linear) / 2 + drop * (1 - drop), Number.MIN_VALUE);
}

/**
 * Tango's score statistic for "the drop is `drop`" (Statistics in Medicine 17, 1998, 891): about normal, even with few
 * flips.
 */
const tangoScore = ({ numItems: n, numLost: b, numWon: c }: Flips, drop: number): number =>
  (b - c - n * drop) / Math.sqrt(n * varianceAt(drop, b / n, c / n));

const BISECTIONS = 50;

/** The drops whose score is within ±z. */
function dropWithin(flips: Flips, z: number): readonly [low: number, high: number] {
  if (flips.numItems === 0) return [-1, 1];
  const solve = (wanted: number): number => {
    let [low, high] = [-1, 1];
    for (let i = 0; i < BISECTIONS; i++) {
      const middle = (low + high) / 2;
      // The score falls as the assumed drop grows.
      if (tangoScore(flips, middle) > wanted) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  };
  return [solve(z), solve(-z)];
}

/** Two-sided 95 % interval of the drop. */
export const dropInterval = (flips: Flips): readonly [low: number, high: number] => dropWithin(flips, Z_TWO_SIDED_95);

/**
 * The drop's lower and upper bound, each with 95 % confidence. Valid for one look at a number of items chosen
 * beforehand.
 */
export const dropBounds = (flips: Flips): readonly [low: number, high: number] => dropWithin(flips, Z_CONFIDENCE);

/** Deviations of one pair's difference: at the gate's margin, which the test assumes, and of the flips themselves. */
function deviationsOf(flipShare: number, margin: number, trueDrop: number): { atMargin: number; own: number } {
  const flips = Math.max(flipShare, Math.abs(trueDrop));
  const atMargin = Math.sqrt(varianceAt(margin, (flips + trueDrop) / 2, (flips - trueDrop) / 2));
  return { atMargin, own: Math.sqrt(Math.max(flips - trueDrop ** 2, 1e-6)) };
}

/** Normal quantiles of the power that a number of items is chosen for. */
const Z_OF_POWER = { 0.8: 0.841621, 0.975: Z_TWO_SIDED_95 } as const;

/**
 * Items to show, with one-sided 95 % confidence, that a model with this true drop is within the margin.
 *
 * @param flipShare expected share of items whose answer becomes wrong or right
 * @param power probability that they show it
 * @returns undefined if the true drop reaches the margin: then no number suffices
 */
export function itemsNeeded(
  flipShare: number,
  margin: number,
  trueDrop = 0,
  power: keyof typeof Z_OF_POWER = 0.8,
): number | undefined {
  if (trueDrop >= margin) return undefined;
  const { atMargin, own } = deviationsOf(flipShare, margin, trueDrop);
  return Math.ceil(((Z_CONFIDENCE * atMargin + Z_OF_POWER[power] * own) / (margin - trueDrop)) ** 2);
}

/**
 * Probability that a gate with this margin passes a model with this true drop, in one test. With both negated: that it
 * fails the model.
 */
export function powerOf(numItems: number, flipShare: number, margin: number, trueDrop: number): number {
  const { atMargin, own } = deviationsOf(flipShare, margin, trueDrop);
  return normalCdf((Math.sqrt(numItems) * (margin - trueDrop) - Z_CONFIDENCE * atMargin) / own);
}

/** Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7. */
function normalCdf(z: number): number {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  const poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const erf = 1 - poly * Math.exp(-x * x);
  return z >= 0 ? (1 + erf) / 2 : (1 - erf) / 2;
}

/** Assumed flips before any item is seen: 5 % of 20 items. */
const PRIOR_FLIPS = 1;
const PRIOR_ITEMS = 20;
/** The largest share of its wealth that a bet risks. */
const LARGEST_BET = 0.75;

/**
 * Bets against "the drop is at least (or at most) the margin", item by item; each bet depends only on earlier items. If
 * the hypothesis holds, the wealth exceeds 20 at any time with a probability of at most 5 % (Ville's inequality), so
 * testing after every item is valid. Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting"
 * (JRSS-B 2024).
 */
class Bets {
  #numItems = 0;
  #numFlips = 0;
  #logWealth = 0;

  /**
   * @param side 1 bets that the drop is below the margin, −1 that it is above
   * @param horizon most items; determines the size of the bets
   */
  constructor(
    private readonly margin: number,
    private readonly side: 1 | -1,
    private readonly horizon: number,
  ) {}

  /** @param drop 1, 0 or −1 */
  add(drop: number): void {
    const variance = (this.#numFlips + PRIOR_FLIPS) / (this.#numItems + PRIOR_ITEMS);
    const wished = Math.sqrt((2 * Math.log(1 / ALPHA)) / (variance * this.horizon));
    // The gain of one item is within ±(1 + margin), so the wealth stays positive.
    const bet = Math.min(wished, LARGEST_BET / (1 + Math.abs(this.margin)));
    this.#logWealth += Math.log1p(bet * this.side * (this.margin - drop));
    this.#numItems++;
    this.#numFlips += Math.abs(drop);
    this.hasWon ||= this.#logWealth > Math.log(1 / ALPHA);
  }

  hasWon = false;
}

const ALPHA = 0.05;

export type Verdict = "passes" | "fails" | "undecided";

/**
 * Tests "is the drop below the margin?" after every item: each verdict has 95 % confidence, whenever the run stops.
 *
 * @param horizon most items
 */
export class SequentialGate {
  readonly #below: Bets;
  readonly #above: Bets;

  constructor(margin: number, horizon: number) {
    this.#below = new Bets(margin, 1, Math.max(1, horizon));
    this.#above = new Bets(margin, -1, Math.max(1, horizon));
  }

  add({ before, after }: Pair): Verdict {
    const drop = Number(before) - Number(after);
    // After one side has won, its verdict stays.
    if (this.verdict === "undecided") {
      this.#below.add(drop);
      this.#above.add(drop);
    }
    return this.verdict;
  }

  get verdict(): Verdict {
    if (this.#below.hasWon) return "passes";
    return this.#above.hasWon ? "fails" : "undecided";
  }
}

/** The verdict of one test with a number of items chosen beforehand. */
export function verdictOf(flips: Flips, margin: number): Verdict {
  const [low, high] = dropBounds(flips);
  if (high < margin) return "passes";
  return low > margin ? "fails" : "undecided";
}
