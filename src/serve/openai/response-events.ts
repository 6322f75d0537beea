/**
 * The stream events of /v1/responses: each output item opens before its first delta and is done before the next one
 * opens. Every event has a sequence number.
 */

import { errorBody } from "../../core/error-body.js";
import type { AnswerPart } from "../../text/answer/answer-part.js";
import { type AnswerItem, addPart, partsOf, textOfPart } from "../generation/answer-items.js";
import type { GenerationEnd, ScoredToken } from "../generation/generation.js";
import type { JobTotals } from "../generation/job.js";
import type { StreamFrames } from "../http/respond.js";
import {
  contentPart,
  emptyAnswerItem,
  failedResponse,
  type ItemStatus,
  itemId,
  itemObject,
  pendingResponse,
  type ResponseFacts,
  responseObject,
  statusOf,
  type WholeResponse,
} from "./response-objects.js";

const TEXT_EVENTS: Readonly<Record<AnswerItem["kind"], string>> = {
  content: "response.output_text",
  reasoning: "response.reasoning_text",
  call: "response.function_call_arguments",
};

class ResponseEvents {
  readonly #facts: ResponseFacts;
  readonly #items: AnswerItem[] = [];
  #sequenceNumber = 0;
  #logprobs: object[] = [];
  /** The index of the current item; earlier items are done. */
  #openIndex = -1;
  /** The serialised delta event of the open item, up to its sequence number. */
  #deltaHead = "";

  constructor(facts: ResponseFacts) {
    this.#facts = facts;
  }

  get hasBegun(): boolean {
    return this.#sequenceNumber > 0;
  }

  begin(): string {
    const response = pendingResponse(this.#facts);
    return this.#event("response.created", { response }) + this.#event("response.in_progress", { response });
  }

  /** Scores of tokens without text so far are sent with the next text. */
  score(said: readonly ScoredToken[]): void {
    for (const logprob of this.#facts.logprobs(said)) this.#logprobs.push(logprob);
  }

  add(part: AnswerPart): string {
    const begin = addPart(this.#items, part) ? this.#done("completed") + this.#open() : "";
    const delta = textOfPart(part);
    if (delta === "") return begin;
    const logprobs = part.kind === "content" ? `,"logprobs":${JSON.stringify(this.#takeLogprobs())}` : "";
    const rest = `"sequence_number":${this.#sequenceNumber++},"delta":${JSON.stringify(delta)}${logprobs}`;
    return `${begin}${this.#deltaHead},${rest}}\n\n`;
  }

  /** The log-probabilities since the last delta, for the next delta of the same item. */
  #takeLogprobs(): readonly object[] {
    const logprobs = this.#logprobs;
    this.#logprobs = [];
    for (const each of logprobs) this.#items[this.#openIndex]?.logprobs.push(each);
    return logprobs;
  }

  finish(end: GenerationEnd, totals: JobTotals, store: StoreResponse): string {
    let text = "";
    if (this.#items.length === 0) {
      this.#items.push(emptyAnswerItem());
      text += this.#open();
    }
    if (this.#items.at(-1)?.kind === "content") this.#takeLogprobs();
    text += this.#done(statusOf(end));
    const response = store(responseObject(this.#facts, { items: this.#items, end, totals }));
    return text + this.#event(`response.${response.status}`, { response });
  }

  fail(message: string): string {
    return this.#event("response.failed", { response: failedResponse(this.#facts, message) });
  }

  #event(type: string, fields: object): string {
    const data = { type, sequence_number: this.#sequenceNumber++, ...fields };
    return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
  }

  /** Opens the next item. */
  #open(): string {
    const index = ++this.#openIndex;
    const item = this.#items[index]!;
    const type = `${TEXT_EVENTS[item.kind]}.delta`;
    const head = JSON.stringify({ type, ...this.#position(item) }).slice(0, -1);
    this.#deltaHead = `event: ${type}\ndata: ${head}`;
    const added = { output_index: index, item: itemObject(item, "in_progress") };
    const begin = this.#event("response.output_item.added", added);
    if (item.kind === "call") return begin;
    const part = contentPart(item.kind, "");
    return begin + this.#event("response.content_part.added", { ...this.#position(item), part });
  }

  /** Ends the open item, if any. */
  #done(status: ItemStatus): string {
    const item = this.#items[this.#openIndex];
    if (item === undefined) return "";
    const position = this.#position(item);
    const { kind, name, text } = item;
    const done = { output_index: this.#openIndex, item: itemObject(item, status) };
    const type = `${TEXT_EVENTS[kind]}.done`;
    if (kind === "call") {
      const end = this.#event(type, { ...position, name, arguments: text });
      return end + this.#event("response.output_item.done", done);
    }
    return (
      this.#event(type, { ...position, text, ...(kind === "content" ? { logprobs: item.logprobs } : {}) }) +
      this.#event("response.content_part.done", { ...position, part: contentPart(kind, text, item.logprobs) }) +
      this.#event("response.output_item.done", done)
    );
  }

  #position(item: AnswerItem) {
    const position = { item_id: itemId(item), output_index: this.#openIndex };
    return item.kind === "call" ? position : { ...position, content_index: 0 };
  }
}

/** Receives the complete response before the last event is sent, and returns the response for that event. */
type StoreResponse = (response: WholeResponse) => WholeResponse;

export function responseFrames(facts: ResponseFacts, requestId: string, store: StoreResponse): StreamFrames {
  const events = new ResponseEvents(facts);
  let end: GenerationEnd = { reason: "stop", stopReason: null };
  return {
    onUpdate(_index, update) {
      const begin = events.hasBegun ? "" : events.begin();
      if (update.end !== undefined) end = update.end;
      events.score(update.said);
      return (
        begin +
        partsOf(update)
          .map((part) => events.add(part))
          .join("")
      );
    },
    onDone: (totals) => events.finish(end, totals, store),
    onError: (error) => events.fail(errorBody(error, requestId).error.message),
  };
}
