/** What the proxy tells of its requests while they pass: metrics and traces are made of it elsewhere. Calls must be quick and must not throw. */
import type { IncomingHttpHeaders } from "node:http";
import type { ErrorCode } from "../../core/errors.js";
import type { TokenUsage } from "./usage.js";

export interface RequestStart {
  readonly requestId: string;
  readonly path: string;
  readonly model: string;
  readonly tenant: string;
  readonly isStream: boolean;
  /** As the client sent them; `traceparent` is here. */
  readonly headers: IncomingHttpHeaders;
}

/**
 * answered: whatever the engine said, to its end; broken: cut off after its first byte by the instance; failed: an error of the gateway's own in its place;
 * cancelled: the client left.
 */
export type Outcome = "answered" | "broken" | "failed" | "cancelled";

export interface RequestObserver {
  /** Goes to the engine in place of the client's. */
  readonly traceparent?: string | undefined;
  /** Sent to an instance; more than once where it was retried. */
  routed(instanceId: string, matchedFraction: number): void;
  /** The instance did not take it, and another is tried. */
  retried(instanceId: string, reason: string): void;
  /** Sent to a second instance as well, since the first had not begun to answer. `routed` tells of it again if it wins. */
  hedged?(instanceId: string): void;
  firstByte(): void;
  /** What a whole answer says of its tokens. Where nobody has this, answers are not searched for it. */
  readonly used?: ((usage: TokenUsage) => void) | undefined;
  /** Once, last. */
  ended(outcome: Outcome, status: number, code: ErrorCode | undefined): void;
}

export interface ProxyObserver {
  started(start: RequestStart): RequestObserver;
  /** Turned away before it was known what it wants. */
  refused(path: string, code: ErrorCode): void;
}

export const DEAF_REQUEST: RequestObserver = { routed() {}, retried() {}, firstByte() {}, ended() {} };
export const DEAF_OBSERVER: ProxyObserver = { started: () => DEAF_REQUEST, refused() {} };
