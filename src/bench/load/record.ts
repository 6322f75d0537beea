/** What is known of one request after it. All times are on the generator's clock. */

export const FAILURE_KINDS = ["connect", "status", "broken", "timeout", "cancelled", "length", "usage"] as const;

export interface Failure {
  /** broken: the stream ended early or with an error; length: not the tokens that were asked for; usage: it does not say how many there were. */
  readonly kind: (typeof FAILURE_KINDS)[number];
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
