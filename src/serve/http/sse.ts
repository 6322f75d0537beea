/**
 * Writes server-sent events, or lines of JSON, directly to Node's response. Text is collected and written once per turn
 * of the event loop, so one engine step costs one write.
 */
import type { ServerResponse } from "node:http";
import type { HeaderRecord } from "../../core/cors.js";

const EVENT_STREAM = "text/event-stream; charset=utf-8";

const STREAM_HEADERS: HeaderRecord = {
  "Cache-Control": "no-cache",
  // Stops nginx from buffering the stream.
  "X-Accel-Buffering": "no",
};

/**
 * Sent while a stream is silent, because proxies cut silent streams after a minute. The first beat follows the first
 * event.
 */
interface Heartbeat {
  readonly text: string;
  readonly everyMs: number;
  /** Called at each beat: whether the stream's source is still alive. */
  isDue(): boolean;
}

/** A comment, which clients ignore. Gateways treat a longer silence of /kv_events as a lost connection. */
const DEFAULT_HEARTBEAT: Heartbeat = { text: ":\n\n", everyMs: 15_000, isDue: () => true };

export class SseStream {
  readonly #outgoing: ServerResponse;
  readonly #headers: HeaderRecord;
  readonly #maxBufferedBytes: number;
  readonly #onOverflow: (bufferedBytes: number) => void;
  readonly #heartbeat: Heartbeat;
  #beat: NodeJS.Timeout | undefined;
  #pending = "";
  #maxTextLength = 0;
  #isFlushScheduled = false;
  #isEnding = false;

  /** `onOverflow` is called once when the client reads too slowly; the connection is cut afterwards. */
  constructor(
    outgoing: ServerResponse,
    options: {
      readonly headers: HeaderRecord;
      /** Absent: the content type of server-sent events. */
      readonly contentType?: string | undefined;
      readonly maxBufferedBytes: number;
      readonly onOverflow: (bufferedBytes: number) => void;
      readonly heartbeat?: Partial<Heartbeat> | undefined;
    },
  ) {
    this.#outgoing = outgoing;
    this.#headers = { "Content-Type": options.contentType ?? EVENT_STREAM, ...STREAM_HEADERS, ...options.headers };
    this.#maxBufferedBytes = options.maxBufferedBytes;
    this.#onOverflow = options.onOverflow;
    this.#heartbeat = { ...DEFAULT_HEARTBEAT, ...options.heartbeat };
    outgoing.once("close", () => clearTimeout(this.#beat));
    // Writing to a closed connection reports this error; the disconnect watch handles it.
    outgoing.on("error", () => {});
  }

  /** Headers go out with the first text, so that an earlier failure still gets its own status. */
  get isOpen(): boolean {
    return this.#outgoing.headersSent || this.#pending !== "";
  }

  /** @param text one or more complete events */
  send(text: string): void {
    if (text === "" || this.#isEnding) return;
    this.#pending += text;
    this.#schedule();
  }

  end(): void {
    this.#isEnding = true;
    this.#schedule();
  }

  /** Sends no beat to a client that does not read, so that the stall timeout can disconnect it. */
  #keepAlive(): void {
    if (this.#outgoing.writableLength === 0 && this.#heartbeat.isDue()) this.send(this.#heartbeat.text);
    this.#beat?.refresh();
  }

  #schedule(): void {
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    queueMicrotask(() => {
      this.#isFlushScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    const outgoing = this.#outgoing;
    if (outgoing.destroyed || outgoing.writableEnded) return;
    if (!outgoing.headersSent) outgoing.writeHead(200, this.#headers);
    const text = this.#pending;
    this.#pending = "";
    if (this.#isEnding) {
      clearTimeout(this.#beat);
      outgoing.end(text);
      return;
    }
    outgoing.write(text);
    this.#beat ??= setTimeout(() => this.#keepAlive(), this.#heartbeat.everyMs).unref();
    this.#beat.refresh();
    // The last written text counts as unsent however fast the client reads, so the longest text is allowed on top of
    // the limit.
    this.#maxTextLength = Math.max(this.#maxTextLength, text.length);
    if (outgoing.writableLength <= this.#maxBufferedBytes + this.#maxTextLength) return;
    this.#isEnding = true;
    this.#onOverflow(outgoing.writableLength);
    // A pipelined response has no socket yet; the request's socket closes the connection either way.
    outgoing.req.socket.destroy();
  }
}
