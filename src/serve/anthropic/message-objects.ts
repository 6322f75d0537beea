/** The JSON of /v1/messages: the complete message and the sequence of stream events. */

import { anthropicErrorBody } from "../../core/error-body.js";
import { type AnswerItem, itemsOf, partsOf } from "../generation/answer-items.js";
import type { GenerationEnd, GenerationUpdate } from "../generation/generation.js";
import { evictedField, type JobTotals } from "../generation/job.js";
import type { ChoiceResult, StreamFrames } from "../http/respond.js";
import { BlockEvents, contentBlock, PING, streamEvent } from "./block-events.js";

export interface MessageFacts {
  readonly id: string;
  readonly model: string;
  readonly numPromptTokens: number;
  /** Whether thinking blocks are returned empty. */
  readonly hidesThoughts: boolean;
  /** Whether the request asked for edits of the conversation; the answer then reports that none were made. */
  readonly managesContext: boolean;
}

type StopReason = "end_turn" | "max_tokens" | "stop_sequence" | "tool_use";

function stopOf(
  { reason, stopReason }: GenerationEnd,
  items: readonly AnswerItem[],
): {
  readonly stop_reason: StopReason;
  readonly stop_sequence: string | null;
} {
  if (reason === "length") return { stop_reason: "max_tokens", stop_sequence: null };
  if (typeof stopReason === "string") return { stop_reason: "stop_sequence", stop_sequence: stopReason };
  if (items.some((item) => item.kind === "call")) return { stop_reason: "tool_use", stop_sequence: null };
  return { stop_reason: "end_turn", stop_sequence: null };
}

/** `input_tokens` counts the computed tokens; tokens from the prefix cache are reported in a separate field. */
function usageObject(facts: MessageFacts, numCachedTokens: number, numOutputTokens: number) {
  return {
    input_tokens: facts.numPromptTokens - numCachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: numCachedTokens,
    output_tokens: numOutputTokens,
  };
}

function usageOfTotals(facts: MessageFacts, totals: JobTotals) {
  const { numCachedTokens, numOutputTokens, numReasoningTokens } = totals;
  return {
    ...usageObject(facts, numCachedTokens[0] ?? 0, numOutputTokens),
    ...(numReasoningTokens === undefined ? {} : { output_tokens_details: { thinking_tokens: numReasoningTokens } }),
    ...evictedField(totals),
  };
}

function contextManagement({ managesContext }: MessageFacts) {
  return managesContext ? { context_management: { applied_edits: [] } } : {};
}

function envelope(facts: MessageFacts, content: readonly object[]) {
  return { id: facts.id, type: "message", role: "assistant", model: facts.model, content };
}

/** An answer without text has no block, like its stream. */
export function messageObject(facts: MessageFacts, result: ChoiceResult, totals: JobTotals) {
  const items = itemsOf(result);
  const blocks = items.map((item) => contentBlock(item, facts.hidesThoughts));
  return {
    ...envelope(facts, blocks),
    ...stopOf(result.end, items),
    ...contextManagement(facts),
    usage: usageOfTotals(facts, totals),
  };
}

/** The documented event sequence. */
export function messageFrames(facts: MessageFacts, requestId: string): StreamFrames {
  const blocks = new BlockEvents(facts.hidesThoughts);
  let hasBegun = false;
  let end: GenerationEnd = { reason: "stop", stopReason: null };
  const start = (update: GenerationUpdate) => {
    const usage = usageObject(facts, update.numCachedTokens, update.numNewTokens);
    const message = { ...envelope(facts, []), stop_reason: null, stop_sequence: null, usage };
    return streamEvent("message_start", { message });
  };
  return {
    onUpdate(_index, update) {
      const begin = hasBegun ? "" : start(update);
      hasBegun = true;
      if (update.end !== undefined) end = update.end;
      return (
        begin +
        partsOf(update)
          .map((part) => blocks.add(part))
          .join("")
      );
    },
    onDone(totals) {
      const usage = usageOfTotals(facts, totals);
      const ending = { delta: stopOf(end, blocks.items), ...contextManagement(facts), usage };
      const delta = streamEvent("message_delta", ending);
      return blocks.close() + delta + streamEvent("message_stop", {});
    },
    heartbeat: PING,
    onError: (error) => `event: error\ndata: ${JSON.stringify(anthropicErrorBody(error, requestId))}\n\n`,
  };
}
