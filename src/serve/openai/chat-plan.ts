/** Derives a chat request's prompt and the reading of its answer. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import type { ThoughtBound } from "../../engine/api/request.js";
import { AnswerReader } from "../../text/answer/answer-reader.js";
import { type AnswerRecipe, recipeText } from "../../text/answer/answer-recipe.js";
import { isWithinText } from "../../text/answer/call-format.js";
import { awaitsChannel, HARMONY, HarmonyReader, harmonyOpening } from "../../text/answer/harmony.js";
import { endsInsideReasoning, reasoningEnd } from "../../text/answer/reasoning.js";
import type { AnswerForm, PartForm } from "../../text/grammar/answer-form.js";
import { THINKING_SWITCHES } from "../generation/chat-format.js";
import type { AnswerReading } from "../generation/generation.js";
import type { PromptContext } from "../http/context.js";
import { encodePrompt, type PlainMessage, type RenderFields, renderChat } from "./chat-messages.js";
import { type ToolFields, type ToolUse, toolUseOf } from "./tool-fields.js";

const REASONING_EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh"] as const;

/** `max`, from Anthropic's clients, is the highest effort that templates know. */
export const effortField = z
  .enum([...REASONING_EFFORTS, "max"])
  .transform((effort) => (effort === "max" ? "xhigh" : effort));

export interface ChatPlan {
  readonly promptIds: Int32Array;
  /** Undefined: the answer is plain text. */
  readonly reading: AnswerReading | undefined;
  /** The required form of the answer, as a recipe; undefined: its form is free. */
  readonly recipe: string | undefined;
  /** Undefined: thoughts of any length. */
  readonly thought?: ThoughtBound | undefined;
}

/**
 * The fields of a chat request that affect its prompt and the reading of its answer. A validated request has this type.
 */
export interface ChatPlanFields extends ToolFields, RenderFields {
  readonly reasoning_effort?: (typeof REASONING_EFFORTS)[number] | undefined;
  /** Most tokens of a thought; -1: no bound. */
  readonly thinking_token_budget?: number | undefined;
}

/** Requested effort → the nearest effort in gpt-oss's training. */
const HARMONY_EFFORTS: Readonly<Record<(typeof REASONING_EFFORTS)[number], string>> = {
  none: "low",
  minimal: "low",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
};

type TemplateKwargs = RenderFields["chat_template_kwargs"];

/** Whether arguments turn thoughts on or off, under any name of the switch; undefined: they do neither. */
const switchOf = (kwargs: TemplateKwargs): boolean | undefined =>
  THINKING_SWITCHES.map((name) => kwargs?.[name]).find((value) => typeof value === "boolean");

/**
 * The template's arguments: the request's own override those from its reasoning_effort. A thought switch reaches the
 * template under the template's own name.
 */
function templateKwargs(context: PromptContext, fields: ChatPlanFields): TemplateKwargs {
  const { reasoning_effort: effort, chat_template_kwargs: kwargs } = fields;
  const { isHarmony, thinkingSwitches, hasThinkingBudget } = context.chatFormat;
  if (isHarmony) return effort === undefined ? kwargs : { reasoning_effort: HARMONY_EFFORTS[effort], ...kwargs };
  const ofEffort = effort === "none" ? false : undefined;
  const isOn =
    switchOf(kwargs) ?? ofEffort ?? switchOf(context.templateDefaults) ?? (effort === undefined ? undefined : true);
  const switches = isOn === undefined ? [] : thinkingSwitches.map((name) => [name, isOn]);
  return {
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
    ...Object.fromEntries(switches),
    // Seed-OSS has no switch: a budget of 0 turns its thoughts off.
    ...(isOn === false && hasThinkingBudget ? { thinking_budget: 0 } : {}),
    ...kwargs,
  };
}

/** @param prompt may end within the answer's first message; reading starts there */
function harmonyReading(context: PromptContext, toolUse: ToolUse | undefined, prompt: string): AnswerReading {
  const { hasReasoning, toolTokenIds } = context.chatFormat;
  const options = {
    toolNames: new Set(toolUse?.functions.map(({ name }) => name)),
    isSingle: toolUse?.isSingle === true,
    hasReasoning,
    opening: harmonyOpening(prompt),
  };
  return { openReader: () => new HarmonyReader(options), keptTokenIds: toolTokenIds };
}

function readingOf(
  context: PromptContext,
  toolUse: ToolUse | undefined,
  startsInside: boolean,
  isHeld: boolean,
): AnswerReading | undefined {
  const { reasoningMarkers: markers, reasoningTokenIds, toolTokenIds } = context.chatFormat;
  if (toolUse === undefined && markers === undefined) return undefined;
  const { opening = "" } = toolUse ?? {};
  const reasoning = markers !== undefined && toolUse?.forced === undefined ? { markers, startsInside } : undefined;
  const toolCalls =
    toolUse === undefined || !isWithinText(toolUse.format)
      ? undefined
      : {
          format: toolUse.format,
          tools: new Map(toolUse.functions.map(({ name, parameters }) => [name, parameters])),
          isSingle: toolUse.isSingle,
          isHeld,
          opening,
        };
  return {
    openReader: () => new AnswerReader({ reasoning, toolCalls }),
    keptTokenIds: new Set([
      ...(reasoning === undefined ? [] : reasoningTokenIds),
      ...(toolUse === undefined ? [] : toolTokenIds),
    ]),
  };
}

