/** The ledger as the first policy: it follows a request to its end, prices its attempts and writes its row. */
import { type MillraceError, toMillraceError } from "../../core/errors.js";
import { quoted } from "../../core/quoted-text.js";
import type { RequestLogger } from "../../core/request-logger.js";
import type { AnswerSink } from "../answer.js";
import { answerSizeOf } from "../budget/estimate.js";
import { endUserOf } from "../end-user.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import type { HardwareMeter } from "../prices/hardware-meter.js";
import { chargeOf } from "../prices/tiered-price.js";
import type { Caller, GatewayRequest } from "../request.js";
import { SeenAnswer } from "../seen-answer.js";
import type { TieredPrice } from "../usage/price.js";
import { type AttemptRecord, type AttemptWatcher, NOTE, type Rate, type RequestRecord } from "../usage/record.js";
import { CostSink, reportFormOf } from "./cost-sink.js";
import type { AttemptRow, OpenRequest, RequestRow, RowOutcome } from "./ledger-rows.js";
import type { LedgerStore } from "./ledger-store.js";

interface LedgerPrices {
  /** @param model the model's name in the configuration */
  priceOf(model: string, rate: Rate): TieredPrice | undefined;
}

interface LedgerOptions {
  readonly store: LedgerStore;
  readonly prices: LedgerPrices;
  readonly meter: HardwareMeter;
  readonly logger: RequestLogger;
  /** Whether whole answers get their cost as a header, too. */
  readonly hasCostHeader: () => boolean;
  /** Name of the model that a client's name stands for. */
  readonly modelOf: (name: string) => string;
  /** Milliseconds since 1970, and `performance.now()`. */
  readonly epochMs: () => number;
  readonly now: () => number;
  /** Called with each request's row at its end. Must be fast and must not throw. */
  readonly onRow?: ((row: RequestRow) => void) | undefined;
}

/** Longer notes are cut: no policy's note needs more. */
const MAX_NOTES_CHARACTERS = 2048;
const MAX_ID_CHARACTERS = 200;

export class LedgerPolicy implements Policy {
  readonly name = "ledger";
  /** Prices as they were when an attempt began. */
  readonly #prices = new WeakMap<AttemptRecord, TieredPrice>();
  #numDoubtful = 0;

  constructor(private readonly options: LedgerOptions) {}

  async handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const { store, epochMs, now, hasCostHeader } = this.options;
    const { record } = request;
    const startMs = now();
    const open = openRequest(request, store.nextSeq(), epochMs());
    store.open(open);
    record.wantsUsage = true;
    record.watcher = this.#watcher(record);
    const seen = new SeenAnswer(sink, now);
    const hasHeader = hasCostHeader() && !request.isStream;
    const form = reportFormOf(request.path);
    const terms = { hasHeader, form, isPriced: () => this.#isPriced(request), cost: () => costOf(record) };
    const outer = hasHeader || form !== undefined ? new CostSink(seen, terms) : seen;
    try {
      const ending = await next(request, outer);
      this.#close(open, request, seen, startMs, resultOf(ending, seen, request.cancellation.error));
      return ending;
    } catch (thrown) {
      const error = request.cancellation.error ?? toMillraceError(thrown);
      const outcome = error.code === "client_closed" ? "cancelled" : "refused";
      this.#close(open, request, seen, startMs, { outcome, status: error.status, error: error.code });
      throw thrown;
    }
  }

  async close(): Promise<void> {
    this.options.store.flush();
  }

  #watcher(record: RequestRecord): AttemptWatcher {
    const { meter, prices } = this.options;
    return {
      began: (attempt) => {
        const price = record.agreedPrice ?? prices.priceOf(attempt.model, record.rate);
        if (price !== undefined) this.#prices.set(attempt, price);
        meter.began(attempt);
      },
      answering: (attempt) => meter.answering(attempt),
      completing: (attempt) => this.#charge(attempt),
      ended: (attempt) => {
        this.#charge(attempt);
        meter.ended(attempt);
        if (attempt.usage?.isDoubtful === true) this.#sayDoubt(attempt);
      },
    };
  }

  /**
   * Whether everything that may have cost something has a price. A kept answer has no attempt, and costs nothing if its
   * model has a price.
   */
  #isPriced({ model, record }: GatewayRequest): boolean {
    const { prices, modelOf } = this.options;
    const { attempts, kept, rate } = record;
    if (attempts.length === 0) return prices.priceOf(kept?.model ?? modelOf(model), rate) !== undefined;
    return attempts.every((attempt) => attempt.outcome === "refused" || this.#prices.has(attempt));
  }

  #charge(attempt: AttemptRecord): void {
    const price = this.#prices.get(attempt);
    if (price !== undefined && attempt.usage !== undefined) attempt.charge = chargeOf(attempt.usage, price);
  }

  #sayDoubt({ instance, engine, model }: AttemptRecord): void {
    this.#numDoubtful++;
    // Warns at the first, then at each power of two: a wrong upstream is wrong in every answer.
    if ((this.#numDoubtful & (this.#numDoubtful - 1)) !== 0) return;
    const fields = { instance, engine, model, answers: this.#numDoubtful };
    this.options.logger.warn(fields, "the upstream's token counts contradict each other, and have been clamped");
  }

  #close(open: OpenRequest, request: GatewayRequest, seen: SeenAnswer, startMs: number, result: Result): void {
    const { store, now, prices, modelOf, onRow } = this.options;
    const { record } = request;
    const attempts = record.attempts.map((attempt) => attemptRow(attempt, startMs));
    const last = record.attempts.at(-1);
    const model = record.kept?.model ?? last?.model ?? modelOf(request.model);
    const { path, body, route, headers } = request;
    const { maxTokens, numAnswers } = answerSizeOf(path, body, route.isGeneration);
    const { saved, savedBy } = savings(record, () => prices.priceOf(model, record.rate));
    // Field by field, which is several times as fast as spreading objects of changing shapes.
    const row: RequestRow = {
      seq: open.seq,
      id: open.id,
      beganMs: open.beganMs,
      tenant: open.tenant,
      team: open.team,
      key: open.key,
      path: open.path,
      asked: open.asked,
      isStream: open.isStream,
      outcome: result.outcome,
      status: result.status,
      error: result.error,
      served: result.outcome === "refused" ? "" : model,
      firstByteMs: seen.firstByteMs === undefined ? undefined : seen.firstByteMs - startMs,
      totalMs: now() - startMs,
      saved,
      savedBy,
      notes: notesOf(record),
      maxTokens: route.isGeneration ? maxTokens : undefined,
      numAnswers,
      endUser: endUserOf(headers, body),
      attempts,
    };
    store.close(row);
    onRow?.(row);
  }
}

