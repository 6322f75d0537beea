/** From a chat request to its prompt and the way its answer is read. */
import { AnswerReader } from "../../text/answer-reader.js";
import { endsInsideReasoning, REASONING_END } from "../../text/reasoning.js";
import type { ServeContext } from "../context.js";
import type { AnswerReading } from "../generation.js";
import { encodePrompt, type PlainMessage, type RenderOptions, renderChat } from "./chat-messages.js";
import { type ToolFields, type ToolUse, toolUseOf } from "./tool-fields.js";

export const REASONING_EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"] as const;

export interface ChatPlan {
  readonly promptIds: Int32Array;
  /** undefined: the answer's text is all there is. */
  readonly reading: AnswerReading | undefined;
}

export interface ChatPlanFields extends ToolFields {
  readonly reasoning_effort?: (typeof REASONING_EFFORTS)[number] | undefined;
}

/** Template arguments win over what stands for them in OpenAI's API. */
function withEffort(
  context: ServeContext,
  effort: ChatPlanFields["reasoning_effort"],
  kwargs: RenderOptions["kwargs"],
): RenderOptions["kwargs"] {
  if (effort === undefined) return kwargs;
  const isOff = effort === "none" && context.chatFormat.hasThinkingSwitch;
  return { reasoning_effort: effort, ...(isOff ? { enable_thinking: false } : {}), ...kwargs };
}

function readingOf(
  context: ServeContext,
  toolUse: ToolUse | undefined,
  startsInside: boolean,
): AnswerReading | undefined {
  const { hasReasoning, reasoningTokenIds, toolTokenIds } = context.chatFormat;
  if (toolUse === undefined && !hasReasoning) return undefined;
  const { opening = "" } = toolUse ?? {};
  const reasoning = hasReasoning && opening === "" ? { startsInside } : undefined;
  const toolCalls =
    toolUse === undefined
      ? undefined
      : { format: toolUse.format, toolNames: toolUse.names, isSingle: toolUse.isSingle, opening };
  return {
    openReader: () => new AnswerReader({ reasoning, toolCalls }),
    keptTokenIds: new Set([
      ...(reasoning === undefined ? [] : reasoningTokenIds),
      ...(toolUse === undefined ? [] : toolTokenIds),
    ]),
  };
}

export function planChat(
  context: ServeContext,
  messages: readonly PlainMessage[],
  options: RenderOptions,
  fields: ChatPlanFields,
): ChatPlan {
  const toolUse = toolUseOf(context, fields);
  const kwargs = withEffort(context, fields.reasoning_effort, options.kwargs);
  const text = renderChat(context, messages, { ...options, kwargs, tools: toolUse?.tools });
  const startsInside = context.chatFormat.hasReasoning && endsInsideReasoning(text);
  // A forced call comes instead of reasoning, not inside it.
  const opening = toolUse?.opening ?? "";
  const prompt = opening === "" ? text : `${text}${startsInside ? REASONING_END : ""}${opening}`;
  return { promptIds: encodePrompt(context, prompt, options), reading: readingOf(context, toolUse, startsInside) };
}
