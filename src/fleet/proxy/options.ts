/** What the proxy is given: the fleet, how to route, whom to let in, limits, times, and who watches. */

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { PagePolicy } from "../../core/cors.js";
import type { RequestLogger } from "../../core/request-logger.js";
import type { StoreLimits } from "../../core/response-store.js";
import type { KeySource } from "../routing/key-source.js";
import type { RoutingOptions } from "../routing/router.js";
import type { Demand } from "../routing/waiting-room.js";
import type { UpstreamPool } from "../upstream/upstream.js";
import type { ProxyObserver } from "./observer.js";

/** Whom a request is from. */
export interface Caller {
  /** What fairness counts by; the same for all where there are no keys. */
  readonly tenant: string;
  /** The class its requests wait in, whatever they ask for; undefined: their own `priority`, else 0. Lower goes first. */
  readonly priority?: number | undefined;
  /** Whose cached prefixes its requests may use; absent: everybody's. */
  readonly cacheScope?: string | undefined;
}

/** Throws a MillraceError (invalid_api_key, queue_full with a time to retry, …) for whoever may not. */
export type Authorize = (headers: IncomingHttpHeaders) => Caller;

export interface ProxyLimits {
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
  /** Requests of one model that wait for a seat. */
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
  /** Instances one request is sent to, one after the other, before it fails. */
  readonly maxAttempts: number;
  /** What a request without `max_tokens` is taken for. */
  readonly defaultOutputTokens: number;
}

export const DEFAULT_PROXY_LIMITS: ProxyLimits = {
  maxBodyBytes: 32 * 1024 * 1024,
  bodyTimeoutMs: 60_000,
  maxWaiting: 1024,
  maxWaitMs: 60_000,
  maxAttempts: 3,
  defaultOutputTokens: 256,
};

export interface ProxyTimeouts {
  readonly connectMs: number;
  /** From sending a request to its answer's first byte: a queue, a prompt, and a whole answer where it is not streamed. */
  readonly firstByteMs: number;
  /** Between two bytes of an answer. */
  readonly idleMs: number;
  /** A client that takes nothing of what waits for it, or asks nothing. */
  readonly stalledClientMs: number;
  /** How long running requests may go on when the proxy is to end. */
  readonly drainMs: number;
}

export const DEFAULT_PROXY_TIMEOUTS: ProxyTimeouts = {
  connectMs: 5_000,
  firstByteMs: 600_000,
  idleMs: 120_000,
  stalledClientMs: 60_000,
  drainMs: 300_000,
};

export interface ProxyOptions {
  readonly pool: UpstreamPool;
  /** Asked for every request, so that it may change. */
  readonly routing: (model: string) => RoutingOptions;
  /** What names the prompts of a model; by their text where it is absent or says nothing. */
  readonly keySource?: (model: string) => KeySource | undefined;
  readonly authorize: Authorize;
  /** Bounds of what /v1/responses keeps. */
  readonly responseLimits?: StoreLimits;
  readonly limits: ProxyLimits;
  readonly timeouts: ProxyTimeouts;
  readonly observer?: ProxyObserver;
  /** Which web pages may call; any where absent. Asked for every request. */
  readonly pages?: () => PagePolicy;
  /** What a name that clients use stands for: one model may have several. Absent: itself. */
  readonly modelOf?: ((name: string) => string) | undefined;
  /** Starts or wakes an instance of a model that has none ready, while the request waits. Absent: such requests get no_instance_ready. */
  readonly demand?: Demand;
  /** Whether a model's instances may keep prefixes from one request to the next. Absent: they may. */
  readonly cachesPrefixes?: (model: string) => boolean;
  /** Whether a model is there only when it is asked for, so that having nothing of it ready is no fault. Absent: none is. */
  readonly startsOnDemand?: (model: string) => boolean;
  /** Takes paths that are not the proxy's (metrics, administration); false: not its either. */
  readonly handleOther?: (incoming: IncomingMessage, outgoing: ServerResponse, requestId: string) => boolean;
  readonly host: string;
  /** 0 = any free one. */
  readonly port: number;
  readonly logger: RequestLogger;
}
