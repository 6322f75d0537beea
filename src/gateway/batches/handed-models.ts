/** The gateway's side of handing a batch's lines to the provider's batch endpoint: interfaces only. */
import type { MillraceError } from "../../core/errors.js";
import type { AnswerSink } from "../answer.js";
import type { LineEstimate } from "../budget/handed-limits.js";
import type { Amounts } from "../budget/store.js";
import type { Ending } from "../pipeline.js";
import type { BatchEndpoint } from "../provider-batches/endpoint.js";
import type { TieredPrice } from "../usage/price.js";
import type { LineSubmission } from "./run-line.js";

export interface PreparedLine {
  /** The path of the provider's API, such as /v1/chat/completions. */
  readonly path: string;
  /** Headers of the provider's API, which hold for all lines of a batch: its version and betas. */
  readonly headers: Readonly<Record<string, string>>;
  /** JSON, in the provider's dialect. */
  readonly body: Buffer;
  /** Price of the answer. Undefined: the model has none. */
  readonly price: TieredPrice | undefined;
  /** Undefined: no budget applies. */
  readonly estimate: LineEstimate | undefined;
}

export interface ProviderAnswer {
  /** The price when the line was handed over. Undefined: the current price holds. */
  readonly price: TieredPrice | undefined;
  readonly status: number;
  readonly body: Buffer;
  /** Set when the answer has passed the policies up to where a request would be sent: it is booked. */
  isTaken: boolean;
}

export interface HandedModels {
  /** Whether lines for a model, by any of its names, go to its provider's batch endpoint. */
  isHanded(model: string): boolean;
  /** Undefined: the endpoint is not known yet, or no longer. */
  endpointOf(model: string): BatchEndpoint | undefined;
  /** The line in the provider's form. Rejects with the error that becomes the line's answer. */
  prepare(line: LineSubmission): Promise<PreparedLine>;
  /**
   * Passes a line's answer or error through the policies that read and charge answers. Settles when kill -9 cannot undo
   * the booking: a line whose result is kept is never booked again.
   */
  book(line: LineSubmission, answer: ProviderAnswer | MillraceError, sink: AnswerSink): Promise<Ending>;
  readonly budget: {
    /** Rejects with budget_exceeded, or with another error while the store is down. */
    reserve(id: string, estimate: LineEstimate): Promise<void>;
    shrink(id: string, amounts: Amounts): Promise<void>;
    /** Ends a reservation, if there is one. A repetition changes nothing. */
    release(id: string, spent: Amounts): Promise<void>;
  };
  readonly pauses: {
    /** Wait between two polls of the same state, which grows from `firstMs` to `mostMs`. */
    readonly firstMs: number;
    readonly mostMs: number;
    /** Longest time in which a request with a broken connection may still become a batch. */
    readonly settleMs: number;
  };
}
