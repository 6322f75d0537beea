/** What a request brings to the proxy, and what the proxy has for all of them. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { OpenTurn, ResponseState } from "../../core/response-state.js";
import type { KeySource, RequestBody } from "../routing/key-source.js";
import type { Router } from "../routing/router.js";
import type { Entrant, WaitingRoom } from "../routing/waiting-room.js";
import type { ProxyOptions } from "./options.js";
import type { Route } from "./routes.js";
import type { UpstreamConnections } from "./upstream-connections.js";

/** What all exchanges share. */
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
  /** With its query. */
  readonly url: string;
  readonly path: string;
  readonly route: Route;
}

/** A request that has been read. */
export interface Sendable {
  readonly bytes: Buffer;
  readonly body: RequestBody;
  readonly entrant: Omit<Entrant, "excluded" | "isRetry">;
  /** What the answer is kept by, where the gateway keeps it. */
  readonly turn: OpenTurn | undefined;
  /** Whose cached prefixes it may use; "": everybody's. Asked when it is sent: while it waits, a reload may turn caching on. */
  readonly cacheScope: () => string;
}
