/** A model behind an OpenAI-compatible server, with streamed answers. */
import type { Dispatcher } from "undici";
import { z } from "zod";
import { SseReader } from "../../bench/load/sse.js";
import { errorInBody } from "../../core/error-body.js";
import { MillraceError } from "../../core/errors.js";
import { optionError } from "../../core/option-error.js";
import { visible } from "../../core/visible-text.js";
import type { SamplingChoice } from "../../local/sampling.js";
import { failureText, noAnswer, RemoteServer } from "../../quality/remote-server.js";
import { baseOf } from "../batch/senders.js";
import type { ServerFlags } from "../flags/server-flags.js";
import type { Answer, Answerer, AnswerListener } from "./answerer.js";

const KEY_HINT = "set OPENAI_API_KEY, or --api-key, to an API key of the server";
const MOST_NAMES = 20;

const text = z.string().nullish();
const count = z.number().int().min(0).nullish();
const eventSchema = z.object({
  choices: z
    .array(
      z.object({
        text,
        delta: z.object({ content: text, reasoning: text, reasoning_content: text }).nullish(),
        finish_reason: text,
      }),
    )
    .nullish(),
  usage: z
    .object({
      prompt_tokens: count,
      completion_tokens: count,
      prompt_tokens_details: z.object({ cached_tokens: count }).nullish(),
    })
    .nullish(),
});

/** Throws endpoint_failed if no such server answers, and invalid_option. */
export async function openServerAnswerer(
  { url, apiKey, model }: ServerFlags & { readonly url: string; readonly model?: string },
  choice: SamplingChoice,
): Promise<Answerer> {
  const sampling = samplingFields(choice);
  const server = new RemoteServer(baseOf(url), apiKey === "" ? undefined : apiKey);
  const never = new AbortController().signal;
  try {
    const name = model ?? onlyOne(await server.models(never), server.root);
    const fields = { model: name, ...sampling, stream: true, stream_options: { include_usage: true } };
    return {
      name: visible(name),
      samplingDefaults: {},
      canChat: true,
      chat: (messages, listener, signal = never) =>
        streamed(server, "/v1/chat/completions", { ...fields, messages }, listener, signal),
      complete: (prompt, listener, signal = never) =>
        streamed(server, "/v1/completions", { ...fields, prompt }, listener, signal),
      close: () => server.close(),
    };
  } catch (thrown) {
    await server.close();
    throw thrown;
  }
}

function onlyOne(names: readonly string[], url: string): string {
  const [first] = names;
  if (first === undefined) throw noAnswer(`${url}/v1/models`, "no model that answers prompts");
  if (names.length === 1) return first;
  const some = names.slice(0, MOST_NAMES).map(visible).join(", ");
  const more = names.length > MOST_NAMES ? ", …" : "";
  throw new MillraceError("invalid_option", `expected --model, as ${url} has ${names.length} models, got none`, {
    hint: `give one of them with --model: ${some}${more}`,
  });
}

/** The user's choice as fields of a request; the server chooses the others. */
function samplingFields({ maxTokens, temperature, topP, topK, minP, seed, stop }: SamplingChoice): object {
  if (seed !== undefined && !Number.isSafeInteger(Number(seed))) {
    throw optionError("--seed", "a number of up to 53 bits with --url", String(seed));
  }
  // JSON omits undefined fields.
  return {
    max_tokens: maxTokens,
    temperature,
    top_p: topP,
    top_k: topK,
    min_p: minP,
    seed: seed === undefined ? undefined : Number(seed),
    stop,
  };
}

async function streamed(
  server: RemoteServer,
  path: string,
  body: object,
  listener: AnswerListener,
  signal: AbortSignal,
): Promise<Answer> {
  const url = `${server.root}${path}`;
  const answer = new StreamedAnswer(url, listener);
  try {
    const response = await server.open(path, body, signal);
    await assertStream(response, url);
    for await (const bytes of response.body) answer.push(bytes as Buffer);
    return answer.whole();
  } catch (thrown) {
    if (signal.aborted) return answer.ended("cancelled");
    throw thrown instanceof MillraceError ? thrown : noAnswer(url, failureText(thrown));
  }
}

