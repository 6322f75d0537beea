/** Converts the user's requests to the form in which the engine answers them during a tuning of drafts. */
import type { PromptRequest } from "../../prompts/requests.js";

/** Removes the answer that is the last message of a chat in a file. */
export function withoutAnswer(request: PromptRequest): PromptRequest {
  const last = request.messages.at(-1);
  if (request.answer !== undefined || request.messages.length < 2 || last?.role !== "assistant") return request;
  return { ...request, messages: request.messages.slice(0, -1), answer: last.content };
}

/** At most `count` requests, evenly from the whole file. */
export function evenly<T>(all: readonly T[], count: number): readonly T[] {
  if (all.length <= count) return all;
  return Array.from({ length: count }, (_, index) => all[Math.floor((index * all.length) / count)]!);
}

/** Fields that do not affect drafts, or that ask for more than one plain answer. */
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

/** The body of a chat request for one answer. @param maxTokens limit for the answer */
export function askedBody(request: PromptRequest, maxTokens: number): Readonly<Record<string, unknown>> {
  const { body, messages, maxTokens: own } = request;
  const kept = Object.entries(body).filter(([name]) => !LEFT_OUT.includes(name));
  const given = Array.isArray(body.messages) ? body.messages : [];
  const asked = messages.map(({ role, content, place }) => (place === undefined ? { role, content } : given[place]));
  return { ...Object.fromEntries(kept), messages: asked, max_tokens: Math.min(own ?? maxTokens, maxTokens) };
}
