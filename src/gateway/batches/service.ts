/**
 * Files and batches of a gateway, behind their HTTP paths. Folder and database are opened by the first request for
 * them, or at the start to continue batches: a gateway without batches keeps nothing.
 */
import { existsSync } from "node:fs";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { getRequestListener } from "@hono/node-server";
import type { Hono } from "hono";
import { ANTHROPIC_ERRORS, OPENAI_ERRORS } from "../../core/error-body.js";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { acquireFileLock } from "../../core/file-lock.js";
import type { CallerOf } from "../caller-identity.js";
import type { Caller } from "../request.js";
import type { Database } from "../store/database.js";
import { createBatchesApp } from "./admin-app.js";
import { createAnthropicApp } from "./anthropic-api.js";
import { BatchTable } from "./batch-table.js";
import { Batches } from "./batches.js";
import { FileShelf } from "./file-shelf.js";
import { BatchFolders } from "./folders.js";
import type { HandedModels } from "./handed-models.js";
import {
  MAX_BATCH_FILE_BYTES,
  MAX_BATCH_LINES,
  MAX_MESSAGE_BATCH_BYTES,
  MAX_MESSAGE_BATCH_REQUESTS,
} from "./limits.js";
import { createOpenAiApp } from "./openai-api.js";
import type { OwnApi } from "./own-api.js";
import type { ModelLoad } from "./pace.js";
import type { LineModelOf } from "./read-line.js";
import type { SubmitLine } from "./run-line.js";

/** Read at each use: a reload may change them. */
export interface BatchSettings {
  readonly isEnabled: boolean;
  readonly maxInFlight: number;
  readonly keptSeconds: number;
  readonly maxTenantBytes: number;
  readonly maxTenantFiles: number;
  readonly maxOpenBatches: number;
  readonly maxLineBytes: number;
  readonly bodyTimeoutMs: number;
}

export interface BatchServiceOptions {
  /** Created at the first use. */
  readonly folder: string;
  readonly database: () => Database.Database;
  readonly settings: () => BatchSettings;
  readonly authorize: (headers: IncomingHttpHeaders) => Caller | Promise<Caller>;
  readonly submit: SubmitLine;
  /** Absent: the gateway runs every line itself. */
  readonly handed?: HandedModels;
  readonly modelOf: LineModelOf;
  readonly callerOf: CallerOf;
  /** One name for all names of a model. */
  readonly nameOf: (model: string) => string;
  readonly loadOf: (model: string) => ModelLoad;
  readonly logger: {
    debug(fields: object, message: string): void;
    warn(fields: object, message: string): void;
    error(fields: object, message: string): void;
  };
  /** Milliseconds since 1970. */
  readonly nowMs?: () => number;
}

