/** How the model reasons and calls tools, read from its chat template and vocabulary when the server is created. */

import type { CallSyntax } from "../../text/answer/call-format.js";
import { type ToolCallParserName, toolCallFormat } from "../../text/answer/call-formats.js";
import { harmony } from "../../text/answer/harmony.js";
import {
  markerTexts,
  type ReasoningMarkers,
  type ReasoningParserName,
  reasoningMarkers,
} from "../../text/answer/reasoning.js";
import { ChatTemplate } from "../../text/template/chat-template.js";
import { tokenText } from "../../text/token-text.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";

export interface ChatFormat {
  /** The prompt may have tools. */
  readonly takesTools: boolean;
  /**
   * The template of tools for the system message; undefined: the chat template prints them, or prompts have no tools.
   */
  readonly toolsTemplate: ChatTemplate | undefined;
  /** undefined: the model's call format has no parser here. */
  readonly toolCalls: CallSyntax | undefined;
  /** Answers are messages in Harmony (gpt-oss), including reasoning and calls. */
  readonly isHarmony: boolean;
  readonly toolTokenIds: ReadonlySet<number>;
  readonly hasReasoning: boolean;
  /** The markers around reasoning in an answer's text; undefined: the model has none, or uses Harmony's channels. */
  readonly reasoningMarkers: ReasoningMarkers | undefined;
  readonly reasoningTokenIds: ReadonlySet<number>;
  /** The same markers as tokens; undefined: they are not one token each, or absent. */
  readonly thoughtTokens: ThoughtTokens | undefined;
  /** The markers of calls and reasoning that are special tokens, which ordinary text cannot contain. */
  readonly specialMarkers: ReadonlySet<string>;
  /** The template's own names for the argument that turns thoughts on or off. */
  readonly thinkingSwitches: readonly string[];
  /** The template reads the argument `thinking_budget`, as in Seed-OSS. */
  readonly hasThinkingBudget: boolean;
}

interface ThoughtTokens {
  readonly openId: number;
  readonly closeId: number;
  /** Tokens of white space, which may precede a thought. */
  readonly blankIds: ReadonlySet<number>;
}

export interface ChatFormatSource {
  readonly tokenizer: Tokenizer;
  readonly chatTemplate: { readonly source?: string; readonly takesTools?: boolean } | undefined;
  readonly toolCallParser?: ToolCallParserName | undefined;
  readonly reasoningParser?: ReasoningParserName | undefined;
}

/** The ids of texts that are a single token. */
function tokenIdsOf(tokenizer: Tokenizer, texts: readonly string[]): Set<number> {
  const encoded = texts.map((text) => tokenizer.encode(text, { addSpecial: false, parseSpecial: true }));
  return new Set(encoded.flatMap((ids) => (ids.length === 1 ? ids : [])));
}

function thoughtTokensOf(tokenizer: Tokenizer, texts: readonly string[]): ThoughtTokens | undefined {
  const [openId, closeId] = texts.flatMap((text) => [...tokenIdsOf(tokenizer, [text])]);
  if (openId === undefined || closeId === undefined) return undefined;
  let blankIds: ReadonlySet<number> | undefined;
  return {
    openId,
    closeId,
    // Lazy, since it reads the complete vocabulary: only requests with a bound need it.
    get blankIds() {
      blankIds ??= blankIdsOf(tokenizer);
      return blankIds;
    },
  };
}

/** Qwen, GLM and most others have the first; DeepSeek V3.1, Kimi K2.5 and Granite the second. */
export const THINKING_SWITCHES = ["enable_thinking", "thinking"] as const;

const TAGS = /\{#.*?#\}|\{[{%].*?[%}]\}/gs;
const STRINGS = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g;

/** Whether a template reads a variable of this name in its tags, outside comments, texts and attributes. */
function readsVariable(source: string, name: string): boolean {
  const isRead = new RegExp(`(?<![\\w.])${name}(?!\\w)`);
  const tags = source.match(TAGS) ?? [];
  return tags.some((tag) => !tag.startsWith("{#") && isRead.test(tag.replace(STRINGS, "")));
}

function blankIdsOf(tokenizer: Tokenizer): Set<number> {
  const ids = Array.from({ length: tokenizer.vocabSize }, (_, id) => id);
  return new Set(ids.filter((id) => !tokenizer.isSpecial(id) && tokenText(tokenizer, id).trim() === ""));
}

export function readChatFormat(model: ChatFormatSource): ChatFormat {
  const { tokenizer, toolCallParser = "auto", reasoningParser = "auto" } = model;
  const source = model.chatTemplate?.source ?? "";
  const toolCalls = toolCallFormat(toolCallParser, source);
  const isHarmony = toolCalls === harmony;
  const areTokens = (texts: readonly string[]): boolean => tokenIdsOf(tokenizer, texts).size === texts.length;
  const thought = isHarmony ? undefined : reasoningMarkers(reasoningParser, source, areTokens);
  const thoughtTexts = thought === undefined ? [] : markerTexts(thought);
  // Lazy, since it takes trials of the template: only requests with tools need it.
  const printsTools = (): boolean => model.chatTemplate?.takesTools ?? /\btools\b/.test(source);
  let ofTools: ChatTemplate | undefined;
  const isSpecial = (text: string): boolean => [...tokenIdsOf(tokenizer, [text])].some((id) => tokenizer.isSpecial(id));
  return {
    get takesTools() {
      return toolCalls?.toolsTemplate !== undefined || printsTools();
    },
    get toolsTemplate() {
      if (toolCalls?.toolsTemplate === undefined || printsTools()) return undefined;
      ofTools ??= new ChatTemplate(toolCalls.toolsTemplate);
      return ofTools;
    },
    toolCalls,
    toolTokenIds: tokenIdsOf(tokenizer, toolCalls?.markers ?? []),
    isHarmony,
    hasReasoning: isHarmony ? reasoningParser !== "none" : thought !== undefined,
    reasoningMarkers: thought,
    reasoningTokenIds: tokenIdsOf(tokenizer, thoughtTexts),
    thoughtTokens: thoughtTokensOf(tokenizer, thoughtTexts),
    specialMarkers: new Set([...(toolCalls?.markers ?? []), ...thoughtTexts].filter(isSpecial)),
    thinkingSwitches: THINKING_SWITCHES.filter((name) => readsVariable(source, name)),
    hasThinkingBudget: /\bthinking_budget\b/.test(source),
  };
}
