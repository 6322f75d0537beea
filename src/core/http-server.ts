/** The part that all our HTTP servers share: listening, answering connections that speak no HTTP, ending silent ones, naming requests. */
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { errorBody } from "./error-body.js";
import { MillraceError } from "./errors.js";

interface BadRequestLogger {
  warn(fields: object, message: string): void;
}

/** A client's own id is kept when it is harmless in a header and a log line. */
export function requestIdOf(given: string | undefined): string {
  return given !== undefined && /^[\w.:/-]{1,128}$/.test(given) ? given : randomUUID();
}

/** Connections whose nonsense will be answered: what follows it is nonsense too. */
const condemned = new WeakSet<Socket>();

/**
 * A connection that sends nonsense gets a coded answer when that is still possible, after the answers to the requests before it.
 * @param unanswered the server's responses that are not over
 */
export function answerBadRequest(
  logger: BadRequestLogger,
  error: NodeJS.ErrnoException,
  socket: Socket,
  unanswered: ReadonlySet<ServerResponse>,
): void {
  if (condemned.has(socket)) return;
  condemned.add(socket);
  const before = [...unanswered].filter(({ req }) => req.socket === socket && req.complete);
  let numLeft = before.length;
  for (const answer of before) {
    answer.once("close", () => {
      if (--numLeft === 0) refuse(logger, error, socket);
    });
  }
  if (numLeft === 0) refuse(logger, error, socket);
}

function refuse(logger: BadRequestLogger, error: NodeJS.ErrnoException, socket: Socket): void {
  // Between the bytes of an answer that has begun there is no place for another.
  const { _httpMessage: answer } = socket as Socket & { readonly _httpMessage?: ServerResponse | null };
  if (error.code === "ECONNRESET" || !socket.writable || answer?.headersSent === true) {
    socket.destroy();
    return;
  }
  const isTimeout = error.code === "ERR_HTTP_REQUEST_TIMEOUT";
  const isTooLong = error.code === "HPE_HEADER_OVERFLOW";
  const code = isTimeout ? "request_timeout" : "invalid_request";
  const status = isTimeout
    ? "408 Request Timeout"
    : isTooLong
      ? "431 Request Header Fields Too Large"
      : "400 Bad Request";
  const message = isTimeout
    ? "expected a whole request in time, got a part"
    : "expected an HTTP/1.1 request, got something else";
  logger.warn({ code, httpCode: error.code }, `refused: ${message}`);
  const body = JSON.stringify({ error: { message, type: "invalid_request_error", param: null, code } });
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

/**
 * Answers a request with several Host headers with 400 (RFC 9112, 3.2). Node reads the first one. A program in front of us may have read another,
 * and have let the request pass for its sake.
 * @returns whether the request was one
 */
export function refuseSeveralHosts(
  logger: BadRequestLogger,
  { rawHeaders, headers }: IncomingMessage,
  outgoing: ServerResponse,
): boolean {
  const numHosts = rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === "host").length;
  if (numHosts <= 1) return false;
  const requestId = requestIdOf(headers["x-request-id"] as string | undefined);
  const error = new MillraceError("invalid_request", `expected one Host header, got ${numHosts}`);
  logger.warn({ code: error.code, requestId }, `refused: ${error.message}`);
  outgoing.writeHead(error.status, {
    "Content-Type": "application/json",
    "X-Request-Id": requestId,
    Connection: "close",
  });
  outgoing.end(JSON.stringify(errorBody(error, requestId)));
  return true;
}

/** Between two looks whether a client that has ended its side still listens, first and longest. */
const FIRST_LOOK_MS = 20;
const LONGEST_LOOK_MS = 1000;

/**
 * A client may end its side of the connection once its request is whole, and is answered all the same. A client that has closed both sides looks the same, so it is
 * sent an interim answer now and then, which HTTP allows and clients pass over: that breaks a connection whose client has gone. A client that ends its side
 * in the middle of an answer leaves: there is no place for interim answers, and an answer may be silent for long.
 * @param unanswered the server's responses that are not over, in the order of their requests
 */
export function answerHalfClosed(server: Server, unanswered: ReadonlySet<ServerResponse>): void {
  // Node's own switch, off by default: who half-closes would count as gone.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  server.on("connection", (socket: Socket) => {
    let timer: NodeJS.Timeout | undefined;
    const current = () => [...unanswered].find(({ req }) => req.socket === socket);
    socket.once("end", () => {
      const answer = current();
      // HTTP/1.0 knows no interim answers.
      if (answer !== undefined && (answer.headersSent || answer.req.httpVersion === "1.0")) socket.destroy();
      else look(FIRST_LOOK_MS);
    });
    socket.once("close", () => clearTimeout(timer));
    const look = (nextMs: number): void => {
      const answer = current();
      if (answer === undefined || socket.destroyed) return;
      // The bytes of an answer that has begun by now do the same.
      if (!answer.headersSent) answer.writeContinue();
      timer = setTimeout(() => look(Math.min(LONGEST_LOOK_MS, 2 * nextMs)), nextMs);
    };
  });
}

/** Longer than clients keep a connection they do not use, or ours would end under a request. */
const KEEP_ALIVE_MS = 75_000;

/**
 * Ends connections whose client takes no unsent bytes, and those that wait for no answer. Silence while an answer is being made is fine.
 * Node leaves both to us, keep-alive included, once anybody listens to "timeout".
 * @param timeoutMs a connection may be silent for this long before its first request and during one
 * @param unanswered the server's responses that are not over
 * @param keepAliveMs and for this long after an answer
 */
export function endSilentConnections(
  server: Server,
  timeoutMs: number,
  unanswered: ReadonlySet<ServerResponse>,
  keepAliveMs = KEEP_ALIVE_MS,
): void {
  server.timeout = timeoutMs;
  server.keepAliveTimeout = keepAliveMs;
  server.on("timeout", (socket: Socket) => {
    const isAwaited = [...unanswered].some(({ req }) => req.socket === socket);
    if (!isAwaited || socket.writableLength > 0) socket.destroy();
  });
}

/** Binds a server to an address; port 0 takes any free one. */
export function listen(server: Server, host: string, port: number): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    const refuse = (error: NodeJS.ErrnoException) => {
      const hints: Readonly<Record<string, string>> = {
        EADDRINUSE:
          "stop the program that uses it, or choose another with --port (with --config: with port in the file)",
        EACCES: "choose a port above 1023",
        EADDRNOTAVAIL: "choose an address of this machine with --host (with --config: with host in the file)",
        ENOTFOUND: "choose an address of this machine with --host (with --config: with host in the file)",
      };
      const hint = hints[error.code ?? ""];
      const code = error.code ?? error.message;
      const got = code === "EADDRINUSE" ? `a port that another program uses (${code})` : code;
      const message = `expected to listen on ${host}:${port}, got ${got}`;
      reject(new MillraceError("invalid_option", message, { cause: error, ...(hint === undefined ? {} : { hint }) }));
    };
    server.once("error", refuse);
    server.listen(port, host, () => {
      server.off("error", refuse);
      resolve(server.address() as AddressInfo);
    });
  });
}

/**
 * Rejects as `listen` does where nobody can listen there now: a command that takes minutes to load a model says so before. A port of 0 is always free.
 */
export async function assertFreePort(host: string, port: number): Promise<void> {
  if (port === 0) return;
  const server = createServer();
  await listen(server, host, port);
  await new Promise((resolve) => server.close(resolve));
}

/** As it stands in a URL. */
export function shownHost(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
