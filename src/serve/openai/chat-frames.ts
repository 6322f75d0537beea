/** The streamed form of a chat answer. Parts that all chunks share are serialised once. */

import { errorBody } from "../../core/error-body.js";
import type { AnswerPart } from "../../text/answer/answer-part.js";
import type { GenerationUpdate, ScoredToken } from "../generation/generation.js";
import type { StreamFrames } from "../http/respond.js";
import { type CallField, finishReason, newCallId, reasoningFields } from "./chat-message.js";
import type { Envelope } from "./envelope.js";
import type { StreamUsage } from "./schema-parts.js";
import type { ChoiceTimings } from "./timings.js";
import { ChunkUsage, usageOf } from "./usage.js";

interface ChatStreamOptions {
  readonly numChoices: number;
  readonly numPromptTokens: number;
  /** Set if chunks contain their tokens' ids; the first chunk then has the prompt's ids. */
  readonly promptTokenIds: readonly number[] | undefined;
  readonly showsReasoning: boolean;
  readonly callField: CallField;
  /** The text that precedes each answer's own. */
  readonly echoed: string;
  /** Answers consist of parts and may have no content. */
  readonly isTakenApart: boolean;
  readonly usage: StreamUsage;
  /** The `logprobs` of a chunk with these tokens. */
  readonly logprobs: (said: readonly ScoredToken[]) => object | null;
  /** For each choice; undefined: chunks have none. */
  readonly timings: readonly ChoiceTimings[] | undefined;
}

/** The JSON of `delta` for one part. */
function deltaOf(part: AnswerPart, callField: CallField): string {
  if (callField === "function_call" && (part.kind === "call" || part.kind === "arguments")) {
    const given = part.kind === "call" ? { name: part.name, arguments: "" } : { arguments: part.text };
    return JSON.stringify({ function_call: given });
  }
  switch (part.kind) {
    case "content":
      return `{"content":${JSON.stringify(part.text)}}`;
    case "reasoning":
      return JSON.stringify(reasoningFields(part.text));
    case "call": {
      const call = {
        index: part.index,
        id: newCallId(),
        type: "function",
        function: { name: part.name, arguments: "" },
      };
      return JSON.stringify({ tool_calls: [call] });
    }
    case "arguments":
      return JSON.stringify({ tool_calls: [{ index: part.index, function: { arguments: part.text } }] });
  }
}

/** An update without text still needs a delta for its log-probabilities and ids. */
function deltasOf(
  { text, parts, said, tokenIds }: GenerationUpdate,
  { showsReasoning, callField }: ChatStreamOptions,
): string[] {
  const hasNews = said.length > 0 || tokenIds.length > 0;
  if (parts === undefined) return text === "" && !hasNews ? [] : [deltaOf({ kind: "content", text }, callField)];
  const shown = showsReasoning ? parts : parts.filter(({ kind }) => kind !== "reasoning");
  return shown.length === 0 && hasNews ? ["{}"] : shown.map((part) => deltaOf(part, callField));
}

export function chatFrames(envelope: Envelope, options: ChatStreamOptions, requestId: string): StreamFrames {
  const { numChoices } = options;
  const head = JSON.stringify({ ...envelope, object: "chat.completion.chunk" }).slice(0, -1);
  const usage = new ChunkUsage(options.usage, new Array<number>(numChoices).fill(options.numPromptTokens));
  const prefixes = Array.from(
    { length: numChoices },
    (_, index) => `data: ${head},"choices":[{"index":${index},"delta":`,
  );
  const firstContent = options.isTakenApart && options.echoed === "" ? null : options.echoed;
  const firstDelta = `{"role":"assistant","content":${JSON.stringify(firstContent)}}`;
  const hasBegun = new Array<boolean>(numChoices).fill(false);
  /** The calls of each choice, which determine its finish reason. */
  const calls = Array.from({ length: numChoices }, (): AnswerPart[] => []);
  const { promptTokenIds } = options;
  const beginning = promptTokenIds === undefined ? "" : `"prompt_token_ids":${JSON.stringify(promptTokenIds)},`;
  const idsOf = (update: GenerationUpdate) =>
    promptTokenIds === undefined ? "" : `,"token_ids":${JSON.stringify(update.tokenIds)}`;
  const timingsField = (index: number) =>
    options.timings === undefined ? "" : `,"timings":${JSON.stringify(options.timings[index]!.toObject())}`;
  const chunk = (index: number, delta: string, rest: string) =>
    `${prefixes[index]}${delta}${rest}}]${usage.field(index)}${timingsField(index)}}\n\n`;
  return {
    onUpdate(index, update) {
      let text = "";
      options.timings?.[index]?.update(update);
      if (!hasBegun[index]) {
        hasBegun[index] = true;
        text = chunk(index, firstDelta, `,"logprobs":null,"finish_reason":null`);
        if (beginning !== "") text = text.replace('"choices":', () => `${beginning}"choices":`);
      }
      usage.add(index, update.numNewTokens);
      // The first delta of an update carries its log-probabilities and ids; later ones carry none.
      let logprobs = JSON.stringify(options.logprobs(update.said));
      let ids = idsOf(update);
      for (const delta of deltasOf(update, options)) {
        text += chunk(index, delta, `,"logprobs":${logprobs},"finish_reason":null${ids}`);
        logprobs = "null";
        ids = "";
      }
      for (const part of update.parts ?? []) if (part.kind === "call") calls[index]!.push(part);
      if (update.end === undefined) return text;
      const reason = finishReason(update.end, calls[index], options.callField);
      const rest = `,"logprobs":null,"finish_reason":"${reason}","stop_reason":${JSON.stringify(update.end.stopReason)}`;
      return text + chunk(index, "{}", rest);
    },
    onDone(totals) {
      if (!usage.isWanted) return "data: [DONE]\n\n";
      const whole = JSON.stringify(usageOf([options.numPromptTokens], numChoices, totals));
      return `data: ${head},"choices":[],"usage":${whole}}\n\ndata: [DONE]\n\n`;
    },
    onError: (error) => `data: ${JSON.stringify(errorBody(error, requestId))}\n\ndata: [DONE]\n\n`,
  };
}
