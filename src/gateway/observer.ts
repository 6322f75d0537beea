/** Events of requests, from which other folders make metrics and traces. Observers must be fast and must not throw. */
import type { IncomingHttpHeaders } from "node:http";
import type { ErrorCode } from "../core/errors.js";
import type { TokenUsage } from "./api/usage.js";

export interface RequestStart {
  readonly requestId: string;
  readonly path: string;
  readonly model: string;
  readonly tenant: string;
  readonly isStream: boolean;
  /** The client's headers, `traceparent` among them. */
  readonly headers: IncomingHttpHeaders;
}

/**
 * answered: the client got the engine's whole answer, even if that is an error; broken: the instance broke off after
 * the first byte; failed: the gateway answered with an error of its own; cancelled: the client left.
 */
export type Outcome = "answered" | "broken" | "failed" | "cancelled";

export interface RequestObserver {
  /** Replaces the client's `traceparent` on the way to the engine. */
  readonly traceparent?: string | undefined;
  /** Every policy has let the request through, and it waits for an instance. May be called again, for another model. */
  passed?(): void;
  /** The request was sent to an instance. Called once more for each retry. */
  routed(instanceId: string, matchedFraction: number): void;
  /** The instance did not take the request, which is tried again. */
  retried(instanceId: string, reason: string): void;
  /**
   * The request also went to a second instance, since the first had not begun to answer. `routed` is called if the
   * second wins.
   */
  hedged?(instanceId: string): void;
  firstByte(): void;
  /** Token counts of a whole answer. Answers are searched for them only if an observer has this. */
  readonly used?: ((usage: TokenUsage) => void) | undefined;
  /** Called once, last. */
  ended(outcome: Outcome, status: number, code: ErrorCode | undefined): void;
}

export interface ProxyObserver {
  /** @param traceparent the one that an earlier observer gives the request */
  started(start: RequestStart, traceparent?: string): RequestObserver;
  /** The request was refused before its model was known. */
  refused(path: string, code: ErrorCode): void;
}

export const DEAF_REQUEST: RequestObserver = { routed() {}, retried() {}, firstByte() {}, ended() {} };
export const DEAF_OBSERVER: ProxyObserver = { started: () => DEAF_REQUEST, refused() {} };
