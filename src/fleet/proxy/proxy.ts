/** The HTTP server in front of a fleet: sends each request to an instance of its model, and streams the answer back. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline as flow } from "node:stream/promises";
import { ANY_PAGE, assertPageAllowed, corsHeaders, type PagePolicy, preflightHeaders } from "../../core/cors.js";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { HEALTH_PATHS } from "../../core/health-paths.js";
import { type HttpAnswer, HttpServer, requestIdOf } from "../../core/http-server.js";
import { urlOf } from "../../core/listen.js";
import type { ModelLibrary } from "../../core/model-library.js";
import { ollamaPathHint } from "../../core/ollama-api.js";
import { packageVersion } from "../../core/package-root.js";
import { pathHint } from "../../core/path-hint.js";
import { isStateRequest, ResponseState } from "../../core/response-state.js";
import { ResponseStore } from "../../core/response-store.js";
import type { AnswerSink } from "../../gateway/answer.js";
import { API_DESCRIPTION_PATH, dialectOf, isOwnPath, routeOf } from "../../gateway/api/routes.js";
import { isOllamaPath, OLLAMA, ollamaEndpointOf } from "../../gateway/ollama/endpoints.js";
import { type Ending, pipeline } from "../../gateway/pipeline.js";
import type { Caller } from "../../gateway/request.js";
import { mayUse } from "../../gateway/tenants/model-access.js";
import { ADAPTERS } from "../adapters/index.js";
import type { BreakerState } from "../routing/breaker.js";
import { CacheWatch } from "../routing/cache-watch.js";
import { Hedging } from "../routing/hedging.js";
import { TextKeySource } from "../routing/key-source.js";
import { Router } from "../routing/router.js";
import { WaitingRoom } from "../routing/waiting-room.js";
import type { Upstream } from "../upstream/upstream.js";
import type { ExchangeContext } from "./arrival.js";
import { Exchange } from "./exchange.js";
import { fleetHealth, modelList } from "./fleet-info.js";
import { InstanceDocuments } from "./instance-documents.js";
import { KeyWarnings } from "./key-warnings.js";
import { changesDisk, isOllamaInfo, isOpenInfo, ollamaDisk, ollamaInfo, ollamaInfoMethod } from "./ollama-info.js";
import type { ProxyOptions } from "./options.js";
import { type OwnRequest, submitOwn } from "./own-request.js";
import { modelOf } from "./request-terms.js";
import { logFailure, respondJson, respondWithError } from "./respond.js";
import { UpstreamConnections } from "./upstream-connections.js";
import { upstreamStage } from "./upstream-stage.js";

export interface RunningProxy {
  /** Base URL, for instance http://127.0.0.1:8000. */
  readonly url: string;
  readonly port: number;
  /** Number of requests in the queue for a seat of a model, under any of its names. */
  numWaiting(model: string): number;
  /** Sequences of this fleet on an instance, under all its names. At 0, stopping the instance interrupts no request. */
  numInFlight(id: string): number;
  /** All models, in the form of /v1/models for a key with access to each. */
  models(): object;
  /** State of an instance's circuit breaker. */
  breakerState(id: string): BreakerState;
  /** Sends one of the gateway's own requests, such as a batch line, through all policies. Rejects like a Handler. */
  submit(request: OwnRequest, sink: AnswerSink): Promise<Ending>;
  /**
   * Refuses new requests with shutting_down, and ends requests still running after `drainMs` with it. Resolves when
   * every connection is closed.
   */
  drain(): Promise<void>;
  /** Cuts every connection to clients and instances. */
  close(): Promise<void>;
}

/**
 * @example const proxy = await startProxy({ pool, routing: () => DEFAULT_ROUTING, authorize, limits, timeouts, host,
 *   port, logger });
 */