/** Throws the server's own error if it refuses. */
async function assertStream({ statusCode, headers, body }: Dispatcher.ResponseData, url: string): Promise<void> {
  const type = String(headers["content-type"] ?? "no content-type");
  if (statusCode === 200 && /^text\/event-stream\b/i.test(type)) return;
  const said = await body.text();
  const got = statusCode === 200 ? visible(type.slice(0, 200)) : `status ${statusCode}: ${visible(said.slice(0, 200))}`;
  const other = new MillraceError("endpoint_failed", `expected a stream of events from ${url}, got ${got}`, {
    hint: "check the address, the model's name and the API key",
  });
  throw (statusCode === 200 ? undefined : errorIn(said)) ?? other;
}

/** The server's own error, with its message made safe for the terminal. */
function errorIn(said: string): MillraceError | undefined {
  const error = errorInBody(said, KEY_HINT);
  if (error === undefined) return undefined;
  return new MillraceError(error.code, visible(error.message), error.hint === undefined ? {} : { hint: error.hint });
}

/** One arriving answer, with its times. */
class StreamedAnswer {
  readonly #reader = new SseReader();
  readonly #startMs = performance.now();
  #firstMs: number | undefined;
  #lastMs = this.#startMs;
  #text = "";
  #numPieces = 0;
  #usage: z.output<typeof eventSchema>["usage"];
  #end: string | undefined;

  constructor(
    private readonly url: string,
    private readonly listener: AnswerListener,
  ) {}

  push(bytes: Buffer): void {
    for (const data of this.#reader.push(bytes)) if (data !== "[DONE]") this.#onEvent(data);
  }

  /** Throws endpoint_failed if the stream ended before the answer. */
  whole(): Answer {
    if (this.#end === undefined) throw noAnswer(this.url, "a stream that breaks off");
    return this.ended(visible(this.#end));
  }

  ended(end: string): Answer {
    const { prompt_tokens, completion_tokens, prompt_tokens_details } = this.#usage ?? {};
    const numOutputTokens = completion_tokens ?? this.#numPieces;
    const firstMs = this.#firstMs ?? performance.now();
    const spanSeconds = (this.#lastMs - firstMs) / 1000;
    return {
      text: this.#text,
      numPromptTokens: prompt_tokens ?? undefined,
      numCachedTokens: prompt_tokens_details?.cached_tokens ?? 0,
      numEvictedTokens: 0,
      numOutputTokens,
      timeToFirstTokenMs: firstMs - this.#startMs,
      tokensPerSecond: numOutputTokens > 1 && spanSeconds > 0 ? (numOutputTokens - 1) / spanSeconds : undefined,
      end,
    };
  }

  #onEvent(data: string): void {
    const event = this.#parsed(data);
    if (event.usage != null) this.#usage = event.usage;
    const choice = event.choices?.[0];
    if (choice === undefined) return;
    const reasoning = choice.delta?.reasoning_content ?? choice.delta?.reasoning ?? "";
    const content = choice.text ?? choice.delta?.content ?? "";
    if (reasoning !== "" || content !== "") {
      this.#lastMs = performance.now();
      this.#firstMs ??= this.#lastMs;
      this.#numPieces++;
    }
    if (reasoning !== "") this.listener.onReasoning(reasoning);
    if (content !== "") this.listener.onText(content);
    this.#text += content;
    this.#end ??= choice.finish_reason ?? undefined;
  }

  #parsed(data: string): z.output<typeof eventSchema> {
    const error = errorIn(data);
    if (error !== undefined) throw error;
    try {
      return eventSchema.parse(JSON.parse(data));
    } catch {
      throw noAnswer(this.url, `an event of another form: ${visible(data.slice(0, 200))}`);
    }
  }
}