interface Result {
  readonly outcome: RowOutcome;
  readonly status: number;
  readonly error: string;
}

function openRequest(request: GatewayRequest, seq: number, beganMs: number): OpenRequest {
  const { id, caller, path, model: asked, isStream } = request;
  const { tenant, keyId = "" } = caller;
  const team = teamOf(caller);
  return { seq, id: id.slice(0, MAX_ID_CHARACTERS), beganMs, tenant, team, key: keyId, path, asked, isStream };
}

/** The team that the caller's requests are charged to, from its scopes; without managed keys there is none. */
function teamOf({ scopes }: Caller): string {
  return scopes?.find(({ kind }) => kind === "team")?.id ?? "";
}

function resultOf(ending: Ending, seen: SeenAnswer, cancelled: MillraceError | undefined): Result {
  switch (ending.kind) {
    case "answered":
      return { outcome: "answered", status: ending.status, error: "" };
    case "broken":
      return { outcome: "broken", status: ending.error.status, error: ending.error.code };
    case "cancelled":
      return {
        outcome: "cancelled",
        status: cancelled?.status ?? 499,
        error: cancelled?.code ?? (seen.status === 0 ? "client_closed" : ""),
      };
  }
}

function attemptRow(attempt: AttemptRecord, startMs: number): AttemptRow {
  const { instance, engine, model, firstByteMs, endMs, status = 0, outcome = "cancelled", usage, charge } = attempt;
  return {
    instance,
    engine,
    model,
    status,
    outcome,
    startMs: attempt.startMs - startMs,
    firstByteMs: firstByteMs === undefined ? undefined : firstByteMs - startMs,
    totalMs: (endMs ?? attempt.startMs) - attempt.startMs,
    counts: usage,
    cost: charge?.nanoDollars,
    price: charge?.price ?? "",
  };
}

function costOf(record: RequestRecord): bigint {
  return record.attempts.reduce((sum, { charge }) => sum + (charge?.nanoDollars ?? 0n), 0n);
}

const NOTHING_SAVED = { saved: 0n, savedBy: "" };

/** The savings that a policy reports, or the cost that a cache's answer would have had. */
function savings(
  { notes, kept }: RequestRecord,
  price: () => TieredPrice | undefined,
): { readonly saved: bigint; readonly savedBy: string } {
  const told = notes.get(NOTE.saved);
  const [, digits, name] = (told === undefined ? null : /^(\d{1,18}) ([\w-]{1,40})$/.exec(told)) ?? [];
  if (digits !== undefined && name !== undefined) return { saved: BigInt(digits), savedBy: name };
  const cached = notes.get(NOTE.cache);
  if (cached?.startsWith("hit") !== true) return NOTHING_SAVED;
  const [hit, how = ""] = cached.split(":");
  if (hit !== "hit") return NOTHING_SAVED;
  const usage = kept?.usage;
  const its = usage === undefined ? undefined : price();
  const saved = usage === undefined || its === undefined ? 0n : chargeOf(usage, its).nanoDollars;
  return { saved, savedBy: how === "" ? NOTE.cache : `${NOTE.cache}:${how}` };
}

function notesOf({ notes }: RequestRecord): string {
  if (notes.size === 0) return "";
  let json = "";
  for (const [name, value] of notes) json += `${json === "" ? "{" : ","}${quoted(name)}:${quoted(value)}`;
  json += "}";
  return json.length <= MAX_NOTES_CHARACTERS ? json : JSON.stringify({ cut: json.slice(0, MAX_NOTES_CHARACTERS) });
}
