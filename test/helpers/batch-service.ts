/**
 * Files and batches behind a port, with lines that a test answers, in a folder that a test can copy as a killed process
 * would leave it.
 */

import { cpSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MillraceError } from "../../src/core/errors.js";
import type { AnswerSink } from "../../src/gateway/answer.js";
import type { HandedModels } from "../../src/gateway/batches/handed-models.js";
import type { ModelLoad } from "../../src/gateway/batches/pace.js";
import type { LineSubmission, SubmitLine } from "../../src/gateway/batches/run-line.js";
import { BatchService, type BatchSettings } from "../../src/gateway/batches/service.js";
import type { CallerOf } from "../../src/gateway/caller-identity.js";
import type { Caller } from "../../src/gateway/request.js";
import { openDatabase } from "../../src/gateway/store/database.js";
import { assertMayUse } from "../../src/gateway/tenants/model-access.js";
import { recordingLogger } from "./fake-server.js";

const BATCH_SETTINGS: BatchSettings = {
  isEnabled: true,
  maxInFlight: 16,
  keptSeconds: 86_400,
  maxTenantBytes: 1 << 30,
  maxTenantFiles: 1000,
  maxOpenBatches: 100,
  maxLineBytes: 1 << 20,
  bodyTimeoutMs: 10_000,
};

export const IDLE: ModelLoad = { numReady: 1, seats: 16, numInFlight: 0, numWaiting: 0, yieldsToOthers: false };

export interface BatchServiceTest extends AsyncDisposable {
  readonly url: string;
  readonly folder: string;
  readonly service: BatchService;
  readonly lines: ReturnType<typeof recordingLogger>["lines"];
  /** Copies all that is on the disk now. */
  snapshot(): string;
}

interface Options {
  readonly folder?: string;
  readonly submit?: SubmitLine;
  readonly handed?: HandedModels;
  readonly settings?: () => Partial<BatchSettings>;
  readonly load?: () => ModelLoad;
  readonly nowMs?: () => number;
  readonly authorize?: (headers: IncomingHttpHeaders) => Caller;
  /** By default every caller goes on as it is, with all rights. */
  readonly callerOf?: CallerOf;
}

/** An answer as an engine gives it. */
export function answerLine(sink: AnswerSink, status: number, body: object): { kind: "answered"; status: number } {
  sink.begin({ status, headers: { "content-type": "application/json" }, isEventStream: false });
  sink.end(Buffer.from(JSON.stringify(body)));
  return { kind: "answered", status };
}

const echo: SubmitLine = async (line, sink) =>
  answerLine(sink, 200, {
    object: "chat.completion",
    path: line.path,
    usage: { prompt_tokens: 3, completion_tokens: 2 },
  });

/** The line's `user` field, by which tests recognise it. */
export const userOf = ({ body }: LineSubmission): string => String(body.user);

export async function startBatchService(options: Options = {}): Promise<BatchServiceTest> {
  const { submit = echo, settings = () => ({}), load = () => IDLE, nowMs = Date.now } = options;
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), "millrace-batch-service-"));
  const { logger, lines } = recordingLogger();
  const database = openDatabase(folder);
  const service = new BatchService({
    folder: join(folder, "batches"),
    database: () => database,
    settings: () => ({ ...BATCH_SETTINGS, ...settings() }),
    authorize: options.authorize ?? (() => ({ tenant: "t" })),
    submit,
    ...(options.handed === undefined ? {} : { handed: options.handed }),
    callerOf: options.callerOf ?? (({ tenant }) => ({ tenant })),
    modelOf: ({ model }, caller) => {
      assertMayUse(caller, String(model), (name) => name);
      if (typeof model === "string" && model.startsWith("m")) return model;
      throw new MillraceError("model_not_found", "expected the model to be m, got another");
    },
    nameOf: (model) => model,
    loadOf: load,
    logger,
    nowMs,
  });
  service.start();
  const server = createServer((incoming, outgoing) => {
    if (!service.handle(incoming, outgoing, "request-1")) outgoing.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    folder,
    service,
    lines,
    snapshot() {
      const copy = mkdtempSync(join(tmpdir(), "millrace-batch-service-"));
      cpSync(folder, copy, { recursive: true });
      // The process that held it is gone.
      rmSync(join(copy, "batches/lock"), { force: true });
      return copy;
    },
    async [Symbol.asyncDispose]() {
      await service.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      database.close();
      if (existsSync(folder)) rmSync(folder, { recursive: true, force: true });
    },
  };
}

type Json = Readonly<Record<string, unknown>>;

/** A line for chats, with its id as `user`. */
export const batchLine = (id: string, body: object = {}): string =>
  JSON.stringify({
    custom_id: id,
    method: "POST",
    url: "/v1/chat/completions",
    body: { model: "m", user: id, ...body },
  });

export const errorOf = ({ json }: { json: Json }): unknown => (json.error as Json | undefined)?.code;

/** Calls of the service that runs at the time of the call. */
export function batchClient(service: () => BatchServiceTest) {
  async function call(method: string, path: string, body?: object | FormData, headers: Record<string, string> = {}) {
    const sent = body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) };
    const answer = await fetch(service().url + path, { method, headers, ...sent });
    const text = await answer.text();
    const isJson = answer.headers.get("content-type")?.startsWith("application/json") === true;
    return {
      status: answer.status,
      headers: answer.headers,
      text,
      json: (isJson ? JSON.parse(text) : {}) as Json,
    };
  }

  /** A file to upload, whose name is hostile. */
  const form = (content: string | Buffer, fields: Record<string, string> = { purpose: "batch" }): FormData => {
    const data = new FormData();
    for (const [name, value] of Object.entries(fields)) data.set(name, value);
    data.set("file", new Blob([new Uint8Array(Buffer.from(content as string))]), "a\u0000/../b.jsonl");
    return data;
  };

  /** @returns the new batch's id */
  async function start(lines: readonly string[], headers: Record<string, string> = {}): Promise<string> {
    const file = await call("POST", "/v1/files", form(lines.join("\n")), headers);
    const body = { input_file_id: file.json.id, endpoint: "/v1/chat/completions", completion_window: "24h" };
    const created = await call("POST", "/v1/batches", body, headers);
    if (created.json.object !== "batch") throw new Error(`expected a batch, got ${created.text}`);
    return String(created.json.id);
  }

  async function ended(id: string, headers: Record<string, string> = {}): Promise<Json> {
    for (let i = 0; i < 2000; i++) {
      const { json } = await call("GET", `/v1/batches/${id}`, undefined, headers);
      if (["completed", "failed", "expired", "cancelled"].includes(String(json.status))) return json;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    throw new Error("the batch did not end in 10 s");
  }

  return { call, form, start, ended };
}
