/** The JSON of /v1/responses: the response object in each of its states, and the items of its output. */
import { type AnswerItem, itemsOf, newItem } from "../generation/answer-items.js";
import type { GenerationEnd, ScoredToken } from "../generation/generation.js";
import { evictedField, type JobTotals } from "../generation/job.js";
import type { ChoiceResult } from "../http/respond.js";

/** The request's fields that responses repeat. */
export interface ResponseFacts {
  readonly id: string;
  readonly createdAtSeconds: number;
  readonly model: string;
  readonly instructions: string | null;
  readonly maxOutputTokens: number | null;
  readonly temperature: number;
  readonly topP: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly tools: readonly object[];
  readonly toolChoice: string | object;
  readonly isParallel: boolean;
  readonly effort: string | null;
  readonly textFormat: object;
  readonly numPromptTokens: number;
  readonly truncation: "auto" | "disabled";
  /** The number of likeliest tokens to show for each token; undefined: no log-probabilities. */
  readonly numTopLogprobs: number | undefined;
  /** The id of the response that this one continues. */
  readonly previousId: string | null;
  /** Repeated until the answer is complete; the store then determines the value. */
  readonly isToBeStored: boolean;
  readonly metadata: object;
  readonly logprobs: (said: readonly ScoredToken[]) => object[];
}

export type ItemStatus = "in_progress" | "completed" | "incomplete";

const ID_PREFIX: Readonly<Record<AnswerItem["kind"], string>> = { content: "msg", reasoning: "rs", call: "fc" };

export function itemId({ kind, id }: AnswerItem): string {
  return `${ID_PREFIX[kind]}_${id}`;
}

/** The part that holds a message's or a reasoning's text. */
export function contentPart(kind: "content" | "reasoning", text: string, logprobs: readonly object[] = []): object {
  if (kind === "reasoning") return { type: "reasoning_text", text };
  return { type: "output_text", text, annotations: [], logprobs };
}

/** An item in progress is still empty. */
export function itemObject(item: AnswerItem, status: ItemStatus): object {
  const { kind, id, name } = item;
  const head = { id: itemId(item), status };
  const text = status === "in_progress" ? "" : item.text;
  if (kind === "call") return { ...head, type: "function_call", call_id: `call_${id}`, name, arguments: text };
  const content = status === "in_progress" ? [] : [contentPart(kind, text, item.logprobs)];
  if (kind === "reasoning") return { ...head, type: "reasoning", summary: [], content };
  return { ...head, type: "message", role: "assistant", content };
}

function usageObject(facts: ResponseFacts, totals: JobTotals) {
  return {
    input_tokens: facts.numPromptTokens,
    input_tokens_details: { cached_tokens: totals.numCachedTokens[0] ?? 0 },
    output_tokens: totals.numOutputTokens,
    output_tokens_details: { reasoning_tokens: totals.numReasoningTokens ?? 0 },
    total_tokens: facts.numPromptTokens + totals.numOutputTokens,
    ...evictedField(totals),
  };
}

function baseObject(facts: ResponseFacts) {
  return {
    id: facts.id,
    object: "response",
    created_at: facts.createdAtSeconds,
    completed_at: null as number | null,
    background: false,
    error: null,
    frequency_penalty: facts.frequencyPenalty,
    incomplete_details: null,
    instructions: facts.instructions,
    max_output_tokens: facts.maxOutputTokens,
    // Ignored in requests, but clients' types have them in every response.
    max_tool_calls: null,
    prompt_cache_key: null,
    safety_identifier: null,
    service_tier: null,
    metadata: facts.metadata,
    model: facts.model,
    parallel_tool_calls: facts.isParallel,
    presence_penalty: facts.presencePenalty,
    previous_response_id: facts.previousId,
    reasoning: { effort: facts.effort, summary: null },
    store: facts.isToBeStored,
    temperature: facts.temperature,
    text: { format: facts.textFormat },
    tool_choice: facts.toolChoice,
    tools: facts.tools,
    top_logprobs: facts.numTopLogprobs ?? 0,
    top_p: facts.topP,
    truncation: facts.truncation,
  };
}

/** An answer that a length limit cut off is "incomplete", and so is its last item. */
export function statusOf(end: GenerationEnd): "completed" | "incomplete" {
  return end.reason === "length" ? "incomplete" : "completed";
}

/** An empty answer is a message without text. */
export const emptyAnswerItem = (): AnswerItem => newItem("content");

export function responseObject(
  facts: ResponseFacts,
  outcome: { readonly items: readonly AnswerItem[]; readonly end: GenerationEnd; readonly totals: JobTotals },
) {
  const { items, end, totals } = outcome;
  const status = statusOf(end);
  return {
    ...baseObject(facts),
    status,
    ...(status === "incomplete"
      ? { incomplete_details: { reason: "max_output_tokens" } }
      : { completed_at: Math.floor(Date.now() / 1000) }),
    output: items.map((item, index) => itemObject(item, index === items.length - 1 ? status : "completed")),
    usage: usageObject(facts, totals),
  };
}

export type WholeResponse = ReturnType<typeof responseObject>;

export function wholeResponse(facts: ResponseFacts, result: ChoiceResult, totals: JobTotals) {
  const found = itemsOf(result);
  const items = found.length === 0 ? [emptyAnswerItem()] : found;
  // Answers with log-probabilities have no calls, so the content is one item.
  const said = items.find(({ kind }) => kind === "content");
  for (const logprob of facts.logprobs(result.said)) said?.logprobs.push(logprob);
  return responseObject(facts, { items, end: result.end, totals });
}

export function pendingResponse(facts: ResponseFacts) {
  return { ...baseObject(facts), status: "in_progress", output: [], usage: null };
}

export function failedResponse(facts: ResponseFacts, message: string) {
  return { ...pendingResponse(facts), store: false, status: "failed", error: { code: "server_error", message } };
}
