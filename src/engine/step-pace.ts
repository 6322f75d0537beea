/** How many prompt tokens a step may compute beside sequences that decode, so that their tokens keep coming. */
import type { StepCost } from "./step/step-cost.js";

/** Of --max-step-ms auto: how much longer than decoding alone a step may take. */
const AUTO_FACTOR = 1.6;
/** However slow the machine, prompts get on. */
const MIN_PROMPT_TOKENS = 4;
const RATE = 0.1;

export class StepPace {
  /** How much longer steps with prompts take than the cost of their rows: attention to a long past, above all. */
  #slowness = 1;

  /** @param maxStepMs auto: in proportion to what decoding takes */
  constructor(
    private readonly cost: StepCost,
    private readonly maxStepMs: number | "auto",
  ) {}

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
