/** Costs by prices that depend on the length of the prompt. */
import type { Price, TieredPrice } from "../usage/price.js";
import type { Charge, TokenCounts } from "../usage/record.js";
import { promptTokensOf } from "../usage/token-counts.js";
import { costOf } from "./price.js";

/** The charge for counts, by the tier of their prompt. */
export function chargeOf(counts: TokenCounts, price: TieredPrice): Charge {
  const { above } = price;
  const tier = above !== undefined && promptTokensOf(counts) > above.promptTokens ? above.price : price;
  return { nanoDollars: costOf(counts, tier), price: tier.version };
}

/** The price at a share of itself, in thousandths, rounded up. @example scaled(price, 500, "batch") */
export function scaled(price: TieredPrice, thousandths: bigint, name: string): TieredPrice {
  const part = (nano: bigint): bigint => (nano * thousandths + 999n) / 1000n;
  const one = ({ version, fresh, cacheRead, cacheWrite, output }: Price): Price => ({
    version: `${version}, ${name}`,
    fresh: part(fresh),
    cacheRead: part(cacheRead),
    cacheWrite: part(cacheWrite),
    output: part(output),
  });
  const { above } = price;
  return { ...one(price), ...(above === undefined ? {} : { above: { ...above, price: one(above.price) } }) };
}
