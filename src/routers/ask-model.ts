/** Asks a model behind an OpenAI-compatible server for answers with the log-probabilities that a router needs. */
import { performance } from "node:perf_hooks";
import { Agent, request } from "undici";
import { MillraceError } from "../core/errors.js";
import { type AnswerSignals, signalsOf } from "../gateway/cascade/answer-signals.js";
import type { Message } from "../quality/ask.js";
import { untilTaken } from "../quality/remote-model.js";
import { REFUSED_STATUSES, type Reply } from "../quality/remote-server.js";

interface AskedModel {
  readonly signals: AnswerSignals;
  /** Seconds from sending the request to the whole answer. */
  readonly seconds: number;
}

export interface ModelClient {
  /** Throws invalid_request for a refused prompt, and endpoint_failed where the server does not answer. */
  ask(model: string, messages: readonly Message[], fields: object, signal: AbortSignal): Promise<AskedModel>;
  close(): Promise<void>;
}

const MAX_TRIES = 6;

/** @param url the server's address, with or without /v1 */
export function openModelClient(url: string, apiKey: string | undefined): ModelClient {
  const target = `${url.replace(/\/+$/, "").replace(/(\/v1)?$/, "/v1")}/chat/completions`;
  // No time limits, because a long answer's headers arrive with its end.
  const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
  const headers = {
    "content-type": "application/json",
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
  };
  return {
    async ask(model, messages, fields, signal) {
      const body = JSON.stringify({ model, messages, ...fields });
      let startMs = performance.now();
      const send = async (): Promise<Reply> => {
        startMs = performance.now();
        const reply = await request(target, { method: "POST", headers, body, dispatcher, signal });
        const retryAfterMs = 1000 * (Number(reply.headers["retry-after"]) || 0);
        return { status: reply.statusCode, text: await reply.body.text(), retryAfterMs };
      };
      const { status, text } = await untilTaken(target, send, MAX_TRIES, signal);
      const seconds = (performance.now() - startMs) / 1000;
      const head = { status, headers: {}, isEventStream: false };
      const signals = signalsOf({ head, body: Buffer.from(text), error: undefined });
      if (signals !== undefined) return { signals, seconds };
      const isRefused = REFUSED_STATUSES.includes(status);
      throw new MillraceError(
        isRefused ? "invalid_request" : "endpoint_failed",
        `expected an answer of ${model} from ${target}, got ${status}: ${text.slice(0, 300)}`,
        { hint: "check the address, the names of the models and the API key" },
      );
    },
    close: () => dispatcher.close(),
  };
}
