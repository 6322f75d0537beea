/** Times of an answer's parts, from its updates, for APIs that report them. */
import type { GenerationUpdate } from "./generation.js";

export interface AnswerTimes {
  /** Milliseconds from the request to the answer's end, or so far. */
  readonly totalMs: number;
  /** From admission by the engine to the first token. */
  readonly promptMs: number;
  /** From the first token to the answer's end, or so far. */
  readonly answerMs: number;
}

export class AnswerClock {
  #queueMs = 0;
  #firstAtMs: number | undefined;

  /** @param startMs `performance.now()` at the request's arrival */
  constructor(private readonly startMs: number) {}

  update({ queueMs, numNewTokens }: Pick<GenerationUpdate, "queueMs" | "numNewTokens">): void {
    this.#queueMs = Math.max(this.#queueMs, queueMs);
    if (numNewTokens > 0) this.#firstAtMs ??= performance.now();
  }

  /** Up to now. */
  times(): AnswerTimes {
    const endMs = performance.now();
    const firstMs = this.#firstAtMs ?? endMs;
    return {
      totalMs: endMs - this.startMs,
      promptMs: Math.max(0, firstMs - this.startMs - this.#queueMs),
      answerMs: endMs - firstMs,
    };
  }
}
