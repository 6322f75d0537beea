/** The mean of positive values on a logarithmic scale, with bounds that hold at every look. */

export interface Bounds {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/** With fewer values, the variance is too uncertain for bounds. */
const MIN_VALUES = 30;
/** The bounds are tightest at about eight times this many values. */
const TUNING = 12;
/** Probability that a bound fails at any look. A canary has five bounds: three ratios and two limits. */
const ALPHA = 0.05 / 5;

/** Count, mean and variance of logarithms, one value at a time (Welford, Technometrics 4, 1962). */
export class LogFigures {
  #count = 0;
  #mean = 0;
  #squares = 0;

  /** @param value above 0; other values are left out */
  add(value: number): void {
    if (!(value > 0)) return;
    const log = Math.log(value);
    this.#count++;
    const distance = log - this.#mean;
    this.#mean += distance / this.#count;
    this.#squares += distance * (log - this.#mean);
  }

  get count(): number {
    return this.#count;
  }

  /** Geometric mean; undefined without values. */
  get value(): number | undefined {
    return this.#count === 0 ? undefined : Math.exp(this.#mean);
  }

  /** Bounds of the geometric mean; undefined while there are too few values. */
  bounds(): Bounds | undefined {
    return boundsOf(this.#mean, this.#variance() / this.#count, this.#count);
  }

  /** Bounds of this geometric mean ÷ the other; undefined while either has too few values. */
  ratioTo(other: LogFigures): Bounds | undefined {
    const variance = this.#variance() / this.#count + other.#variance() / other.#count;
    return boundsOf(this.#mean - other.#mean, variance, Math.min(this.#count, other.#count));
  }

  #variance(): number {
    return this.#squares / (this.#count - 1);
  }
}

/**
 * An asymptotic confidence sequence: it holds at all looks together, so a canary may be judged every second
 * (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central limit theory and asymptotic confidence
 * sequences", Annals of Statistics 52, 2024, with the normal mixture of Robbins).
 *
 * @param variance of the estimate
 * @param count of the smaller sample
 */
function boundsOf(log: number, variance: number, count: number): Bounds | undefined {
  if (count < MIN_VALUES) return undefined;
  const half = Math.sqrt(variance * (1 + TUNING / count) * Math.log((count + TUNING) / (TUNING * ALPHA ** 2)));
  return { value: Math.exp(log), low: Math.exp(log - half), high: Math.exp(log + half) };
}
