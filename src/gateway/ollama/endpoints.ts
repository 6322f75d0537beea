/** The paths of Ollama's API that the gateway translates to OpenAI's: policies and engines see only OpenAI's. */
import { OLLAMA_ERRORS, ollamaErrorBody } from "../../core/error-body.js";
import { withoutTag } from "../../core/ollama-api.js";
import { withGivenNames } from "../../core/ollama-tools.js";
import type { AnswerSink } from "../answer.js";
import type { ProxyDialect } from "../api/dialect.js";
import type { RequestBody } from "../request.js";
import { type AnswerShapes, type LineShape, OllamaSink } from "./answer-sink.js";
import { isRaw, ofChat, ofCompletion, ofEmbed, ofGenerate, ofLegacyEmbed } from "./request.js";

export interface OllamaEndpoint {
  /** OpenAI's path for a request. All paths of one endpoint have the same properties. */
  readonly pathOf: (body: RequestBody) => string;
  /** The request in OpenAI's API. */
  readonly request: (body: RequestBody) => RequestBody;
  /** Whether the request needs no model: the gateway then answers it without an instance. */
  readonly isIdle: (body: RequestBody) => boolean;
  readonly shapes: AnswerShapes;
}

export const OLLAMA: ProxyDialect = {
  ...OLLAMA_ERRORS,
  streamError: (error, requestId) => `${JSON.stringify(ollamaErrorBody(error, requestId))}\n`,
};

const chatShape: LineShape = ({ content, thinking, calls }) => ({
  message: {
    role: "assistant",
    content,
    ...(thinking === "" ? {} : { thinking }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  },
});

const generateShape: LineShape = ({ content, thinking }) => ({
  response: content,
  ...(thinking === "" ? {} : { thinking }),
});

const allVectors: AnswerShapes["vectors"] = (embeddings, counts) => ({ embeddings, ...counts });
const firstVector: AnswerShapes["vectors"] = ([embedding = []]) => ({ embedding });

const isEmpty = (value: unknown): boolean => value === undefined || value === null || value === "";
const isEmptyList = (value: unknown): boolean => isEmpty(value) || (Array.isArray(value) && value.length === 0);

const ENDPOINTS: ReadonlyMap<string, OllamaEndpoint> = new Map<string, OllamaEndpoint>([
  [
    "/api/chat",
    {
      pathOf: () => "/v1/chat/completions",
      request: ofChat,
      isIdle: ({ messages }) => isEmptyList(messages),
      shapes: { line: chatShape, vectors: allVectors },
    },
  ],
  [
    "/api/generate",
    {
      pathOf: (body) => (isRaw(body) ? "/v1/completions" : "/v1/chat/completions"),
      request: (body) => (isRaw(body) ? ofCompletion(body) : ofGenerate(body)),
      isIdle: ({ prompt, suffix }) => isEmpty(prompt) && isEmpty(suffix),
      shapes: { line: generateShape, vectors: allVectors },
    },
  ],
  [
    "/api/embed",
    {
      pathOf: () => "/v1/embeddings",
      request: ofEmbed,
      isIdle: ({ input }) => isEmptyList(input),
      shapes: { line: () => ({}), vectors: allVectors },
    },
  ],
  [
    "/api/embeddings",
    {
      pathOf: () => "/v1/embeddings",
      request: ofLegacyEmbed,
      isIdle: ({ prompt }) => prompt === "",
      shapes: { line: () => ({}), vectors: firstVector },
    },
  ],
]);

export const isOllamaPath = (path: string): boolean => path.startsWith("/api/");

export const ollamaEndpointOf = (path: string): OllamaEndpoint | undefined => ENDPOINTS.get(path);

/** The gateway's name that a client's name with a tag stands for. */
export function untagged(name: unknown, names: readonly string[]): unknown {
  return typeof name === "string" ? withoutTag(name, names) : name;
}

/**
 * A sink that turns OpenAI's answer into Ollama's.
 *
 * @param body the request in OpenAI's API, with its model
 * @param given the client's request
 */
export function ollamaSink(
  { shapes }: OllamaEndpoint,
  body: RequestBody,
  given: RequestBody,
  next: AnswerSink,
  startMs: number,
): AnswerSink {
  const name = typeof given.model === "string" ? given.model : String(body.model ?? "");
  const named = withGivenNames(given.tools);
  const line: LineShape = (news) => shapes.line({ ...news, calls: named(news.calls) });
  return new OllamaSink(next, { ...shapes, line }, name, startMs);
}

/** Answers a request that needs no model: Ollama's clients send such requests to load and unload models. */
export function answerIdle({ shapes }: OllamaEndpoint, given: RequestBody, model: string, sink: AnswerSink): void {
  const head = { model, created_at: new Date().toISOString() };
  const counts = { total_duration: 0, load_duration: 0, prompt_eval_count: 0 };
  const line = shapes.line({ content: "", thinking: "", calls: [] });
  const isLoad = Object.keys(line).length > 0;
  const { keep_alive: keepAlive } = given;
  const done_reason = keepAlive === 0 || keepAlive === "0" ? "unload" : "load";
  const body = isLoad ? { ...head, ...line, done: true, done_reason } : { model, ...shapes.vectors([], counts) };
  const isLine = isLoad && given.stream !== false;
  const type = isLine ? "application/x-ndjson" : "application/json; charset=utf-8";
  sink.begin({ status: 200, headers: { "content-type": type }, isEventStream: false });
  sink.end(Buffer.from(`${JSON.stringify(body)}${isLine ? "\n" : ""}`));
}
