/**
 * Limits the length of answers: gives requests without a limit of tokens one, from earlier answers of their key and
 * model, and lowers limits above a cap. Counts the answers that reach their limit. Runs after the caches, which see the
 * client's own request.
 */

import type { AnswerSink } from "../answer.js";
import { AnswerStatistics } from "../budget/answer-statistics.js";
import { answerSizeOf, boundedFields } from "../budget/estimate.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import { type GatewayRequest, withBody } from "../request.js";
import type { TokenCounts } from "../usage/record.js";

export interface LengthRules {
  /** Limit of requests without one; auto: from the answers so far; undefined: none. */
  readonly default?: number | "auto" | undefined;
  /** Largest limit that a request may have. */
  readonly cap?: number | undefined;
}

/** The source of an answer's length limit: the client, the gateway, or none. */
export type LimitSource = "client" | "policy" | "none";

/** One earlier answer to a request without a client's limit. */
export interface EarlierAnswer {
  /** The key, or the tenant without one. */
  readonly subject: string;
  /** The model, or the name of a route. */
  readonly name: string;
  readonly outputTokens: number;
}

interface NamedRules {
  readonly name: string;
  readonly rules: LengthRules;
}

interface LengthOptions {
  /**
   * The name and rules for a request; undefined: none. Statistics are kept under the name.
   * @param asked the client's name for a model or route
   */
  readonly rulesOf: (asked: string) => NamedRules | undefined;
  /** The field of chats that bounds an answer at the model's upstream. */
  readonly maxTokensFieldOf: (model: string) => "max_tokens" | "max_completion_tokens";
  /** Answers of earlier processes, read once, before the first automatic limit. */
  readonly earlierAnswers: () => Iterable<EarlierAnswer>;
  readonly onAnswer: (name: string, limit: LimitSource, isTruncated: boolean) => void;
}

/**
 * An automatic limit is this many times the 99th percentile, of at least LEAST_ANSWERS answers: at most one answer in a
 * hundred is near the limit.
 */
const HEADROOM = 1.5;
const SHARE = 0.99;
const LEAST_ANSWERS = 100;
const LEAST_TOKENS = 16;

export class LengthPolicy implements Policy {
  readonly name = "max-tokens";
  readonly #statistics = new AnswerStatistics();
  #isSeeded = false;

  constructor(private readonly options: LengthOptions) {}

  /** Not async: a request without rules costs no promise. */
  handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const found = request.route.isGeneration ? this.options.rulesOf(request.asked) : undefined;
    return found === undefined ? next(request, sink) : this.#handle(request, sink, next, found);
  }

  async #handle(
    request: GatewayRequest,
    sink: AnswerSink,
    next: Handler,
    { name, rules }: NamedRules,
  ): Promise<Ending> {
    const { path, body, record, caller } = request;
    const subject = caller.keyId ?? caller.tenant;
    const { maxTokens: given, numAnswers } = answerSizeOf(path, body, true);
    const isClients = given !== undefined && !record.isLimitAdded;
    const byDefault = rules.default === "auto" ? this.#automatic(subject, name) : rules.default;
    const known = [given, rules.cap, isClients ? undefined : byDefault].filter((each) => each !== undefined);
    const limit = Math.min(...known);
    const isOurs = Number.isFinite(limit) && limit !== given;
    record.wantsUsage = true;
    record.isBounded ||= isOurs;
    const field = this.options.maxTokensFieldOf(request.model);
    const bounded = isOurs ? withBody(request, boundedFields(path, body, field, limit)) : request;
    const ending = await next(bounded, sink);
    const usage = ending.kind === "answered" ? record.attempts.at(-1)?.usage : undefined;
    if (usage === undefined) return ending;
    const isTruncated = usage.isTruncated === true;
    // An answer that a client or a budget cuts does not show its full length.
    const isTelling = !isClients && (isOurs || !isTruncated);
    if (isTelling && numAnswers > 0) this.#note(subject, name, usage, numAnswers);
    this.options.onAnswer(name, record.isBounded ? "policy" : isClients ? "client" : "none", isTruncated);
    return ending;
  }

  #note(subject: string, name: string, { output, isEstimated }: TokenCounts, numAnswers: number): void {
    if (isEstimated !== true) this.#statistics.answered(subject, name, output / numAnswers);
  }

  /** Undefined while few answers are known: nothing is then cut. */
  #automatic(subject: string, name: string): number | undefined {
    if (!this.#isSeeded) {
      this.#isSeeded = true;
      for (const { outputTokens, ...whose } of this.options.earlierAnswers()) {
        this.#statistics.answered(whose.subject, whose.name, outputTokens);
      }
    }
    const usual = this.#statistics.quantile(subject, name, SHARE, LEAST_ANSWERS);
    return usual === undefined ? undefined : Math.max(LEAST_TOKENS, Math.ceil(HEADROOM * usual));
  }
}
