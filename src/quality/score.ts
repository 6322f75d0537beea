/** What scorers give. */

export interface Score {
  /** 0 to 1. */
  readonly score: number;
  /** Whether the answer is right without reservation. */
  readonly exact: boolean;
  /** What was wrong or worth knowing. */
  readonly note?: string;
}
