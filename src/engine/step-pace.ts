/** Bounds the prompt tokens of a step with decoding sequences, so that their streams stay even. */
import type { StepCost } from "./step/step-cost.js";

/** --max-step-ms auto: longest step, as a multiple of decoding alone. */
const AUTO_FACTOR = 1.6;
/** Lower bound, so that prompts advance on any machine. */
const MIN_PROMPT_TOKENS = 4;
/** Weight of a new observation. */
const RATE = 0.1;

export class StepPace {
  /** Measured time of prompt rows over their predicted time; attention to a long context makes it large. */
  #slowness = 1;

  /** @param maxStepMs auto: a multiple of the time of decoding alone */
  constructor(
    private readonly cost: StepCost,
    private readonly maxStepMs: number | "auto",
  ) {}

  /** @param most upper bound of the result @returns the most prompt tokens that keep the step within its limit */
  promptTokensBeside(numDecodingRows: number, most: number): number {
    const decodingMs = this.cost.ms(numDecodingRows);
    const limitMs = this.maxStepMs === "auto" ? AUTO_FACTOR * decodingMs : this.maxStepMs;
    let fits = 0;
    let tooMany = most + 1;
    while (tooMany - fits > 1) {
      const middle = (fits + tooMany) >> 1;
      const ms = decodingMs + this.#slowness * (this.cost.ms(numDecodingRows + middle) - decodingMs);
      if (ms <= limitMs) fits = middle;
      else tooMany = middle;
    }
    return Math.max(Math.min(MIN_PROMPT_TOKENS, most), fits);
  }

  /** A step of decoding rows and prompt tokens took `ms`. */
  observe(numDecodingRows: number, numPromptTokens: number, ms: number): void {
    const decodingMs = this.cost.ms(numDecodingRows);
    const expected = this.cost.ms(numDecodingRows + numPromptTokens) - decodingMs;
    if (expected <= 0) return;
    const seen = Math.min(20, Math.max(0.2, (ms - decodingMs) / expected));
    this.#slowness += RATE * (seen - this.#slowness);
  }
}
