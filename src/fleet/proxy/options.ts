/** Options of the proxy: the pool of instances, routing, authorization, limits, timeouts and observers. */

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { CertificateFiles } from "../../core/certificate.js";
import type { PagePolicy } from "../../core/cors.js";
import type { ModelLibrary } from "../../core/model-library.js";
import type { RequestLogger } from "../../core/request-logger.js";
import type { StoreLimits } from "../../core/response-store.js";
import type { ProxyObserver } from "../../gateway/observer.js";
import type { Policy } from "../../gateway/pipeline.js";
import type { Caller } from "../../gateway/request.js";
import type { KeySource } from "../routing/key-source.js";
import type { RoutingOptions } from "../routing/router.js";
import type { Demand } from "../routing/waiting-room.js";
import type { UpstreamPool } from "../upstream/upstream.js";

/** Throws a MillraceError (invalid_api_key, queue_full with a time to retry, …) if the request is not allowed. */
export type Authorize = (headers: IncomingHttpHeaders) => Caller | Promise<Caller>;

export interface ProxyLimits {
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
  /** Requests per model that may wait for a seat. */
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
  /** Attempts to send a request before it fails. */
  readonly maxAttempts: number;
  /** Output tokens to assume for a request without `max_tokens`. */
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
  /**
   * Time from sending a request to the first byte of its answer: the engine's queue, the prompt, and without a stream
   * the
   * complete answer. Also the time between two events of a stream, without comments, unless `idleMs` is longer.
   */
  readonly firstByteMs: number;
  /** Time between two bytes of an answer. */
  readonly idleMs: number;
  /** Time after which a stalled or idle client connection is closed. */
  readonly stalledClientMs: number;
  /** Time that running requests have when the proxy drains. */
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
  /** Called for every request, so that the options may change. */
  readonly routing: (model: string) => RoutingOptions;
  /** Key source of a model; absent, or returning undefined: prompts are keyed by text. */
  readonly keySource?: (model: string) => KeySource | undefined;
  readonly authorize: Authorize;
  /**
   * The Authorization behind a browser's cookie, for the paths under /v1. Throws if another site's page sends the
   * cookie. Absent or undefined: the request has no session.
   */
  readonly sessionAuthorization?: (incoming: IncomingMessage) => string | undefined;
  /** Limits of the store for /v1/responses. */
  readonly responseLimits?: StoreLimits;
  readonly limits: ProxyLimits;
  readonly timeouts: ProxyTimeouts;
  readonly observer?: ProxyObserver;
  /** In order: the first policy sees a request first. */
  readonly policies?: readonly Policy[];
  /**
   * The models on the machine's disk. Throws unless the headers have the administrator's key. Absent or undefined:
   * the gateway does not manage models.
   */
  readonly library?: (headers: IncomingHttpHeaders) => ModelLibrary | undefined;
  /** The web pages that may call the gateway, read for every request; absent: all. */
  readonly pages?: () => PagePolicy;
  /** Resolves a client's name to a model, since one model may have several. Absent: the name itself. */
  readonly modelOf?: ((name: string) => string) | undefined;
  /**
   * Names without instances, which policies resolve; listed after the models. Absent: none. Called for every request.
   */
  readonly virtualModels?: () => readonly string[];
  /** Names of models that policies may choose and clients may not send. */
  readonly canaries?: () => readonly string[];
  /** Whether a model's engines order their queue by priority, and so accept one. Absent: none does. */
  readonly schedulesByPriority?: (model: string) => boolean;
  /**
   * Starts or wakes an instance of a model without a ready one, while the request waits. Absent: such requests fail
   * with no_instance_ready.
   */
  readonly demand?: Demand;
  /** Whether a model's instances may keep prefixes between requests. Absent: they may. */
  readonly cachesPrefixes?: (model: string) => boolean;
  /** Whether a model loads on demand, and so is healthy without a ready instance. Absent: no model does. */
  readonly startsOnDemand?: (model: string) => boolean;
  /**
   * Handles the paths that belong to neither instances nor the proxy (metrics, administration, batches). Called first.
   * @returns whether it handled the request
   */
  readonly handleOther?: (incoming: IncomingMessage, outgoing: ServerResponse, requestId: string) => boolean;
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** For HTTPS; undefined: plain HTTP. */
  readonly certificate?: CertificateFiles | undefined;
  readonly logger: RequestLogger;
}
