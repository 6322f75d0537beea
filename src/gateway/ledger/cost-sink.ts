/**
 * Tells the client its answer's cost: in the `usage` of chats and completions, and in a header of whole answers. The cost is known at the end, so the sink
 * holds back until then a whole answer, or the last report of usage of a stream.
 */
import type { MillraceError } from "../../core/errors.js";
import { Pieces } from "../../core/pieces.js";
import { type AnswerHead, type AnswerSink, PassingSink, withHeaders } from "../answer.js";
import { eachEvent, findUsage, type UsagePlace } from "../api/event-usage.js";
import { formatCost, formatDollars } from "../money.js";

const COST_HEADER = "x-millrace-cost";

/** A larger answer or report goes on without its cost. */
const MAX_HELD_BYTES = 1024 * 1024;
const MEMBER = '"usage":';
/** The report of a whole stream: behind all choices, or with the end of the last. */
const LAST_REPORT = /"choices":\s*\[\]|"finish_reason":\s*"/;
const CHOICES = '"choices":';

interface CostTerms {
  /** Whether a whole answer gets the header. */
  readonly hasHeader: boolean;
  /** Whether the path's answers have a `usage` that no text of the client's can be taken for. */
  readonly hasUsage: boolean;
  /** Whether there is a price for what answers. */
  isPriced(): boolean;
  /** Nano-dollars, called at the end. */
  cost(): bigint;
}

export class CostSink extends PassingSink {
  /** Head of an answer that is held as a whole. */
  #head: AnswerHead | undefined;
  #isStream = false;
  readonly #held = new Pieces();

  constructor(
    next: AnswerSink,
    private readonly terms: CostTerms,
  ) {
    super(next);
  }

  override begin(head: AnswerHead): void {
    const { hasHeader } = this.terms;
    if (head.isEventStream) {
      this.#isStream = this.#reportsIn(head);
      super.begin(head);
    } else if (hasHeader || this.#reportsIn(head)) this.#head = head;
    else super.begin(head);
  }

  override write(bytes: Buffer): boolean {
    if (this.#head !== undefined) return this.#hold(bytes);
    return this.#isStream ? this.#passEvents(bytes) : super.write(bytes);
  }

  override onDrain(listener: () => void): void {
    if (this.#head === undefined) super.onDrain(listener);
    else listener();
  }

  override end(last?: Buffer): void {
    if (last !== undefined) this.write(last);
    if (this.#head !== undefined) this.#releaseWhole(this.#head);
    else if (this.#held.numBytes > 0) {
      const events = this.#held.take().toString("latin1");
      super.write(Buffer.from(this.terms.isPriced() ? withCost(events, this.terms.cost()) : events, "latin1"));
    }
    super.end();
  }

  override breakOff(error: MillraceError): void {
    this.#release();
    super.breakOff(error);
  }

  #reportsIn({ status, headers }: AnswerHead): boolean {
    return this.terms.hasUsage && status === 200 && headers["content-encoding"] === undefined && this.terms.isPriced();
  }

  #passEvents(bytes: Buffer): boolean {
    if (this.#held.numBytes > 0) {
      // The report was not the last, as where each choice has its own.
      if (!bytes.includes(CHOICES)) return this.#hold(bytes);
      const isWelcome = this.#release();
      return this.#passEvents(bytes) && isWelcome;
    }
    const at = bytes.lastIndexOf(MEMBER);
    if (at < 0) return super.write(bytes);
    const before: string[] = [];
    let report = "";
    eachEvent(bytes.toString("latin1"), (event) => {
      if (report === "" && !isLastReport(event)) before.push(event);
      else if (report !== "" && event.includes(CHOICES)) {
        before.push(report);
        report = event;
      } else report += event;
    });
    if (report === "") return super.write(bytes);
    const isWelcome = before.length === 0 || super.write(Buffer.from(before.join(""), "latin1"));
    return this.#hold(Buffer.from(report, "latin1")) && isWelcome;
  }

  /** @returns whether more is welcome */
  #hold(bytes: Buffer): boolean {
    this.#held.push(bytes);
    return this.#held.numBytes <= MAX_HELD_BYTES || this.#release();
  }

  #releaseWhole(head: AnswerHead): void {
    const { hasHeader, cost } = this.terms;
    const nanoDollars = cost();
    const headers = hasHeader ? { [COST_HEADER]: formatCost(nanoDollars) } : {};
    const body = this.#held.take();
    const at = this.#reportsIn(head) ? body.lastIndexOf(MEMBER) : -1;
    if (at < 0) {
      this.#release(headers, [body]);
      return;
    }
    const tail = Buffer.from(withCost(body.toString("latin1", at), nanoDollars), "latin1");
    const { "content-length": length } = head.headers;
    const sized = length === undefined ? headers : { ...headers, "content-length": at + tail.length };
    this.#release(sized, [body.subarray(0, at), tail]);
  }

  /** Passes on the answer's head, if it is held, and bytes. @returns whether more is welcome */
  #release(headers: AnswerHead["headers"] = {}, held: readonly Buffer[] = [this.#held.take()]): boolean {
    const head = this.#head;
    this.#head = undefined;
    if (head !== undefined) super.begin(withHeaders(head, headers));
    let isWelcome = true;
    for (const bytes of held) if (bytes.length > 0) isWelcome = super.write(bytes);
    return isWelcome;
  }
}

function isLastReport(event: string): boolean {
  const place = findUsage(event);
  return place !== undefined && event[place.end - 1] === "}" && LAST_REPORT.test(event);
}

/** @param text with a report of usage, of which the last gets the cost, in place of one that the upstream may have put there */
function withCost(text: string, nanoDollars: bigint): string {
  const place = findUsage(text);
  const members = place === undefined ? undefined : membersOf(text, place);
  if (place === undefined || members === undefined) return text;
  // As digits, since a number would have those of its nearest float.
  const cost = `"cost":${formatDollars(nanoDollars)}}`;
  return `${text.slice(0, place.value)}${members}${members === "{" ? "" : ","}${cost}${text.slice(place.end)}`;
}

/** The report without its closing brace and its `cost`. */
function membersOf(text: string, { value, end }: UsagePlace): string | undefined {
  const json = text.slice(value, end);
  if (!json.endsWith("}")) return undefined;
  if (!json.includes('"cost"')) return json.slice(0, -1).trimEnd();
  try {
    const { cost: _, ...others } = JSON.parse(json) as { readonly cost?: unknown };
    return JSON.stringify(others).slice(0, -1);
  } catch {
    return undefined;
  }
}
