/** The data of a request on its way through the proxy, and the parts of the proxy that all requests share. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { OpenTurn, ResponseState } from "../../core/response-state.js";
import type { KeySource, RequestBody } from "../routing/key-source.js";
import type { Router } from "../routing/router.js";
import type { Entrant, WaitingRoom } from "../routing/waiting-room.js";
import type { ProxyOptions } from "./options.js";
import type { Route } from "../../gateway/api/routes.js";
import type { UpstreamConnections } from "./upstream-connections.js";

/** Shared by all exchanges. */
export interface ExchangeContext {
  readonly options: ProxyOptions;
  readonly router: Router;
  readonly waitingRoom: WaitingRoom;
  readonly connections: UpstreamConnections;
  readonly keySourceOf: (model: string) => KeySource;
  readonly responses: ResponseState;
}

export interface Arrival {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly requestId: string;
  /** Path and query. */
  readonly url: string;
  readonly path: string;
  readonly route: Route;
}

/** A request that has been read and can be sent to an instance. */
export interface Sendable {
  readonly bytes: Buffer;
  readonly body: RequestBody;
  readonly entrant: Omit<Entrant, "excluded" | "isRetry">;
  /** Completes and stores the answer, where the gateway keeps it. */
  readonly turn: OpenTurn | undefined;
  /** The cache scope of the request; "": the shared one. Evaluated when the request is sent, since a reload may turn caching on while it waits. */
  readonly cacheScope: () => string;
}
