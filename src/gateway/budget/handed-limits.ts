/**
 * Budgets of lines that a provider's batch endpoint answers. Before a file of lines is sent, the highest cost of all
 * lines is reserved, in a reservation that outlives this process. Each line is charged what its answer reports, and the
 * reservation shrinks.
 *
 * Limits of requests, of tokens per minute and of requests at a time do not hold for such lines: the provider runs them
 * at its own pace.
 */
import type { AnswerSink } from "../answer.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import { type GatewayRequest, withBody } from "../request.js";
import { BUDGET_UNITS } from "../scope.js";
import { type Admission, chargeOf, tokensOf, wholeTokens } from "./admission.js";
import { type Claims, NO_CLAIMS } from "./claims.js";
import { boundedFields, isBounded } from "./estimate.js";
import { isStoreDown } from "./fail-open.js";
import type { LimitsPolicy } from "./limits-policy.js";
import { refusal } from "./refusals.js";
import { LASTING } from "./reservation-id.js";
import type { Amounts } from "./store.js";

/** The highest cost of a line, and the budgets that pay for it. */
export interface LineEstimate {
  readonly claims: Claims;
  readonly amounts: Amounts;
}

export class HandedLimits {
  /** Bounds a line's answer to what is reserved for it, and notes the estimate. */
  readonly preparing: Policy = {
    name: "limits",
    handle: async (request, sink, next) => {
      const admission = this.limits.admissionOf(request);
      if (admission === undefined || admission.claims.budgets.length === 0) return await next(request, sink);
      request.record.admitted = { claims: budgetsOf(admission), amounts: admission.want } satisfies LineEstimate;
      return await next(this.#bounded(request, admission), sink);
    },
  };

  /** Charges a line's answer. */
  readonly booking: Policy = { name: "limits", handle: (...asked) => this.#book(...asked) };

  constructor(private readonly limits: LimitsPolicy) {}

  /** Undefined: no budget holds for the line. */
  estimateOf({ record }: Pick<GatewayRequest, "record">): LineEstimate | undefined {
    return record.admitted as LineEstimate | undefined;
  }

  /**
   * Reserves for all lines of a file, or nothing. A repetition after a restart changes nothing. Rejects with
   * budget_exceeded, or with budget_store_failed if the store is down and requests must not pass.
   */
  async reserve(id: string, { claims, amounts }: LineEstimate): Promise<void> {
    try {
      const terms = { id: LASTING + id, claims, want: amounts, least: amounts, tokens: 0 };
      const result = await this.limits.opened().store.reserve(terms);
      if (result.kind === "refused") throw refusal(result, claims, amounts, {});
    } catch (thrown) {
      if (!isStoreDown(thrown) || !this.limits.isFailOpen) throw thrown;
    }
  }

  /** Releases the reservations of lines that have ended. A failed release only delays it, so errors are ignored. */
  async shrink(id: string, amounts: Amounts): Promise<void> {
    const { store } = this.limits.opened();
    for (const unit of BUDGET_UNITS) await store.resize(LASTING + id, unit, amounts[unit], 0).catch(() => {});
  }

  /** Rejects while the store is down. A repetition changes nothing. @param spent beyond the charges of the lines */
  async release(id: string, spent: Amounts): Promise<void> {
    await this.limits.opened().store.settle(LASTING + id, spent.money, spent.tokens);
  }

  async #book(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const admission = this.limits.admissionOf(request);
    if (admission === undefined || admission.claims.budgets.length === 0) return await next(request, sink);
    const { record } = request;
    record.wantsUsage = true;
    try {
      return await next(request, sink);
    } finally {
      const [money, tokens] = [chargeOf(record, admission), tokensOf(record)];
      this.limits.opened().settlements.settle(admission.id, budgetsOf(admission), money, tokens, "none");
    }
  }

  #bounded(request: GatewayRequest, { model, size, outputTokens }: Admission): GatewayRequest {
    const { path, body } = request;
    const field = this.limits.maxTokensField(model);
    if (size.numAnswers === 0 || (size.maxTokens !== undefined && isBounded(path, body, field))) return request;
    request.record.isLimitAdded = size.maxTokens === undefined;
    request.record.isBounded = size.maxTokens === undefined;
    return withBody(request, boundedFields(path, body, field, size.maxTokens ?? wholeTokens(outputTokens)));
  }
}

const NONE: Claims = { budgets: NO_CLAIMS, requests: NO_CLAIMS, tokens: NO_CLAIMS, concurrent: NO_CLAIMS };

const budgetsOf = ({ claims }: Admission): Claims => ({
  ...NONE,
  budgets: claims.budgets,
});
