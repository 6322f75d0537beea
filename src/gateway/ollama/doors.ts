/** Paths of Ollama's API that stand for paths of OpenAI's: all policies and engines see the latter. */
import { OLLAMA_ERRORS, ollamaErrorBody } from "../../core/error-body.js";
import type { AnswerSink } from "../answer.js";
import type { ProxyDialect } from "../api/dialect.js";
import type { RequestBody } from "../request.js";
import { type LineShape, OllamaSink } from "./answer-sink.js";
import { ofChat, ofEmbed, ofGenerate } from "./request.js";

export interface Door {
  /** The path behind it. */
  readonly path: string;
  /** The request behind it. */
  readonly request: (body: RequestBody) => RequestBody;
  readonly shape: LineShape;
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

const DOORS: ReadonlyMap<string, Door> = new Map([
  ["/api/chat", { path: "/v1/chat/completions", request: ofChat, shape: chatShape }],
  ["/api/generate", { path: "/v1/chat/completions", request: ofGenerate, shape: generateShape }],
  ["/api/embed", { path: "/v1/embeddings", request: ofEmbed, shape: () => ({}) }],
]);

export const isOllamaPath = (path: string): boolean => path.startsWith("/api/");

export const doorOf = (path: string): Door | undefined => DOORS.get(path);

const LATEST = ":latest";

/** The name of the gateway's list that the client's stands for. */
export function untagged(name: unknown, names: readonly string[]): unknown {
  const isTagged = typeof name === "string" && !names.includes(name) && name.endsWith(LATEST);
  return isTagged ? name.slice(0, -LATEST.length) : name;
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
  return new OllamaSink(next, door.shape, name, startMs);
}

/** The models as GET /api/tags and /api/ps list them. Files, sizes and digests are their instances' own. */
export function tagList(models: readonly string[]): object {
  const entry = (name: string) => {
    const tagged = name.includes(":") ? name : name + LATEST;
    const details = {
      parent_model: "",
      format: "",
      family: "",
      families: [],
      parameter_size: "",
      quantization_level: "",
    };
    return { name: tagged, model: tagged, modified_at: new Date(0).toISOString(), size: 0, digest: "", details };
  };
  return { models: models.map(entry) };
}
