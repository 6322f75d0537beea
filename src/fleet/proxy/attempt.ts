/** One request sent to one instance: its answer goes to the client as it comes, at the client's pace, watched by a clock. */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { Dispatcher } from "undici";
import { MillraceError } from "../../core/errors.js";
import type { OpenTurn } from "../../core/response-state.js";
import type { ProxyDialect } from "./dialect.js";
import { responseHeaders } from "./headers.js";
import type { ProxyTimeouts } from "./options.js";
import { ResponseKeeper } from "./response-keeper.js";
import { type TokenUsage, UsageReader } from "./usage.js";
import { WholeEvents } from "./whole-events.js";

export type AttemptResult =
  /** The whole answer was passed on. */
  | { readonly kind: "answered"; readonly status: number }
  /** It broke off after its first byte had been passed on. */
  | { readonly kind: "broken"; readonly error: MillraceError; readonly status: number }
  | Refused
  | { readonly kind: "cancelled" };

/** Nothing was passed on, and the request may be sent again. */
export interface Refused {
  readonly kind: "refused";
  readonly error: MillraceError;
  /**
   * busy: it said so itself; reset: the connection was there, and broke; unreachable: any other failure of it; late: the first byte's time was up;
   * forsaken: it fell silent, and another instance was there.
   */
  readonly how: "busy" | "reset" | "unreachable" | "late" | "forsaken";
  readonly status: number | undefined;
}

interface AttemptContext {
  readonly instanceId: string;
  readonly requestId: string;
  readonly dialect: ProxyDialect;
  readonly outgoing: ServerResponse;
  readonly timeouts: ProxyTimeouts;
  /** Whether another instance could take the request; asked when this one says it does not, or falls silent. */
  mayRetry(): boolean;
  /** @param status of the answer */
  onFirstByte(status: number): void;
  /** Told at the end of an answer that says how many tokens it took; absent: it is not looked for. */
  readonly onUsage?: ((usage: TokenUsage) => void) | undefined;
  /** A request of /v1/responses whose answer the gateway completes, and keeps. */
  readonly turn?: OpenTurn | undefined;
}

/** What says that the request was not taken: busy, and not ready. */
const NOT_TAKEN: readonly number[] = [429, 503];
/** A refusal's text is read to its end, so that its connection can be used again, up to this. */
const MAX_DISCARDED_BYTES = 64 * 1024;
const RESETS: readonly string[] = ["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"];

/** discarding: the request goes elsewhere while the rest of a refusal is read. */
type State = "waiting" | "passing" | "discarding" | "over";

export class Attempt implements Dispatcher.DispatchHandler {
  #state: State = "waiting";
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #headers: IncomingHttpHeaders = {};
  /** Of a stream of events. */
  #events: WholeEvents | undefined;
  #keeper: ResponseKeeper | undefined;
  readonly #usage: UsageReader | undefined;
  #timer: NodeJS.Timeout | undefined;
  #lastByteMs = 0;
  #numDiscarded = 0;
  #settle: (result: AttemptResult) => void = () => {};

  constructor(private readonly context: AttemptContext) {
    if (context.onUsage !== undefined) this.#usage = new UsageReader();
  }

  run(dispatcher: Dispatcher, options: Dispatcher.DispatchOptions): Promise<AttemptResult> {
    return new Promise((resolve) => {
      this.#settle = resolve;
      this.#watch(this.context.timeouts.firstByteMs);
      dispatcher.dispatch(options, this);
    });
  }

