/**
 * Limits and budgets: reserves a request's probable cost in all of its scopes before it is sent, lets the reservation
 * grow with a stream, and settles it with the used amount. A budget is never overspent: the possible cost of a stream
 * is reserved before it is passed on, and that of any other answer before the request is sent, with a max_tokens that
 * the reservation pays.
 *
 * There are two policies. The one before the caches reserves and settles, so a hit counts as a request. The one behind
 * them bounds the request and meters the stream, so they know the client's own body, and what costs nothing is never
 * cut. A request that its budgets do not pay for is refused there, too: a kept answer needs no money.
 */
import { MillraceError } from "../../core/errors.js";
import { type AnswerSink, HeaderSink } from "../answer.js";
import { askUsage } from "../ask-usage.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import { type Caller, type GatewayRequest, withBody } from "../request.js";
import { BUDGET_UNITS, type BudgetUnit, type Scope } from "../scope.js";
import type { ScopeUsage } from "../tenants/own-key.js";
import type { TokenCounts } from "../usage/record.js";
import { promptTokensOf } from "../usage/token-counts.js";
import {
  type Admission,
  admit,
  chargeOf,
  noteCut,
  noteUnreported,
  payableTokens,
  subjectOf,
  tokensOf,
  wholeTokens,
} from "./admission.js";
import { AnswerStatistics } from "./answer-statistics.js";
import { type BudgetClaim, type Claims, claimsOf, isEmpty, type LimitedScope, NO_CLAIMS } from "./claims.js";
import { boundedFields, isBounded, type RequestSize } from "./estimate.js";
import type { LimitsOptions } from "./limits-options.js";
import { MeteredSink, type StreamBudget } from "./metered-sink.js";
import { rateHeaders } from "./rate-headers.js";
import { amountText, cutStream, isReservedByOthers, nameOf, noneForAnother, refusal, windowText } from "./refusals.js";
import { Settlements } from "./settlements.js";
import { type Amounts, type BudgetStore, type Levels, NO_AMOUNTS, type ResizeResult, UNITS } from "./store.js";
import { StreamUsage } from "./stream-usage.js";
import { windowEnd } from "./windows.js";

/**
 * Bytes of text that count as a token at least, where an upstream does not report while it streams. A token of an
 * engine of ours has at least one byte.
 */
const PAID_BYTES_PER_TOKEN = 3;
/** No answer is longer than this. */
const MAX_USUAL_TOKENS = 262_144;
const NO_SCOPES: readonly Scope[] = [];
const MAX_WARNED = 10_000;
const WARNING_HEADER = "x-millrace-budget-warning";

interface Reserved {
  readonly amounts: Amounts;
  readonly levels: Levels | undefined;
  /** The store was down, and the request passes all the same. */
  readonly isDoubtful: boolean;
  /** A budget, or the tokens of a minute, do not pay for an upstream's answer. */
  readonly unpaid?: MillraceError;
}

interface Admitted {
  readonly admission: Admission;
  readonly reserved: Reserved;
  /** An answer has changed how much is reserved. */
  isResized: boolean;
}

/** How a request's next answer is paid. */
interface Payment {
  /** Reserved for the answer. */
  readonly amounts: Amounts;
  /** The cost of earlier answers to the request, which stays reserved beside it. */
  readonly spent: Amounts;
  /** The store was down, and the answer passes unpaid all the same. */
  readonly isDoubtful: boolean;
}

export class LimitsPolicy implements Policy {
  readonly name = "limits";
  /** Stands behind the caches. */
  readonly upstream: Policy = {
    name: "budgets",
    handle: (request, sink, next) => {
      const admitted = request.record.admitted as Admitted | undefined;
      return admitted === undefined ? next(request, sink) : this.#send(request, admitted, sink, next);
    },
  };
  readonly #claims = new WeakMap<readonly Scope[], WeakMap<object, Claims>>();
  readonly #statistics = new AnswerStatistics();
  readonly #warned = new Set<string>();
  #store: BudgetStore | undefined;
  #settlements: Settlements | undefined;

