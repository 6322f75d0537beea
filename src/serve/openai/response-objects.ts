/** The JSON of /v1/responses: the response object in each of its states, and the sequence of stream events. */
import type { MillraceError } from "../../core/errors.js";
import { errorBody } from "../error-response.js";
import type { GenerationEnd } from "../generation.js";
import type { JobTotals } from "../job.js";
import type { StreamFrames } from "../respond.js";

export interface ResponseFacts {
  readonly id: string;
  readonly itemId: string;
  readonly createdAtSeconds: number;
  readonly model: string;
  readonly instructions: string | null;
  readonly maxOutputTokens: number | null;
  readonly temperature: number;
  readonly topP: number;
  readonly numPromptTokens: number;
}

export interface ResponseOutcome {
  readonly text: string;
  readonly end: GenerationEnd;
  readonly totals: JobTotals;
}

function textPart(text: string) {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

function messageItem(facts: ResponseFacts, status: string, content: readonly object[]) {
  return { id: facts.itemId, type: "message", status, role: "assistant", content };
}

function usageObject(facts: ResponseFacts, totals: JobTotals) {
  return {
    input_tokens: facts.numPromptTokens,
    input_tokens_details: { cached_tokens: totals.numCachedTokens[0] ?? 0 },
    output_tokens: totals.numOutputTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: facts.numPromptTokens + totals.numOutputTokens,
  };
}

function baseObject(facts: ResponseFacts) {
  return {
    id: facts.id,
    object: "response",
    created_at: facts.createdAtSeconds,
    background: false,
    error: null,
    incomplete_details: null,
    instructions: facts.instructions,
    max_output_tokens: facts.maxOutputTokens,
    metadata: {},
    model: facts.model,
    parallel_tool_calls: false,
    previous_response_id: null,
    store: false,
    temperature: facts.temperature,
    text: { format: { type: "text" } },
    tool_choice: "none",
    tools: [],
    top_p: facts.topP,
    truncation: "disabled",
  };
}

/** Cut short by a length limit, an answer is "incomplete". */
function statusOf(end: GenerationEnd): "completed" | "incomplete" {
  return end.reason === "length" ? "incomplete" : "completed";
}

export function responseObject(facts: ResponseFacts, outcome: ResponseOutcome) {
  const status = statusOf(outcome.end);
  return {
    ...baseObject(facts),
    status,
    ...(status === "incomplete" ? { incomplete_details: { reason: "max_output_tokens" } } : {}),
    output: [messageItem(facts, status, [textPart(outcome.text)])],
    usage: usageObject(facts, outcome.totals),
  };
}

function pendingObject(facts: ResponseFacts) {
  return { ...baseObject(facts), status: "in_progress", output: [], usage: null };
}

/** The documented event sequence; every event carries its number. */
export function responseFrames(facts: ResponseFacts, requestId: string): StreamFrames {
  let sequenceNumber = 0;
  let text = "";
  let end: GenerationEnd = { reason: "stop", stopReason: null };
  const position = { item_id: facts.itemId, output_index: 0, content_index: 0 };
  const event = (type: string, fields: object) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: sequenceNumber++, ...fields })}\n\n`;
  const deltaHead = `event: response.output_text.delta\ndata: ${JSON.stringify({ type: "response.output_text.delta", ...position, logprobs: [] }).slice(0, -1)}`;
  const opening = () =>
    event("response.created", { response: pendingObject(facts) }) +
    event("response.in_progress", { response: pendingObject(facts) }) +
    event("response.output_item.added", { output_index: 0, item: messageItem(facts, "in_progress", []) }) +
    event("response.content_part.added", { ...position, part: textPart("") });
  return {
    onUpdate(_index, update) {
      const begin = sequenceNumber === 0 ? opening() : "";
      if (update.end !== undefined) end = update.end;
      if (update.text === "") return begin;
      text += update.text;
      return `${begin}${deltaHead},"sequence_number":${sequenceNumber++},"delta":${JSON.stringify(update.text)}}\n\n`;
    },
    onDone(totals) {
      const response = responseObject(facts, { text, end, totals });
      return (
        event("response.output_text.done", { ...position, text, logprobs: [] }) +
        event("response.content_part.done", { ...position, part: textPart(text) }) +
        event("response.output_item.done", { output_index: 0, item: response.output[0] }) +
        event(`response.${response.status}`, { response })
      );
    },
    onError(error: MillraceError) {
      const { message } = errorBody(error, requestId).error;
      const failed = { ...baseObject(facts), status: "failed", output: [], usage: null };
      return event("response.failed", { response: { ...failed, error: { code: "server_error", message } } });
    },
  };
}
