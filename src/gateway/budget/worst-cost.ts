/** The highest cost of tokens, while it is unknown which of them come from a cache. */
import type { Price } from "../usage/price.js";
import { amountOf } from "./claims.js";

const TOKENS = 1_000_000n;

/** Budgets of tokens are paid in a currency of their own: each token costs one. */
export const TOKEN_PRICE: Price = {
  version: "tokens",
  fresh: TOKENS,
  cacheRead: TOKENS,
  cacheWrite: TOKENS,
  output: TOKENS,
};

export class WorstCost {
  readonly #prompt: bigint;
  readonly #output: bigint;

  constructor(readonly price: Price) {
    const { fresh, cacheRead, cacheWrite, output } = price;
    this.#prompt = [cacheRead, cacheWrite].reduce((most, each) => (each > most ? each : most), fresh);
    this.#output = output;
  }

  get isFree(): boolean {
    return this.#prompt === 0n && this.#output === 0n;
  }

  /** Nano-dollars; tokens at TOKEN_PRICE. */
  of(promptTokens: number, outputTokens: number): number {
    const total = BigInt(Math.ceil(promptTokens)) * this.#prompt + BigInt(Math.ceil(outputTokens)) * this.#output;
    return amountOf((total + TOKENS - 1n) / TOKENS);
  }

  /** Largest number of output tokens that an amount pays beside a prompt. */
  outputFor(money: number, promptTokens: number): number {
    if (this.#output === 0n) return Number.MAX_SAFE_INTEGER;
    const left = BigInt(money) * TOKENS - BigInt(Math.ceil(promptTokens)) * this.#prompt;
    return left <= 0n ? 0 : amountOf(left / this.#output);
  }
}
