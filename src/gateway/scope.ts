/**
 * The scopes that a request is charged to: its key, the key's team and the team's organisation, each with limits of its
 * own.
 */

/** Windows are of the UTC calendar. */
export const BUDGET_WINDOWS = ["hour", "day", "month"] as const;
export type BudgetWindow = (typeof BUDGET_WINDOWS)[number];

/** Money that may be spent in each window, in nano-dollars. */
export interface Budget {
  readonly window: BudgetWindow;
  /** No request may spend more. Absent: unlimited. */
  readonly hard?: bigint | undefined;
  /** Spending more is reported. Absent: nothing is. */
  readonly soft?: bigint | undefined;
}

/** An absent limit is unlimited. */
export interface ScopeLimits {
  readonly requestsPerMinute?: number | undefined;
  /** Prompt and output together. */
  readonly tokensPerMinute?: number | undefined;
  readonly concurrentRequests?: number | undefined;
  /** At most one of each window. */
  readonly budgets: readonly Budget[];
}

export type ScopeKind = "org" | "team" | "key";

export interface Scope {
  readonly kind: ScopeKind;
  /** Unique within its kind. The id of a team is that of its organisation, a slash, and a name. */
  readonly id: string;
  readonly limits: ScopeLimits;
}
