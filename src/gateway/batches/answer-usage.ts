/**
 * Token counts of a whole answer, in OpenAI's convention for every API: the input includes cached tokens, the output
 * includes reasoning.
 */
import { UsageReader } from "../api/usage.js";
import type { TokenCounts } from "../usage/record.js";
import { countsOf, promptTokensOf, type ReportedUsage } from "../usage/token-counts.js";
import { type BatchUsage, NO_USAGE } from "./record.js";

/** Larger answers, such as vectors, are not parsed for the counts, which are near the end. */
const MAX_PARSED_BYTES = 256 * 1024;

export function usageOf(body: Buffer): BatchUsage {
  const counts = countsIn(body);
  if (counts === undefined) return NO_USAGE;
  const { cacheRead: cached, output, reasoning } = counts;
  return { input: promptTokensOf(counts), cached, output, reasoning };
}

function countsIn(body: Buffer): TokenCounts | undefined {
  if (body.length > MAX_PARSED_BYTES) {
    const reader = new UsageReader();
    reader.push(body);
    return reader.counts();
  }
  try {
    const { usage } = JSON.parse(body.toString("utf8")) as { readonly usage?: ReportedUsage | null };
    return typeof usage === "object" && usage !== null ? countsOf(usage) : undefined;
  } catch {
    return undefined;
  }
}
