/** How often guesses come true, older ones fading. */

/** Guesses after which an older one counts half: of one request. */
const REQUEST_MEMORY = 48;
/** What is estimated for everybody counts as much as this many guesses of the request's own. */
const PRIOR_WEIGHT = 8;
/** Steps without a draft after which half of what a request learnt is forgotten, so that a changed text is tried again. */
const IDLE_MEMORY = 96;

const KEPT_PER_IDLE_STEP = 0.5 ** (1 / IDLE_MEMORY);

/** Right and all guesses. */
export class Rate {
  readonly #kept: number;
  #right = 0;
  #all = 0;

  /** @param memory guesses after which an older one counts half */
  constructor(memory: number) {
    this.#kept = 0.5 ** (1 / memory);
  }

  count(isRight: boolean): void {
    this.#right = this.#right * this.#kept + (isRight ? 1 : 0);
    this.#all = this.#all * this.#kept + 1;
  }

  fade(kept: number): void {
    this.#right *= kept;
    this.#all *= kept;
  }

  /** @param prior what is believed without any guess; @param priorWeight how many guesses that counts as much as */
  estimate(prior: number, priorWeight: number): number {
    return (this.#right + prior * priorWeight) / (this.#all + priorWeight);
  }
}

/** How the guesses for one request turn out, against what is estimated for everybody: a level of that is corrected on its own. */
export class RequestAcceptance {
  readonly #levels: readonly Rate[];

  constructor(numLevels: number) {
    this.#levels = Array.from({ length: numLevels }, () => new Rate(REQUEST_MEMORY));
  }

  /** Of a guess that is right with probability `chance` elsewhere. */
  estimate(chance: number): number {
    return this.#levelOf(chance).estimate(chance, PRIOR_WEIGHT);
  }

  /** Of the guesses, the first `numAccepted` were right; those after the first wrong one say nothing. */
  observe(chances: readonly number[], numAccepted: number): void {
    chances.slice(0, numAccepted + 1).forEach((chance, i) => {
      this.#levelOf(chance).count(i < numAccepted);
    });
  }

  /** A step without a draft. */
  idle(): void {
    for (const level of this.#levels) level.fade(KEPT_PER_IDLE_STEP);
  }

  #levelOf(chance: number): Rate {
    const { length } = this.#levels;
    return this.#levels[Math.min(length - 1, Math.floor(chance * length))]!;
  }
}
