/**
 * Limits and budgets: reserves a request's probable cost in all of its scopes before it is sent, and settles the
 * reservation with the used amount. A request that its budgets cannot pay passes to the caches, since a kept answer
 * needs no money. Runs before the caches, so that a hit counts as a request.
 */
import type { MillraceError } from "../../core/errors.js";
import { type AnswerSink, HeaderSink } from "../answer.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import type { Caller, GatewayRequest } from "../request.js";
import type { Scope } from "../scope.js";
import type { ScopeUsage } from "../tenants/own-key.js";
import { promptTokensOf } from "../usage/token-counts.js";
import { type Admission, admit, chargeOf, subjectOf, tokensOf } from "./admission.js";
import { type Admitted, AnswerBudgets, type Reserved } from "./answer-budgets.js";
import { AnswerStatistics } from "./answer-statistics.js";
import { type BudgetClaim, type Claims, claimsOf, isEmpty, type LimitedScope, NO_CLAIMS } from "./claims.js";
import { isStoreDown, passUnreserved } from "./fail-open.js";
import type { LimitsOptions } from "./limits-options.js";
import { rateHeaders } from "./rate-headers.js";
import { amountText, isReservedByOthers, nameOf, refusal, windowText } from "./refusals.js";
import { Settlements } from "./settlements.js";
import { type BudgetStore, type Levels, NO_AMOUNTS, UNITS } from "./store.js";
import { windowEnd } from "./windows.js";

const NO_SCOPES: readonly Scope[] = [];
const MAX_WARNED = 10_000;
const WARNING_HEADER = "x-millrace-budget-warning";

export class LimitsPolicy implements Policy {
  readonly name = "limits";
  /** Runs after the caches. */
  readonly upstream: Policy;
  readonly #claims = new WeakMap<readonly Scope[], WeakMap<object, Claims>>();
  readonly #statistics = new AnswerStatistics();
  readonly #warned = new Set<string>();
  #store: BudgetStore | undefined;
  #settlements: Settlements | undefined;

  constructor(private readonly options: LimitsOptions) {
    this.upstream = new AnswerBudgets(options, () => this.opened().store);
  }

