/**
 * The HTTP server under the engine's API and the gateway: it listens, limits and ends connections, and refuses bytes
 * that are not requests.
 */
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, maxHeaderSize, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { type CertificateFiles, CertificateWatch, readCertificate } from "./certificate.js";
import { errorBody } from "./error-body.js";
import { MillraceError } from "./errors.js";
import { listen } from "./listen.js";
import { onSocketClose } from "./socket-close.js";

interface ServerLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** Keeps a client's own id if it is harmless in a header and a log line. */
export function requestIdOf(given: string | undefined): string {
  return given !== undefined && /^[\w.:/-]{1,128}$/.test(given) ? given : randomUUID();
}

interface Refusal {
  readonly status: string;
  readonly code: string;
  readonly message: string;
}

const NO_REQUEST: Refusal = {
  status: "400 Bad Request",
  code: "invalid_request",
  message: "expected an HTTP/1.1 request, got something else",
};

/** By Node's error code. */
const REFUSALS: Readonly<Record<string, Refusal>> = {
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: "408 Request Timeout",
    code: "request_timeout",
    message: "expected a whole request in time, got a part",
  },
  HPE_HEADER_OVERFLOW: {
    status: "431 Request Header Fields Too Large",
    code: "invalid_request",
    message: `expected a request line and headers of at most ${maxHeaderSize} bytes, got more`,
  },
};

/** Answers bytes that are not a request with a coded error, if the connection still has a place for one. */
function refuseBytes(logger: ServerLogger, error: NodeJS.ErrnoException, socket: Socket): void {
  // A client without shared keys cannot get an answer: it speaks plain HTTP, or does not trust the certificate.
  if (/^ERR_(SSL|TLS)_/.test(error.code ?? "")) {
    const got = error.code === "ERR_SSL_HTTP_REQUEST" ? "a request in plain HTTP" : error.code;
    logger.warn({ code: "invalid_request", tlsCode: error.code }, `refused: expected TLS, got ${got}`);
    socket.destroy();
    return;
  }
  // An answer that has begun leaves no place for another.
  const { _httpMessage: answer } = socket as Socket & { readonly _httpMessage?: ServerResponse | null };
  if (error.code === "ECONNRESET" || !socket.writable || answer?.headersSent === true) {
    socket.destroy();
    return;
  }
  const { status, code, message } = REFUSALS[error.code ?? ""] ?? NO_REQUEST;
  logger.warn({ code, httpCode: error.code }, `refused: ${message}`);
  const body = JSON.stringify({ error: { message, type: "invalid_request_error", param: null, code } });
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

/** Answers a request before other code sees it, and ends its connection. */
function refuseRequest(
  logger: ServerLogger,
  { headers }: IncomingMessage,
  outgoing: ServerResponse,
  error: MillraceError,
): void {
  const requestId = requestIdOf(headers["x-request-id"] as string | undefined);
  logger.warn({ code: error.code, requestId }, `refused: ${error.message}`);
  outgoing.writeHead(error.status, {
    "Content-Type": "application/json",
    "X-Request-Id": requestId,
    Connection: "close",
  });
  outgoing.end(JSON.stringify(errorBody(error, requestId)));
}

/**
 * Several Host headers are an error, and so is none in HTTP/1.1 (RFC 9112, 3.2). Of several, Node reads the first,
 * while a proxy in front may have checked another.
 */
function wrongHosts({ rawHeaders, httpVersion }: IncomingMessage): MillraceError | undefined {
  const numHosts = rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === "host").length;
  if (numHosts === 1 || (numHosts === 0 && httpVersion === "1.0")) return undefined;
  return new MillraceError("invalid_request", `expected one Host header, got ${numHosts}`);
}

/**
 * Requests that a client may send on one connection before their answers. Each costs memory until its answer is read.
 */
const MAX_UNANSWERED = 64;

/**
 * Requests after the refused one are dropped; more than this, which cannot all come from one read, end the connection.
 */
const MAX_DROPPED = 4096;

function tooManyUnanswered(): MillraceError {
  const message = `expected at most ${MAX_UNANSWERED} unanswered requests on one connection, got more`;
  return new MillraceError("invalid_request", message, { hint: "read answers before you send more requests" });
}

/** The requests of one connection. */
class Connection {
  /** Unfinished responses, in the order of their requests. */
  readonly unanswered = new Set<ServerResponse>();
  /** Whether a refusal is ending the connection: all bytes after the refused ones are dropped. */
  isCondemned = false;
  numDropped = 0;
}

