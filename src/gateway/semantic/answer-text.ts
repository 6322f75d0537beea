/** The text of an answer, of any dialect and form. */
import type { JsonObject } from "../../core/json-body.js";

const REGULAR_ENDS: readonly unknown[] = ["stop", "end_turn", "stop_sequence"];

/** @returns undefined for any other answer than one finished text: tool calls, a refusal, an end by length */
export function answerText(path: string, isEventStream: boolean, body: Buffer): string | undefined {
  if (path === "/v1/responses") return textOfResponse(isEventStream ? lastResponse(body) : parse(body.toString()));
  const isAnthropic = path === "/v1/messages";
  if (isEventStream) return isAnthropic ? textOfMessageEvents(eventsOf(body)) : textOfChunks(eventsOf(body));
  const answer = parse(body.toString());
  return answer === undefined ? undefined : isAnthropic ? textOfMessage(answer) : textOfChoice(answer);
}

function textOfChoice({ choices }: JsonObject): string | undefined {
  if (!Array.isArray(choices) || choices.length !== 1) return undefined;
  const { message, finish_reason: end } = (choices[0] ?? {}) as JsonObject;
  const { content, tool_calls: calls, function_call: call, refusal } = (message ?? {}) as JsonObject;
  if (!REGULAR_ENDS.includes(end) || isSome(calls) || isSome(call) || isSome(refusal)) return undefined;
  return typeof content === "string" && content !== "" ? content : undefined;
}

function textOfChunks(events: readonly JsonObject[]): string | undefined {
  let text = "";
  let end: unknown;
  for (const { choices, error } of events) {
    if (error !== undefined || !Array.isArray(choices)) return undefined;
    for (const choice of choices as (JsonObject | null)[]) {
      const { content, tool_calls: calls, function_call: call, refusal } = (choice?.delta ?? {}) as JsonObject;
      if ((choice?.index ?? 0) !== 0 || isSome(calls) || isSome(call) || isSome(refusal)) return undefined;
      if (typeof content === "string") text += content;
      end = choice?.finish_reason ?? end;
    }
  }
  return REGULAR_ENDS.includes(end) && text !== "" ? text : undefined;
}

function textOfMessage({ content, stop_reason: end }: JsonObject): string | undefined {
  if (!Array.isArray(content) || !REGULAR_ENDS.includes(end)) return undefined;
  const parts = content as (JsonObject | null)[];
  if (!parts.every((part) => part?.type === "text" || part?.type === "thinking")) return undefined;
  const text = parts.map((part) => (typeof part?.text === "string" ? part.text : "")).join("");
  return text === "" ? undefined : text;
}

function textOfMessageEvents(events: readonly JsonObject[]): string | undefined {
  let text = "";
  let end: unknown;
  for (const { type, delta, content_block: block } of events) {
    if (type === "error") return undefined;
    const kind = ((block ?? {}) as JsonObject).type;
    if (type === "content_block_start" && kind !== "text" && kind !== "thinking") return undefined;
    const { text: piece, stop_reason: reason } = (delta ?? {}) as JsonObject;
    if (type === "content_block_delta" && typeof piece === "string") text += piece;
    if (type === "message_delta") end = reason ?? end;
  }
  return REGULAR_ENDS.includes(end) && text !== "" ? text : undefined;
}

/** Undefined for steps of a provider's own tools, calls and refusals. */
function textOfResponse({ status, output, error }: JsonObject = {}): string | undefined {
  if (status !== "completed" || isSome(error) || !Array.isArray(output)) return undefined;
  const items = output as (JsonObject | null)[];
  if (!items.every((item) => item?.type === "message" || item?.type === "reasoning")) return undefined;
  const parts = items.flatMap((item) => {
    if (item?.type !== "message") return [];
    return Array.isArray(item.content) ? (item.content as (JsonObject | null)[]) : [null];
  });
  // An annotation names a source of this answer.
  const isPlain = (part: JsonObject | null) =>
    part?.type === "output_text" && typeof part.text === "string" && !isSome(part.annotations);
  if (!parts.every(isPlain)) return undefined;
  const text = parts.map((part) => part!.text).join("");
  return text === "" ? undefined : text;
}

/** The last event has the whole response. */
function lastResponse(body: Buffer): JsonObject | undefined {
  const { type, response } = eventsOf(body).at(-1) ?? {};
  return type === "response.completed" ? ((response ?? undefined) as JsonObject | undefined) : undefined;
}

function eventsOf(body: Buffer): readonly JsonObject[] {
  return [...body.toString().matchAll(/^data: ?(\{[^\r\n]*)/gm)].flatMap(([, json]): readonly JsonObject[] => {
    const event = parse(json!);
    return event === undefined ? [] : [event];
  });
}

const isSome = (value: unknown): boolean =>
  value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0);

function parse(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as JsonObject) : undefined;
  } catch {
    return undefined;
  }
}
