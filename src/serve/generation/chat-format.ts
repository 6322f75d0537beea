/**
 * How the model reasons and calls tools, as its chat template and vocabulary show. Read once, when the server is
 * created.
 */

import type { CallSyntax } from "../../text/answer/call-format.js";
import { type ToolCallParserName, toolCallFormat } from "../../text/answer/call-formats.js";
import { harmony } from "../../text/answer/harmony.js";
import { mentionsReasoning, REASONING_MARKERS, type ReasoningParserName } from "../../text/answer/reasoning.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";

export interface ChatFormat {
  /** The template prints the request's tools. */
  readonly takesTools: boolean;
  /** undefined: no parser knows the format of the model's calls. */
  readonly toolCalls: CallSyntax | undefined;
  /** Answers are messages in Harmony (gpt-oss), with reasoning and calls among them. */
  readonly isHarmony: boolean;
  readonly toolTokenIds: ReadonlySet<number>;
  readonly hasReasoning: boolean;
  readonly reasoningTokenIds: ReadonlySet<number>;
  /** The markers of calls and reasoning that are special tokens: ordinary text cannot produce them. */
  readonly specialMarkers: ReadonlySet<string>;
  /** The template reads the argument `enable_thinking`. */
  readonly hasThinkingSwitch: boolean;
}

export interface ChatFormatSource {
  readonly tokenizer: Tokenizer;
  readonly chatTemplate: { readonly source?: string } | undefined;
  readonly toolCallParser?: ToolCallParserName | undefined;
  readonly reasoningParser?: ReasoningParserName | undefined;
}

/** The ids of the texts that are a single token. */
function tokenIdsOf(tokenizer: Tokenizer, texts: readonly string[]): Set<number> {
  const encoded = texts.map((text) => tokenizer.encode(text, { addSpecial: false, parseSpecial: true }));
  return new Set(encoded.flatMap((ids) => (ids.length === 1 ? ids : [])));
}

export function readChatFormat(model: ChatFormatSource): ChatFormat {
  const { tokenizer, toolCallParser = "auto", reasoningParser = "auto" } = model;
  const source = model.chatTemplate?.source ?? "";
  const toolCalls = toolCallFormat(toolCallParser, source);
  const reasoningTokenIds = tokenIdsOf(tokenizer, REASONING_MARKERS);
  const isHarmony = toolCalls === harmony;
  const markers = [...(toolCalls?.markers ?? []), ...REASONING_MARKERS];
  const isSpecial = (text: string): boolean => [...tokenIdsOf(tokenizer, [text])].some((id) => tokenizer.isSpecial(id));
  const knowsReasoning = mentionsReasoning(source) || reasoningTokenIds.size === REASONING_MARKERS.length;
  return {
    takesTools: /\btools\b/.test(source),
    toolCalls,
    toolTokenIds: tokenIdsOf(tokenizer, toolCalls?.markers ?? []),
    isHarmony,
    hasReasoning: isHarmony
      ? reasoningParser !== "none"
      : reasoningParser === "think" || (reasoningParser === "auto" && knowsReasoning),
    reasoningTokenIds,
    specialMarkers: new Set(markers.filter(isSpecial)),
    hasThinkingSwitch: /\benable_thinking\b/.test(source),
  };
}
