/** Acceptance rates of drafted tokens, with fading memory. */

/** Half-life of an observation, in drafted tokens of one request. */
const REQUEST_MEMORY = 48;
/** Weight of the prior, in verified tokens. */
const PRIOR_WEIGHT = 8;
/** Half-life of a request's rates, in steps without a draft: drafting is tried again when the text may have changed. */
const IDLE_MEMORY = 96;

const KEPT_PER_IDLE_STEP = 0.5 ** (1 / IDLE_MEMORY);

/** Accepted and verified tokens, both with fading weights. */
export class Rate {
  readonly #kept: number;
  #right = 0;
  #all = 0;

  /** @param memory half-life of an observation, in drafted tokens */
  constructor(memory: number) {
    this.#kept = 0.5 ** (1 / memory);
  }

  /** @param right 1 or 0; the expected probability for a token that is never verified */
  count(right: number): void {
    this.#right = this.#right * this.#kept + right;
    this.#all = this.#all * this.#kept + 1;
  }

  fade(kept: number): void {
    this.#right *= kept;
    this.#all *= kept;
  }

  /** @param prior the estimate before any observation; @param priorWeight its weight in observations */
  estimate(prior: number, priorWeight: number): number {
    return (this.#right + prior * priorWeight) / (this.#all + priorWeight);
  }
}

/**
 * Acceptance rates by expected probability, of one request or of all: each level of expectation is corrected on its
 * own.
 */
export class Acceptance {
  readonly #levels: readonly Rate[];

  /** @param memory half-life of an observation, in drafted tokens */
  constructor(numLevels: number, memory = REQUEST_MEMORY) {
    this.#levels = Array.from({ length: numLevels }, () => new Rate(memory));
  }

  /**
   * The corrected probability of a token that the drafter expects with probability `chance`.
   * @param prior the rate of such tokens elsewhere
   */
  estimate(chance: number, prior = chance): number {
    return this.#levelOf(chance).estimate(prior, PRIOR_WEIGHT);
  }

  /** The first `numAccepted` tokens were accepted. Tokens after the first rejected one say nothing. */
  observe(chances: readonly number[], numAccepted: number): void {
    chances.slice(0, numAccepted + 1).forEach((chance, i) => {
      this.#levelOf(chance).count(i < numAccepted ? 1 : 0);
    });
  }

  /** Counts one token, independently of the others. */
  count(chance: number, isRight: boolean): void {
    this.#levelOf(chance).count(isRight ? 1 : 0);
  }

  /** Counts a token that is never verified, as accepted with its expected probability. */
  expect(chance: number): void {
    this.#levelOf(chance).count(chance);
  }

  /** Counts a step without a draft. */
  idle(): void {
    for (const level of this.#levels) level.fade(KEPT_PER_IDLE_STEP);
  }

  #levelOf(chance: number): Rate {
    const { length } = this.#levels;
    return this.#levels[Math.min(length - 1, Math.floor(chance * length))]!;
  }
}
