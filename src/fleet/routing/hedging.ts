/**
 * Decides when a request also goes to a second instance: after the time within which 95 % of requests of its size have
 * begun to answer, within a budget of extra requests, and not while the instances are busy. Otherwise a backend that
 * turns slow would get twice its load.
 */

/** Share of requests that may be sent twice. */
const BUDGET = 0.05;
/** Extra requests allowed at once, before the share counts. */
const BURST = 10;
/** Share of seats in use above which no request is sent twice. */
const MAX_UTILISATION = 0.7;
/** Samples that a size class needs before its percentile counts. */
const MIN_SAMPLES = 40;
const NUM_SAMPLES = 200;
/** The percentile is computed again after this many samples. */
const REFRESH = 10;
const PERCENTILE = 0.95;
/** A shorter delay would hedge requests that are fast anyway. */
const MIN_DELAY_MS = 5;

interface SizeClass {
  readonly samplesMs: Float64Array;
  numSeen: number;
  delayMs: number | undefined;
}

interface ModelState {
  credit: number;
  readonly classes: Map<number, SizeClass>;
}

export class Hedging {
  readonly #models = new Map<string, ModelState>();

  /** Call it once for each request. */
  requested(model: string): void {
    const state = this.#of(model);
    state.credit = Math.min(BURST, state.credit + BUDGET);
  }

  /** Time to wait for the first byte of a prompt of this size; undefined: too few samples. */
  delayMs(model: string, promptTokens: number): number | undefined {
    return this.#of(model).classes.get(classOf(promptTokens))?.delayMs;
  }

  /** @param ms time from sending the request to the first byte, or until no attempt waited for it any more */
  observe(model: string, promptTokens: number, ms: number): void {
    const { classes } = this.#of(model);
    const key = classOf(promptTokens);
    let known = classes.get(key);
    if (known === undefined) {
      known = { samplesMs: new Float64Array(NUM_SAMPLES), numSeen: 0, delayMs: undefined };
      classes.set(key, known);
    }
    known.samplesMs[known.numSeen % NUM_SAMPLES] = ms;
    known.numSeen++;
    if (known.numSeen < MIN_SAMPLES || known.numSeen % REFRESH !== 0) return;
    // A typed array sorts by number, without a call for each comparison.
    const sorted = known.samplesMs.slice(0, known.numSeen).sort();
    known.delayMs = Math.max(MIN_DELAY_MS, sorted[Math.ceil(PERCENTILE * sorted.length) - 1]!);
  }

  /** Whether the budget allows one more. @param utilisation share of the model's seats in use */
  mayHedge(model: string, utilisation: number): boolean {
    return utilisation <= MAX_UTILISATION && this.#of(model).credit >= 1;
  }

  /** Call it when a request is sent twice. */
  hedged(model: string): void {
    this.#of(model).credit -= 1;
  }

  #of(model: string): ModelState {
    let state = this.#models.get(model);
    if (state === undefined) {
      state = { credit: BURST, classes: new Map() };
      this.#models.set(model, state);
    }
    return state;
  }
}

/** Prompts within a factor of four of each other. */
const classOf = (promptTokens: number): number => Math.floor(Math.log2(Math.max(1, promptTokens)) / 2);
