/** How often guesses come true, older ones fading. */

/** Guesses after which an older one counts half: of one request. */
const REQUEST_MEMORY = 48;
/** What was expected counts as much as this many guesses that were checked. */
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

  /** @param right 1 or 0, or how likely it is held to be right where nobody will know */
  count(right: number): void {
    this.#right = this.#right * this.#kept + right;
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

/** How guesses turn out, for one request or for all, against what was expected of them: each level of expectation is corrected on its own. */
export class Acceptance {
  readonly #levels: readonly Rate[];

  /** @param memory guesses after which an older one counts half */
  constructor(numLevels: number, memory = REQUEST_MEMORY) {
    this.#levels = Array.from({ length: numLevels }, () => new Rate(memory));
  }

  /** Of a guess that is expected to be right with probability `chance`. @param prior what others have made of such guesses */
  estimate(chance: number, prior = chance): number {
    return this.#levelOf(chance).estimate(prior, PRIOR_WEIGHT);
  }

  /** Of the guesses, the first `numAccepted` were right; those after the first wrong one say nothing. */
  observe(chances: readonly number[], numAccepted: number): void {
    chances.slice(0, numAccepted + 1).forEach((chance, i) => {
      this.#levelOf(chance).count(i < numAccepted ? 1 : 0);
    });
  }

  /** A guess that nobody checks, of which `chance` is expected. */
  expect(chance: number): void {
    this.#levelOf(chance).count(chance);
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
