/** The JSON of /v1/messages: the whole message, and the sequence of stream events. */
import type { GenerationEnd, GenerationUpdate } from "../generation.js";
import type { JobTotals } from "../job.js";
import type { StreamFrames } from "../respond.js";
import { BlockEvents, streamEvent } from "./block-events.js";
import { anthropicErrorBody } from "./error-body.js";

export interface MessageFacts {
  readonly id: string;
  readonly model: string;
  readonly numPromptTokens: number;
}

type StopReason = "end_turn" | "max_tokens" | "stop_sequence";

function stopOf({ reason, stopReason }: GenerationEnd): {
  readonly stop_reason: StopReason;
  readonly stop_sequence: string | null;
} {
  if (reason === "length") return { stop_reason: "max_tokens", stop_sequence: null };
  if (typeof stopReason === "string") return { stop_reason: "stop_sequence", stop_sequence: stopReason };
  return { stop_reason: "end_turn", stop_sequence: null };
}

/** Input tokens are those that were computed; the ones found in the prefix cache are counted beside them. */
function usageObject(facts: MessageFacts, numCachedTokens: number, numOutputTokens: number) {
  return {
    input_tokens: facts.numPromptTokens - numCachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: numCachedTokens,
    output_tokens: numOutputTokens,
  };
}

function usageOfTotals(facts: MessageFacts, totals: JobTotals) {
  return usageObject(facts, totals.numCachedTokens[0] ?? 0, totals.numOutputTokens);
}

/** An answer without text has no block, as its stream opens none. */
function contentBlocks(text: string): object[] {
  return text === "" ? [] : [{ type: "text", text }];
}

function envelope(facts: MessageFacts, content: readonly object[]) {
  return { id: facts.id, type: "message", role: "assistant", model: facts.model, content };
}

export function messageObject(facts: MessageFacts, text: string, end: GenerationEnd, totals: JobTotals) {
  return {
    ...envelope(facts, contentBlocks(text)),
    ...stopOf(end),
    usage: usageOfTotals(facts, totals),
  };
}

/** The documented event sequence. */
export function messageFrames(facts: MessageFacts, requestId: string): StreamFrames {
  const blocks = new BlockEvents();
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
      return update.text === "" ? begin : begin + blocks.text(update.text);
    },
    onDone(totals) {
      const usage = usageOfTotals(facts, totals);
      const delta = streamEvent("message_delta", { delta: stopOf(end), usage });
      return blocks.close() + delta + streamEvent("message_stop", {});
    },
    onError: (error) => `event: error\ndata: ${JSON.stringify(anthropicErrorBody(error, requestId))}\n\n`,
  };
}
