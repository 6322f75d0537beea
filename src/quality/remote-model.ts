/** A model behind an OpenAI-compatible server: whole answers over HTTP, with retries while the server is busy. */
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, request } from "undici";
import { z } from "zod";
import { MillraceError } from "../core/errors.js";
import { type Ask, seedOf } from "./ask.js";
import { type CallServer, remoteTexts } from "./remote-texts.js";
import type { AskedModel } from "./run-task.js";

export interface RemoteModel extends Required<AskedModel> {
  /** The model's name on the server. */
  readonly name: string;
  /** Posts a request, with retries while the server is busy. @param path from the server's root */
  post(path: string, body: object, signal: AbortSignal): Promise<Reply>;
  close(): Promise<void>;
}

interface RemoteModelOptions {
  /** The server's address, with or without /v1. */
  readonly url: string;
  /** undefined: the first in the server's list. */
  readonly model: string | undefined;
  readonly apiKey: string | undefined;
  readonly temperature: number;
  readonly maxTokens: number;
  readonly seed: number;
}

const MAX_TRIES = 6;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;
/** Log-probabilities of a long text take some 10 MiB. */
const MAX_REPLY_BYTES = 2 ** 28;
/** Statuses that refuse one prompt, and are no failure of the server. */
export const REFUSED_STATUSES: readonly number[] = [400, 413, 422];

const modelsSchema = z.object({ data: z.array(z.object({ id: z.string() })).min(1) });
export const completionSchema = z.object({
  choices: z
    .array(z.object({ message: z.object({ content: z.string().nullish() }), finish_reason: z.string() }))
    .min(1),
  usage: z.object({ prompt_tokens: z.number(), completion_tokens: z.number() }).nullish(),
});

export interface Reply {
  readonly status: number;
  readonly text: string;
  readonly retryAfterMs: number;
}

/** Throws endpoint_failed if no OpenAI-compatible server answers. */
export async function openRemoteModel(options: RemoteModelOptions, signal: AbortSignal): Promise<RemoteModel> {
  const root = options.url.replace(/\/+$/, "").replace(/\/v1$/, "");
  const base = `${root}/v1`;
  // Headers of a long answer come at its end.
  const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0, maxResponseSize: MAX_REPLY_BYTES });
  const headers = {
    "content-type": "application/json",
    ...(options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` }),
  };
  async function send(path: string, body: object | undefined, stop: AbortSignal): Promise<Reply> {
    const method = body === undefined ? "GET" : "POST";
    const text = body === undefined ? null : JSON.stringify(body);
    const reply = await request(`${root}${path}`, { method, headers, body: text, dispatcher, signal: stop });
    const retryAfterMs = 1000 * (Number(reply.headers["retry-after"]) || 0);
    return { status: reply.statusCode, text: await reply.body.text(), retryAfterMs };
  }
  const call = (path: string, body: object | undefined, stop: AbortSignal, maxTries = MAX_TRIES): Promise<Reply> =>
    untilTaken(`${root}${path}`, () => send(path, body, stop), maxTries, stop);
  try {
    const model =
      options.model ?? parse(modelsSchema, await call("/v1/models", undefined, signal, 1), base).data[0]!.id;
    const ask: Ask = async (messages, stop, tools = []) => {
      const { temperature, maxTokens } = options;
      const seed = seedOf(options.seed, messages);
      // A server may have another default of top_p.
      const sampling = { temperature, top_p: 1, max_tokens: maxTokens, seed };
      const body = { model, messages, ...sampling, ...(tools.length === 0 ? {} : { tools }) };
      const reply = await call("/v1/chat/completions", body, stop);
      const { choices, usage } = parse(completionSchema, reply, base);
      const { message, finish_reason: end } = choices[0]!;
      if ((end !== "stop" && end !== "length") || typeof message.content !== "string") {
        throw new MillraceError("invalid_request", `expected an answer in text, got finish_reason ${end}`);
      }
      const numPromptTokens = usage?.prompt_tokens ?? 0;
      return { text: message.content, end, numPromptTokens, numOutputTokens: usage?.completion_tokens ?? 0 };
    };
    const callAs: CallServer = async (schema, path, body, stop) => parse(schema, await call(path, body, stop), root);
    let opening: ReturnType<typeof remoteTexts> | undefined;
    const texts = () => (opening ??= remoteTexts(model, options.seed, callAs, signal));
    return { name: model, ask, texts, post: call, close: () => dispatcher.close() };
  } catch (thrown) {
    await dispatcher.close();
    throw thrown;
  }
}

/**
 * Retries while the server is busy, failing or unreachable, after the pause that it asks for or twice the previous one.
 */
export async function untilTaken(
  url: string,
  send: () => Promise<Reply>,
  maxTries: number,
  signal: AbortSignal,
): Promise<Reply> {
  for (let tries = 1; ; tries++) {
    const outcome = await send().catch((thrown: unknown) => {
      signal.throwIfAborted();
      return thrown instanceof Error ? thrown.message || String((thrown as { code?: unknown }).code) : String(thrown);
    });
    const isBusy = typeof outcome === "string" || outcome.status === 429 || outcome.status >= 500;
    if (!isBusy) return outcome;
    if (tries === maxTries) {
      const got = typeof outcome === "string" ? outcome : `status ${outcome.status}: ${outcome.text.slice(0, 200)}`;
      throw new MillraceError(
        "endpoint_failed",
        `expected an answer from ${url}, got ${got}${tries === 1 ? "" : ` ${tries} times`}`,
        {
          hint: "check that the server runs at this address",
        },
      );
    }
    const asked = typeof outcome === "string" ? 0 : outcome.retryAfterMs;
    await sleep(Math.min(LONGEST_PAUSE_MS, Math.max(asked, FIRST_PAUSE_MS * 2 ** (tries - 1))), undefined, { signal });
  }
}

function parse<T>(schema: z.ZodType<T>, { status, text }: Reply, base: string): T {
  if (REFUSED_STATUSES.includes(status)) {
    throw new MillraceError(
      "invalid_request",
      `expected the model to accept the prompt, got ${status}: ${text.slice(0, 300)}`,
    );
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Refused below, together with JSON of another shape.
  }
  const parsed = schema.safeParse(value);
  if (status === 200 && parsed.success) return parsed.data;
  throw new MillraceError(
    "endpoint_failed",
    `expected an OpenAI-compatible answer from ${base}, got ${status}: ${text.slice(0, 300)}`,
    {
      hint: "check the address, the model's name and the API key",
    },
  );
}
