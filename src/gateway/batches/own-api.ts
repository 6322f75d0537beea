/**
 * Shared by the paths of files and batches: the caller's tenant, small JSON bodies, pages of lists, errors, and files
 * as answers.
 */
import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import type { IncomingHttpHeaders } from "node:http";
import { Readable } from "node:stream";
import type { HttpBindings } from "@hono/node-server";
import { type Context, Hono } from "hono";
import type { ErrorDialect } from "../../core/error-body.js";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { objectOf, readIncoming, textOf } from "../../core/json-body.js";
import { requestIdIn } from "../api/request-id.js";
import type { Caller, RequestBody } from "../request.js";
import type { KeyedResource, PageQuery } from "./batch-table.js";
import { MAX_IDEMPOTENCY_KEY_CHARS } from "./limits.js";

export interface OwnEnv {
  Bindings: HttpBindings;
  Variables: { caller: Caller; requestId: string };
}
export type OwnContext = Context<OwnEnv>;

export interface OwnApi {
  readonly authorize: (headers: IncomingHttpHeaders) => Caller | Promise<Caller>;
  /** Whether the gateway shuts down. */
  readonly isDraining: () => boolean;
  readonly bodyTimeoutMs: () => number;
  readonly onError: (error: MillraceError, requestId: string, path: string) => void;
}

/** A batch's parameters are small; its lines come in a file. */
const MAX_SMALL_BODY_BYTES = 64 * 1024;

/** An application whose errors have the form of one API, and whose requests have a caller. */
export function ownApp(api: OwnApi, dialect: ErrorDialect): Hono<OwnEnv> {
  const app = new Hono<OwnEnv>();
  app.onError((thrown, c) => {
    const error = toMillraceError(thrown);
    const requestId = c.get("requestId");
    api.onError(error, requestId, c.req.path);
    if (error.retryAfterSeconds !== undefined) c.header("Retry-After", String(Math.ceil(error.retryAfterSeconds)));
    if (error.code === "invalid_api_key") c.header("WWW-Authenticate", "Bearer");
    // The rest of the body will not be read.
    if (!c.env.incoming.complete) c.header("Connection", "close");
    return c.json(dialect.errorBody(error, requestId), error.status as 400);
  });
  app.use(async (c, next) => {
    const requestId = requestIdIn(c);
    c.set("requestId", requestId);
    c.header("X-Request-Id", requestId);
    c.header(dialect.requestIdHeader, requestId);
    c.set("caller", await api.authorize(c.env.incoming.headers));
    if (c.req.method === "POST" && api.isDraining()) {
      throw new MillraceError("shutting_down", "expected a gateway that takes requests, got one that is shutting down");
    }
    await next();
  });
  return app;
}

/** Refuses requests that no route takes; add it last. @param paths of the application, for the message */
export function refuseOthers(app: Hono<OwnEnv>, paths: readonly string[]): void {
  app.all("*", (c) => {
    const isPath = paths.includes(c.req.path);
    if (isPath) throw new MillraceError("method_not_allowed", `expected another method, got ${c.req.method}`);
    throw new MillraceError("not_found", `expected one of the gateway's paths, got ${c.req.path.slice(0, 80)}`, {
      hint: "docs/guides/batches.md has them",
    });
  });
}

/** The JSON of a small body. @param fields allowed in it */
export async function smallBody(c: OwnContext, api: OwnApi, fields: readonly string[]): Promise<RequestBody> {
  const limits = { maxBodyBytes: MAX_SMALL_BODY_BYTES, bodyTimeoutMs: api.bodyTimeoutMs() };
  const bytes = await readIncoming(c.env.incoming, limits);
  const body = objectOf(textOf(bytes), bytes.length);
  const unknown = Object.keys(body).find((field) => !fields.includes(field));
  if (unknown === undefined) return body;
  const param = unknown.slice(0, 80);
  throw new MillraceError("unknown_field", `expected one of ${fields.join(", ")}, got ${param}`, { param });
}

/** The value of an Idempotency-Key header. @param asked the request's content, for its fingerprint */
export function keyOf(c: OwnContext, operation: string, asked: string | Buffer): Omit<KeyedResource, "id"> | undefined {
  const key = headerKey(c);
  if (key === undefined) return undefined;
  const fingerprint = createHash("sha256").update(asked).digest("hex");
  return { tenant: c.get("caller").tenant, operation, key, fingerprint };
}

export function headerKey(c: OwnContext): string | undefined {
  const key = c.req.header("idempotency-key");
  if (key === undefined) return undefined;
  if (key.length >= 1 && key.length <= MAX_IDEMPOTENCY_KEY_CHARS) return key;
  const message = `expected an Idempotency-Key of 1 to ${MAX_IDEMPOTENCY_KEY_CHARS} characters, got ${key.length}`;
  throw new MillraceError("invalid_parameter", message, { param: "Idempotency-Key" });
}

interface PageTerms {
  readonly maxLimit: number;
  readonly defaultLimit: number;
  /** Names of the parameters. */
  readonly after: string;
  readonly before?: string;
}

export function pageOf(c: OwnContext, { maxLimit, defaultLimit, after, before }: PageTerms): PageQuery {
  const limit = c.req.query("limit");
  const number = limit === undefined ? defaultLimit : /^\d{1,9}$/.test(limit) ? Number(limit) : Number.NaN;
  if (!(number >= 1 && number <= maxLimit)) {
    throw invalidParameter("limit", `an integer in [1, ${maxLimit}]`, JSON.stringify(limit?.slice(0, 20)));
  }
  return {
    limit: number,
    after: c.req.query(after) || undefined,
    before: before === undefined ? undefined : c.req.query(before) || undefined,
  };
}

export function invalidParameter(param: string, expected: string, got: string): MillraceError {
  return new MillraceError("invalid_parameter", `expected ${param} to be ${expected}, got ${got}`, { param });
}

/** A file as the answer's body, at the client's pace. Closes the handle. */
export async function sendFile(c: OwnContext, handle: FileHandle, contentType: string): Promise<Response> {
  const { size } = await handle.stat();
  c.header("Content-Type", contentType);
  c.header("Content-Length", String(size));
  c.header("X-Content-Type-Options", "nosniff");
  if (size === 0) {
    await handle.close();
    return c.body(null, 200);
  }
  return c.body(Readable.toWeb(handle.createReadStream()) as ReadableStream, 200);
}