export async function startProxy(options: ProxyOptions): Promise<RunningProxy> {
  const now = () => performance.now();
  const text = new TextKeySource();
  const keySourceOf = (model: string) => options.keySource?.(model) ?? text;
  const tokensPerBlock = (model: string) => keySourceOf(model).tokensPerBlock;
  const onRoom = () => waitingRoom.admit();
  const followOf = ({ engine }: Upstream) => ADAPTERS[engine].followCache;
  const caches = new CacheWatch(options.pool, followOf, (instance, err) =>
    options.logger.warn({ instance, err }, "could not follow the instance's prefix cache"),
  );
  const blocksOf = (upstream: Upstream) => caches.blocksOf(upstream);
  const router = new Router(options.pool, options.routing, tokensPerBlock, onRoom, now, blocksOf);
  const waitingRoom = new WaitingRoom(router, options.limits, options.demand ?? (() => false), options.modelOf);
  const connections = new UpstreamConnections(options.timeouts.connectMs, now);
  const responses = new ResponseState(new ResponseStore(options.responseLimits));
  const keyWarnings = new KeyWarnings(options.logger, now);
  const upstreams = { options, router, waitingRoom, connections, hedging: new Hedging(), keyWarnings, keySourceOf };
  const handle = pipeline(options.policies ?? [], upstreamStage(upstreams));
  const listener = new ProxyListener({ ...upstreams, responses, handle });
  const { host, certificate, logger, timeouts } = options;
  const server = new HttpServer(
    { logger, certificate, stalledClientMs: timeouts.stalledClientMs },
    (incoming, outgoing, onceOver) => listener.onRequest(incoming, outgoing, onceOver),
  );
  const { port } = await server.listen(host, options.port);
  const close = async () => {
    listener.isDraining = true;
    const closed = server.close();
    router.close();
    caches.close();
    await connections.close();
    await closed;
  };
  return {
    url: urlOf({ host, port, certificate }),
    port,
    numWaiting: (model) => waitingRoom.numWaiting(model),
    numInFlight: (id) => router.numInFlight(id),
    models: () => listener.models({ tenant: "" }),
    breakerState: (id) => router.breakerState(id),
    submit: (request, sink) => submitOwn(listener.context, request, sink),
    async drain() {
      listener.isDraining = true;
      const { drainMs } = timeouts;
      if (!(await server.drain(drainMs))) {
        listener.breakOff(`expected the answer to end within ${drainMs} ms of the shutdown, got an unfinished one`);
        await server.drain(FAREWELL_MS);
      }
      await close();
    },
    close,
  };
}

/** Time for the last bytes to reach clients. */
const FAREWELL_MS = 1000;

interface InfoRequest {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly requestId: string;
  readonly path: string;
  readonly refuse: (error: MillraceError) => void;
}

/** Decides how to serve each request, and tracks those that instances answer. */
class ProxyListener {
  isDraining = false;
  readonly #exchanges = new Set<Exchange>();

  readonly #descriptions: InstanceDocuments;
  readonly #shown: InstanceDocuments;

  constructor(readonly context: ExchangeContext) {
    const { options, connections } = context;
    const description = { path: API_DESCRIPTION_PATH, method: "GET", isPublic: true } as const;
    this.#descriptions = new InstanceDocuments(options.pool, connections, description);
    const isOf = ({ engine }: Upstream) => engine === "millrace";
    const show = { path: "/api/show", method: "POST", body: "{}", isPublic: false, isOf } as const;
    this.#shown = new InstanceDocuments(options.pool, connections, show);
  }

  onRequest(...[incoming, outgoing, onceOver]: Parameters<HttpAnswer>): void {
    const pages = this.context.options.pages?.() ?? ANY_PAGE;
    if (incoming.headers.origin !== undefined && answerPreflight(incoming, outgoing, pages)) return;
    const exchange = this.#serve(incoming, outgoing, pages);
    if (exchange === undefined) return;
    this.#exchanges.add(exchange);
    onceOver(() => {
      this.#exchanges.delete(exchange);
      exchange.abandon();
    });
    void exchange.run();
  }

