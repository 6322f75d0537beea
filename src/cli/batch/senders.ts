/** The places that answer a file's lines: a server, or a model in this process. */
import { Agent, request } from "undici";
import { ANY_PAGE } from "../../core/cors.js";
import { optionError } from "../../core/option-error.js";
import type { RequestLogger } from "../../core/request-logger.js";
import type { StartStage } from "../../core/stages.js";
import { type EngineFlags, engineSettingsFrom } from "../flags/engine-options.js";
import type { SendLine } from "./run-file.js";

export interface Sender {
  readonly send: SendLine;
  /** Default number of concurrent lines. */
  readonly numAtOnce: number;
  close(): Promise<void>;
}

const REMOTE_AT_ONCE = 32;

/** The server's address, with or without /v1. */
export function baseOf(url: string): string {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) throw optionError("--url", "an http URL", url);
  return url.replace(/\/+$/, "").replace(/\/v1$/, "");
}

export function remoteSender(url: string, apiKey: string | undefined): Sender {
  const base = baseOf(url);
  // Headers of an answer without streaming come at its end.
  const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
  const headers = {
    "content-type": "application/json",
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
  };
  return {
    numAtOnce: REMOTE_AT_ONCE,
    close: () => dispatcher.close(),
    async send(path, bytes) {
      const answer = await request(`${base}${path}`, { method: "POST", headers, body: bytes, dispatcher });
      const seconds = Number(answer.headers["retry-after"]);
      const body = Buffer.from(await answer.body.arrayBuffer());
      return { status: answer.statusCode, body, retryAfterMs: seconds > 0 ? seconds * 1000 : undefined };
    },
  };
}

interface LocalFlags extends EngineFlags {
  readonly model?: string;
  readonly chatTemplate?: string;
}

const SILENT: RequestLogger = { debug() {}, info() {}, warn() {}, error() {} };

/** The engine's own HTTP application, without a port. */
export async function localSender(flags: LocalFlags, startStage: StartStage): Promise<Sender> {
  const [{ startEngineWithText }, { createApp }, { DEFAULT_LIMITS }] = await Promise.all([
    import("../../local/start-engine.js"),
    import("../../serve/app.js"),
    import("../../serve/http/context.js"),
  ]);
  const started = await startEngineWithText({ ...flags, engine: engineSettingsFrom(flags) }, startStage);
  const { engine, name } = started;
  const app = createApp({
    ...started,
    modelNames: [name],
    apiKeys: [],
    pages: ANY_PAGE,
    limits: DEFAULT_LIMITS,
    schedulingPolicy: flags.schedulingPolicy,
    logger: SILENT,
    unknownFields: "error",
  });
  return {
    // A few lines wait, so that no seat is ever empty.
    numAtOnce: flags.maxNumSeqs + Math.min(8, flags.maxWaitingRequests),
    close: async () => void (await engine.close()),
    async send(path, bytes) {
      const answer = await app.request(path, { method: "POST", body: new Uint8Array(bytes) });
      return { status: answer.status, body: Buffer.from(await answer.arrayBuffer()), retryAfterMs: undefined };
    },
  };
}
