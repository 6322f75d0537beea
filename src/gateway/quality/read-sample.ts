/** Reads a request and its whole answer, of any dialect, into the texts for checks. */
import { isPlainObject } from "../../core/is-plain-object.js";
import { type JsonObject, jsonObjectIn } from "../../core/json-body.js";
import { askedForm } from "../api/asked-form.js";
import { signalsOf } from "../cascade/answer-signals.js";
import { answerPartsOf } from "../dialects/answer/answer-parts-of.js";
import type { AnswerPart } from "../dialects/conversation/answer-parts.js";
import { collected } from "../dialects/conversation/collected.js";
import type { Sample, SampledAnswer, SampleMessage } from "./checks/sample.js";

/** Paths whose answers are sampled. */
export const SAMPLED_PATHS: readonly string[] = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/messages",
  "/v1/responses",
];

/** A client may write anything else as a role, which is not kept. */
const ROLES: readonly string[] = ["system", "user", "assistant", "tool", "function"];

/**
 * @param request JSON of the request's body
 * @returns undefined for a request or an answer in no known form, and for several choices
 */
export function readSample(path: string, request: Buffer, answer: Buffer, isEventStream: boolean): Sample | undefined {
  const body = jsonObjectIn(request);
  const read = body === undefined ? undefined : readAnswer(path, answer, isEventStream);
  if (body === undefined || read === undefined || (typeof body.n === "number" && body.n > 1)) return undefined;
  const prompt = new PromptTexts();
  prompt.read(body);
  return { messages: prompt.messages, isPlain: prompt.isPlain, format: formatOf(body), answer: read };
}

/** The form as in `response_format` of chats. */
function formatOf(body: JsonObject): unknown {
  const form = askedForm(body);
  return form?.type === "json_schema"
    ? { type: form.type, json_schema: { schema: form.schema } }
    : form && { type: form.type };
}

/** Texts of a prompt, in the order in which the model reads them. */
class PromptTexts {
  readonly messages: SampleMessage[] = [];
  isPlain = true;

  read(body: JsonObject): void {
    for (const instructions of [body.system, body.instructions]) this.#add("system", instructions);
    const items = body.messages ?? body.input ?? body.prompt;
    if (Array.isArray(items) && items.every(isPlainObject)) for (const item of items) this.#message(item);
    else this.#add("user", items);
    const { tools, functions } = body;
    if ([tools, functions].some((list) => Array.isArray(list) && list.length > 0)) this.isPlain = false;
  }

  #message(item: JsonObject): void {
    const { role, content, tool_calls: calls } = item;
    const isText = typeof role === "string" && role !== "tool" && role !== "function" && calls === undefined;
    if (!isText) this.isPlain = false;
    this.#add(typeof role === "string" ? role : "tool", content ?? item.output);
  }

  #add(role: string, content: unknown): void {
    if (content === undefined || content === null) return;
    const text = this.#textOf(content);
    if (text === "") return;
    const known = role === "developer" ? "system" : role;
    this.messages.push({ role: ROLES.includes(known) ? known : "other", text });
  }

  #textOf(content: unknown): string {
    if (typeof content === "string") return content;
    if (!Array.isArray(content)) {
      this.isPlain = false;
      return "";
    }
    return content
      .map((part: unknown) => {
        if (typeof part === "string") return part;
        if (isPlainObject(part) && typeof part.text === "string") return part.text;
        this.isPlain = false;
        return isPlainObject(part) && part.content !== undefined ? this.#textOf(part.content) : "";
      })
      .filter((text) => text !== "")
      .join("\n");
  }
}

function readAnswer(path: string, body: Buffer, isEventStream: boolean): SampledAnswer | undefined {
  try {
    if (path === "/v1/completions") return fromCompletion(body, isEventStream);
    const logprobs = path === "/v1/chat/completions" ? logprobsOf(body, isEventStream) : [];
    return fromParts(answerPartsOf(path, body, isEventStream), logprobs);
  } catch {
    return undefined;
  }
}

function fromParts(parts: readonly AnswerPart[], logprobs: readonly number[]): SampledAnswer {
  const { blocks, stop } = collected(parts);
  const text = blocks.flatMap((block) => (block.kind === "text" ? [block.text] : [])).join("");
  const calls = blocks.flatMap((block) => (block.kind === "call" ? [block.json] : []));
  const isRefusal = stop === "refusal" || stop === "filter";
  const end = isRefusal ? "refusal" : stop === "length" ? "length" : calls.length > 0 ? "calls" : "stop";
  return { text, end, calls, logprobs };
}

const whole = (body: Buffer, isEventStream: boolean) => ({
  head: { status: 200, headers: {}, isEventStream },
  body,
  error: undefined,
});

function logprobsOf(body: Buffer, isEventStream: boolean): readonly number[] {
  if (!body.includes('"logprobs"')) return [];
  return signalsOf(whole(body, isEventStream))?.logprobs ?? [];
}

function fromCompletion(body: Buffer, isEventStream: boolean): SampledAnswer | undefined {
  const signals = signalsOf(whole(body, isEventStream));
  if (signals === undefined) return undefined;
  const { text, finishReason, logprobs } = signals;
  return { text, end: finishReason === "length" ? "length" : "stop", calls: [], logprobs };
}
