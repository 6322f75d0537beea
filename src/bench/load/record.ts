/** One finished request as the load generator saw it. All times are on the generator's clock. */
import type { FailureKind } from "../results/schema.js";

export interface Failure {
  readonly kind: FailureKind;
  readonly detail: string;
}

export interface RequestRecord {
  readonly session: number;
  readonly turn: number;
  /** t0: when it was to be sent. */
  readonly intendedMs: number;
  /** t1: when it was handed to the socket; t0 for one that never was. */
  readonly sentMs: number;
  /** Arrivals that brought tokens of any kind, reasoning too; several events that came together are one. The first one is f. */
  readonly chunkAtMs: readonly number[];
  /** The first token that is no reasoning. */
  readonly answerAtMs: number | undefined;
  /** l: the last arrival with a token or with the reason why there are no more. */
  readonly lastMs: number;
  /** All of these as `usage` counts them. */
  readonly numPromptTokens: number;
  readonly numCachedTokens: number;
  readonly numOutputTokens: number;
  readonly finishReason: string | undefined;
  readonly failure: Failure | undefined;
}
