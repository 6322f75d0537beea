/** How often a drafter's guesses of a kind come true: learnt for each request, starting from what the whole server has learnt. */
import { NUM_KINDS } from "./drafter.js";

/** Guesses after which an older one counts half: of one request, of all. */
const REQUEST_MEMORY = 48;
const SERVER_MEMORY = 512;
/** The server's estimate counts as much as this many guesses of the request's own. */
const PRIOR_WEIGHT = 8;
/** What is believed of each kind before anything was tried. */
const FIRST_GUESS = [0.4, 0.5, 0.6, 0.7, 0.8, 0.85];
/** Steps without a draft after which half of what a request learnt is forgotten, so that a changed text is tried again. */
const IDLE_MEMORY = 96;

const KEPT_PER_IDLE_STEP = 0.5 ** (1 / IDLE_MEMORY);

/** Right and all guesses, older ones fading. */
class Rate {
  readonly #kept: number;
  #right = 0;
  #all = 0;

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

  estimate(prior: number, priorWeight: number): number {
    return (this.#right + prior * priorWeight) / (this.#all + priorWeight);
  }
}

const newRates = (memory: number) => Array.from({ length: NUM_KINDS }, () => new Rate(memory));

/** Of one drafter. */
export class Acceptance {
  readonly #ofServer = newRates(SERVER_MEMORY);

  newRequest(): RequestAcceptance {
    return new RequestAcceptance(this.#ofServer);
  }
}

export class RequestAcceptance {
  readonly #own = newRates(REQUEST_MEMORY);

  constructor(private readonly ofServer: readonly Rate[]) {}

  /** Probability that a token of a guess of this kind is right when those before it are. */
  estimate(kind: number): number {
    const prior = this.ofServer[kind]!.estimate(FIRST_GUESS[kind]!, PRIOR_WEIGHT);
    return this.#own[kind]!.estimate(prior, PRIOR_WEIGHT);
  }

  /** Of `numDrafted` tokens, the first `numAccepted` were right; those after the first wrong one say nothing. */
  observe(kind: number, numDrafted: number, numAccepted: number): void {
    for (let i = 0; i < Math.min(numDrafted, numAccepted + 1); i++) {
      this.#own[kind]!.count(i < numAccepted);
      this.ofServer[kind]!.count(i < numAccepted);
    }
  }

  /** A step without a draft of this drafter. */
  idle(): void {
    for (const rate of this.#own) rate.fade(KEPT_PER_IDLE_STEP);
  }
}
