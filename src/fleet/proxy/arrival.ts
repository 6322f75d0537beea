/** The data of a request on its way through the proxy, and the parts that all requests share. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ResponseState } from "../../core/response-state.js";
import type { Route } from "../../gateway/api/routes.js";
import type { OllamaEndpoint } from "../../gateway/ollama/endpoints.js";
import type { Handler } from "../../gateway/pipeline.js";
import type { GatewayRequest } from "../../gateway/request.js";
import type { Hedging } from "../routing/hedging.js";
import type { KeySource } from "../routing/key-source.js";
import type { Router } from "../routing/router.js";
import type { Entrant, WaitingRoom } from "../routing/waiting-room.js";
import type { KeyWarnings } from "./key-warnings.js";
import type { ProxyOptions } from "./options.js";
import type { UpstreamConnections } from "./upstream-connections.js";

/** Shared by all requests that go to instances. */
export interface UpstreamContext {
  readonly options: ProxyOptions;
  readonly router: Router;
  readonly waitingRoom: WaitingRoom;
  readonly connections: UpstreamConnections;
  readonly hedging: Hedging;
  readonly keyWarnings: KeyWarnings;
  readonly keySourceOf: (model: string) => KeySource;
}

/** Shared by all exchanges with clients. */
export interface ExchangeContext extends UpstreamContext {
  readonly responses: ResponseState;
  /** Runs all policies, then the instances. */
  readonly handle: Handler;
}

/** A request with an unread body. */
export interface Arrival {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly requestId: string;
  /** Path and query. */
  readonly url: string;
  readonly path: string;
  readonly route: Route;
  /** Present if the client uses Ollama's API, which the proxy translates. */
  readonly ollama?: OllamaEndpoint | undefined;
}

/** A request that is ready for an instance. */
export interface Sendable {
  readonly request: GatewayRequest;
  readonly entrant: Omit<Entrant, "excluded" | "isRetry">;
  /**
   * The cache scope of the request; "": the shared one. Called at sending, since a reload may turn caching on while the
   * request waits.
   */
  readonly cacheScope: () => string;
  /** Whether the model's engines accept a priority other than 0. */
  readonly schedulesByPriority: boolean;
}
