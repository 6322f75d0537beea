/** What the model's chat template and vocabulary show of its way to reason and to call tools. Read once, when the server is made. */

import type { ToolCallFormat } from "../../text/answer/call-format.js";
import { type ToolCallParserName, toolCallFormat } from "../../text/answer/call-formats.js";
import { mentionsReasoning, REASONING_MARKERS, type ReasoningParserName } from "../../text/answer/reasoning.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";

export interface ChatFormat {
  /** The template prints the tools it is given. */
  readonly takesTools: boolean;
  /** undefined: calls are written in a way no parser knows. */
  readonly toolCalls: ToolCallFormat | undefined;
  readonly toolTokenIds: ReadonlySet<number>;
  readonly hasReasoning: boolean;
  readonly reasoningTokenIds: ReadonlySet<number>;
  /** Those markers of calls and reasoning that are special tokens, which no other text spells. */
  readonly specialMarkers: ReadonlySet<string>;
  /** The template takes `enable_thinking`. */
  readonly hasThinkingSwitch: boolean;
}

export interface ChatFormatSource {
  readonly tokenizer: Tokenizer;
  readonly chatTemplate: { readonly source?: string } | undefined;
  readonly toolCallParser?: ToolCallParserName | undefined;
  readonly reasoningParser?: ReasoningParserName | undefined;
}

/** The ids of those texts that are one token each. */
function tokenIdsOf(tokenizer: Tokenizer, texts: readonly string[]): Set<number> {
  const encoded = texts.map((text) => tokenizer.encode(text, { addSpecial: false, parseSpecial: true }));
  return new Set(encoded.flatMap((ids) => (ids.length === 1 ? ids : [])));
}

export function readChatFormat(model: ChatFormatSource): ChatFormat {
  const { tokenizer, toolCallParser = "auto", reasoningParser = "auto" } = model;
  const source = model.chatTemplate?.source ?? "";
  const toolCalls = toolCallFormat(toolCallParser, source);
  const reasoningTokenIds = tokenIdsOf(tokenizer, REASONING_MARKERS);
  const markers = [...(toolCalls?.markers ?? []), ...REASONING_MARKERS];
  const isSpecial = (text: string): boolean => [...tokenIdsOf(tokenizer, [text])].some((id) => tokenizer.isSpecial(id));
  const knowsReasoning = mentionsReasoning(source) || reasoningTokenIds.size === REASONING_MARKERS.length;
  return {
    takesTools: /\btools\b/.test(source),
    toolCalls,
    toolTokenIds: tokenIdsOf(tokenizer, toolCalls?.markers ?? []),
    hasReasoning: reasoningParser === "think" || (reasoningParser === "auto" && knowsReasoning),
    reasoningTokenIds,
    specialMarkers: new Set(markers.filter(isSpecial)),
    hasThinkingSwitch: /\benable_thinking\b/.test(source),
  };
}
