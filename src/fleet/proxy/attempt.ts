/**
 * One request sent to one instance: streams the answer to its sink at the sink's pace, and enforces the time limits.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Dispatcher } from "undici";
import { MillraceError } from "../../core/errors.js";
import type { AnswerSink } from "../../gateway/answer.js";
import type { UsageReader } from "../../gateway/api/usage.js";
import { areComments, WholeEvents } from "../../gateway/api/whole-events.js";
import type { Translation } from "../../gateway/dialects/translation.js";
import { encodingOf, mediaTypeOf } from "../../gateway/dialects/wire/encoding.js";
import { answerHeaders } from "./headers.js";
import type { ProxyTimeouts } from "./options.js";

export type AttemptResult =
  /** The client got the complete answer. */
  | { readonly kind: "answered"; readonly status: number }
  /** The answer broke off after the client had its first byte. */
  | { readonly kind: "broken"; readonly error: MillraceError; readonly status: number }
  | Refused
  | { readonly kind: "cancelled" };

/** The client got nothing yet, so the request may be sent again. */
export interface Refused {
  readonly kind: "refused";
  readonly error: MillraceError;
  /**
   * busy: the instance refused with 429 or 503; reset: an open connection broke; unreachable: any other network
   * failure; late: the first byte exceeded its time limit; forsaken: the instance became suspect or failed while
   * another was ready; malformed: the answer was unreadable; redirected: it leads to another address.
   */
  readonly how: "busy" | "reset" | "unreachable" | "late" | "forsaken" | "malformed" | "redirected";
  readonly status: number | undefined;
}

export interface AttemptContext {
  readonly instanceId: string;
  readonly sink: AnswerSink;
  readonly timeouts: ProxyTimeouts;
  /** Whether another instance could take the request. Called if this one is busy, suspect or failed. */
  mayRetry(): boolean;
  /** @param status status of the answer */
  onFirstByte(status: number): void;
  /** Gets the bytes of the answer; absent: no part needs its counts. */
  readonly usage: UsageReader | undefined;
  /** Called with the last byte of a complete answer, before the sink gets it. */
  onComplete(): void;
  /** Turns a provider's answer into the client's dialect. */
  readonly translation?: Translation | undefined;
  /** Called with the head of a provider's answer, even if the client does not get the answer. */
  readonly onHead?: ((status: number, headers: IncomingHttpHeaders) => void) | undefined;
  /** Called with the body of a refusal that the client does not get, up to MAX_DISCARDED_BYTES. */
  readonly onRefusalBody?: ((body: Buffer) => void) | undefined;
}

/** Statuses of an instance that did not accept the request: busy, and not ready. */
const NOT_TAKEN: readonly number[] = [429, 503];
/** A provider also refuses keys, for which another may do; Anthropic has its own status for overload. */
const NOT_TAKEN_BY_PROVIDER: readonly number[] = [401, 402, 403, ...NOT_TAKEN, 529];
/** A refusal's body is read up to this size, so that its connection can be reused. */
const MAX_DISCARDED_BYTES = 64 * 1024;
const RESETS: readonly string[] = ["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"];

/** discarding: another instance gets the request while the rest of the refusal is read. */
type State = "waiting" | "passing" | "discarding" | "over";

export class Attempt implements Dispatcher.DispatchHandler {
  #state: State = "waiting";
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #headers: IncomingHttpHeaders = {};
  /** Present if the answer is a stream of events. */
  #events: WholeEvents | undefined;
  #timer: NodeJS.Timeout | undefined;
  #lastByteMs = 0;
  /** Time of the last byte outside comments, which a server may send forever; at first, time of the request. */
  #lastDataMs = 0;
  #numDiscarded = 0;
  readonly #discarded: Buffer[] = [];
  #settle: (result: AttemptResult) => void = () => {};

  constructor(private readonly context: AttemptContext) {}

  run(dispatcher: Dispatcher, options: Dispatcher.DispatchOptions): Promise<AttemptResult> {
    return new Promise((resolve) => {
      this.#settle = resolve;
      this.#lastDataMs = performance.now();
      this.#watch(this.context.timeouts.firstByteMs);
      dispatcher.dispatch(options, this);
    });
  }

