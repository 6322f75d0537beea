/** One finished request as the load generator saw it. All times are on the generator's clock. */
import type { FailureKind } from "../results/schema.js";

export interface Failure {
  readonly kind: FailureKind;
  readonly detail: string;
}

/** The kept length of an error body. */
export const DETAIL_CHARS = 300;

export interface RequestPlace {
  readonly session: number;
  readonly turn: number;
  /** t0: when the request was due. */
  readonly intendedMs: number;
}

export interface RequestRecord extends RequestPlace {
  /** t1: when the request was handed to the socket; t0 if it never was. */
  readonly sentMs: number;
  /** Times of arrivals with tokens of any kind, including reasoning; simultaneous events count once. The first is f. */
  readonly chunkAtMs: readonly number[];
  /** Arrival of the first token after the reasoning. */
  readonly answerAtMs: number | undefined;
  /** l: the last arrival with a token or with the finish reason. */
  readonly lastMs: number;
  /** Token counts from `usage`; the output of a request for vectors is the number of its vectors. */
  readonly numPromptTokens: number;
  readonly numCachedTokens: number;
  readonly numOutputTokens: number;
  readonly finishReason: string | undefined;
  readonly failure: Failure | undefined;
}
