/** The token counts of one answer: read from its bytes, or from a provider's answer during translation. */
import { type TokenUsage, UsageReader } from "../../gateway/api/usage.js";
import type { Translation } from "../../gateway/dialects/translation.js";
import type { TokenCounts } from "../../gateway/usage/record.js";
import { promptTokensOf } from "../../gateway/usage/token-counts.js";

export class AnswerCounts {
  /** Gets the bytes of the answer; undefined: no part needs its counts. */
  readonly reader: UsageReader | undefined;

  constructor(
    isWanted: boolean,
    private readonly translation: Translation | undefined,
  ) {
    if (isWanted) this.reader = new UsageReader();
  }

  /** Counts of a complete answer. */
  whole(): TokenCounts | undefined {
    const counts = this.translation === undefined ? this.reader?.counts() : this.translation.counts();
    return counts !== undefined && this.reader?.endsByLength() === true ? { ...counts, isTruncated: true } : counts;
  }

  /** Counts of a complete answer that reports none. @param promptTokens the router's count or estimate */
  estimate(promptTokens: number, isGeneration: boolean): TokenCounts | undefined {
    return this.reader?.estimateWhole(promptTokens, isGeneration);
  }

  /** The usage for observers. */
  usage(): TokenUsage | undefined {
    if (this.translation === undefined) return this.reader?.read();
    const counts = this.translation.counts();
    return counts && { inputTokens: promptTokensOf(counts), outputTokens: counts.output };
  }

  /**
   * Counts of an answer that broke off after its beginning.
   * @param promptTokens the router's count or estimate
   */
  cut(promptTokens: number): TokenCounts | undefined {
    if (this.reader === undefined) return this.translation?.counts();
    return this.reader.estimate(promptTokens, this.translation?.counts());
  }
}
