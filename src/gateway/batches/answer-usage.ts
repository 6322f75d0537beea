/** Token counts of a whole answer, in OpenAI's convention whichever API it is of: the input includes what was cached, the output what was reasoned. */
import { UsageReader } from "../api/usage.js";
import { type BatchUsage, NO_USAGE } from "./record.js";

/** Larger answers, such as vectors, are not parsed for it: their counts are near the end. */
const MAX_PARSED_BYTES = 256 * 1024;

type Counts = Readonly<Record<string, unknown>>;

export function usageOf(body: Buffer): BatchUsage {
  if (body.length > MAX_PARSED_BYTES) {
    const reader = new UsageReader();
    reader.push(body);
    const { inputTokens = 0, outputTokens = 0 } = reader.read() ?? {};
    return { ...NO_USAGE, input: inputTokens, output: outputTokens };
  }
  try {
    const { usage } = JSON.parse(body.toString("utf8")) as { readonly usage?: Counts };
    return usage === undefined || usage === null ? NO_USAGE : readCounts(usage);
  } catch {
    return NO_USAGE;
  }
}

function readCounts(usage: Counts): BatchUsage {
  const inputDetails = (usage.prompt_tokens_details ?? usage.input_tokens_details) as Counts | null | undefined;
  const outputDetails = (usage.completion_tokens_details ?? usage.output_tokens_details) as Counts | null | undefined;
  // Anthropic's input_tokens leave out what was read from the cache or written to it.
  const cacheRead = count(usage.cache_read_input_tokens);
  const cacheWrite = count(usage.cache_creation_input_tokens);
  return {
    input: count(usage.prompt_tokens ?? usage.input_tokens) + cacheRead + cacheWrite,
    cached: count(inputDetails?.cached_tokens) + cacheRead,
    output: count(usage.completion_tokens ?? usage.output_tokens),
    reasoning: count(outputDetails?.reasoning_tokens),
  };
}

const count = (value: unknown): number =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : 0;
