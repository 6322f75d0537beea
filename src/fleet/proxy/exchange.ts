/** A request's way through the proxy: authorize, read, deliver, report. */

import { readBody } from "../../core/body-reader.js";
import { type MillraceError, toMillraceError } from "../../core/errors.js";
import { bodyJson, readIncoming } from "../../core/json-body.js";
import type { RequestBody } from "../routing/key-source.js";
import type { Arrival, ExchangeContext, Sendable } from "./arrival.js";
import { type Delivered, Delivery } from "./delivery.js";
import { assertApart } from "./isolation.js";
import { DEAF_OBSERVER, DEAF_REQUEST, type Outcome, type RequestObserver } from "../../gateway/observer.js";
import type { Caller } from "./options.js";
import { modelOf, priorityOf, routedRequest } from "./request-terms.js";
import { logFailure, respondWithError } from "./respond.js";

export class Exchange {
  #observer: RequestObserver | undefined;
  #delivery: Delivery | undefined;
  /** Gives up waiting for the thread that parses the body or tokenizes the prompt. */
  #leaveThread = () => {};
  #isGone = false;
  #farewell: MillraceError | undefined;

  constructor(
    private readonly context: ExchangeContext,
    private readonly arrival: Arrival,
  ) {}

  /** Called when the client's connection closes, even after the whole answer. @param error the client's error, if the gateway shuts down */
  abandon(error?: MillraceError): void {
    this.#isGone = true;
    this.#farewell ??= error;
    this.#leaveThread();
    this.#delivery?.abandon(error);
  }

  /** Never rejects. */
  async run(): Promise<void> {
    try {
      const sendable = await this.#read();
      this.#delivery = new Delivery(this.context, this.arrival, sendable, this.#observer ?? DEAF_REQUEST);
      if (this.#isGone) this.#delivery.abandon();
      this.#conclude(await this.#delivery.run());
    } catch (thrown) {
      this.#refuse(this.#farewell ?? toMillraceError(thrown));
    }
  }

  async #read(): Promise<Sendable> {
    const { options, keySourceOf } = this.context;
    const { incoming, requestId, route, path } = this.arrival;
    const { headers } = incoming;
    const caller = options.authorize(headers);
    const { tenant } = caller;
    const sent = await this.#readBody(tenant);
    const turn = route.hasState === true ? this.context.responses.open(tenant, sent.body) : undefined;
    const body = turn?.body ?? sent.body;
    const bytes = turn === undefined ? sent.bytes : Buffer.from(bodyJson(body));
    const model = modelOf(body, options.pool.models(), options.modelOf);
    const scope = () => this.#cacheScope(caller, model);
    const cacheScope = scope();
    const start = { requestId, path, model, tenant, isStream: body.stream === true, headers };
    this.#observer = (options.observer ?? DEAF_OBSERVER).started(start);
    const { defaultOutputTokens } = options.limits;
    const keySource = keySourceOf(model);
    const owner = { tenant, watch: this.#watch };
    const terms = { route, path, bytes, body, headers, keySource, defaultOutputTokens, cacheScope, owner };
    const request = await routedRequest(model, terms, options.routing(model));
    const entrant = { request, tenant, priority: caller.priority ?? priorityOf(body) };
    return { bytes, body, entrant, turn: route.isGeneration ? turn : undefined, cacheScope: scope };
  }

  /** The cache scope; "" if nothing has to be kept apart. Throws if the engine cannot do it. Checked before the request waits and when it is sent. */
  #cacheScope({ cacheScope = "" }: Caller, model: string): string {
    const { options } = this.context;
    if (cacheScope === "" || options.cachesPrefixes?.(model) === false) return "";
    for (const { engine } of options.pool.upstreams(model)) assertApart(engine, this.arrival.path);
    return cacheScope;
  }

  async #readBody(tenant: string): Promise<{ readonly bytes: Buffer; readonly body: RequestBody }> {
    const { incoming, route, url } = this.arrival;
    if (route.method === "GET") {
      const model = new URL(url, "http://localhost").searchParams.get("model");
      return { bytes: Buffer.alloc(0), body: model === null ? {} : { model } };
    }
    const bytes = await readIncoming(incoming, this.context.options.limits);
    const read = await readBody(bytes, { path: this.arrival.path, tenant, onWait: this.#watch });
    this.#leaveThread = () => {};
    return read;
  }

  readonly #watch = (leave: () => void): (() => void) => {
    if (this.#isGone) leave();
    else this.#leaveThread = leave;
    return () => {
      this.#leaveThread = () => {};
    };
  };

  #conclude({ result, instanceId }: Delivered): void {
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
        if (instanceId !== undefined) void pool.reportFailure(instanceId);
        logFailure(logger, result.error, this.arrival.requestId, this.arrival.path);
        this.#end("broken", result.status, result.error.code);
        return;
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
    this.#delivery = undefined;
    this.#observer?.ended(outcome, status, code);
  }
}
