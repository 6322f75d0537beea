/** A request's way through the proxy: let in, read, routed, sent (again where nothing of an answer has been passed on), ended. */
import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { CACHE_SCOPE_HEADER } from "../../core/cache-scope.js";
import { type MillraceError, toMillraceError } from "../../core/errors.js";
import { parseJsonObject, readIncoming } from "../../core/json-body.js";
import type { OpenTurn, ResponseState } from "../../core/response-state.js";
import { scopedSalt } from "../../text/block-hash.js";
import type { EngineName } from "../adapters/adapter.js";
import { ADAPTERS } from "../adapters/index.js";
import type { KeySource, RequestBody } from "../routing/key-source.js";
import type { Lease, LeaseEnd, Router } from "../routing/router.js";
import type { Entrant, WaitingRoom } from "../routing/waiting-room.js";
import { Attempt, type AttemptResult } from "./attempt.js";
import { editBody } from "./edit-body.js";
import { requestHeaders } from "./headers.js";
import { DEAF_OBSERVER, type Outcome, type RequestObserver } from "./observer.js";
import type { ProxyOptions } from "./options.js";
import { modelOf, priorityOf, routedRequest } from "./request-terms.js";
import { logFailure, respondWithError } from "./respond.js";
import type { Route } from "./routes.js";
import type { UpstreamConnections } from "./upstream-connections.js";

/** What all exchanges share. */
export interface ExchangeContext {
  readonly options: ProxyOptions;
  readonly router: Router;
  readonly room: WaitingRoom;
  readonly connections: UpstreamConnections;
  readonly keySourceOf: (model: string) => KeySource;
  readonly responses: ResponseState;
}

interface Arrival {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly requestId: string;
  /** With its query. */
  readonly url: string;
  readonly path: string;
  readonly route: Route;
}

interface Sendable {
  readonly bytes: Buffer;
  readonly body: RequestBody;
  readonly entrant: Entrant;
  /** What the answer is kept by, where the gateway keeps it. */
  readonly turn: OpenTurn | undefined;
  /** Whose cached prefixes it may use; "": everybody's. */
  readonly cacheScope: string;
}

export class Exchange {
  #observer: RequestObserver | undefined;
  /** Gives up what it waits for: its turn, or an instance's answer. */
  #giveUp: ((error?: MillraceError) => void) | undefined;
  #isGone = false;
  #farewell: MillraceError | undefined;
  #drawnSeed: number | undefined;

  constructor(
    private readonly context: ExchangeContext,
    private readonly arrival: Arrival,
  ) {}

  /** The client's connection closed. Called too when it does after the whole answer. @param error what the client is told, if it is the gateway that goes */
  abandon(error?: MillraceError): void {
    this.#isGone = true;
    this.#farewell ??= error;
    this.#giveUp?.(error);
  }

  /** Never rejects. */
  async run(): Promise<void> {
    try {
      const sendable = await this.#read();
      await this.#send(sendable);
    } catch (thrown) {
      this.#refuse(this.#farewell ?? toMillraceError(thrown));
    }
  }

