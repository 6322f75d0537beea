/**
 * Tells the client its answer's cost: in the `usage` of answers, and in a header of whole ones. The cost is known at
 * the end, so the sink holds back a whole answer, or a stream's last report of usage, until then. A report is found by
 * its place in the JSON, since some answers repeat the client's text.
 */
import type { OutgoingHttpHeaders } from "node:http";
import type { MillraceError } from "../../core/errors.js";
import { Pieces } from "../../core/pieces.js";
import { type AnswerHead, type AnswerSink, PassingSink, withHeaders } from "../answer.js";
import { eachEvent } from "../api/event-usage.js";
import { type ByteRange, membersOf } from "../json-members.js";
import { formatCost, formatDollars } from "../money.js";

const COST_HEADER = "x-millrace-cost";

/** A larger answer or report passes without its cost. */
const MAX_HELD_BYTES = 1024 * 1024;
const MEMBER = '"usage":';
const DATA = /^data:/m;
const CLOSE_BRACE = 0x7d;

/** The place where an API's answers report the usage of the whole answer. */
interface ReportForm {
  /** Matches an event that may be the last report of a stream. */
  readonly last: RegExp;
  /** Texts of an event after which another may be the last. */
  readonly more: readonly string[];
  /** Names of the members that lead to the usage in an event; a whole answer has it as a member of its own. */
  readonly path: readonly string[];
}

/** The report comes after all choices, or with the end of the last. */
const CHOICES: ReportForm = {
  last: /"choices":\s*\[\]|"finish_reason":\s*"/,
  more: ['"choices":'],
  path: ["usage"],
};

const FORMS: ReadonlyMap<string, ReportForm> = new Map([
  ["/v1/chat/completions", CHOICES],
  ["/v1/completions", CHOICES],
  ["/v1/messages", { last: /"message_delta"/, more: ['"message_delta"', '"content_block'], path: ["usage"] }],
  [
    "/v1/responses",
    {
      last: /"response\.(?:completed|incomplete|failed)"/,
      more: ['"response.'],
      path: ["response", "usage"],
    },
  ],
]);

/** Undefined: answers of the path have no report that gets its cost. */
export const reportFormOf = (path: string): ReportForm | undefined => FORMS.get(path);

interface CostTerms {
  /** Whether a whole answer gets the header. */
  readonly hasHeader: boolean;
  /** Undefined: only the header is wanted. */
  readonly form: ReportForm | undefined;
  /** Whether the answering model has a price. */
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
      let told = "";
      // The report is the first held event.
      eachEvent(this.#held.take().toString("latin1"), (event) => {
        told += told === "" ? this.#withCost(event) : event;
      });
      super.write(Buffer.from(told, "latin1"));
    }
    super.end();
  }

  override breakOff(error: MillraceError): void {
    this.#release();
    super.breakOff(error);
  }

  #reportsIn({ status, headers }: AnswerHead): boolean {
    return (
      this.terms.form !== undefined &&
      status === 200 &&
      headers["content-encoding"] === undefined &&
      this.terms.isPriced()
    );
  }

  #passEvents(bytes: Buffer): boolean {
    if (this.#held.numBytes > 0) {
      // The report was not the last, as when each choice has its own.
      if (!this.#goesOn(bytes)) return this.#hold(bytes);
      const isWelcome = this.#release();
      return this.#passEvents(bytes) && isWelcome;
    }
    const at = bytes.lastIndexOf(MEMBER);
    if (at < 0) return super.write(bytes);
    const before: string[] = [];
    let report = "";
    eachEvent(bytes.toString("latin1"), (event) => {
      if (report !== "" && this.#goesOn(event)) {
        before.push(report);
        report = "";
      }
      if (report === "" && !this.#isLast(event)) before.push(event);
      else report += event;
    });
    if (report === "") return super.write(bytes);
    const isWelcome = before.length === 0 || super.write(Buffer.from(before.join(""), "latin1"));
    return this.#hold(Buffer.from(report, "latin1")) && isWelcome;
  }

  #goesOn(events: Buffer | string): boolean {
    return this.terms.form!.more.some((sign) => events.includes(sign));
  }

  #isLast(event: string): boolean {
    const { last, path } = this.terms.form!;
    return last.test(event) && placeOf(event, path) !== undefined;
  }

  #withCost(event: string): string {
    const { form, isPriced, cost } = this.terms;
    return isPriced() ? withCost(event, placeOf(event, form!.path), cost()) : event;
  }

  /** @returns whether the sink takes more now */
  #hold(bytes: Buffer): boolean {
    this.#held.push(bytes);
    return this.#held.numBytes <= MAX_HELD_BYTES || this.#release();
  }

  #releaseWhole(head: AnswerHead): void {
    const { hasHeader, cost } = this.terms;
    const nanoDollars = cost();
    const headers: OutgoingHttpHeaders = {};
    if (hasHeader) headers[COST_HEADER] = formatCost(nanoDollars);
    const body = this.#held.take();
    const told = this.#reportsIn(head) ? bodyWithCost(body, nanoDollars) : body;
    if (told !== body && head.headers["content-length"] !== undefined) headers["content-length"] = told.length;
    this.#release(headers, [told]);
  }

  /** Passes on the answer's head, if it is held, and bytes. @returns whether the sink takes more now */
  #release(headers: AnswerHead["headers"] = {}, held: readonly Buffer[] = [this.#held.take()]): boolean {
    const head = this.#head;
    this.#head = undefined;
    if (head !== undefined) super.begin(withHeaders(head, headers));
    let isWelcome = true;
    for (const bytes of held) if (bytes.length > 0) isWelcome = super.write(bytes);
    return isWelcome;
  }
}

