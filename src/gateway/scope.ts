/**
 * The scopes that a request is charged to: its key, the key's team and the team's organisation, each with its own
 * limits.
 */

/** Windows are of the UTC calendar; `total` never ends. */
export const BUDGET_WINDOWS = ["hour", "day", "month", "total"] as const;
export type BudgetWindow = (typeof BUDGET_WINDOWS)[number];

/** Nano-dollars, or tokens of prompts and answers. */
export const BUDGET_UNITS = ["money", "tokens"] as const;
export type BudgetUnit = (typeof BUDGET_UNITS)[number];

/** An amount that may be spent in a window. */
export interface Budget {
  readonly unit: BudgetUnit;
  readonly window: BudgetWindow;
  /** No request may spend more. Absent: unlimited. */
  readonly hard?: bigint | undefined;
  /** Spending beyond it is reported. Absent: nothing is. */
  readonly soft?: bigint | undefined;
}

/** An absent limit is unlimited. */
export interface ScopeLimits {
  readonly requestsPerMinute?: number | undefined;
  /** Prompt and output together. */
  readonly tokensPerMinute?: number | undefined;
  readonly concurrentRequests?: number | undefined;
  /** At most one of each unit and window. */
  readonly budgets: readonly Budget[];
}

export type ScopeKind = "org" | "team" | "key";

export interface Scope {
  readonly kind: ScopeKind;
  /** Unique within its kind. The id of a team is that of its organisation, a slash, and a name. */
  readonly id: string;
  readonly limits: ScopeLimits;
}
