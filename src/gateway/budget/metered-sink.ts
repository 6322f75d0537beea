/**
 * Passes a stream on as long as its reservation pays for it. The reservation grows ahead of the stream; unpaid events
 * are held until it has grown, and the stream is cut when no more money can come. A whole answer in place of a stream
 * is held with its head until it is paid: nothing has bounded it, and a client that has received nothing can still get
 * an error.
 *
 * Events that are paid in any case are counted later, many at a time: between the events of other streams the counting
 * code is cold, and takes several times as long for each.
 */
import type { MillraceError } from "../../core/errors.js";
import { Pieces } from "../../core/pieces.js";
import { type AnswerHead, type AnswerSink, PassingSink } from "../answer.js";
import type { TokenCounts } from "../usage/record.js";
import type { ResizeResult } from "./store.js";
import type { StreamUsage } from "./stream-usage.js";
import type { WorstCost } from "./worst-cost.js";

/** Money is in the unit of the budgets: nano-dollars, or tokens, which cost one each. */
export interface StreamBudget {
  readonly usage: StreamUsage;
  /** Fewest bytes that count as a token. Undefined: events report their tokens, some of which have no text. */
  readonly bytesPerToken: number | undefined;
  readonly cost: WorstCost;
  /** Whether a stream was asked for. */
  readonly isStream: boolean;
  /** Upper bound of the prompt's tokens until they are reported. */
  readonly promptTokens: number;
  /** Expected tokens of the answer. */
  readonly outputTokens: number;
  /** Upper bound of the answer's tokens, as sent to the upstream. Undefined: none. */
  readonly maxOutputTokens: number | undefined;
  /** Reserved amount when the stream begins. */
  readonly money: number;
  resize(want: number, least: number): Promise<ResizeResult>;
  /** Cancels the request. The attempt then breaks the answer off, unless it has ended. */
  cut(): MillraceError;
  /** The answer breaks off; the client gets nothing more. */
  broken(): void;
}

/** The reservation grows when it pays for fewer further tokens than this, so that the stream need not wait. */
const MARGIN_TOKENS = 64;
/** Interval and number of a held stream's retries: other requests may return their reservations. */
const RETRY_MS = 100;
const MAX_RETRIES = 20;
/**
 * Bytes of events that are counted together. An upstream that makes more than was asked for is found out within them.
 */
const MAX_UNCOUNTED_BYTES = 8 * 1024;
/** A longer whole answer is passed on in parts, of which each byte counts as text. */
const MAX_WHOLE_BYTES = 4 * 1024 * 1024;

export class MeteredSink extends PassingSink {
  #isMetered = false;
  #money: number;
  /** The last result of `#payable`, and its terms. */
  #paid = { money: -1, prompt: -1, output: -1 };
  #hasBegun = false;
  #isGrowing = false;
  #isShrunk = false;
  #held: Buffer[] = [];
  /** Events passed on but not counted yet. */
  readonly #uncounted = new Pieces();
  /** Parts of a whole answer, until its end. */
  #whole: Pieces | undefined;
  /** The whole answer's head, until it is paid. */
  #head: AnswerHead | undefined;
  /** The upstream's answer is complete; its end waits behind held text. */
  #isEnding = false;
  #isOver = false;
  #onDrain: (() => void) | undefined;
  /** Counts of the delivered part, taken when events begin to be held. */
  #beforeHeld: TokenCounts | undefined;
  #settle = () => {};
  #settled: Promise<void> | undefined;

  constructor(
    next: AnswerSink,
    private readonly budget: StreamBudget,
  ) {
    super(next);
    this.#money = budget.money;
  }

