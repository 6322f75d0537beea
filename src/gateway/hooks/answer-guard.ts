/**
 * The sink that applies guardrails to an answer. Events of a stream pass as soon as their texts are known to be clean;
 * any other answer, and every answer that a checker must see, is read to its end first.
 */

import { MillraceError, toMillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import type { JsonObject } from "../../core/json-body.js";
import { Pieces } from "../../core/pieces.js";
import type { AnswerHead, AnswerSink } from "../answer.js";
import { encodingOf, mediaTypeOf } from "../dialects/wire/encoding.js";
import type { GatewayRequest } from "../request.js";
import { type Findings, type Guard, guardTexts, refusal } from "./guard.js";
import { GuardedEvents } from "./guarded-events.js";
import { FoundTexts, mapAnswerTexts, withoutSpelling } from "./texts.js";

/** A longer answer, or event, cannot be searched. */
const MAX_BYTES = 32 * 1024 * 1024;
/** Bytes that wait to be searched; beyond them the upstream is asked to pause. */
const MAX_QUEUED_BYTES = 1024 * 1024;
const MAX_CHECKED_CHARACTERS = 4 * 1024 * 1024;

export const FLAGS_HEADER = "x-millrace-guardrails";

export class AnswerGuard implements AnswerSink {
  #head: AnswerHead | undefined;
  #isStream = false;
  #hasBegun = false;
  #error: MillraceError | undefined;
  #isOver = false;
  #events: GuardedEvents | undefined;
  /** Bytes of an event, or of a whole answer, that has not ended. */
  readonly #pieces = new Pieces();
  #numQueued = 0;
  #drained: (() => void) | undefined;
  #work: Promise<void> = Promise.resolve();
  /** Texts and events that wait for a checker. */
  readonly #texts: string[] = [];
  #held: Buffer[] = [];
  #numBytesHeld = 0;
  readonly #checkers: readonly Guard[];

  /** @param refuse called once when the answer must stop */
  constructor(
    private readonly next: AnswerSink,
    private readonly request: GatewayRequest,
    private readonly guards: readonly Guard[],
    private readonly findings: Findings,
    private readonly refuse: () => void,
  ) {
    this.#checkers = guards.filter(({ checker }) => checker !== undefined);
  }

  /** Why the answer was stopped. */
  get error(): MillraceError | undefined {
    return this.#error;
  }

  /** Whether the client has got a part of the answer. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** Resolves when everything that was written has been passed on. */
  async settled(): Promise<void> {
    await this.#work;
  }

  begin(head: AnswerHead): void {
    this.#head = head;
    this.#isStream = head.isEventStream;
    if (head.isEventStream) {
      const hidesSpelling = this.guards.some(({ action, patterns }) => action !== "flag" && patterns !== undefined);
      this.#events = new GuardedEvents(this.guards, this.findings, hidesSpelling, this.#checkers.length > 0);
    }
  }

  write(bytes: Buffer): boolean {
    this.#numQueued += bytes.length;
    this.#enqueue(async () => {
      this.#numQueued -= bytes.length;
      await this.#take(bytes);
      if (this.#numQueued <= MAX_QUEUED_BYTES) this.#drain();
    });
    return this.#numQueued <= MAX_QUEUED_BYTES;
  }

  onDrain(listener: () => void): void {
    this.#drained = listener;
    if (this.#numQueued <= MAX_QUEUED_BYTES) this.#enqueue(async () => this.#drain());
  }

  end(last?: Buffer): void {
    if (last !== undefined) this.write(last);
    this.#enqueue(() => this.#finish());
  }

  breakOff(error: MillraceError): void {
    this.#enqueue(async () => {
      this.#start();
      this.next.breakOff(error);
      this.#isOver = true;
    });
  }

  /** Runs tasks in order. A failed task stops the answer. */
  #enqueue(task: () => Promise<void>): void {
    this.#work = this.#work.then(async () => {
      if (this.#isOver) {
        this.#drain();
        return;
      }
      try {
        await task();
      } catch (thrown) {
        this.#stop(thrown);
      }
    });
  }

  async #take(bytes: Buffer): Promise<void> {
    if (!this.#isStream) {
      this.#keep(bytes);
      return;
    }
    this.#keep(bytes);
    // An empty line ends an event; the bytes of one may come in several pieces.
    if (!bytes.includes(0x0a)) return;
    const text = this.#pieces.take().toString("utf8");
    const end = lastEventEnd(text);
    const rest = Buffer.from(text.slice(end));
    if (rest.length > 0) this.#keep(rest);
    let shown = "";
    for (const event of text.slice(0, end).split(/(?<=\n\r?\n)/))
      shown += event === "" ? "" : this.#events!.push(event);
    await this.#show(Buffer.from(shown));
  }

  async #finish(): Promise<void> {
    if (this.#isStream) {
      const rest = this.#pieces.take().toString("utf8");
      const last = (rest === "" ? "" : this.#events!.push(rest)) + this.#events!.end();
      await this.#show(Buffer.from(last));
      await this.#check();
      this.#start();
      for (const bytes of this.#held) this.next.write(bytes);
      this.#held = [];
      this.next.end();
    } else await this.#finishWhole(this.#pieces.take());
    this.#isOver = true;
  }

  async #finishWhole(body: Buffer): Promise<void> {
    const { status = 0, headers = {} } = this.#head ?? {};
    const json = objectIn(body);
    if (json === undefined) {
      const type = mediaTypeOf(headers);
      const isSearchable =
        type.includes("json") || encodingOf(headers) !== undefined || this.request.route.isGeneration;
      // An error has little text, and a proxy's error page is not a model's answer.
      if (status < 300 && isSearchable) throw unreadable(undefined);
      const text = type.startsWith("text/") ? await this.#guarded({ text: body.toString("utf8") }) : undefined;
      await this.#check();
      this.#start();
      this.next.end(text === undefined ? body : Buffer.from(String(text.text)));
      return;
    }
    const guarded = await this.#guarded(json);
    await this.#check();
    this.#start();
    this.next.end(guarded === json ? body : Buffer.from(JSON.stringify(guarded)));
  }

  async #guarded(answer: JsonObject): Promise<JsonObject> {
    const { guards, findings } = this;
    const found = new FoundTexts();
    mapAnswerTexts(answer, found.visit);
    if (this.#checkers.length > 0) for (const text of found.texts) this.#texts.push(text);
    const clean = await guardTexts(guards, "answer", found, findings);
    let at = 0;
    const changed = mapAnswerTexts(answer, () => clean[at++]!);
    return changed === answer ? answer : withoutSpelling(changed);
  }

  /** Passes events on, or holds them for the checker. */
  async #show(bytes: Buffer): Promise<void> {
    if (bytes.length === 0) return;
    if (this.#checkers.length > 0) {
      this.#held.push(bytes);
      this.#numBytesHeld += bytes.length;
      if (this.#numBytesHeld > MAX_BYTES) throw tooLong();
      return;
    }
    this.#start();
    if (!this.next.write(bytes)) await new Promise<void>((resolve) => this.#whenWelcome(resolve));
  }

  /** Waits until the client reads on, or is gone. */
  #whenWelcome(resolve: () => void): void {
    const leave = this.request.cancellation.onCancel(() => resolve());
    this.next.onDrain(() => {
      leave();
      resolve();
    });
  }

  async #check(): Promise<void> {
    if (this.#checkers.length === 0) return;
    const texts = this.#events === undefined ? this.#texts : this.#events.texts();
    if (texts.reduce((sum, text) => sum + text.length, 0) > MAX_CHECKED_CHARACTERS) throw tooLong();
    await checkTexts(this.#checkers, "answer", texts, this.request, this.findings);
  }

  #keep(bytes: Buffer): void {
    this.#pieces.push(bytes);
    if (this.#pieces.numBytes > MAX_BYTES) throw tooLong();
  }

  #start(): void {
    if (this.#hasBegun || this.#head === undefined) return;
    this.#hasBegun = true;
    const { "content-length": _length, etag: _etag, ...headers } = this.#head.headers;
    const flags = this.findings.isEmpty ? {} : { [FLAGS_HEADER]: this.findings.toString().slice(0, 1000) };
    this.next.begin({ ...this.#head, headers: { ...headers, ...flags } });
  }

  #stop(thrown: unknown): void {
    const error = thrown instanceof SyntaxError ? unreadable(thrown) : toMillraceError(thrown, "guardrail_failed");
    this.#error = error;
    this.#isOver = true;
    this.#pieces.clear();
    this.#held = [];
    if (this.#hasBegun) this.next.breakOff(error);
    this.refuse();
    this.#drain();
  }

  #drain(): void {
    const drained = this.#drained;
    this.#drained = undefined;
    drained?.();
  }
}

/** Asks all checkers at once. Throws guardrail_refused and guardrail_failed. */
export async function checkTexts(
  guards: readonly Guard[],
  stage: "request" | "answer",
  texts: readonly string[],
  request: GatewayRequest,
  findings: Findings,
): Promise<void> {
  if (texts.length === 0) return;
  const { model, id: requestId, cancellation } = request;
  const onCancel = (leave: () => void) => cancellation.onCancel(leave);
  const checked = { texts, stage, model, requestId, onCancel };
  const verdicts = await Promise.all(
    guards.map(async (guard) => [guard, await guard.checker?.check(checked)] as const),
  );
  for (const [guard, reason] of verdicts) {
    if (reason === undefined) continue;
    findings.add(guard, stage, reason);
    if (guard.action === "refuse") throw refusal(guard, stage, reason);
  }
}

function lastEventEnd(text: string): number {
  const ends = [text.lastIndexOf("\n\n") + 2, text.lastIndexOf("\n\r\n") + 3];
  return Math.max(ends[0]! > 1 ? ends[0]! : 0, ends[1]! > 2 ? ends[1]! : 0);
}

function objectIn(body: Buffer): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(body.toString("utf8"));
    return isPlainObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function tooLong(): MillraceError {
  return new MillraceError("guardrail_failed", "expected an answer that can be searched, got one that is too long");
}

function unreadable(cause: unknown): MillraceError {
  return new MillraceError("guardrail_failed", "expected events that can be searched, got one that is no JSON", {
    cause,
  });
}