/** A whole answer with its cost in its usage, if that counts tokens. */
function bodyWithCost(body: Buffer, nanoDollars: bigint): Buffer {
  let place: ByteRange | undefined;
  try {
    place = membersOf(body).get("usage");
  } catch {
    // A body that is not JSON has no report of usage.
  }
  if (place === undefined || body[place.end - 1] !== CLOSE_BRACE) return body;
  const report = reportWithCost(body.toString("latin1", place.start, place.end), nanoDollars);
  if (report === undefined) return body;
  const told = Buffer.allocUnsafe(body.length - (place.end - place.start) + report.length);
  body.copy(told, 0, 0, place.start);
  told.write(report, place.start, "latin1");
  body.copy(told, place.start + report.length, place.end);
  return told;
}

/**
 * The place of an event's usage.
 * @param text bytes as Latin-1
 * @returns undefined: no usage that counts tokens
 */
function placeOf(text: string, path: readonly string[]): ByteRange | undefined {
  const data = DATA.exec(text);
  let start = data === null ? 0 : data.index + data[0].length;
  let end = text.length;
  try {
    for (const name of path) {
      const found = membersOf(Buffer.from(text.slice(start, end), "latin1")).get(name);
      if (found === undefined) return undefined;
      [start, end] = [start + found.start, start + found.end];
    }
  } catch {
    // A body that is not JSON has no report of usage.
    return undefined;
  }
  return text[end - 1] === "}" ? { start, end } : undefined;
}

/** @param place of the usage, which gets the cost in place of the upstream's own */
function withCost(text: string, place: ByteRange | undefined, nanoDollars: bigint): string {
  const report = place && reportWithCost(text.slice(place.start, place.end), nanoDollars);
  return place === undefined || report === undefined
    ? text
    : `${text.slice(0, place.start)}${report}${text.slice(place.end)}`;
}

function reportWithCost(json: string, nanoDollars: bigint): string | undefined {
  const members = openReport(json);
  // As digits, since a number would have those of its nearest float.
  return members && `${members}${members === "{" ? "" : ","}"cost":${formatDollars(nanoDollars)}}`;
}

/** The report without its closing brace and its `cost`. */
function openReport(json: string): string | undefined {
  if (!json.includes('"cost"')) return json.slice(0, -1).trimEnd();
  try {
    const { cost: _, ...others } = JSON.parse(json) as { readonly cost?: unknown };
    return JSON.stringify(others).slice(0, -1);
  } catch {
    return undefined;
  }
}