  async #read(): Promise<Sendable> {
    const { options, keySourceOf } = this.context;
    const { incoming, requestId, route, path } = this.arrival;
    const { headers } = incoming;
    const caller = options.authorize(headers);
    const sent = await this.#readBody();
    const { tenant, cacheScope = "" } = caller;
    const turn = route.hasState === true ? this.context.responses.open(tenant, sent.body) : undefined;
    const body = turn?.body ?? sent.body;
    const bytes = turn === undefined ? sent.bytes : Buffer.from(JSON.stringify(body));
    const model = modelOf(body, options.pool.models(), options.modelOf);
    const start = { requestId, path, model, tenant, isStream: body.stream === true, headers };
    this.#observer = (options.observer ?? DEAF_OBSERVER).started(start);
    const { defaultOutputTokens } = options.limits;
    const terms = { route, path, bytes, body, headers, keySource: keySourceOf(model), defaultOutputTokens, cacheScope };
    const request = routedRequest(model, terms, options.routing(model));
    const entrant = { request, tenant, priority: caller.priority ?? priorityOf(body), excluded: [] };
    return { bytes, body, entrant, turn: route.isGeneration ? turn : undefined, cacheScope };
  }

  async #readBody(): Promise<{ readonly bytes: Buffer; readonly body: RequestBody }> {
    const { incoming, route, url } = this.arrival;
    if (route.method === "GET") {
      const model = new URL(url, "http://localhost").searchParams.get("model");
      return { bytes: Buffer.alloc(0), body: model === null ? {} : { model } };
    }
    const bytes = await readIncoming(incoming, this.context.options.limits);
    return { bytes, body: parseJsonObject(bytes) };
  }

  async #send(sendable: Sendable): Promise<void> {
    const { router, room, options } = this.context;
    const { model } = sendable.entrant.request;
    let excluded: readonly string[] = [];
    let numResets = 0;
    for (let numLeft = options.limits.maxAttempts - 1; ; numLeft--) {
      const lease = await room.enter({ ...sendable.entrant, excluded }, (leave) => {
        this.#giveUp = leave;
      });
      const { id } = lease.upstream;
      let result = CANCELLED;
      try {
        if (!this.#isGone) result = await this.#attempt(sendable, lease, [...excluded, id], numLeft);
      } finally {
        lease.end(leaseEnd(result, lease.upstream.engine));
      }
      if (result.kind !== "refused") {
        this.#conclude(result, id);
        return;
      }
      if (result.isAway) options.pool.reportFailure(id);
      // One that ends process after process is not given a third.
      if (result.isReset && ++numResets === MAX_RESETS) throw result.error;
      excluded = [...excluded, id];
      // A connection that was kept open may have been closed just as it was used: the only instance is asked again.
      if (!router.hasReady(model, excluded)) excluded = result.isReset ? [] : excluded;
      if (numLeft === 0 || !router.hasReady(model, excluded)) throw result.error;
      this.#observer?.retried(id, result.error.message);
    }
  }

  async #attempt(sendable: Sendable, lease: Lease, tried: readonly string[], numLeft: number): Promise<AttemptResult> {
    const { options, router, connections } = this.context;
    const { incoming, outgoing, requestId, route, url, path } = this.arrival;
    const { upstream, target } = lease;
    const attempt = new Attempt({
      instanceId: upstream.id,
      requestId,
      dialect: route.dialect,
      outgoing,
      timeouts: options.timeouts,
      mayRetry: () => numLeft > 0 && router.hasReady(upstream.model, tried),
      onFirstByte: (status) => {
        lease.promptDone(status < 500);
        this.#observer?.firstByte();
      },
      turn: sendable.turn,
      onUsage: route.isGeneration || path.endsWith("/embeddings") ? this.#observer?.used : undefined,
    });
    this.#giveUp = (error) => attempt.cancel(error);
    this.#observer?.routed(upstream.id, lease.matchedFraction);
    const seed = upstream.engine === "millrace" && route.takesSeed ? this.#seed(sendable.body) : undefined;
    const headers = requestHeaders(incoming.headers, upstream, target, requestId, this.#observer?.traceparent);
    const { method = "POST" } = route;
    if (method === "GET") return attempt.run(connections.poolOf(target.url), { path, method, headers });
    const { cacheSalt, scopeHeader } = toldScope(sendable, upstream.engine, path);
    headers.push(...scopeHeader);
    const body = editBody(sendable.bytes, sendable.body, { model: target.modelName, seed, cacheSalt });
    return attempt.run(connections.poolOf(target.url), { path: url, method, headers, body });
  }

  /** Drawn once, at the door: whichever instance answers in the end, the answer is the same (exactness rule E5). */
  #seed(body: RequestBody): number | undefined {
    if ("seed" in body) return undefined;
    // Below 2⁴⁸, which is exact in every JSON parser.
    this.#drawnSeed ??= randomBytes(6).readUIntBE(0, 6);
    return this.#drawnSeed;
  }

  #conclude(result: Exclude<AttemptResult, { kind: "refused" }>, instanceId: string): void {
    const { logger, pool } = this.context.options;
    switch (result.kind) {
      case "answered":
        this.#end("answered", result.status);
        return;
      case "cancelled":
        if (this.#farewell !== undefined) throw this.#farewell;
        this.#end("cancelled", 499, "client_closed");
        return;
      case "broken":
        pool.reportFailure(instanceId);
        logFailure(logger, result.error, this.arrival.requestId, this.arrival.path);
        this.#end("broken", result.status, result.error.code);
        return;
      case "timeout":
        pool.reportFailure(instanceId);
        throw result.error;
    }
  }

  #refuse(error: MillraceError): void {
    const { logger, observer } = this.context.options;
    const { outgoing, requestId, path, route } = this.arrival;
    logFailure(logger, error, requestId, path);
    respondWithError(outgoing, error, route.dialect, requestId);
    if (this.#observer === undefined) observer?.refused(path, error.code);
    else this.#end(error.code === "client_closed" ? "cancelled" : "failed", error.status, error.code);
  }

  #end(outcome: Outcome, status: number, code?: MillraceError["code"]): void {
    this.#giveUp = undefined;
    this.#observer?.ended(outcome, status, code);
  }
}

/** How an engine is told whose cached prefixes a request may use. */
function toldScope({ body, cacheScope }: Sendable, engine: EngineName, path: string) {
  const { cacheScope: means } = ADAPTERS[engine];
  const nothing = { cacheSalt: undefined, scopeHeader: [] };
  if (cacheScope === "" || means === undefined) return nothing;
  if (means === "header") return { cacheSalt: undefined, scopeHeader: [CACHE_SCOPE_HEADER, cacheScope] };
  const own = typeof body.cache_salt === "string" ? body.cache_salt : undefined;
  return means.includes(path) ? { cacheSalt: scopedSalt(cacheScope, own), scopeHeader: [] } : nothing;
}

/** Connections that may break before an answer's first byte. */
const MAX_RESETS = 2;

const CANCELLED: AttemptResult = { kind: "cancelled" };

/** What an attempt tells of the instance. Being busy is not being ill; an error for every request is. */
function leaseEnd(result: AttemptResult, engine: EngineName): LeaseEnd {
  switch (result.kind) {
    case "answered":
      // Our own engine's deadline_exceeded: the request's own `timeout` was too short.
      if (engine === "millrace" && result.status === 504) return "unknown";
      // What an engine does not offer, it does not offer to anybody, and well.
      if (result.status === 501) return "unknown";
      return result.status >= 500 ? "failed" : "answered";
    case "refused":
      return result.status === 429 ? "unknown" : "failed";
    case "cancelled":
      return "unknown";
    default:
      return "failed";
  }
}
