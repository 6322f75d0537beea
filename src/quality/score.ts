/** The result of a scorer. */

export interface Score {
  /** From 0 to 1. */
  readonly score: number;
  /** Whether the answer is fully right. */
  readonly exact: boolean;
  /** The fault, or another remark. */
  readonly note?: string;
}
