/** Costs of a model's tokens. */
import { formatDollars } from "../money.js";
import type { Price } from "../usage/price.js";
import type { Rate, TokenCounts } from "../usage/record.js";

export interface PriceBook {
  /**
   * @param model the model's name in the configuration
   * @param rate full if absent
   * @returns undefined if the model has no price, which is not the same as being free
   */
  priceOf(model: string, rate?: Rate): Price | undefined;
}

const TOKENS = 1_000_000n;

/**
 * All amounts of a price, for a version that states them.
 * @example "fresh $1, cache_read $0.1, cache_write $1, output $4 per million tokens"
 */
export function amountsText({ fresh, cacheRead, cacheWrite, output }: Omit<Price, "version">): string {
  const amounts = { fresh, cache_read: cacheRead, cache_write: cacheWrite, output };
  const parts = Object.entries(amounts).map(([name, nano]) => `${name} $${formatDollars(nano)}`);
  return `${parts.join(", ")} per million tokens`;
}

/** Nano-dollars, rounded up. */
export function costOf(counts: TokenCounts, price: Price): bigint {
  const { fresh, cacheRead, cacheWrite, output } = counts;
  const total =
    BigInt(fresh) * price.fresh +
    BigInt(cacheRead) * price.cacheRead +
    BigInt(cacheWrite) * price.cacheWrite +
    BigInt(output) * price.output;
  return (total + TOKENS - 1n) / TOKENS;
}