/**
 * The recipe for calls. The grammar enforces forced calls and calls alongside a form; other calls only if a strict
 * function may be called.
 */
function callRecipe(
  { chatFormat: { reasoningMarkers, specialMarkers } }: PromptContext,
  toolUse: ToolUse,
  startsInside: boolean,
  form: AnswerForm | undefined,
): AnswerRecipe | undefined {
  const { forced, functions, isSingle, format } = toolUse;
  const options = { functions, isSingle, specialTexts: [...specialMarkers] };
  const { spelling } = format;
  if (forced !== undefined) {
    return { ...options, format: { spelling }, kind: "forcedCalls", isNamed: forced === "named" };
  }
  if (form === undefined && !functions.some(({ isStrict }) => isStrict)) return undefined;
  const besideCalls = form && partForm(form);
  if (!isWithinText(format)) return { ...options, format: { spelling }, kind: "channels", form: besideCalls };
  const { openers, startOpeners, startsWithName = false } = format;
  const start: "inside" | "possible" = startsInside ? "inside" : "possible";
  const reasoning = reasoningMarkers && { ...reasoningMarkers, start };
  const inText = { ...options, format: { openers, startOpeners, startsWithName, spelling }, reasoning };
  if (besideCalls === undefined) return { ...inText, kind: "freeCalls" };
  return { ...inText, kind: "callsOrForm", form: besideCalls };
}

/** Only if the markers are tokens: otherwise no token shows the thought's end. */
function thoughtBound(
  { chatFormat }: PromptContext,
  { thinking_token_budget: maxTokens = -1 }: ChatPlanFields,
  startsInside: boolean,
): ThoughtBound | undefined {
  const { thoughtTokens } = chatFormat;
  if (maxTokens === -1 || thoughtTokens === undefined) return undefined;
  const { openId, closeId } = thoughtTokens;
  if (startsInside) return { maxTokens, closeId };
  return { maxTokens, closeId, opening: { id: openId, blankIds: thoughtTokens.blankIds } };
}

function partForm(form: AnswerForm): PartForm {
  if (form.kind !== "grammar") return form;
  throw new MillraceError(
    "invalid_parameter",
    `tools: expected none that may be called beside ${form.param} (tool_choice "none"), got some`,
    { param: "tools", hint: "a schema, a regular expression or choices can stand beside tools" },
  );
}

/**
 * @param hasForm the answer has a required form; if no tools may be called, the form covers the whole answer and leaves
 * no room for reasoning
 */
export async function chatPrompt(
  context: PromptContext,
  messages: readonly PlainMessage[],
  fields: ChatPlanFields,
  hasForm: boolean,
) {
  const numCalls = messages.flatMap(({ tool_calls: calls = [] }) => calls).length;
  const toolUse = toolUseOf(context, fields, numCalls);
  const rendered = { ...fields, chat_template_kwargs: templateKwargs(context, fields) };
  const text = renderChat(context, messages, rendered, toolUse?.tools);
  const { reasoningMarkers: markers, isHarmony } = context.chatFormat;
  const isInside = markers !== undefined && endsInsideReasoning(text, markers);
  const opening = toolUse?.opening ?? "";
  // A forced form replaces reasoning and never appears inside it.
  const isForced = toolUse?.forced !== undefined || (hasForm && toolUse === undefined);
  const formOpening = isHarmony && opening === "" && isForced && awaitsChannel(text) ? HARMONY.final : "";
  const prompt = `${text}${isForced && isInside ? reasoningEnd(markers) : ""}${opening}${formOpening}`;
  return { prompt, promptIds: await encodePrompt(context, prompt, fields), toolUse, startsInside: isInside };
}

/** @param form the required form of an answer without calls; a forced call overrides it */
export async function planChat(
  context: PromptContext,
  messages: readonly PlainMessage[],
  fields: ChatPlanFields,
  form?: AnswerForm,
): Promise<ChatPlan> {
  const { prompt, promptIds, toolUse, startsInside } = await chatPrompt(context, messages, fields, form !== undefined);
  if (toolUse === undefined && form !== undefined) {
    return { promptIds, reading: undefined, recipe: recipeText(form) };
  }
  const recipe = toolUse === undefined ? undefined : callRecipe(context, toolUse, startsInside, form);
  return {
    promptIds,
    reading: context.chatFormat.isHarmony
      ? harmonyReading(context, toolUse, prompt)
      : readingOf(context, toolUse, startsInside, recipe !== undefined),
    recipe: recipe === undefined ? undefined : recipeText(recipe),
    thought: toolUse?.forced === undefined ? thoughtBound(context, fields, startsInside) : undefined,
  };
}