  /** Not async: a request without limits costs no promise. */
  handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const model = this.options.modelOf(request.model);
    const modelScope = this.options.modelScope(model);
    const { scopes = NO_SCOPES } = request.caller;
    if (scopes.length === 0 && modelScope === undefined) return next(request, sink);
    const claims = this.#claimsOf(scopes, modelScope);
    return isEmpty(claims) ? next(request, sink) : this.#admit(request, sink, next, model, claims);
  }

  async #admit(request: GatewayRequest, sink: AnswerSink, next: Handler, model: string, claims: Claims) {
    const admission = this.#admission(request, model, claims);
    if (isEmpty(admission.claims)) return next(request, sink);
    const reserved = await this.#reserve(admission);
    const { settlements } = this.opened();
    const { record } = request;
    record.wantsUsage = true;
    record.admitted = { admission, reserved, isResized: false } satisfies Admitted;
    try {
      return await next(request, this.#withHeaders(admission, reserved, sink));
    } finally {
      const [charge, tokens] = [chargeOf(record, admission), tokensOf(record)];
      // Not awaited, so that it is written in one commit with the ledger's row.
      const state = reserved.isDoubtful ? "doubtful" : "made";
      settlements.settle(admission.id, admission.claims, charge, tokens, state);
      this.#learn(admission);
    }
  }

  /** Undefined: no limit holds for the request. Throws price_missing */
  admissionOf(request: GatewayRequest): Admission | undefined {
    const model = this.options.modelOf(request.model);
    const claims = this.#claimsOf(request.caller.scopes ?? NO_SCOPES, this.options.modelScope(model));
    return isEmpty(claims) ? undefined : this.#admission(request, model, claims);
  }

  #admission(request: GatewayRequest, model: string, claims: Claims): Admission {
    const { rate, agreedPrice } = request.record;
    return admit(request, {
      model,
      claims,
      // Handed lines reserve at the price when they were handed over.
      highestPriceOf: (name, unit) =>
        (unit === "money" ? agreedPrice : undefined) ?? this.options.highestPriceOf(name, unit, rate),
      priceOf: (name, rate) => this.options.prices.priceOf(name, rate),
      statistics: this.#statistics,
      defaultOutputTokens: this.options.defaultOutputTokens(),
      facts: this.options.promptFacts(model),
    });
  }

  get isFailOpen(): boolean {
    return this.options.isFailOpen();
  }

  maxTokensField(model: string): "max_tokens" | "max_completion_tokens" {
    return this.options.traits(model).maxTokensField;
  }

  /** The use of a scope. Rejects while the store is down. */
  async usageOf(scope: LimitedScope): Promise<ScopeUsage> {
    const claims = claimsOf([scope]);
    const { budgets, requests, tokens, concurrent } = await this.opened().store.read(claims);
    const counted = (units: number | undefined): number => Math.ceil((units ?? 0) / UNITS);
    return {
      requestsThisMinute: counted(requests[0]),
      tokensThisMinute: counted(tokens[0]),
      concurrentRequests: concurrent[0] ?? 0,
      budgets: claims.budgets.map(({ unit, window }, i) => {
        const { used, held, startMs } = budgets[i]!;
        return { unit, window, spent: BigInt(used), reserved: BigInt(held), endsMs: windowEnd(window, startMs) };
      }),
    };
  }

  /** Books the reservations of a gateway that died, before the first request needs the budgets. */
  open(): void {
    this.opened();
  }

  async close(): Promise<void> {
    await this.#settlements?.close();
    await this.#store?.close();
  }

  /** Every request of a key comes with the same scopes. */
  #claimsOf(scopes: readonly Scope[], model: LimitedScope | undefined): Claims {
    let known = this.#claims.get(scopes);
    if (known === undefined) {
      known = new WeakMap();
      this.#claims.set(scopes, known);
    }
    const key = model ?? NO_SCOPES;
    const claims = known.get(key) ?? claimsOf(model === undefined ? scopes : [...scopes, model]);
    known.set(key, claims);
    return claims;
  }

  /** Resolves when the charges so far are booked, or wait for a failed store. */
  async charged(): Promise<void> {
    await this.#settlements?.tried();
  }

  opened(): { readonly store: BudgetStore; readonly settlements: Settlements } {
    this.#store ??= this.options.openStore();
    this.#settlements ??= new Settlements(this.#store, this.options.events, this.options.now);
    return { store: this.#store, settlements: this.#settlements };
  }

  async #reserve(admission: Admission): Promise<Reserved> {
    const { id, request, claims, want, least, promptTokens, size, outputTokens } = admission;
    const tokens = promptTokens + size.numAnswers * outputTokens;
    try {
      const result = await this.opened().store.reserve({ id, claims, want, least, tokens });
      if (result.kind === "reserved") return { amounts: result.amounts, levels: result.levels, isDoubtful: false };
      const headers = rateHeaders(claims, result.levels, request.route.dialect, this.options.epochMs());
      const error = refusal(result, claims, least, headers);
      request.record.isPayableLater = isReservedByOthers(result, claims, least);
      if (result.limit === "budget" || result.limit === "tokens") {
        return await this.#reserveUnpaid(admission, result.levels, error);
      }
      throw error;
    } catch (thrown) {
      if (isStoreDown(thrown) && !this.options.isFailOpen()) this.#settlements?.doubt(id);
      passUnreserved(thrown, this.options);
      return { amounts: NO_AMOUNTS, levels: undefined, isDoubtful: true };
    }
  }

  /** Reserves for a request that only a cache may answer: it counts as a request, without money or tokens. */
  async #reserveUnpaid({ id, request, claims }: Admission, before: Levels, unpaid: MillraceError): Promise<Reserved> {
    const rates: Claims = { ...claims, budgets: NO_CLAIMS, tokens: NO_CLAIMS };
    if (isEmpty(rates)) return { amounts: NO_AMOUNTS, levels: before, isDoubtful: false, unpaid };
    const terms = { id, claims: rates, want: NO_AMOUNTS, least: NO_AMOUNTS, tokens: 0 };
    const { store, settlements } = this.opened();
    const result = await store.reserve(terms).catch((thrown: unknown) => {
      if (!isStoreDown(thrown)) throw thrown;
      settlements.doubt(id);
      throw unpaid;
    });
    const { requests, concurrent } = result.levels;
    const levels = { ...before, requests, concurrent };
    if (result.kind === "reserved") return { amounts: NO_AMOUNTS, levels, isDoubtful: false, unpaid };
    throw refusal(
      result,
      rates,
      NO_AMOUNTS,
      rateHeaders(claims, levels, request.route.dialect, this.options.epochMs()),
    );
  }

  #withHeaders({ request, claims }: Admission, { levels }: Reserved, sink: AnswerSink): AnswerSink {
    if (levels === undefined) return sink;
    const headers = rateHeaders(claims, levels, request.route.dialect, this.options.epochMs());
    let warnings = "";
    for (const [i, claim] of claims.budgets.entries()) {
      const warning = this.#warning(claim, levels.budgets[i]!, request.caller);
      if (warning !== undefined) warnings += `${warnings === "" ? "" : ", "}${warning}`;
    }
    if (warnings !== "") headers[WARNING_HEADER] = warnings;
    for (const _ in headers) return new HeaderSink(sink, () => headers);
    return sink;
  }

  #warning(claim: BudgetClaim, level: Levels["budgets"][number], caller: Caller): string | undefined {
    const { scope, unit, window, soft, key } = claim;
    const { used, held, startMs } = level;
    if (soft === undefined || used + held <= soft) return undefined;
    const crossing = `${key}/${startMs}/${soft}`;
    if (!this.#warned.has(crossing)) {
      if (this.#warned.size >= MAX_WARNED) this.#warned.clear();
      this.#warned.add(crossing);
      this.options.events.softLimit(claim, level, caller);
    }
    // A header has one line of visible ASCII; names may have any characters.
    const name = encodeURI(nameOf(scope)).replaceAll("%20", " ");
    const spent = amountText(unit, used + held).split(" ", 1)[0];
    return `${name}: ${spent} of ${amountText(unit, soft)} ${windowText(window)}`;
  }

  #learn({ request, model, size }: Admission): void {
    const last = request.record.attempts.at(-1);
    if (last?.outcome !== "answered" || last.usage === undefined || last.usage.isEstimated === true) return;
    const ofTexts = Math.max(0, promptTokensOf(last.usage) - size.templateTokens);
    this.#statistics.prompted(model, ofTexts, size.readBytes);
    if (size.numAnswers > 0) {
      this.#statistics.answered(subjectOf(request.caller), model, last.usage.output / size.numAnswers);
    }
  }
}
