/** The content of a response from this server: the items of its output, its end, and its counts. */
import { type ResponseHead, responseObject, responseUsage, type WholeResponse } from "../../core/response-objects.js";
import { type AnswerItem, itemsOf, newItem } from "../generation/answer-items.js";
import type { GenerationEnd, ScoredToken } from "../generation/generation.js";
import { evictedField, type JobTotals } from "../generation/job.js";
import type { ChoiceResult } from "../http/respond.js";

export interface ResponseFacts extends ResponseHead {
  readonly numPromptTokens: number;
  readonly logprobs: (said: readonly ScoredToken[]) => object[];
}

/** An empty answer becomes a message without text. */
export const emptyAnswerItem = (): AnswerItem => newItem("content");

interface Said {
  readonly items: readonly AnswerItem[];
  readonly end: GenerationEnd;
  readonly totals: JobTotals;
}

export function outcomeOf({ numPromptTokens }: ResponseFacts, { items, end, totals }: Said) {
  const counts = {
    input: numPromptTokens,
    cached: totals.numCachedTokens[0] ?? 0,
    output: totals.numOutputTokens,
    reasoning: totals.numReasoningTokens ?? 0,
  };
  const usage = { ...responseUsage(counts), ...evictedField(totals) };
  return { items, incomplete: end.reason === "length" ? ("max_output_tokens" as const) : undefined, usage };
}

export function wholeResponse(facts: ResponseFacts, result: ChoiceResult, totals: JobTotals): WholeResponse {
  const found = itemsOf(result);
  const items = found.length === 0 ? [emptyAnswerItem()] : found;
  // Answers with log-probabilities have no calls, so the content is one item.
  const said = items.find(({ kind }) => kind === "content");
  for (const logprob of facts.logprobs(result.said)) said?.logprobs.push(logprob);
  return responseObject(facts, outcomeOf(facts, { items, end: result.end, totals }));
}
