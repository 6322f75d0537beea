/**
 * The JSON of /v1/responses: the response object in each of its states, and the items of its output. The server writes
 * its own answers with it, and the gateway writes those of providers with other APIs.
 */

/** The request's fields that responses repeat, and the fields that distinguish responses. */
export interface ResponseHead {
  readonly id: string;
  readonly createdAtSeconds: number;
  readonly model: string;
  readonly instructions: string | null;
  readonly maxOutputTokens: number | null;
  /** null: the provider's default, which is unknown. */
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly tools: readonly unknown[];
  readonly toolChoice: unknown;
  readonly isParallel: boolean;
  readonly effort: string | null;
  readonly textFormat: object;
  readonly truncation: "auto" | "disabled";
  /** Number of likeliest tokens to show for each token; undefined: no log-probabilities. */
  readonly numTopLogprobs: number | undefined;
  /** The id of the response that this one continues. */
  readonly previousId: string | null;
  /** Repeated until the answer is complete; then the store decides. */
  readonly isToBeStored: boolean;
  readonly metadata: object;
}

/** One item of an answer: a message, full or summarised thoughts, or a call of a function. */
export interface ResponseItem {
  readonly kind: "content" | "reasoning" | "summary" | "call";
  /** Unique; each kind adds its own prefix. */
  readonly id: string;
  /** The function's name in a call; empty otherwise. */
  readonly name: string;
  /** The call id that the result refers to; undefined: derived from the item's id. */
  readonly callId?: string | undefined;
  /** The text; in a call, its arguments as the model wrote them. */
  readonly text: string;
  /** The log-probabilities of the content's tokens; empty unless the request asked for them. */
  readonly logprobs: readonly object[];
  /** Encrypted content, which a client repeats unread in its next request. */
  readonly encrypted?: string | undefined;
}

export type ItemStatus = "in_progress" | "completed" | "incomplete";

const ID_PREFIX: Readonly<Record<ResponseItem["kind"], string>> = {
  content: "msg",
  reasoning: "rs",
  summary: "rs",
  call: "fc",
};

export function itemId({ kind, id }: ResponseItem): string {
  return `${ID_PREFIX[kind]}_${id}`;
}

/** The part with a message's or a reasoning's text. */
export function textPart(kind: ResponseItem["kind"], text: string, logprobs: readonly object[] = []): object {
  if (kind === "content") return { type: "output_text", text, annotations: [], logprobs };
  return { type: kind === "summary" ? "summary_text" : "reasoning_text", text };
}

/** An item in progress is still empty. */
export function itemObject(item: ResponseItem, status: ItemStatus): object {
  const { kind, id, name, callId = `call_${id}`, encrypted = null } = item;
  const head = { id: itemId(item), status };
  const isEmpty = status === "in_progress";
  if (kind === "call") {
    return { ...head, type: "function_call", call_id: callId, name, arguments: isEmpty ? "" : item.text };
  }
  const content = isEmpty ? [] : [textPart(kind, item.text, item.logprobs)];
  if (kind === "reasoning") return { ...head, type: "reasoning", summary: [], content };
  if (kind === "content") return { ...head, type: "message", role: "assistant", content };
  const summary = item.text === "" ? [] : content;
  return { ...head, type: "reasoning", summary, encrypted_content: isEmpty ? null : encrypted };
}

interface ResponseCounts {
  readonly input: number;
  readonly cached: number;
  /** Tokens that were written to a cache, if writing has a price. */
  readonly written?: number;
  readonly output: number;
  readonly reasoning: number;
}

export function responseUsage({ input, cached, written = 0, output, reasoning }: ResponseCounts) {
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: input + output,
  };
}

/**
 * The reason for an early end comes before all text of clients and models, since code that counts answers reads it
 * there.
 */
function baseObject(head: ResponseHead) {
  return {
    id: head.id,
    object: "response",
    created_at: head.createdAtSeconds,
    completed_at: null as number | null,
    background: false,
    error: null,
    frequency_penalty: head.frequencyPenalty,
    incomplete_details: null,
    instructions: head.instructions,
    max_output_tokens: head.maxOutputTokens,
    // Ignored in requests, but required in responses by clients' types.
    max_tool_calls: null,
    prompt_cache_key: null,
    safety_identifier: null,
    service_tier: null,
    metadata: head.metadata,
    model: head.model,
    parallel_tool_calls: head.isParallel,
    presence_penalty: head.presencePenalty,
    previous_response_id: head.previousId,
    reasoning: { effort: head.effort, summary: null },
    store: head.isToBeStored,
    temperature: head.temperature,
    text: { format: head.textFormat },
    tool_choice: head.toolChoice,
    tools: head.tools,
    top_logprobs: head.numTopLogprobs ?? 0,
    top_p: head.topP,
    truncation: head.truncation,
  };
}

interface ResponseOutcome {
  readonly items: readonly ResponseItem[];
  /** Why the answer is incomplete; undefined: it is complete. */
  readonly incomplete: "max_output_tokens" | "content_filter" | undefined;
  readonly usage: object;
}

export const statusOf = ({ incomplete }: Pick<ResponseOutcome, "incomplete">): "completed" | "incomplete" =>
  incomplete === undefined ? "completed" : "incomplete";

/** A truncated answer is "incomplete", and so is its last item. */
export function responseObject(head: ResponseHead, outcome: ResponseOutcome) {
  const { items, incomplete, usage } = outcome;
  const status = statusOf(outcome);
  return {
    ...baseObject(head),
    status,
    ...(incomplete === undefined
      ? { completed_at: Math.floor(Date.now() / 1000) }
      : { incomplete_details: { reason: incomplete } }),
    output: items.map((item, index) => itemObject(item, index === items.length - 1 ? status : "completed")),
    usage,
  };
}

export type WholeResponse = ReturnType<typeof responseObject>;

export function pendingResponse(head: ResponseHead) {
  return { ...baseObject(head), status: "in_progress", output: [], usage: null };
}

export function failedResponse(head: ResponseHead, message: string) {
  return { ...pendingResponse(head), store: false, status: "failed", error: { code: "server_error", message } };
}
