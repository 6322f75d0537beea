/** Lengths of earlier answers, by key and model, so that a reservation is close to a request's cost. */

/** Four buckets for each doubling: a quantile is at most 19 % too large. */
const BUCKETS_PER_OCTAVE = 4;
const NUM_BUCKETS = 30 * BUCKETS_PER_OCTAVE;
const QUANTILE = 0.95;
/** Fewer answers are no basis for an estimate. */
const WARM = 20;
/** The weight of older answers is halved each time this many are counted. */
const HALVED_AT = 1000;
const MAX_SUBJECTS = 10_000;
const INITIAL_TOKENS_PER_BYTE = 0.3;
/** Weight of a new prompt in the mean. */
const RATE = 0.05;

class Histogram {
  readonly #counts = new Float32Array(NUM_BUCKETS);
  #total = 0;

  get total(): number {
    return this.#total;
  }

  get isWarm(): boolean {
    return this.#total >= WARM;
  }

  add(value: number): void {
    const bucket = Math.min(NUM_BUCKETS - 1, Math.floor(Math.log2(value + 1) * BUCKETS_PER_OCTAVE));
    this.#counts[bucket]!++;
    this.#total++;
    if (this.#total < HALVED_AT) return;
    for (let i = 0; i < NUM_BUCKETS; i++) this.#counts[i]! /= 2;
    this.#total /= 2;
  }

  /** A value that this share of all values does not exceed. */
  quantile(share: number): number {
    let sum = 0;
    for (let i = 0; i < NUM_BUCKETS; i++) {
      sum += this.#counts[i]!;
      if (sum >= share * this.#total) return Math.ceil(2 ** ((i + 1) / BUCKETS_PER_OCTAVE)) - 1;
    }
    return 2 ** 30;
  }
}

export class AnswerStatistics {
  /** The least recently used first. */
  readonly #histograms = new Map<string, Histogram>();
  readonly #tokensPerByte = new Map<string, number>();

  /** @param subject the key, or the tenant without one @param tokens of one answer */
  answered(subject: string, model: string, tokens: number): void {
    this.#histogram(`${model}\n${subject}`).add(tokens);
    this.#histogram(model).add(tokens);
  }

  /** @param tokens of the request's texts @param numBytes of the model's input */
  prompted(model: string, tokens: number, numBytes: number): void {
    if (numBytes === 0) return;
    const before = this.#tokensPerByte.get(model) ?? INITIAL_TOKENS_PER_BYTE;
    this.#tokensPerByte.set(model, before + RATE * (Math.min(1, tokens / numBytes) - before));
  }

  /**
   * The 95th percentile of the key's answers of the model, else of all keys'. @param cold the result while few are
   * known
   */
  outputTokens(subject: string, model: string, cold: number): number {
    for (const key of [`${model}\n${subject}`, model]) {
      const histogram = this.#histograms.get(key);
      if (histogram?.isWarm) return histogram.quantile(QUANTILE);
    }
    return cold;
  }

  /**
   * The length that this share of the key's answers of the model does not exceed, else of all keys' answers.
   *
   * @param least answers that a quantile needs @returns undefined while there are fewer
   */
  quantile(subject: string, model: string, share: number, least: number): number | undefined {
    const known = [`${model}\n${subject}`, model].map((key) => this.#histograms.get(key));
    return known.find((histogram) => histogram !== undefined && histogram.total >= least)?.quantile(share);
  }

  promptTokens(model: string, numBytes: number): number {
    return Math.ceil(numBytes * (this.#tokensPerByte.get(model) ?? INITIAL_TOKENS_PER_BYTE));
  }

  #histogram(key: string): Histogram {
    const histogram = this.#histograms.get(key) ?? new Histogram();
    this.#histograms.delete(key);
    this.#histograms.set(key, histogram);
    const [oldest] = this.#histograms.keys();
    if (this.#histograms.size > MAX_SUBJECTS) this.#histograms.delete(oldest!);
    return histogram;
  }
}
