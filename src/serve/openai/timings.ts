/** llama-server's `timings`: the tokens of a choice and their times. */
import { AnswerClock, type AnswerTimes } from "../generation/answer-clock.js";
import type { GenerationUpdate } from "../generation/generation.js";

export class ChoiceTimings {
  readonly #clock: AnswerClock;
  #numPredicted = 0;
  #numCached = 0;
  /** Set when the choice ends. */
  #endTimes: AnswerTimes | undefined;

  /** @param startMs `performance.now()` at the request's arrival */
  constructor(
    startMs: number,
    private readonly numPromptTokens: number,
  ) {
    this.#clock = new AnswerClock(startMs);
  }

  /** Tokens of the answer so far. */
  get numPredicted(): number {
    return this.#numPredicted;
  }

  update(update: Pick<GenerationUpdate, "queueMs" | "numNewTokens" | "numCachedTokens" | "end">): void {
    this.#clock.update(update);
    this.#numPredicted += update.numNewTokens;
    this.#numCached = update.numCachedTokens;
    if (update.end !== undefined) this.#endTimes = this.#clock.times();
  }

  /** Milliseconds until the choice's end, or so far, and figures derived from them. */
  toObject(): object {
    const { promptMs, answerMs } = this.#endTimes ?? this.#clock.times();
    const perToken = (ms: number, count: number) => (count === 0 ? 0 : ms / count);
    const perSecond = (ms: number, count: number) => (ms === 0 ? 0 : (1000 * count) / ms);
    const numPrompt = this.numPromptTokens - this.#numCached;
    const numPredicted = this.#numPredicted;
    const numLater = Math.max(0, numPredicted - 1);
    return {
      cache_n: this.#numCached,
      prompt_n: numPrompt,
      prompt_ms: promptMs,
      prompt_per_token_ms: perToken(promptMs, numPrompt),
      prompt_per_second: perSecond(promptMs, numPrompt),
      predicted_n: numPredicted,
      predicted_ms: answerMs,
      // The answer's time starts at its first token, so the rates exclude that token.
      predicted_per_token_ms: perToken(answerMs, numLater),
      predicted_per_second: perSecond(answerMs, numLater),
    };
  }
}
