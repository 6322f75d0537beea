/** The user's requests as the engine is asked them while drafts are tuned. */
import type { PromptRequest } from "../../prompts/requests.js";

/** The request without the answer that a file of chats has as its last message. */
export function withoutAnswer(request: PromptRequest): PromptRequest {
  const last = request.messages.at(-1);
  if (request.answer !== undefined || request.messages.length < 2 || last?.role !== "assistant") return request;
  return { ...request, messages: request.messages.slice(0, -1), answer: last.content };
}

/** At most `count` requests, from all over the file. */
export function evenly<T>(all: readonly T[], count: number): readonly T[] {
  if (all.length <= count) return all;
  return Array.from({ length: count }, (_, index) => all[Math.floor((index * all.length) / count)]!);
}

/** Fields that have nothing to do with drafts, or that ask for more than one plain answer. */
const LEFT_OUT = [
  "system",
  "class",
  "model",
  "n",
  "stream",
  "stream_options",
  "logprobs",
  "top_logprobs",
  "prompt_logprobs",
  "cache_salt",
  "priority",
  "timeout",
  "max_completion_tokens",
];

/** The body of a chat request for one answer. @param maxTokens that it is cut to */
export function askedBody(request: PromptRequest, maxTokens: number): Readonly<Record<string, unknown>> {
  const { body, messages, maxTokens: own } = request;
  const kept = Object.entries(body).filter(([name]) => !LEFT_OUT.includes(name));
  const given = Array.isArray(body.messages) ? body.messages : [];
  const asked = messages.map(({ role, content, place }) => (place === undefined ? { role, content } : given[place]));
  return { ...Object.fromEntries(kept), messages: asked, max_tokens: Math.min(own ?? maxTokens, maxTokens) };
}
