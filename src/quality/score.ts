/** What scorers give, and what running code gives them. */

export interface Score {
  /** 0 to 1. */
  readonly score: number;
  /** Whether the answer is right without reservation. */
  readonly exact: boolean;
  /** What was wrong or worth knowing. */
  readonly note?: string;
}

/** What one call of a generated function came to. */
export type CallResult = { readonly value: unknown } | { readonly problem: string };

/** All calls, or why none was made. */
export type RunResult = readonly CallResult[] | { readonly problem: string };
