/**
 * Pays an upstream's answer from budgets. Budgets are never overspent: the possible cost of a stream is reserved before
 * it is passed on, and that of any other answer before the request is sent, with a max_tokens that the reservation
 * pays. Runs after the caches, so that it sees the client's own body, and cuts no answer that costs nothing.
 */
import type { MillraceError } from "../../core/errors.js";
import { type AnswerHead, type AnswerSink, PassingSink } from "../answer.js";
import { askUsage } from "../ask-usage.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import { type GatewayRequest, withBody } from "../request.js";
import { BUDGET_UNITS, type BudgetUnit } from "../scope.js";
import type { RequestRecord, TokenCounts } from "../usage/record.js";
import {
  type Admission,
  chargeOf,
  noteCut,
  noteUnreported,
  payableTokens,
  tokensOf,
  wholeTokens,
} from "./admission.js";
import { boundedFields, isBounded, type RequestSize } from "./estimate.js";
import { passUnreserved } from "./fail-open.js";
import type { LimitsOptions } from "./limits-options.js";
import { MeteredSink, type StreamBudget } from "./metered-sink.js";
import { cutStream, noneForAnother } from "./refusals.js";
import { type Amounts, type BudgetStore, type Levels, NO_AMOUNTS, type ResizeResult } from "./store.js";
import { StreamUsage } from "./stream-usage.js";

/**
 * Fewest bytes of text that count as a token, if an upstream does not report while it streams. A token of an engine of
 * ours has at least one byte.
 */
const PAID_BYTES_PER_TOKEN = 3;
/** No answer is longer than this. */
const MAX_USUAL_TOKENS = 262_144;

/** The reservation of a request in all its scopes. */
export interface Reserved {
  readonly amounts: Amounts;
  readonly levels: Levels | undefined;
  /** The store was down, and the request passes without a reservation. */
  readonly isDoubtful: boolean;
  /** Set if a budget, or the tokens of a minute, do not pay for an upstream's answer. */
  readonly unpaid?: MillraceError;
}

/** A request that limits have let in, until it is settled. */
export interface Admitted {
  readonly admission: Admission;
  readonly reserved: Reserved;
  /** Whether an answer has changed the reserved amount. */
  isResized: boolean;
}

/** The payment of a request's next answer. */
interface Payment {
  /** Amounts reserved for the answer. */
  readonly amounts: Amounts;
  /** The cost of earlier answers to the request, which stays reserved beside it. */
  readonly spent: Amounts;
  /** The store was down, and the answer passes unpaid. */
  readonly isDoubtful: boolean;
}

export class AnswerBudgets implements Policy {
  readonly name = "budgets";

  constructor(
    private readonly options: LimitsOptions,
    private readonly openedStore: () => BudgetStore,
  ) {}

