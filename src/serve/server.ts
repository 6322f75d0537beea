/** The listening server: binds the application to a port, watches its connections, drains and closes. */

import { randomUUID } from "node:crypto";
import { getRequestListener, RequestError } from "@hono/node-server";
import type { CertificateFiles } from "../core/certificate.js";
import { errorBody } from "../core/error-body.js";
import { MillraceError, toMillraceError } from "../core/errors.js";
import { HttpServer } from "../core/http-server.js";
import { urlOf } from "../core/listen.js";
import type { RequestLogger } from "../core/request-logger.js";
import { createAppWithLifecycle } from "./app.js";
import type { AppOptions } from "./http/context.js";
import { logFailure } from "./http/error-response.js";

export interface ServerOptions extends AppOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** For HTTPS; undefined: plain HTTP. */
  readonly certificate?: CertificateFiles | undefined;
}

export interface RunningServer {
  /** The server's address, for instance http://127.0.0.1:8000. */
  readonly url: string;
  readonly port: number;
  /**
   * Refuses new requests with shutting_down. Resolves when running requests are answered and every connection is
   * closed.
   */
  drain(): Promise<void>;
  /** Cuts every connection, which aborts the running requests. The caller still owns the engine and must close it. */
  close(): Promise<void>;
}

/** Answers a request whose URL or host the HTTP adapter cannot parse. */
function answerUnroutable(logger: RequestLogger, thrown: unknown): Response {
  const isRequestFault = thrown instanceof RequestError;
  const error = isRequestFault
    ? new MillraceError("invalid_request", `expected a valid URL and host, got another (${thrown.message})`)
    : toMillraceError(thrown);
  const requestId = randomUUID();
  logFailure(logger, error, requestId);
  return new Response(JSON.stringify(errorBody(error, requestId)), {
    status: error.status,
    headers: { "Content-Type": "application/json", "X-Request-Id": requestId },
  });
}

/** @example const server = await startServer({ ...appOptions, host: "127.0.0.1", port: 8000 }); */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { app, lifecycle, live } = createAppWithLifecycle(options);
  const handle = getRequestListener(app.fetch, {
    hostname: options.host,
    errorHandler: (thrown) => answerUnroutable(options.logger, thrown),
  });
  const { host, certificate, logger, limits } = options;
  const server = new HttpServer(
    { logger, certificate, stalledClientMs: limits.stalledClientTimeoutMs },
    (incoming, outgoing) => void handle(incoming, outgoing),
  );
  const { port } = await server.listen(host, options.port);
  live.start();
  return {
    url: urlOf({ host, port, certificate }),
    port,
    async drain() {
      lifecycle.isDraining = true;
      for (const end of lifecycle.endless) end();
      live.stop();
      await server.drain();
      await server.close();
    },
    async close() {
      lifecycle.isDraining = true;
      live.stop();
      await server.close();
    },
  };
}