/** First and longest interval between checks whether a half-closed client still listens. */
const FIRST_LOOK_MS = 20;
const LONGEST_LOOK_MS = 1000;

/**
 * Time for a complete request. Readers of bodies have shorter limits: for silence in an upload, and for a complete
 * small
 * body.
 */
const LONGEST_UPLOAD_MS = 3_600_000;

/** The address before the path in requests to a proxy (RFC 9112, 3.2.2). */
const OWN_ADDRESS = /^https?:\/\/[^/?#]*\/?/i;

/** Longer than clients keep an unused connection, so that the server does not close one just as a request arrives. */
const KEEP_ALIVE_MS = 75_000;

interface HttpServerOptions {
  readonly logger: ServerLogger;
  /** For HTTPS; undefined: plain HTTP. */
  readonly certificate?: CertificateFiles | undefined;
  /** Longest silence of a connection before its first request, and while its client takes no bytes of an answer. */
  readonly stalledClientMs: number;
  /** Longest silence of a connection after an answer; absent: KEEP_ALIVE_MS. */
  readonly keepAliveMs?: number;
}

/**
 * Answers a request.
 * @param onceOver registers a callback for the answer's end: it is sent, or its connection closed
 */
export type HttpAnswer = (
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  onceOver: (callback: () => void) => void,
) => void;

/** With TLS, slow handshakes end too, and renewed certificate files come into use. */
function createServerWith({ certificate, logger, stalledClientMs }: HttpServerOptions): Server {
  const limits = { requireHostHeader: false, requestTimeout: LONGEST_UPLOAD_MS };
  if (certificate === undefined) return createServer(limits);
  const { cert, key, endsMs } = readCertificate(certificate);
  const server = createTlsServer({ ...limits, cert, key, allowHalfOpen: true, handshakeTimeout: stalledClientMs });
  const watch = new CertificateWatch(certificate, endsMs, logger, (renewed) =>
    server.setSecureContext({ cert: renewed.cert, key: renewed.key }),
  );
  return server.once("listening", () => watch.start()).once("close", () => watch.stop());
}

/**
 * An HTTP server that knows its unanswered requests.
 * @example
 * const server = new HttpServer({ logger, stalledClientMs: 60_000 }, (incoming, outgoing) => outgoing.end("hello"));
 * const { port } = await server.listen("127.0.0.1", 0);
 */
export class HttpServer {
  /** A draining server closes each connection after its answer. */
  #isDraining = false;
  readonly #server: Server;
  readonly #closed: Promise<void>;
  /** Connections that have had a request. */
  readonly #connections = new Map<Socket, Connection>();
  /** All connections, including those in a TLS handshake. */
  readonly #sockets = new Set<Socket>();
  #numUnanswered = 0;
  #onIdle: (() => void)[] = [];

  constructor(
    private readonly options: HttpServerOptions,
    private readonly answer: HttpAnswer,
  ) {
    // Node's own refusals have no body. It would refuse a request without Host, and a request that expects anything but
    // 100-continue, which may be ignored (RFC 9110, 10.1.1).
    const onRequest = (incoming: IncomingMessage, outgoing: ServerResponse) => this.#onRequest(incoming, outgoing);
    this.#server = createServerWith(options).on("request", onRequest).on("checkExpectation", onRequest);
    this.#server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    this.#closed = new Promise((resolve) => this.#server.once("close", resolve));
    this.#server.on("clientError", (error, socket) => this.#onNonsense(error, socket as Socket));
    this.#answerHalfClosed();
    this.#endSilent();
  }

  listen(host: string, port: number): Promise<AddressInfo> {
    return listen(this.#server, host, port);
  }

  /** From now on, closes each connection after its answer. @returns whether all requests were answered in time */
  async drain(limitMs = Number.POSITIVE_INFINITY): Promise<boolean> {
    this.#isDraining = true;
    if (this.#numUnanswered === 0) return true;
    return await new Promise<boolean>((resolve) => {
      const timer = Number.isFinite(limitMs) ? setTimeout(() => resolve(false), limitMs) : undefined;
      this.#onIdle.push(() => {
        clearTimeout(timer);
        resolve(true);
      });
    });
  }

  /** Accepts no more connections and cuts the open ones. */
  async close(): Promise<void> {
    this.#isDraining = true;
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await this.#closed;
  }

  #connectionOf(socket: Socket): Connection {
    const known = this.#connections.get(socket);
    if (known !== undefined) return known;
    const connection = new Connection();
    this.#connections.set(socket, connection);
    onSocketClose(socket, () => this.#connections.delete(socket));
    return connection;
  }

  #onRequest(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { socket } = incoming;
    const connection = this.#connectionOf(socket);
    // Writing to a closed connection emits an error; the watch on the socket handles it.
    outgoing.on("error", () => {});
    if (connection.isCondemned) {
      if (++connection.numDropped > MAX_DROPPED) socket.destroy();
      return;
    }
    const isOneTooMany = connection.unanswered.size >= MAX_UNANSWERED;
    connection.isCondemned = isOneTooMany;
    this.#numUnanswered++;
    connection.unanswered.add(outgoing);
    let onOver = () => {};
    const settle = () => {
      if (!connection.unanswered.delete(outgoing)) return;
      endWatch();
      onOver();
      if (--this.#numUnanswered > 0) return;
      for (const call of this.#onIdle.splice(0)) call();
    };
    // A pipelined response that never got its turn emits no "close", so the socket is watched.
    const endWatch = onSocketClose(socket, settle);
    outgoing.once("close", settle);
    if (this.#isDraining) outgoing.shouldKeepAlive = false;
    incoming.url = incoming.url!.replace(OWN_ADDRESS, "/");
    const error = isOneTooMany ? tooManyUnanswered() : wrongHosts(incoming);
    if (error !== undefined) refuseRequest(this.options.logger, incoming, outgoing, error);
    else {
      this.answer(incoming, outgoing, (callback) => {
        if (connection.unanswered.has(outgoing)) onOver = callback;
        else callback();
      });
    }
  }

  /**
   * Bytes that are not a request get a coded answer if that is still possible, after the answers to earlier requests.
   */
  #onNonsense(error: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.#connectionOf(socket);
    if (connection.isCondemned) return;
    connection.isCondemned = true;
    const before = [...connection.unanswered].filter(({ req }) => req.complete);
    let numLeft = before.length;
    for (const answer of before) {
      answer.once("close", () => {
        if (--numLeft === 0) refuseBytes(this.options.logger, error, socket);
      });
    }
    if (numLeft === 0) refuseBytes(this.options.logger, error, socket);
  }

  /** The response that is next on a connection. */
  #currentOf(socket: Socket): ServerResponse | undefined {
    const [first] = this.#connections.get(socket)?.unanswered ?? [];
    return first;
  }

  /**
   * A client may end its side of the connection after a complete request, and still gets its answer. A client that has
   * closed both sides looks the same, so the server sends an interim answer now and then, which HTTP allows and clients
   * skip: it breaks the connection if the client has gone. A client that ends its side during an answer counts as gone,
   * since an interim answer has no place there, and an answer may be silent for long.
   */
  #answerHalfClosed(): void {
    // Node's own switch, off by default: without it, a half-closed client counts as gone.
    (this.#server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
    // Over TLS, the event "connection" comes before the handshake, without requests.
    const connected = this.options.certificate === undefined ? "connection" : "secureConnection";
    this.#server.on(connected, (socket: Socket) => {
      let timer: NodeJS.Timeout | undefined;
      socket.once("end", () => {
        const answer = this.#currentOf(socket);
        // HTTP/1.0 has no interim answers.
        if (answer !== undefined && (answer.headersSent || answer.req.httpVersion === "1.0")) socket.destroy();
        else look(FIRST_LOOK_MS);
      });
      socket.once("close", () => clearTimeout(timer));
      const look = (nextMs: number): void => {
        const answer = this.#currentOf(socket);
        if (answer === undefined || socket.destroyed) return;
        // Once the answer has begun, writing its bytes shows whether the client still listens.
        if (!answer.headersSent) answer.writeContinue();
        timer = setTimeout(() => look(Math.min(LONGEST_LOOK_MS, 2 * nextMs)), nextMs);
      };
    });
  }

  /**
   * Ends connections whose client takes no unsent bytes, and connections that wait for no answer. Silence while an
   * answer is
   * computed is fine. Once code listens to "timeout", Node leaves both to it, including keep-alive.
   */
  #endSilent(): void {
    this.#server.timeout = this.options.stalledClientMs;
    this.#server.keepAliveTimeout = this.options.keepAliveMs ?? KEEP_ALIVE_MS;
    this.#server.on("timeout", (socket: Socket) => {
      if (this.#currentOf(socket) === undefined || socket.writableLength > 0) socket.destroy();
    });
  }
}
