/** A client's request on its way through the gateway: authorize, read, pass to the policies, report. */
import { readBody } from "../../core/body-reader.js";
import { type MillraceError, toMillraceError } from "../../core/errors.js";
import { bodyJson, readIncoming } from "../../core/json-body.js";
import type { OpenTurn } from "../../core/response-state.js";
import { Cancellation } from "../../gateway/cancellation.js";
import { changedFields, withFields } from "../../gateway/edit-json.js";
import type { Outcome, RequestObserver } from "../../gateway/observer.js";
import { answerIdle, type OllamaEndpoint, ollamaSink, untagged } from "../../gateway/ollama/endpoints.js";
import type { Ending } from "../../gateway/pipeline.js";
import type { GatewayRequest, RequestBody } from "../../gateway/request.js";
import { assertMayUse } from "../../gateway/tenants/model-access.js";
import type { Arrival, ExchangeContext } from "./arrival.js";
import { ClientSink } from "./client-sink.js";
import { gatewayRequest } from "./gateway-request.js";
import { KeeperSink } from "./keeper-sink.js";
import { logFailure, respondWithError } from "./respond.js";

export class Exchange {
  #observer: RequestObserver | undefined;
  readonly #cancellation = new Cancellation();
  readonly #startMs = performance.now();

  constructor(
    private readonly context: ExchangeContext,
    private readonly arrival: Arrival,
  ) {}

  /**
   * Called when the client's connection closes, even after a complete answer.
   * @param error the client's error, if the gateway shuts down
   */
  abandon(error?: MillraceError): void {
    this.#cancellation.cancel(error);
  }

  /** Never rejects. */
  async run(): Promise<void> {
    try {
      const { request, turn, given } = await this.#read();
      const { outgoing, requestId, route, ollama } = this.arrival;
      const socket = new ClientSink(outgoing, route.dialect, requestId);
      if (ollama?.isIdle(given) === true) {
        assertMayUse(request.caller, request.model, this.context.options.modelOf ?? ((name) => name));
        answerIdle(ollama, given, String(given.model ?? request.model), socket);
        this.#end("answered", 200);
        return;
      }
      const client = ollama === undefined ? socket : ollamaSink(ollama, request.body, given, socket, this.#startMs);
      const sink = turn === undefined || !route.isGeneration ? client : new KeeperSink(client, turn);
      this.#conclude(await this.context.handle(request, sink));
    } catch (thrown) {
      this.#refuse(this.#cancellation.error ?? toMillraceError(thrown));
    }
  }

  async #read(): Promise<{
    readonly request: GatewayRequest;
    readonly turn: OpenTurn | undefined;
    /** The client's body, unchanged. */
    readonly given: RequestBody;
  }> {
    const { options } = this.context;
    const { incoming, requestId: id, route, ollama } = this.arrival;
    const { headers } = incoming;
    const caller = await options.authorize(headers);
    const { tenant } = caller;
    const read = await this.#readBody(tenant);
    const translated = ollama?.pathOf(read.body);
    const { path, url } = translated === undefined ? this.arrival : { path: translated, url: translated };
    const sent = ollama === undefined ? read : this.#translated(ollama, read.body);
    const turn = route.hasState === true ? this.context.responses.open(tenant, sent.body, route) : undefined;
    const body = turn?.body ?? sent.body;
    const bytes = turn === undefined ? sent.bytes : withFields(sent.bytes, sent.body, changedFields(sent.body, body));
    const cancellation = this.#cancellation;
    // The client's wish: the gateway keeps answers itself, so engines always get `store: false`.
    const isPrivate = sent.body.store === false;
    const parts = { id, url, path, route, headers, bytes, body, caller, cancellation, isPrivate };
    const request = gatewayRequest(options, parts);
    this.#observer = request.observer;
    return { request, turn, given: read.body };
  }

  /** The request in OpenAI's API. */
  #translated(endpoint: OllamaEndpoint, given: RequestBody): { readonly bytes: Buffer; readonly body: RequestBody } {
    const { pool, virtualModels } = this.context.options;
    const body = endpoint.isIdle(given) ? { model: given.model } : endpoint.request(given);
    const model = untagged(body.model, [...pool.models(), ...(virtualModels?.() ?? [])]);
    const named = model === undefined ? body : { ...body, model };
    return { body: named, bytes: Buffer.from(bodyJson(named)) };
  }

  async #readBody(tenant: string): Promise<{ readonly bytes: Buffer; readonly body: RequestBody }> {
    const { incoming, route, url, ollama } = this.arrival;
    if (route.method === "GET") {
      const model = new URL(url, "http://localhost").searchParams.get("model");
      return { bytes: Buffer.alloc(0), body: model === null ? {} : { model } };
    }
    const bytes = await readIncoming(incoming, this.context.options.limits);
    let endWatch = () => {};
    const onWait = (leave: () => void) => {
      endWatch = this.#cancellation.onCancel(leave);
      return endWatch;
    };
    // Ollama's fields hold only texts.
    const idField = ollama === undefined ? route.idField : undefined;
    const read = await readBody(bytes, { idField, tenant, onWait });
    endWatch();
    return read;
  }

  #conclude(ending: Ending): void {
    switch (ending.kind) {
      case "answered":
        this.#end("answered", ending.status);
        return;
      case "cancelled":
        if (this.#cancellation.error !== undefined) throw this.#cancellation.error;
        this.#end("cancelled", 499, "client_closed");
        return;
      case "broken":
        logFailure(this.context.options.logger, ending.error, this.arrival.requestId, this.arrival.path);
        this.#end("broken", ending.status, ending.error.code);
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
    this.#observer?.ended(outcome, status, code);
  }
}
