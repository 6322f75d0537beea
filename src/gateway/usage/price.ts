/** Prices of a model's tokens. */

/** Nano-dollars (10⁻⁹ $) per million tokens. 0: free. */
export interface Price {
  /** Name of the price table, so that costs can be corrected if the table was wrong. */
  readonly version: string;
  readonly fresh: bigint;
  readonly cacheRead: bigint;
  readonly cacheWrite: bigint;
  readonly output: bigint;
}

/** A price with a second tier: some APIs charge more for every token of a request with a long prompt. */
export interface TieredPrice extends Price {
  readonly above?: { readonly promptTokens: number; readonly price: Price } | undefined;
}
