/** Decides whether a small model's answer is kept. Each judge is a function of the answer; all must agree. */

import type { GatewayRequest } from "../request.js";
import { lastText } from "../routes/request-facts.js";
import { formProblem } from "./answer-form.js";
import type { AnswerSignals } from "./answer-signals.js";
import { featuresOf, isRefusal, repeatsItself } from "./features.js";
import { type RouterFile, routerScore } from "./router-file.js";

export interface JudgeTerms {
  readonly router: RouterFile | undefined;
  /** Least probability of the router at which an answer is kept. */
  readonly floor: number;
  /** Least mean log-probability of the answer's tokens; undefined: any. */
  readonly minLogprob: number | undefined;
}

export interface Verdict {
  readonly isKept: boolean;
  /**
   * The router's probability that the answer is as good as the large model's; 1 without a router if it is kept, else 0.
   */
  readonly score: number;
  /** The judge that sent the request to the large model. */
  readonly why: string | undefined;
}

const mean = (values: readonly number[]): number => values.reduce((sum, each) => sum + each, 0) / values.length;

export const needsLogprobs = ({ router, minLogprob }: JudgeTerms): boolean =>
  router !== undefined || minLogprob !== undefined;

/** @param signals undefined: the answer could not be read */
export function judge(
  signals: AnswerSignals | undefined,
  request: Pick<GatewayRequest, "body">,
  terms: JudgeTerms,
): Verdict {
  if (signals === undefined) return { isKept: false, score: 0, why: "no answer" };
  const { text, finishReason, logprobs, hasToolCalls } = signals;
  const score = terms.router === undefined ? undefined : scoreOf(signals, request, terms.router);
  const escalate = (why: string): Verdict => ({ isKept: false, score: score ?? 0, why });
  if (finishReason === "length") return escalate("truncated");
  if (finishReason === "content_filter" || isRefusal(text)) return escalate("refusal");
  if (text.trim() === "" && !hasToolCalls) return escalate("empty");
  if (repeatsItself(text)) return escalate("repetition");
  const problem = hasToolCalls ? undefined : formProblem(request.body, text);
  if (problem !== undefined) return escalate(problem);
  if (needsLogprobs(terms) && logprobs.length === 0) return escalate("no log-probabilities");
  if (terms.minLogprob !== undefined && mean(logprobs) < terms.minLogprob) return escalate("unsure");
  if (score !== undefined && score < terms.floor) return escalate("floor");
  return { isKept: true, score: score ?? 1, why: undefined };
}

function scoreOf(signals: AnswerSignals, { body }: Pick<GatewayRequest, "body">, router: RouterFile): number {
  return signals.logprobs.length === 0 ? 0 : routerScore(router, featuresOf(signals, lastText(body)));
}