  constructor(private readonly options: LimitsOptions) {}

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
    return await this.#run(admission, await this.#reserve(admission), sink, next);
  }

  /** Undefined: no limit holds for the request. Throws price_missing */
  admissionOf(request: GatewayRequest): Admission | undefined {
    const model = this.options.modelOf(request.model);
    const claims = this.#claimsOf(request.caller.scopes ?? NO_SCOPES, this.options.modelScope(model));
    return isEmpty(claims) ? undefined : this.#admission(request, model, claims);
  }

  #admission(request: GatewayRequest, model: string, claims: Claims): Admission {
    const { rate } = request.record;
    return admit(request, {
      model,
      claims,
      highestPriceOf: (name, unit) => this.options.highestPriceOf(name, unit, rate),
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

  /** The use of a scope. Rejects where the store is down. */
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

  /** Books the reservations of a gateway that died, before the first request needs them. */
  open(): void {
    this.opened();
  }

  async close(): Promise<void> {
    await this.#settlements?.close();
    await this.#store?.close();
  }

  /** The same scopes come with every request of a key. */
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
      this.#passUnreserved(thrown);
      return { amounts: NO_AMOUNTS, levels: undefined, isDoubtful: true };
    }
  }

  /** Reserves for a request that only a cache may answer: it counts as a request, and takes no money and no tokens. */
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

  async #run(admission: Admission, reserved: Reserved, sink: AnswerSink, next: Handler): Promise<Ending> {
    const { id, request, claims } = admission;
    const { record } = request;
    const { settlements } = this.opened();
    record.wantsUsage = true;
    record.admitted = { admission, reserved, isResized: false } satisfies Admitted;
    try {
      return await next(request, this.#withHeaders(admission, reserved, sink));
    } finally {
      // Not awaited, so that it is written together with the ledger's row.
      settlements.settle(id, claims, chargeOf(record, admission), tokensOf(record), reserved.isDoubtful);
      this.#learn(admission);
    }
  }

  async #send(request: GatewayRequest, admitted: Admitted, sink: AnswerSink, next: Handler): Promise<Ending> {
    const { admission, reserved } = admitted;
    const { model, claims, size, outputTokens } = admission;
    if (reserved.unpaid !== undefined) throw reserved.unpaid;
    const payment = await this.#paymentOf(request, admitted);
    const cancellation = request.cancellation.child();
    const bounded = payment.isDoubtful ? request : this.#bounded(request, admitted, payment.amounts);
    const sent = { ...bounded, cancellation };
    let metered: readonly MeteredSink[] = [];
    let cut: MillraceError | undefined;
    const { isPaid, hasContinuousUsage } = this.options.traits(model);
    const usual = size.numAnswers * Math.ceil(Math.min(size.maxTokens ?? Number.POSITIVE_INFINITY, outputTokens));
    // A paid API finishes a whole answer, and charges for it, even after the client has left.
    const unseen = isPaid && !request.isStream ? usual : 0;
    const noteDelivered = () => noteCut(admission, deliveredOf(metered), unseen);
    // Called before the attempt is cut, so that the delivered part is recorded.
    const endWatch = cancellation.onCancel(noteDelivered);
    try {
      // An upstream may stream an answer that was asked for whole.
      if (claims.budgets.length === 0 || payment.isDoubtful) return await next(sent, sink);
      const [asked, inner] = askUsage(sent, sink, hasContinuousUsage);
      metered = this.#metered(asked, inner, admitted, payment, {
        cut: () => {
          cut = cutStream();
          cancellation.cancel(cut);
          return cut;
        },
        broken: noteDelivered,
      });
      const ending = await next(asked, metered.at(-1)!);
      for (const each of metered.toReversed()) await each.whenOver;
      noteUnreported(admission, deliveredOf(metered));
      if (cut !== undefined && metered.some(({ isWithheld }) => isWithheld)) throw cut;
      return cut === undefined ? ending : { kind: "broken", status: 200, error: cut };
    } finally {
      endWatch();
    }
  }

  /** A route may have asked another model before, whose answer has cost something. */
  async #paymentOf({ record }: GatewayRequest, { admission, reserved, isResized }: Admitted): Promise<Payment> {
    const { id, costs, want, least } = admission;
    const spent: Amounts = {
      money: chargeOf(record, admission),
      tokens: costs.tokens === undefined ? 0 : tokensOf(record),
    };
    const isFirst = spent.money === 0 && spent.tokens === 0 && !isResized;
    const { isDoubtful } = reserved;
    if (isDoubtful || isFirst) return { amounts: reserved.amounts, spent, isDoubtful };
    const amounts = { money: 0, tokens: 0 };
    for (const unit of BUDGET_UNITS) {
      if (costs[unit] === undefined) continue;
      const result = await this.#resize(id, unit, spent[unit], want[unit], least[unit]).catch((thrown: unknown) => {
        this.#passUnreserved(thrown);
      });
      if (result === undefined) return { amounts: NO_AMOUNTS, spent, isDoubtful: true };
      record.isPayableLater = result.kind === "refused" && result.isHeld;
      if (result.kind !== "resized") throw noneForAnother(record.isPayableLater);
      amounts[unit] = result.money;
    }
    return { amounts, spent, isDoubtful };
  }

  /** Throws unless the store is down, and requests pass all the same. */
  #passUnreserved(thrown: unknown): void {
    if (!isStoreDown(thrown) || !this.options.isFailOpen()) throw thrown;
    this.options.events.unreserved(thrown);
  }

  /** @param spent the cost of earlier answers to the request */
  async #resize(id: string, unit: BudgetUnit, spent: number, want: number, least: number): Promise<ResizeResult> {
    const result = await this.opened().store.resize(id, unit, spent + want, spent + least);
    return result.kind === "resized" ? { kind: "resized", money: result.money - spent } : result;
  }

  /** A sink for each unit, from the innermost, which passes on to the client what its budgets pay. */
  #metered(
    { isStream, path, body }: GatewayRequest,
    client: AnswerSink,
    admitted: Admitted,
    { amounts, spent }: Payment,
    ends: Pick<StreamBudget, "cut" | "broken">,
  ): readonly MeteredSink[] {
    const { id, model, costs, size, outputTokens } = admitted.admission;
    const { isPaid, hasContinuousUsage, maxTokensField } = this.options.traits(model);
    const bytesPerToken = isPaid ? PAID_BYTES_PER_TOKEN : 1;
    const metered: MeteredSink[] = [];
    for (const unit of BUDGET_UNITS) {
      const cost = costs[unit];
      if (cost === undefined) continue;
      const budget: StreamBudget = {
        ...ends,
        usage: new StreamUsage(bytesPerToken),
        bytesPerToken: hasContinuousUsage ? undefined : bytesPerToken,
        cost,
        isStream,
        promptTokens: size.promptTokens,
        outputTokens: size.numAnswers * outputTokens,
        maxOutputTokens: isBounded(path, body, maxTokensField) ? mostOutput(size) : undefined,
        money: amounts[unit],
        resize: (want, least) => {
          admitted.isResized = true;
          return this.#resize(id, unit, spent[unit], want, least);
        },
      };
      metered.push(new MeteredSink(metered.at(-1) ?? client, budget));
    }
    return metered;
  }

  /** The request with a max_tokens that its budgets pay, where the gateway cannot watch all of the answer grow. */
  #bounded(request: GatewayRequest, { admission, reserved }: Admitted, amounts: Amounts): GatewayRequest {
    const { model, claims, size, outputTokens } = admission;
    const { numAnswers, maxTokens } = size;
    if (claims.budgets.length === 0 || numAnswers === 0 || reserved.levels === undefined) return request;
    const { isPaid, maxTokensField: own } = this.options.traits(model);
    const { isStream, path, body } = request;
    if (isStream && !isPaid) return request;
    const bound = Math.floor(payableTokens(admission, amounts, reserved.levels, isStream) / numAnswers);
    if (maxTokens !== undefined && maxTokens <= bound && isBounded(path, body, own)) return request;
    // A budget that pays for the longest answer needs no bound.
    if (isStream && maxTokens === undefined && bound > MAX_USUAL_TOKENS) return request;
    const most = isStream ? bound : (maxTokens ?? wholeTokens(outputTokens));
    request.record.isLimitAdded = maxTokens === undefined;
    request.record.isBounded = maxTokens === undefined || bound < maxTokens;
    return withBody(request, boundedFields(path, body, own, Math.min(bound, most)));
  }

  #withHeaders({ request, claims }: Admission, { levels }: Reserved, sink: AnswerSink): AnswerSink {
    if (levels === undefined) return sink;
    const headers = rateHeaders(claims, levels, request.route.dialect, this.options.epochMs());
    const warnings = claims.budgets.flatMap(
      (claim, i) => this.#warning(claim, levels.budgets[i]!, request.caller) ?? [],
    );
    if (warnings.length > 0) headers[WARNING_HEADER] = warnings.join(", ");
    return Object.keys(headers).length === 0 ? sink : new HeaderSink(sink, () => headers);
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
    // A header has one line of visible ASCII, and names come from elsewhere.
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

export const isStoreDown = (thrown: unknown): thrown is MillraceError =>
  thrown instanceof MillraceError && thrown.code === "budget_store_failed";

/** Most tokens of all answers. Undefined: the request says nothing about their length. */
function mostOutput({ numAnswers, maxTokens }: RequestSize): number | undefined {
  return maxTokens === undefined ? undefined : numAnswers * maxTokens;
}

/** Counts of the part that the client got: the innermost sink knows it, unless an outer one has let nothing pass. */
function deliveredOf(metered: readonly MeteredSink[]): TokenCounts | undefined {
  return metered.find(({ delivered }) => delivered !== undefined)?.delivered;
}
