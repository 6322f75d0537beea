/**
 * Reads the inputs of a judge from a whole answer: its text, its finish reason, and, for a chat or a completion, the
 * log-probabilities of its tokens.
 */
import type { JsonObject } from "../../core/json-body.js";
import type { WholeAnswer } from "../answer.js";
import { answerPartsOf } from "../dialects/answer/answer-parts-of.js";
import type { StopReason } from "../dialects/conversation/answer-parts.js";
import { collected } from "../dialects/conversation/collected.js";
import { promptTokensOf } from "../usage/token-counts.js";

export interface AnswerSignals {
  readonly text: string;
  readonly finishReason: string | undefined;
  readonly hasToolCalls: boolean;
  /** Natural logarithm of each token's probability; empty if the upstream gave none. */
  readonly logprobs: readonly number[];
  /** Lead of each token over the next best one, in nats; only of tokens that have alternatives. */
  readonly margins: readonly number[];
  readonly numPromptTokens: number | undefined;
  readonly numOutputTokens: number | undefined;
}

const isObject = (value: unknown): value is JsonObject => typeof value === "object" && value !== null;
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const count = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;

/** A probability of zero, as some engines write it. */
const LEAST_LOGPROB = -100;

interface Reading {
  text: string;
  finishReason: string | undefined;
  hasToolCalls: boolean;
  logprobs: number[];
  margins: number[];
  numPromptTokens: number | undefined;
  numOutputTokens: number | undefined;
}

/**
 * @param path of the request; absent: that of a chat or a completion
 * @returns undefined if the answer is incomplete, an error, or in no known form
 */
export function signalsOf({ head, body, error }: WholeAnswer, path?: string): AnswerSignals | undefined {
  if (error !== undefined || head.status !== 200) return undefined;
  if (path === "/v1/messages" || path === "/v1/responses") return signalsOfParts(path, body, head.isEventStream);
  const reading: Reading = {
    text: "",
    finishReason: undefined,
    hasToolCalls: false,
    logprobs: [],
    margins: [],
    numPromptTokens: undefined,
    numOutputTokens: undefined,
  };
  const parts = head.isEventStream ? eventsOf(body) : [parse(body.toString("utf8"))];
  if (parts.length === 0 || parts.includes(undefined)) return undefined;
  for (const part of parts as JsonObject[]) if (!readPart(part, reading)) return undefined;
  return reading.finishReason === undefined ? undefined : reading;
}

/** The finish reason of each stop reason. A paused answer is not whole. */
const ENDS: Readonly<Record<StopReason, string>> = {
  end: "stop",
  sequence: "stop",
  calls: "tool_calls",
  length: "length",
  pause: "length",
  filter: "content_filter",
  refusal: "content_filter",
};

/** Signals of a message or a response, for which no log-probabilities are requested. */
function signalsOfParts(path: string, body: Buffer, isEventStream: boolean): AnswerSignals | undefined {
  try {
    const { blocks, stop, counts } = collected(answerPartsOf(path, body, isEventStream));
    const [numPromptTokens, numOutputTokens] = [promptTokensOf(counts), counts.output];
    const isCounted = numPromptTokens + numOutputTokens > 0;
    return {
      text: blocks.flatMap((block) => (block.kind === "text" ? [block.text] : [])).join(""),
      finishReason: ENDS[stop],
      hasToolCalls: blocks.some(({ kind }) => kind === "call"),
      logprobs: [],
      margins: [],
      numPromptTokens: isCounted ? numPromptTokens : undefined,
      numOutputTokens: isCounted ? numOutputTokens : undefined,
    };
  } catch {
    // An upstream may answer anything.
    return undefined;
  }
}

/** The data of a stream's events, without the last one, [DONE]. */
function eventsOf(body: Buffer): (JsonObject | undefined)[] {
  return body
    .toString("utf8")
    .split(/\r?\n\r?\n/)
    .flatMap((event) => {
      const data = event
        .split(/\r?\n/)
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5).trimStart())
        .join("\n");
      return data === "" || data === "[DONE]" ? [] : [parse(data)];
    });
}

function parse(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** @returns false for an error, and for an answer with several choices */
function readPart(part: JsonObject, reading: Reading): boolean {
  if ("error" in part) return false;
  if (isObject(part.usage)) {
    reading.numPromptTokens = count(part.usage.prompt_tokens);
    reading.numOutputTokens = count(part.usage.completion_tokens);
  }
  const choices = list(part.choices);
  if (choices.length > 1) return false;
  const [choice] = choices;
  // A stream may have events without a choice, such as the usage.
  if (!isObject(choice)) return true;
  const message = choice.message ?? choice.delta;
  if (isObject(message)) {
    if (typeof message.content === "string") reading.text += message.content;
    if (list(message.tool_calls).length > 0 || isObject(message.function_call)) reading.hasToolCalls = true;
  } else if (typeof choice.text === "string") reading.text += choice.text;
  if (typeof choice.finish_reason === "string") reading.finishReason = choice.finish_reason;
  if (isObject(choice.logprobs)) readLogprobs(choice.logprobs, reading);
  return true;
}

function readLogprobs(logprobs: JsonObject, { logprobs: chosen, margins }: Reading): void {
  const add = (own: unknown, all: readonly unknown[]): void => {
    if (typeof own !== "number") return;
    const value = Math.min(0, Math.max(LEAST_LOGPROB, own));
    chosen.push(value);
    const sorted = all.filter((each): each is number => typeof each === "number").sort((a, b) => b - a);
    // The chosen token is among its alternatives, and need not be the best one.
    const rival = sorted[0] === own ? sorted[1] : sorted[0];
    if (rival !== undefined) margins.push(value - Math.max(LEAST_LOGPROB, rival));
  };
  // /v1/chat/completions
  for (const token of list(logprobs.content)) {
    if (isObject(token)) {
      const alternatives = list(token.top_logprobs).map((each) => (isObject(each) ? each.logprob : undefined));
      add(token.logprob, alternatives);
    }
  }
  // /v1/completions
  const alternatives = list(logprobs.top_logprobs);
  for (const [index, own] of list(logprobs.token_logprobs).entries()) {
    const at = alternatives[index];
    add(own, isObject(at) ? Object.values(at) : []);
  }
}