  /** Counts of the delivered part. Undefined: no stream was asked for or came, or the answer has not begun. */
  get delivered(): TokenCounts | undefined {
    if (!this.#isMetered) return undefined;
    this.#countPassed();
    return this.#beforeHeld ?? this.budget.usage.counts(this.budget.promptTokens);
  }

  /** Resolves when no event is held any more. */
  get whenOver(): Promise<void> | undefined {
    return this.#settled;
  }

  /** Whether the answer was cut before the client got any of it. */
  get isWithheld(): boolean {
    return this.#isOver && this.#head !== undefined;
  }

  override begin(head: AnswerHead): void {
    this.#isMetered = head.status === 200 && (head.isEventStream || this.budget.isStream);
    if (!this.#isMetered || head.isEventStream) {
      super.begin(head);
      return;
    }
    this.#head = head;
    this.#whole = new Pieces();
  }

  override write(bytes: Buffer): boolean {
    if (!this.#isMetered) return super.write(bytes);
    if (this.#isOver) return true;
    if (this.#whole === undefined) {
      return this.#paysAny(bytes.length)
        ? this.#passPaid(bytes)
        : this.#take(bytes, () => this.budget.usage.push(bytes));
    }
    this.#whole.push(bytes);
    if (this.#whole.numBytes <= MAX_WHOLE_BYTES) return true;
    const parts = this.#whole.take();
    this.#whole = undefined;
    return this.write(parts);
  }

  #take(bytes: Buffer, count: () => void): boolean {
    // Counts the events passed on before.
    const before = this.delivered;
    count();
    if (this.#held.length > 0 || !this.#pays(0)) {
      this.#beforeHeld = before;
      this.#held.push(bytes);
      this.#grow(0);
      return false;
    }
    this.#keepAhead();
    this.#beginHeld();
    return super.write(bytes);
  }

  #passPaid(bytes: Buffer): boolean {
    this.#uncounted.push(bytes);
    this.#beginHeld();
    const isWelcome = super.write(bytes);
    if (!this.#hasBegun) {
      // The first event may report the prompt, whose unused part others wait for.
      this.#hasBegun = true;
      this.#countPassed();
      this.#keepAhead();
    }
    return isWelcome;
  }

  #countPassed(): void {
    if (this.#uncounted.numBytes > 0) this.budget.usage.push(this.#uncounted.take());
  }

  #beginHeld(): void {
    const head = this.#head;
    this.#head = undefined;
    if (head !== undefined) super.begin(head);
  }

  override onDrain(listener: () => void): void {
    if (this.#held.length === 0) super.onDrain(listener);
    else this.#onDrain = listener;
  }

  override end(last?: Buffer): void {
    if (this.#isOver) return;
    if (last !== undefined && last.length > 0) this.write(last);
    const whole = this.#whole?.take();
    if (whole !== undefined) this.#take(whole, () => this.budget.usage.pushWhole(whole));
    if (this.#held.length === 0) {
      this.#isOver = true;
      super.end();
      return;
    }
    this.#isEnding = true;
    this.#settled = new Promise((resolve) => {
      this.#settle = resolve;
    });
    // The last event may have reported fewer tokens than were assumed.
    if (this.#pays(0)) this.#release();
  }

  override breakOff(error: MillraceError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#held = [];
    this.budget.broken();
    this.#beginHeld();
    super.breakOff(error);
    this.#settle();
  }

  /** Upper bound of the delivered part's cost. */
  #used(): number {
    const { usage, cost, promptTokens } = this.budget;
    return cost.of(usage.promptTokens ?? promptTokens, usage.mostOutputTokens);
  }

  /**
   * Output tokens that the reservation pays beside the prompt; −1: it does not even pay the prompt. Money is computed
   * in big integers, so tokens are compared.
   */
  #payable(): number {
    const { usage, cost, promptTokens } = this.budget;
    const prompt = usage.promptTokens ?? promptTokens;
    if (this.#paid.money !== this.#money || this.#paid.prompt !== prompt) {
      const isPromptPaid = cost.of(prompt, 0) <= this.#money;
      this.#paid = { money: this.#money, prompt, output: isPromptPaid ? cost.outputFor(this.#money, prompt) : -1 };
    }
    return this.#paid.output;
  }