  /** The instance stops computing, since its connection closes. @param error ends an answer that has begun; undefined: the client left */
  cancel(error?: MillraceError): void {
    if (this.#state === "over" || this.#state === "discarding") return;
    if (error !== undefined && this.#state === "passing") this.#breakOff(error);
    this.#finish({ kind: "cancelled" });
    this.#abort();
  }

  /** The instance is doubted: unless its answer has begun, the request goes elsewhere, if there is anywhere. */
  forsake(): void {
    if (this.#state !== "waiting" || !this.context.mayRetry()) return;
    this.#refuse("forsaken", this.#failure("none, and none to its health check either"));
    this.#abort();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#state === "over") this.#abort();
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    // 1xx: the answer is still to come.
    if (status < 200 || this.#state !== "waiting") return;
    this.#status = status;
    this.#headers = headers;
    if (NOT_TAKEN.includes(status) && this.context.mayRetry()) {
      this.#refuse("busy", this.#failure(`status ${status}`), status);
      this.#state = "discarding";
      this.#watch(this.context.timeouts.idleMs);
      return;
    }
    if (isEventStream(headers)) this.#events = new WholeEvents();
    const { turn } = this.context;
    if (turn !== undefined && status === 200) this.#keeper = new ResponseKeeper(turn, this.#events !== undefined);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#state === "discarding") {
      this.#numDiscarded += chunk.length;
      if (this.#numDiscarded > MAX_DISCARDED_BYTES) this.#abort();
      return;
    }
    if (this.#state === "over") return;
    if (this.#lastByteMs === 0) this.#watch(this.context.timeouts.idleMs);
    this.#lastByteMs = performance.now();
    this.#usage?.push(chunk);
    const whole = this.#events === undefined ? chunk : this.#events.push(chunk);
    const bytes = this.#keeper?.push(whole) ?? whole;
    if (bytes.length > 0) this.#pass(bytes, controller);
  }

  onResponseEnd(): void {
    if (this.#state === "discarding") clearTimeout(this.#timer);
    if (this.#state === "discarding" || this.#state === "over") return;
    if (this.#state === "waiting") this.#begin();
    this.context.outgoing.end(this.#events?.flush() ?? this.#keeper?.end());
    const usage = this.#usage?.read();
    if (usage !== undefined) this.context.onUsage?.(usage);
    this.#finish({ kind: "answered", status: this.#status });
  }

  onResponseError(_: Dispatcher.DispatchController, thrown: Error): void {
    if (this.#state === "discarding") clearTimeout(this.#timer);
    if (this.#state === "discarding" || this.#state === "over") return;
    const code = (thrown as NodeJS.ErrnoException).code ?? thrown.name;
    this.#fail(this.#failure(`${thrown.message} (${code})`, thrown), RESETS.includes(code) ? "reset" : "unreachable");
  }

  #pass(bytes: Buffer, controller: Dispatcher.DispatchController): void {
    if (this.#state === "waiting") this.#begin();
    const { outgoing } = this.context;
    if (outgoing.write(bytes) || controller.paused) return;
    controller.pause();
    outgoing.once("drain", () => {
      this.#lastByteMs = performance.now();
      controller.resume();
    });
  }

  /** Headers go out with the first byte: until then the request may be sent elsewhere. */
  #begin(): void {
    const { dialect, requestId, outgoing } = this.context;
    this.#state = "passing";
    const isEdited = this.#events !== undefined || this.#keeper !== undefined;
    outgoing.writeHead(this.#status, responseHeaders(this.#headers, dialect.requestIdHeader, requestId, isEdited));
    this.context.onFirstByte(this.#status);
  }

  #refuse(how: Refused["how"], error: MillraceError, status?: number): void {
    this.#finish({ kind: "refused", error, how, status });
  }

  #fail(error: MillraceError, how: Refused["how"]): void {
    if (this.#state === "waiting") {
      this.#refuse(how, error);
      return;
    }
    this.#breakOff(error);
    this.#finish({ kind: "broken", error, status: this.#status });
  }

  #breakOff(error: MillraceError): void {
    const { outgoing, dialect, requestId } = this.context;
    // Any other kind of answer can only be ended by cutting the connection, or it would pass for a whole one.
    if (this.#events === undefined) outgoing.destroy();
    else outgoing.end(dialect.streamError(error, requestId));
  }

  #watch(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#onTimer(), ms);
  }

  /** Bytes only leave their time behind: a timer set anew for each would cost more. */
  #onTimer(): void {
    if (this.#state === "discarding") {
      this.#abort();
      return;
    }
    const { idleMs, firstByteMs } = this.context.timeouts;
    const hasBytes = this.#lastByteMs > 0;
    // While the client is what keeps the instance waiting, another clock runs.
    const leftMs = this.#controller?.paused === true ? idleMs : this.#lastByteMs + idleMs - performance.now();
    if (hasBytes && leftMs > 0) {
      this.#watch(leftMs);
      return;
    }
    const limit = hasBytes
      ? `its next byte within ${idleMs} ms`
      : `the first byte of its answer within ${firstByteMs} ms`;
    const message = `expected of instance ${this.context.instanceId} ${limit}, got none`;
    const error = new MillraceError("upstream_timeout", message);
    this.#fail(error, "late");
    this.#abort();
  }

  #failure(what: string, cause?: Error): MillraceError {
    const message = `expected an answer of instance ${this.context.instanceId}, got ${what}`;
    return new MillraceError("upstream_failed", message, { cause });
  }

  #finish(result: AttemptResult): void {
    if (this.#state === "over") return;
    this.#state = "over";
    clearTimeout(this.#timer);
    this.#settle(result);
  }

  #abort(): void {
    this.#controller?.abort(new Error("no longer wanted"));
  }
}

/** A compressed one cannot be cut between events, nor ended with one of ours. */
function isEventStream(headers: IncomingHttpHeaders): boolean {
  return headers["content-type"]?.startsWith("text/event-stream") === true && headers["content-encoding"] === undefined;
}
