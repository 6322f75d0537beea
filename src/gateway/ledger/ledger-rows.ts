/** The ledger's rows for a request and each of its attempts. */
import type { TokenCounts } from "../usage/record.js";

/** A request that has begun. */
export interface OpenRequest {
  /** Position in the ledger: later requests have larger ones. */
  readonly seq: number;
  /** The client's or the gateway's id, which need not be unique. */
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly beganMs: number;
  readonly tenant: string;
  /** Empty if the caller belongs to no team. */
  readonly team: string;
  readonly key: string;
  readonly path: string;
  /** Name of the model, as the client gave it. */
  readonly asked: string;
  readonly isStream: boolean;
}

/**
 * answered, broken, cancelled: as `Ending`; refused: the gateway gave an error of its own; lost: the gateway died while
 * the request ran.
 */
export type RowOutcome = "answered" | "broken" | "cancelled" | "refused" | "lost";

export interface RequestRow extends OpenRequest {
  /** The model that answered; "": none did. */
  readonly served: string;
  readonly outcome: RowOutcome;
  /** The client's status: 499 if it left, the error's if the answer broke off, 0 if the request was lost. */
  readonly status: number;
  /** Code of the error; "": none. */
  readonly error: string;
  /** Milliseconds from the beginning to the first byte; undefined: no byte. */
  readonly firstByteMs: number | undefined;
  readonly totalMs: number;
  /** Nano-dollars that the answer would have cost without a policy, and that policy. */
  readonly saved: bigint;
  readonly savedBy: string;
  /** JSON of the policies' notes; "": none. */
  readonly notes: string;
  /** The client's own limit of tokens; undefined: none. */
  readonly maxTokens: number | undefined;
  /** Number of answers that the request asks for; undefined: unknown. */
  readonly numAnswers: number | undefined;
  /** The person whom the request serves, by the client's name; "": unknown. */
  readonly endUser: string;
  readonly attempts: readonly AttemptRow[];
}

export interface AttemptRow {
  readonly instance: string;
  readonly engine: string;
  readonly model: string;
  /** Milliseconds from the beginning of the request. */
  readonly startMs: number;
  readonly firstByteMs: number | undefined;
  readonly totalMs: number;
  readonly status: number;
  readonly outcome: string;
  /** Undefined: nothing was generated, or no counts are known. */
  readonly counts: TokenCounts | undefined;
  /** Nano-dollars; undefined: the model has no price. */
  readonly cost: bigint | undefined;
  readonly price: string;
}
