/** Paths of Ollama's API that stand for paths of OpenAI's: all policies and engines see the latter. */
import { OLLAMA_ERRORS, ollamaErrorBody } from "../../core/error-body.js";
import { withoutTag } from "../../core/ollama-api.js";
import type { AnswerSink } from "../answer.js";
import type { ProxyDialect } from "../api/dialect.js";
import type { RequestBody } from "../request.js";
import { type AnswerShapes, type LineShape, OllamaSink } from "./answer-sink.js";
import { isRaw, ofChat, ofCompletion, ofEmbed, ofGenerate, ofLegacyEmbed } from "./request.js";

export interface Door {
  /** The path behind it. All paths of one door have the same properties. */
  readonly pathOf: (body: RequestBody) => string;
  /** The request behind it. */
  readonly request: (body: RequestBody) => RequestBody;
  /** The request asks the model for nothing: its answer is known, and no instance is asked. */
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

const DOORS: ReadonlyMap<string, Door> = new Map<string, Door>([
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
      isIdle: ({ input }) => Array.isArray(input) && input.length === 0,
      shapes: { line: () => ({}), vectors: allVectors },
    },
  ],
  [
    "/api/embeddings",
    {
      pathOf: () => "/v1/embeddings",
      request: ofLegacyEmbed,
      isIdle: () => false,
      shapes: { line: () => ({}), vectors: firstVector },
    },
  ],
]);

export const isOllamaPath = (path: string): boolean => path.startsWith("/api/");

export const doorOf = (path: string): Door | undefined => DOORS.get(path);

/** The name of the gateway's list that the client's stands for. */
export function untagged(name: unknown, names: readonly string[]): unknown {
  return typeof name === "string" ? withoutTag(name, names) : name;
}

/** @param body the request behind the door, whose model is known */
export function throughDoor(
  door: Door,
  body: RequestBody,
  asked: unknown,
  next: AnswerSink,
  startMs: number,
): AnswerSink {
  const name = typeof asked === "string" ? asked : String(body.model ?? "");
  return new OllamaSink(next, door.shapes, name, startMs);
}

/** Answers a request that asks the model for nothing: Ollama's clients load and unload models with such. */
export function answerIdle(door: Door, given: RequestBody, model: string, sink: AnswerSink): void {
  const head = { model, created_at: new Date().toISOString() };
  const counts = { total_duration: 0, load_duration: 0, prompt_eval_count: 0 };
  const isLoad = given.input === undefined;
  const { keep_alive: keepAlive } = given;
  const done_reason = keepAlive === 0 || keepAlive === "0" ? "unload" : "load";
  const body = isLoad
    ? { ...head, ...door.shapes.line({ content: "", thinking: "", calls: [] }), done: true, done_reason }
    : { model, ...door.shapes.vectors([], counts) };
  const isLine = isLoad && given.stream !== false;
  const type = isLine ? "application/x-ndjson" : "application/json; charset=utf-8";
  sink.begin({ status: 200, headers: { "content-type": type }, isEventStream: false });
  sink.end(Buffer.from(`${JSON.stringify(body)}${isLine ? "\n" : ""}`));
}