  /**
   * Closes the connection, so that the instance stops computing.
   * @param error ends an answer that has begun; undefined: the client has left
   */
  cancel(error?: MillraceError): void {
    if (this.#state === "over" || this.#state === "discarding") return;
    if (error !== undefined && this.#state === "passing") this.context.sink.breakOff(error);
    this.#finish({ kind: "cancelled" });
    this.#abort();
  }

  /**
   * Called when the instance becomes suspect or fails: refuses the request if its answer has not begun and another
   * instance could take it.
   */
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
    // The final answer follows a 1xx.
    if (status < 200 || this.#state !== "waiting") return;
    this.#status = status;
    this.#headers = headers;
    const { translation, onHead } = this.context;
    onHead?.(status, headers);
    const notTaken = translation === undefined ? NOT_TAKEN : NOT_TAKEN_BY_PROVIDER;
    if (notTaken.includes(status) && this.context.mayRetry()) {
      this.#refuse("busy", this.#failure(`status ${status}`), status);
      this.#state = "discarding";
      this.#watch(this.context.timeouts.idleMs);
      return;
    }
    if (status >= 300 && status < 400) {
      // A client would follow the redirect, and send its key and prompt there.
      this.#fail(this.#failure(`status ${status}, which leads elsewhere`), "redirected");
      this.#abort();
      return;
    }
    if (translation !== undefined) {
      translation.begin(status, headers);
      this.#checkTranslation();
      return;
    }
    const encoding = encodingOf(headers);
    if (encoding !== undefined) {
      // The gateway could not count the tokens of such an answer, search it, or end its stream with an event.
      this.#fail(this.#failure(`one in the encoding ${JSON.stringify(encoding.slice(0, 20))}`), "malformed");
      this.#abort();
      return;
    }
    if (mediaTypeOf(headers).startsWith("text/event-stream")) this.#events = new WholeEvents();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#state === "discarding") {
      this.#numDiscarded += chunk.length;
      if (this.context.onRefusalBody !== undefined) this.#discarded.push(chunk);
      if (this.#numDiscarded > MAX_DISCARDED_BYTES) this.#abort();
      return;
    }
    if (this.#state === "over") return;
    if (this.#lastByteMs === 0) this.#watch(this.context.timeouts.idleMs);
    this.#lastByteMs = performance.now();
    const { translation, usage } = this.context;
    const bytes = translation?.push(chunk) ?? this.#events?.push(chunk) ?? chunk;
    if (!areComments(this.#events === undefined ? chunk : bytes)) this.#lastDataMs = this.#lastByteMs;
    if (translation !== undefined) usage?.pushEvents(bytes);
    else if (this.#events !== undefined) usage?.pushEvents(chunk);
    else usage?.push(chunk);
    if (bytes.length > 0) this.#pass(bytes, controller);
    this.#checkTranslation();
  }

  onResponseEnd(): void {
    if (this.#state === "discarding") {
      clearTimeout(this.#timer);
      this.context.onRefusalBody?.(Buffer.concat(this.#discarded));
    }
    if (this.#state === "discarding" || this.#state === "over") return;
    const { translation } = this.context;
    const last = translation?.end() ?? this.#events?.flush();
    this.#checkTranslation();
    // A failed translation has ended the attempt.
    if (this.#isOver()) return;
    if (this.#state === "waiting") this.#begin();
    this.context.onComplete();
    this.context.sink.end(last);
    this.#finish({ kind: "answered", status: translation?.head().status ?? this.#status });
  }

  onResponseError(_: Dispatcher.DispatchController, thrown: Error): void {
    if (this.#state === "discarding") clearTimeout(this.#timer);
    if (this.#state === "discarding" || this.#state === "over") return;
    const code = (thrown as NodeJS.ErrnoException).code ?? thrown.name;
    this.#fail(this.#failure(`${thrown.message} (${code})`, thrown), RESETS.includes(code) ? "reset" : "unreachable");
  }

  /** Ends the attempt if the rest of the provider's answer is unreadable. */
  #checkTranslation(): void {
    const failure = this.context.translation?.failure;
    if (failure === undefined) return;
    this.#fail(new MillraceError(failure.code, `instance ${this.context.instanceId}: ${failure.message}`), "malformed");
    this.#abort();
  }

  #isOver(): boolean {
    return this.#state === "over";
  }

  #pass(bytes: Buffer, controller: Dispatcher.DispatchController): void {
    if (this.#state === "waiting") this.#begin();
    const { sink } = this.context;
    if (sink.write(bytes) || controller.paused) return;
    controller.pause();
    sink.onDrain(() => {
      this.#lastByteMs = performance.now();
      this.#lastDataMs = this.#lastByteMs;
      controller.resume();
    });
  }

  /** Sends the headers together with the first byte: until then another instance may still get the request. */
  #begin(): void {
    this.#state = "passing";
    const head = this.context.translation?.head();
    if (head !== undefined) {
      this.context.sink.begin(head);
      this.context.onFirstByte(head.status);
      return;
    }
    const isEventStream = this.#events !== undefined;
    const headers = answerHeaders(this.#headers, isEventStream);
    this.context.sink.begin({ status: this.#status, headers, isEventStream });
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
    this.context.sink.breakOff(error);
    this.#finish({ kind: "broken", error, status: this.#status });
  }

  #watch(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#onTimer(), ms);
  }

  /** Compares the time of the last byte: a new timer for every chunk would cost more. */
  #onTimer(): void {
    if (this.#state === "discarding") {
      this.#abort();
      return;
    }
    const { idleMs, firstByteMs } = this.context.timeouts;
    const hasBytes = this.#lastByteMs > 0;
    // While the client does not read, only its own time limit applies.
    const isPaused = this.#controller?.paused === true;
    const idleLeftMs = isPaused ? idleMs : this.#lastByteMs + idleMs - performance.now();
    // Servers send comments while a prompt waits or is computed. They do not extend the time for it.
    const dataMs = Math.max(firstByteMs, idleMs);
    const dataLeftMs = isPaused ? dataMs : this.#lastDataMs + dataMs - performance.now();
    const leftMs = Math.min(idleLeftMs, dataLeftMs);
    if (hasBytes && leftMs > 0) {
      this.#watch(leftMs);
      return;
    }
    const next = idleLeftMs > 0 ? `more than comments within ${dataMs} ms` : `the next byte within ${idleMs} ms`;
    const limit = hasBytes ? next : `the first byte of an answer within ${firstByteMs} ms`;
    const message = `expected ${limit} from instance ${this.context.instanceId}, got none`;
    const error = new MillraceError("upstream_timeout", message);
    this.#fail(error, "late");
    this.#abort();
  }

  #failure(what: string, cause?: Error): MillraceError {
    const message = `expected an answer from instance ${this.context.instanceId}, got ${what}`;
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
