/** The `usage` block: each prompt counts once, and the tokens of all choices are summed. */
import { evictedField, type JobTotals } from "../generation/job.js";
import type { StreamUsage } from "./schema-parts.js";

interface Usage {
  readonly prompt_tokens: number;
  readonly total_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
  readonly completion_tokens_details?: { readonly reasoning_tokens: number };
  readonly kv_evicted_tokens?: number;
}

/** `promptLengths` has one entry per prompt; `totals` has `numChoices` generations per prompt, in order. */
export function usageOf(promptLengths: readonly number[], numChoices: number, totals: JobTotals): Usage {
  const promptTokens = promptLengths.reduce((sum, length) => sum + length, 0);
  const { numReasoningTokens } = totals;
  let cachedTokens = 0;
  for (let i = 0; i < totals.numCachedTokens.length; i += numChoices) cachedTokens += totals.numCachedTokens[i]!;
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + totals.numOutputTokens,
    completion_tokens: totals.numOutputTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    ...(numReasoningTokens === undefined
      ? {}
      : { completion_tokens_details: { reasoning_tokens: numReasoningTokens } }),
    ...evictedField(totals),
  };
}

/** The JSON of `usage` in all chunks of a stream except the last: the usage of one choice so far. */
export class ChunkUsage {
  readonly #usage: StreamUsage;
  readonly #numOutputTokens: number[];

  /** @param promptLengths has one entry per choice */
  constructor(
    usage: StreamUsage,
    private readonly promptLengths: readonly number[],
  ) {
    this.#usage = usage;
    this.#numOutputTokens = promptLengths.map(() => 0);
  }

  get isWanted(): boolean {
    return this.#usage !== "none";
  }

  add(index: number, numNewTokens: number): void {
    this.#numOutputTokens[index]! += numNewTokens;
  }

  /** The field with its comma; "" if the chunk has no usage. */
  field(index: number): string {
    if (this.#usage === "none") return "";
    if (this.#usage === "last") return `,"usage":null`;
    const promptTokens = this.promptLengths[index]!;
    const outputTokens = this.#numOutputTokens[index]!;
    const total = promptTokens + outputTokens;
    return `,"usage":{"prompt_tokens":${promptTokens},"total_tokens":${total},"completion_tokens":${outputTokens}}`;
  }
}
