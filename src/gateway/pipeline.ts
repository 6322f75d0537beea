/**
 * The gateway's policies, in order. Each policy gets a request and answers it, or passes it on, changed or not, with a
 * sink of its own before the client's. The last handler sends it to an upstream.
 */
import type { MillraceError } from "../core/errors.js";
import type { AnswerSink } from "./answer.js";
import type { GatewayRequest } from "./request.js";

/** How a request ended after its first byte, or without one. */
export type Ending =
  /** The sink got a whole answer, which may be an upstream's error. */
  | { readonly kind: "answered"; readonly status: number }
  /** The answer broke off after its first byte. */
  | { readonly kind: "broken"; readonly status: number; readonly error: MillraceError }
  /** The client left, or the cancellation's error has ended the answer. */
  | { readonly kind: "cancelled" };

/** Rejects with a MillraceError if the sink got nothing, not even a head: another answer may still follow. */
export type Handler = (request: GatewayRequest, sink: AnswerSink) => Promise<Ending>;

export interface Policy {
  /** Names the policy in logs and in notes of the ledger. */
  readonly name: string;
  handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending>;
  /** Frees the policy's resources. */
  close?(): Promise<void>;
}

/** @param policies in the order in which they see a request */
export function pipeline(policies: readonly Policy[], last: Handler): Handler {
  return policies.reduceRight<Handler>((next, policy) => (request, sink) => policy.handle(request, sink, next), last);
}
