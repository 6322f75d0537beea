/**
 * Options of eviction: what a sequence keeps when KV memory holds less than its text. `memory/eviction.ts` says how it
 * is chosen.
 */

export const EVICTION_POLICIES = ["window", "snapkv", "chunkkv", "pyramidkv", "entropy"] as const;
export type EvictionPolicy = (typeof EVICTION_POLICIES)[number];

/** Entries that a layer keeps on average: a number of tokens, or a share of the text so far. */
type EvictionBudget = { readonly tokens: number } | { readonly share: number };

export interface EvictionOptions {
  readonly policy: EvictionPolicy;
  readonly budget: EvictionBudget;
}

/** As `--kv-eviction` has it. @example evictionText({ policy: "snapkv", budget: { share: 0.25 } }) // "snapkv:25%" */
export const evictionText = ({ policy, budget }: EvictionOptions): string =>
  `${policy}:${"tokens" in budget ? budget.tokens : `${Math.round(100 * budget.share)}%`}`;