  /** Whether the reservation pays for the counted part and `numMore` tokens. */
  #pays(numMore: number): boolean {
    return Math.ceil(this.budget.usage.mostOutputTokens) + numMore <= this.#payable();
  }

  /** Whether the reservation pays for the longest answer asked for. An upstream may make a longer one. */
  #paysAsked(): boolean {
    const { maxOutputTokens } = this.budget;
    return maxOutputTokens !== undefined && maxOutputTokens <= this.#payable() && this.#pays(0);
  }

  /** Whether the reservation pays for `numBytes` more bytes of events, whatever their content. */
  #paysAny(numBytes: number): boolean {
    const { bytesPerToken } = this.budget;
    const uncounted = this.#uncounted.numBytes + numBytes;
    if (this.#held.length > 0 || uncounted > MAX_UNCOUNTED_BYTES) return false;
    if (this.#paysAsked()) return true;
    return bytesPerToken !== undefined && this.#pays(MARGIN_TOKENS + uncounted / bytesPerToken);
  }

  /**
   * Grows the reservation before it is needed. Once the prompt's tokens are reported, returns the money that was
   * reserved for a longer prompt.
   */
  #keepAhead(): void {
    const { usage, cost, outputTokens } = this.budget;
    if (usage.promptTokens !== undefined && !this.#isShrunk) {
      this.#isShrunk = true;
      const enough = cost.of(usage.promptTokens, Math.max(outputTokens, usage.mostOutputTokens + 2 * MARGIN_TOKENS));
      // A small excess is not worth an operation.
      if (enough < 0.75 * this.#money) void this.#resize(enough, enough).then(() => this.#catchUp());
    }
    if (!this.#paysAsked() && !this.#pays(MARGIN_TOKENS)) this.#grow(0);
  }

  #grow(attempt: number): void {
    if (this.#isGrowing || this.#isOver) return;
    const { usage, cost, promptTokens } = this.budget;
    const output = usage.mostOutputTokens;
    const want = cost.of(usage.promptTokens ?? promptTokens, output + Math.max(2 * MARGIN_TOKENS, output / 2));
    this.#resize(want, Math.max(this.#used(), this.#money + 1)).then((result) => {
      if (this.#isOver) return;
      if (result?.kind === "resized" || this.#pays(0)) this.#goOn(attempt);
      else if (this.#held.length > 0) this.#wait(attempt, result);
    });
  }

  /** Events that came during a change of the reservation could not request another change. */
  #catchUp(): void {
    if (!this.#isOver && this.#held.length > 0) this.#goOn(0);
  }

  #goOn(attempt: number): void {
    if (this.#pays(0)) this.#release();
    else if (this.#held.length > 0) this.#grow(attempt + 1);
  }

  /** Reservations of other requests may be returned, and a store that does not answer may recover. */
  #wait(attempt: number, result: ResizeResult | undefined): void {
    const mayChange = result === undefined || (result.kind === "refused" && result.isHeld);
    if (mayChange && attempt < MAX_RETRIES) setTimeout(() => this.#grow(attempt + 1), RETRY_MS);
    else this.#cut();
  }

  /** @returns undefined if the store did not answer */
  async #resize(want: number, least: number): Promise<ResizeResult | undefined> {
    this.#isGrowing = true;
    try {
      const result = await this.budget.resize(want, least);
      if (result.kind === "resized") this.#money = result.money;
      return result;
    } catch {
      return undefined;
    } finally {
      this.#isGrowing = false;
    }
  }

  #release(): void {
    const held = this.#held;
    this.#held = [];
    this.#beforeHeld = undefined;
    this.#beginHeld();
    let isWelcome = true;
    for (const bytes of held) isWelcome = super.write(bytes);
    if (this.#isEnding) {
      this.#isOver = true;
      super.end();
      this.#settle();
      return;
    }
    const listener = this.#onDrain;
    this.#onDrain = undefined;
    if (listener === undefined) return;
    if (isWelcome) listener();
    else super.onDrain(listener);
  }

  #cut(): void {
    if (this.#head === undefined) {
      this.breakOff(this.budget.cut());
      return;
    }
    this.#isOver = true;
    this.#held = [];
    this.budget.cut();
    this.#settle();
  }
}
