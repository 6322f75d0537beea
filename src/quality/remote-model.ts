/** A model behind an OpenAI-compatible server: whole answers over HTTP, with retries while the server is busy. */
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { MillraceError } from "../core/errors.js";
import { type Ask, seedOf, type ToolCall } from "./ask.js";
import { failureText, noAnswer, parse, RemoteServer, type Reply, statusText } from "./remote-server.js";
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
  /** undefined: the first model in the server's list */
  readonly model: string | undefined;
  readonly apiKey: string | undefined;
  readonly temperature: number;
  readonly maxTokens: number;
  readonly seed: number;
}

const MAX_TRIES = 6;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

/** Servers write arguments as JSON text, as an object, or as null. */
const toolCallSchema = z
  .object({ function: z.object({ name: z.string(), arguments: z.unknown().optional() }) })
  .transform(({ function: { name, arguments: own } }) => ({
    name,
    arguments: typeof own === "string" ? own : own == null ? "" : JSON.stringify(own),
  }));

/** No tool has this name, so the call scores as wrong. */
const UNREADABLE: ToolCall = { name: "unreadable", arguments: "" };

const callsIn = (calls: unknown): readonly ToolCall[] =>
  (Array.isArray(calls) ? calls : calls == null ? [] : [calls]).map(
    (call) => toolCallSchema.safeParse(call).data ?? UNREADABLE,
  );

export const completionSchema = z.object({
  choices: z
    .array(
      z.object({
        message: z.object({ content: z.string().nullish(), tool_calls: z.unknown().optional() }),
        finish_reason: z.string(),
      }),
    )
    .min(1),
  usage: z.object({ prompt_tokens: z.number(), completion_tokens: z.number() }).nullish(),
});

/** Throws endpoint_failed if no OpenAI-compatible server answers. */
export async function openRemoteModel(options: RemoteModelOptions, signal: AbortSignal): Promise<RemoteModel> {
  const server = new RemoteServer(options.url, options.apiKey);
  const { root } = server;
  const base = `${root}/v1`;
  const call = (path: string, body: object | undefined, stop: AbortSignal): Promise<Reply> =>
    untilTaken(`${root}${path}`, () => server.send(path, body, stop), MAX_TRIES, stop);
  try {
    const model = options.model ?? (await server.models(signal))[0];
    if (model === undefined) throw noAnswer(`${base}/models`, "no model that answers prompts");
    const ask: Ask = async (messages, stop, tools = []) => {
      const { temperature, maxTokens } = options;
      const seed = seedOf(options.seed, messages);
      // Sets top_p, because servers' defaults differ.
      const sampling = { temperature, top_p: 1, max_tokens: maxTokens, seed };
      const body = { model, messages, ...sampling, ...(tools.length === 0 ? {} : { tools }) };
      const reply = await call("/v1/chat/completions", body, stop);
      const { choices, usage } = parse(completionSchema, reply, base);
      const { message, finish_reason: end } = choices[0]!;
      const counts = {
        numPromptTokens: usage?.prompt_tokens ?? 0,
        numOutputTokens: usage?.completion_tokens ?? 0,
      };
      const calls = tools.length === 0 ? [] : callsIn(message.tool_calls);
      if (calls.length > 0) {
        return { text: message.content ?? "", end: end === "length" ? end : "stop", ...counts, calls };
      }
      if ((end !== "stop" && end !== "length") || typeof message.content !== "string") {
        throw new MillraceError("invalid_request", `expected an answer in text, got finish_reason ${end}`);
      }
      return { text: message.content, end, ...counts, ...(tools.length === 0 ? {} : { calls }) };
    };
    const callAs: CallServer = async (schema, path, body, stop) => parse(schema, await call(path, body, stop), root);
    let opening: ReturnType<typeof remoteTexts> | undefined;
    const texts = () => (opening ??= remoteTexts(model, options.seed, callAs, signal));
    return { name: model, ask, texts, post: call, close: () => server.close() };
  } catch (thrown) {
    await server.close();
    throw thrown;
  }
}

/**
 * Retries while the server is busy, failing or unreachable, after the pause that the server requests or twice the
 * previous one.
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
      return failureText(thrown);
    });
    const isBusy = typeof outcome === "string" || outcome.status === 429 || outcome.status >= 500;
    if (!isBusy) return outcome;
    if (tries === maxTries) {
      const got = typeof outcome === "string" ? outcome : statusText(outcome);
      throw noAnswer(url, tries === 1 ? got : `${got} ${tries} times`);
    }
    const asked = typeof outcome === "string" ? 0 : outcome.retryAfterMs;
    await sleep(Math.min(LONGEST_PAUSE_MS, Math.max(asked, FIRST_PAUSE_MS * 2 ** (tries - 1))), undefined, { signal });
  }
}