  /** Ends all unanswered requests with an error. */
  breakOff(reason: string): void {
    for (const exchange of this.#exchanges) exchange.abandon(new MillraceError("shutting_down", reason));
  }

  /** @returns the exchange to run; undefined if the request is answered already */
  #serve(incoming: IncomingMessage, outgoing: ServerResponse, pages: PagePolicy): Exchange | undefined {
    const requestId = requestIdOf(incoming.headers["x-request-id"] as string | undefined);
    const url = incoming.url ?? "/";
    const queryStart = url.indexOf("?");
    const path = queryStart < 0 ? url : url.slice(0, queryStart);
    const ollama = ollamaEndpointOf(path);
    const translated = routeOf(ollama?.pathOf({}) ?? path);
    const route = ollama === undefined || translated === undefined ? translated : { ...translated, dialect: OLLAMA };
    const { method = "GET" } = incoming;
    const isStored = isStateRequest(method, path);
    const refuse = (error: MillraceError) => {
      logFailure(this.context.options.logger, error, requestId, path);
      // Several vendors have paths such as /v1/models; the client's headers tell the vendor.
      const isOfVendor = ollama !== undefined || isOwnPath(path);
      const other = isOllamaPath(path) ? OLLAMA : dialectOf(path, incoming.headers["anthropic-version"]);
      respondWithError(outgoing, error, isOfVendor && route !== undefined ? route.dialect : other, requestId);
    };
    try {
      assertPageAllowed(pages, (name) => incoming.headers[name] as string | undefined);
      if (incoming.headers.cookie !== undefined && path.startsWith("/v1/")) {
        // The session stands for its key: from here on, the request counts as one with that key.
        const authorization = this.context.options.sessionAuthorization?.(incoming);
        if (authorization !== undefined) incoming.headers.authorization = authorization;
      }
      if (this.context.options.handleOther?.(incoming, outgoing, requestId) === true) return undefined;
      const isExchange = route !== undefined && route.isOpen !== true && !isStored;
      if (isExchange && method === (route.method ?? "POST") && !this.isDraining) {
        return new Exchange(this.context, { incoming, outgoing, requestId, url, path, route, ollama });
      }
      if (isStored) {
        this.#authorized(incoming, refuse, ({ tenant }) => {
          const answer = this.context.responses.answer(tenant, method, url);
          respondJson(outgoing, 200, requestId, answer ?? {});
        });
      } else if (!this.#serveInfo({ incoming, outgoing, requestId, path, refuse }))
        refuse(this.#noSuchPath(route !== undefined, incoming, path));
    } catch (thrown) {
      refuse(toMillraceError(thrown));
    }
    return undefined;
  }