type Listener = (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void>;

interface OpenService {
  readonly openai: Listener;
  readonly anthropic: Listener;
  readonly batches: Batches;
  readonly unlock: () => void;
}

export class BatchService {
  readonly #open = new AbortController();
  #opening: Promise<OpenService> | undefined;
  #opened: OpenService | undefined;
  #isDraining = false;

  constructor(private readonly options: BatchServiceOptions) {}

  /** Continues batches of an earlier process, in the background. */
  start(): void {
    const { folder, settings } = this.options;
    if (settings().isEnabled && existsSync(folder)) this.#openInBackground();
  }

  /** @returns whether the path is one of files or batches */
  handle(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): boolean {
    const path = (incoming.url ?? "").split("?", 1)[0]!;
    const isAnthropic = isUnder(path, "/v1/messages/batches");
    if (!(isAnthropic || isUnder(path, "/v1/files") || isUnder(path, "/v1/batches"))) return false;
    if (!this.options.settings().isEnabled) return false;
    incoming.headers["x-request-id"] = requestId;
    if (this.#opened === undefined) this.#openInBackground();
    const service = this.#opened;
    if (service !== undefined) void (isAnthropic ? service.anthropic : service.openai)(incoming, outgoing);
    else void this.#answerWhenOpen(incoming, outgoing, requestId, isAnthropic);
    return true;
  }

  /** Paths under /admin. */
  adminApp(): Hono {
    return createBatchesApp(() => this.#batchesWhenOpen());
  }

  /** Takes no more work; lines under way may end until `close`. */
  leave(): void {
    this.#isDraining = true;
    this.#opened?.batches.leave();
  }

  /** Leaves every batch so that the next process continues it. */
  async close(): Promise<void> {
    this.leave();
    this.#open.abort();
    await this.#opening?.catch(() => {});
    await this.#opened?.batches.close();
    this.#opened?.unlock();
  }

  #openInBackground(): void {
    this.#opening ??= this.#openNow();
    this.#opening.catch((thrown: unknown) => {
      this.#opening = undefined;
      if (!this.#open.signal.aborted) this.options.logger.error({ err: thrown }, "could not open files and batches");
    });
  }

  /** Undefined: the gateway has had no batches; a look makes no folder. Rejects with storage_locked. */
  async #batchesWhenOpen(): Promise<Batches | undefined> {
    const { folder, settings } = this.options;
    if (!(settings().isEnabled && existsSync(folder))) return undefined;
    if (this.#opened === undefined) this.#openInBackground();
    return (await this.#whenOpen()).batches;
  }

  /** Waits for the folder, but not for another process to give it up: rejects with storage_locked. */
  async #whenOpen(): Promise<OpenService> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), OPEN_LIMIT_MS);
    });
    try {
      const service = await Promise.race([this.#opening, late]);
      if (service === undefined) throw locked();
      return service;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The first request waits for the folder. */
  async #answerWhenOpen(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    requestId: string,
    isAnthropic: boolean,
  ): Promise<void> {
    const service = await this.#whenOpen().catch((thrown: unknown) => toMillraceError(thrown));
    if (!(service instanceof MillraceError)) {
      await (isAnthropic ? service.anthropic : service.openai)(incoming, outgoing);
      return;
    }
    const error = service;
    const body = (isAnthropic ? ANTHROPIC_ERRORS : OPENAI_ERRORS).errorBody(error, requestId);
    incoming.resume();
    outgoing.writeHead(error.status, {
      "Content-Type": "application/json",
      "X-Request-Id": requestId,
      "Retry-After": "5",
    });
    outgoing.end(JSON.stringify(body));
  }

  async #openNow(): Promise<OpenService> {
    const { folder, database, settings, logger, nowMs = Date.now } = this.options;
    const folders = new BatchFolders(folder);
    await folders.create();
    const onWait = () =>
      logger.warn({ folder }, "another process holds the folder of files and batches; waiting for it");
    const unlock = await acquireFileLock(join(folder, "lock"), onWait, this.#open.signal);
    try {
      const table = new BatchTable(database());
      const limits = () => ({ ...settings(), idleMs: settings().bodyTimeoutMs });
      const shelf = new FileShelf({ folders, table, limits, nowMs });
      const batches = new Batches({
        ...this.options,
        folders,
        table,
        shelf,
        nowMs,
        mostLines: () => settings().maxInFlight,
        maxOpenBatches: () => settings().maxOpenBatches,
        keptSeconds: () => settings().keptSeconds,
        limits: ({ kind }) => ({
          maxBytes: kind === "openai" ? MAX_BATCH_FILE_BYTES : MAX_MESSAGE_BATCH_BYTES,
          maxLines: kind === "openai" ? MAX_BATCH_LINES : MAX_MESSAGE_BATCH_REQUESTS,
          maxLineBytes: settings().maxLineBytes,
        }),
      });
      await batches.start();
      const api = this.#api();
      const anthropic = {
        shelf,
        batches,
        folders,
        modelOf: this.options.modelOf,
        maxLineBytes: () => settings().maxLineBytes,
      };
      this.#opened = {
        openai: getRequestListener(createOpenAiApp(api, shelf, batches).fetch as never),
        anthropic: getRequestListener(createAnthropicApp(api, anthropic).fetch as never),
        batches,
        unlock,
      };
      if (this.#isDraining) batches.leave();
      return this.#opened;
    } catch (thrown) {
      unlock();
      throw thrown;
    }
  }

  #api(): OwnApi {
    const { authorize, logger, settings } = this.options;
    return {
      authorize,
      isDraining: () => this.#isDraining,
      bodyTimeoutMs: () => settings().bodyTimeoutMs,
      onError: (error, requestId) => {
        const fields = { requestId, code: error.code, status: error.status };
        if (error.status < 500) logger.debug(fields, `refused: ${error.message}`);
        else logger.error({ ...fields, err: error.cause ?? error }, "a request for files or batches failed");
      },
    };
  }
}

/** Time that the first request waits for the folder. */
const OPEN_LIMIT_MS = 2000;

function isUnder(path: string, base: string): boolean {
  return path === base || path.startsWith(`${base}/`);
}

function locked(): MillraceError {
  return new MillraceError(
    "storage_locked",
    "expected the gateway's folder for itself, got one that another process holds",
    {
      hint: "give each gateway a data-folder of its own",
      retryAfterSeconds: 5,
    },
  );
}