  /** Not async: a request without limits costs no promise. */
  handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const admitted = request.record.admitted as Admitted | undefined;
    return admitted === undefined ? next(request, sink) : this.#send(request, admitted, sink, next);
  }

  async #send(request: GatewayRequest, admitted: Admitted, sink: AnswerSink, next: Handler): Promise<Ending> {
    const { admission, reserved } = admitted;
    const { model, claims, size, outputTokens } = admission;
    if (reserved.unpaid !== undefined) throw reserved.unpaid;
    const payment = this.#firstPayment(request, admitted) ?? (await this.#nextPayment(request, admitted));
    const cancellation = request.cancellation.child();
    const bounded = payment.isDoubtful ? request : this.#bounded(request, admitted, payment.amounts);
    const sent = { ...bounded, cancellation };
    let metered: readonly MeteredSink[] = NOT_METERED;
    let cut: MillraceError | undefined;
    const { isPaid, hasContinuousUsage } = this.options.traits(model);
    const usual = size.numAnswers * Math.ceil(Math.min(size.maxTokens ?? Number.POSITIVE_INFINITY, outputTokens));
    // A paid API finishes a whole answer, and charges for it, even after the client has left.
    const unseen = isPaid && !request.isStream ? usual : 0;
    const noteDelivered = () => noteCut(admission, deliveredOf(metered), unseen);
    // Called before the attempt is cut, so that the delivered part is recorded.
    const endWatch = cancellation.onCancel(noteDelivered);
    try {
      // An upstream may stream an answer for which no stream was asked.
      if (claims.budgets.length === 0 || payment.isDoubtful) return await next(sent, sink);
      const [asked, inner] = askUsage(sent, sink, hasContinuousUsage);
      const meter = (): AnswerSink => {
        metered = this.#metered(asked, inner, admitted, payment, {
          cut: () => {
            cut = cutStream();
            cancellation.cancel(cut);
            return cut;
          },
          broken: noteDelivered,
        });
        return metered.at(-1)!;
      };
      const ending = await next(asked, request.isStream ? meter() : new AskedWhole(inner, meter, noteDelivered));
      for (let i = metered.length - 1; i >= 0; i--) await metered[i]!.whenOver;
      noteUnreported(admission, deliveredOf(metered));
      if (cut !== undefined && metered.some(({ isWithheld }) => isWithheld)) throw cut;
      return cut === undefined ? ending : { kind: "broken", status: 200, error: cut };
    } finally {
      endWatch();
    }
  }

  /** Undefined: a route has asked another model before, at a cost. */
  #firstPayment({ record }: GatewayRequest, { admission, reserved, isResized }: Admitted): Payment | undefined {
    const { amounts, isDoubtful } = reserved;
    if (!isDoubtful && (isResized || record.attempts.length > 0)) {
      const spent = spentOf(record, admission);
      return isResized || spent.money > 0 || spent.tokens > 0 ? undefined : { amounts, spent, isDoubtful };
    }
    return { amounts, spent: isDoubtful ? spentOf(record, admission) : NO_AMOUNTS, isDoubtful };
  }

  async #nextPayment({ record }: GatewayRequest, { admission, reserved }: Admitted): Promise<Payment> {
    const { id, costs, want, least } = admission;
    const spent = spentOf(record, admission);
    const { isDoubtful } = reserved;
    const amounts = { money: 0, tokens: 0 };
    for (const unit of BUDGET_UNITS) {
      if (costs[unit] === undefined) continue;
      const result = await this.#resize(id, unit, spent[unit], want[unit], least[unit]).catch((thrown: unknown) => {
        passUnreserved(thrown, this.options);
      });
      if (result === undefined) return { amounts: NO_AMOUNTS, spent, isDoubtful: true };
      record.isPayableLater = result.kind === "refused" && result.isHeld;
      if (result.kind !== "resized") throw noneForAnother(record.isPayableLater);
      amounts[unit] = result.money;
    }
    return { amounts, spent, isDoubtful };
  }

  /** @param spent the cost of earlier answers to the request */
  async #resize(id: string, unit: BudgetUnit, spent: number, want: number, least: number): Promise<ResizeResult> {
    const result = await this.openedStore().resize(id, unit, spent + want, spent + least);
    return result.kind === "resized" ? { kind: "resized", money: result.money - spent } : result;
  }

  /** A sink for each unit, the innermost first, which passes on what its budgets pay. */
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
      // Field by field: adding fields to an object made by a spread takes several times as long.
      const budget: StreamBudget = {
        cut: ends.cut,
        broken: ends.broken,
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

  /** The request with a max_tokens that its budgets pay, if the gateway cannot watch all of the answer grow. */
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
}

/** The cost of the answers so far. */
function spentOf(record: RequestRecord, admission: Admission): Amounts {
  return {
    money: chargeOf(record, admission),
    tokens: admission.costs.tokens === undefined ? 0 : tokensOf(record),
  };
}

const NOT_METERED: readonly MeteredSink[] = [];

/** An answer for which no stream was asked: paid before it is sent, and metered only if its upstream streams it. */
class AskedWhole extends PassingSink {
  #isMetered = false;

  constructor(
    next: AnswerSink,
    private readonly meter: () => AnswerSink,
    private readonly broken: () => void,
  ) {
    super(next);
  }

  override begin(head: AnswerHead): void {
    if (head.status === 200 && head.isEventStream) {
      this.#isMetered = true;
      this.next = this.meter();
    }
    super.begin(head);
  }

  override breakOff(error: MillraceError): void {
    // A meter notes the cost itself.
    if (!this.#isMetered) this.broken();
    super.breakOff(error);
  }
}

/** Upper bound of the tokens of all answers. Undefined: the request states no length. */
function mostOutput({ numAnswers, maxTokens }: RequestSize): number | undefined {
  return maxTokens === undefined ? undefined : numAnswers * maxTokens;
}

/** Counts of the part that the client got, from the innermost sink, unless an outer one has let nothing pass. */
function deliveredOf(metered: readonly MeteredSink[]): TokenCounts | undefined {
  return metered.find(({ delivered }) => delivered !== undefined)?.delivered;
}