  /** Serves the fleet's own endpoints. @returns whether the path is one of them */
  #serveInfo(request: InfoRequest): boolean {
    const { incoming, outgoing, requestId, path, refuse } = request;
    const isGet = incoming.method === "GET" || incoming.method === "HEAD";
    if (isGet && HEALTH_PATHS.includes(path)) this.#serveHealth(request);
    else if (isGet && path === "/version") respondJson(outgoing, 200, requestId, { version: packageVersion() });
    else if (isGet && isModelsPath(path)) {
      this.#authorized(incoming, refuse, (caller) => {
        respondJson(outgoing, 200, requestId, this.models(caller, path));
      });
    } else if (isOllamaInfo(incoming.method, path)) this.#serveOllamaInfo(request);
    else if (isGet && path === API_DESCRIPTION_PATH) this.#serveDescription(request);
    else return false;
    return true;
  }

  models(caller: Caller, path = "/v1/models"): object {
    return modelList(this.#modelsOf(caller), path, this.context.options.pool, this.#modelOf);
  }

  readonly #modelOf = (name: string): string => this.context.options.modelOf?.(name) ?? name;

  #serveHealth({ outgoing, requestId }: InfoRequest): void {
    const { options } = this.context;
    const health = fleetHealth(options.pool, this.#modelOf, this.isDraining, options.startsOnDemand ?? (() => false));
    respondJson(outgoing, health.isTakingRequests ? 200 : 503, requestId, health.body);
  }

  #serveOllamaInfo({ incoming, outgoing, requestId, path, refuse }: InfoRequest): void {
    const { options } = this.context;
    const onError = (thrown: unknown) => refuse(toMillraceError(thrown));
    const context = { options, shown: this.#shown, modelsOf: (asker: Caller) => this.#modelsOf(asker) };
    const send = async (told: ReturnType<typeof ollamaInfo>) => {
      const { type, text } = await told;
      outgoing.writeHead(200, { "Content-Type": type, "X-Request-Id": requestId });
      if (typeof text === "string") outgoing.end(text);
      // The lines end when the client leaves.
      else await flow(Readable.from(text), outgoing).catch(() => {});
    };
    const answer = (caller: Caller | undefined) => send(ollamaInfo(context, incoming, path, caller));
    const library = changesDisk(path) ? this.#libraryFor(incoming, path) : undefined;
    if (library !== undefined) {
      const request = { incoming, path, requestId, isLeaving: () => this.isDraining };
      send(ollamaDisk(context, request, library)).catch(onError);
    } else if (isOpenInfo(path)) answer(undefined).catch(onError);
    else this.#authorized(incoming, refuse, answer);
  }

  /** Passes on the engine's description of a model's API. */
  #serveDescription({ incoming, outgoing, requestId, refuse }: InfoRequest): void {
    const { options } = this.context;
    const name = new URL(incoming.url!, "http://localhost").searchParams.get("model");
    const model = modelOf(name === null ? {} : { model: name }, options.pool.models(), options.modelOf);
    this.#descriptions.of(model).then(
      (document) => respondJson(outgoing, 200, requestId, document),
      (thrown: unknown) => refuse(toMillraceError(thrown)),
    );
  }

  /**
   * The models on the disk, for the administrator. Other clients may ask for a present model, but may not remove any.
   */
  #libraryFor({ headers }: IncomingMessage, path: string): ModelLibrary | undefined {
    try {
      const library = this.context.options.library?.(headers);
      if (library !== undefined) return library;
      throw new MillraceError("not_found", "expected a gateway that manages models, got one that does not");
    } catch (thrown) {
      if (path === "/api/pull") return undefined;
      throw thrown;
    }
  }

  /** The names that the caller may use. */
  #modelsOf(caller: Caller): readonly string[] {
    const { pool, virtualModels, modelOf = (name: string) => name } = this.context.options;
    return [...pool.models(), ...(virtualModels?.() ?? [])].filter((model) => mayUse(caller, model, modelOf));
  }

  #authorized({ headers }: IncomingMessage, refuse: InfoRequest["refuse"], answer: (caller: Caller) => unknown): void {
    Promise.resolve()
      .then(() => this.context.options.authorize(headers))
      .then(answer)
      .catch((thrown: unknown) => refuse(toMillraceError(thrown)));
  }

  #noSuchPath(isRoute: boolean, { method }: IncomingMessage, path: string): MillraceError {
    const shown = path.slice(0, 80);
    const ofInfo = infoMethod(path);
    const expected = ofInfo ?? routeOf(path)?.method ?? "POST";
    // Other paths under /v1 pass, since an engine may know them.
    const isKnown = ofInfo !== undefined || (isRoute && isOwnPath(path));
    if (isKnown && method !== expected) {
      return new MillraceError("method_not_allowed", `expected ${expected} ${shown}, got ${method}`, {
        headers: { Allow: expected },
      });
    }
    if (isRoute && this.isDraining) {
      return new MillraceError(
        "shutting_down",
        "expected a gateway that takes requests, got one that is shutting down",
      );
    }
    return new MillraceError("not_found", `expected one of the gateway's paths, got ${shown}`, {
      hint: pathHint(shown) ?? ollamaPathHint(path) ?? "the API is under /v1",
    });
  }
}

/** The list of models, or one of them by its name. */
const isModelsPath = (path: string): boolean => path === "/v1/models" || /^\/v1\/models\/./.test(path);

/** The method of a path that the gateway itself answers. */
function infoMethod(path: string): string | undefined {
  return isModelsPath(path) || HEALTH_PATHS.includes(path) || path === "/version" ? "GET" : ollamaInfoMethod(path);
}

/** Sets the CORS headers. @returns whether the request was a preflight, which is now answered */
function answerPreflight({ method, headers }: IncomingMessage, outgoing: ServerResponse, pages: PagePolicy): boolean {
  const isPreflight = method === "OPTIONS" && headers["access-control-request-method"] !== undefined;
  const allowed = isPreflight
    ? preflightHeaders(headers.origin, headers["access-control-request-headers"], pages)
    : corsHeaders(headers.origin, pages);
  for (const name in allowed) outgoing.setHeader(name, allowed[name]!);
  if (isPreflight) outgoing.writeHead(204).end();
  return isPreflight;
}
