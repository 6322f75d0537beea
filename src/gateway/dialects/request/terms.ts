/** The terms that a provider's writer gets beside the conversation, and the rules that several writers share. */
import { isPlainObject } from "../../../core/is-plain-object.js";
import { assertShape, type JsonObject, shapeOf } from "../../../core/json-body.js";
import type { CallPart, Conversation, Effort, FieldNames, Reasoning } from "../conversation/conversation.js";
import { invalid } from "../conversation/fields.js";
import type { Losses } from "../conversation/losses.js";

export interface WriteTerms {
  /** The provider's own name for the model. */
  readonly model: string;
  readonly names: FieldNames;
  readonly losses: Losses;
  /** `max_tokens` of requests without one, if the provider needs one. */
  readonly defaultMaxTokens: number;
  /** How the model is told to think: by effort, or, for older models, by a budget of tokens. */
  readonly thinking: "effort" | "budget";
}

/** Tokens for each effort, for models that take a budget. */
const BUDGETS: Readonly<Record<Effort, number>> = {
  minimal: 1024,
  low: 2048,
  medium: 8192,
  high: 16_384,
  xhigh: 32_768,
};
const LEAST_BUDGET = 1024;

/** @param maxTokens of the answer, the thoughts included @returns undefined if that leaves no room to think */
export function budgetOf({ effort, budgetTokens }: Reasoning & { kind: "on" }, maxTokens: number): number | undefined {
  const wanted = budgetTokens ?? BUDGETS[effort ?? "medium"];
  const budget = Math.min(wanted, maxTokens - 1);
  return budget < LEAST_BUDGET ? undefined : budget;
}

/** The effort that spends about as much as the request allows; undefined if the request sets no bound. */
export function effortOf({ effort, budgetTokens }: Reasoning & { kind: "on" }): Effort | undefined {
  if (effort !== undefined || budgetTokens === undefined) return effort;
  if (budgetTokens <= BUDGETS.low) return "low";
  return budgetTokens <= BUDGETS.medium ? "medium" : "high";
}

/** Anthropic's and Bedrock's range ends at 1: OpenAI's higher temperatures have no counterpart there. */
export function temperatureUpTo1({ temperature }: Conversation, losses: Losses): number | undefined {
  if (temperature === undefined || temperature <= 1) return temperature;
  losses.lacks("temperature", "a temperature of at most 1");
  return 1;
}

/** Refuses penalties, which only OpenAI and Google have. 0 is no penalty. */
export function lacksPenalties({ presencePenalty, frequencyPenalty }: Conversation, losses: Losses): void {
  if ((presencePenalty ?? 0) !== 0) losses.lacks("presence_penalty");
  if ((frequencyPenalty ?? 0) !== 0) losses.lacks("frequency_penalty");
}

/** Providers other than OpenAI want the user to speak first. */
export function assertUserFirst({ turns }: Conversation, { losses, names }: WriteTerms): void {
  const role = turns[0]?.role;
  if (role !== "user") losses.cannot(names.messages, "a first message of the user", role ?? "none with content");
}

/** A call's arguments, for providers that take an object. */
export function argumentsOf({ json, param }: CallPart): JsonObject {
  if (json.trim() === "") return {};
  // The body's own limits do not hold inside a string.
  assertShape(shapeOf(Buffer.from(json)));
  try {
    const value: unknown = JSON.parse(json);
    if (isPlainObject(value)) return value;
  } catch {
    // The message below states the expected form.
  }
  throw invalid(param, "the JSON of an object", json);
}

/** Leaves out members whose value is undefined. */
export function present<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as never;
}

/** vLLM's and our own −1 and 0 mean all tokens. */
export function topKOf({ topK }: Conversation): number | undefined {
  return topK !== undefined && topK > 0 ? topK : undefined;
}
