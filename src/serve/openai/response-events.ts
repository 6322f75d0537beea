/** The stream of a response from this server: its events, with the log-probabilities of each piece of text. */

import { errorBody } from "../../core/error-body.js";
import { ResponseEvents } from "../../core/response-events.js";
import { failedResponse, responseObject, statusOf, type WholeResponse } from "../../core/response-objects.js";
import type { AnswerPart } from "../../text/answer/answer-part.js";
import { type AnswerItem, addPart, partsOf, textOfPart } from "../generation/answer-items.js";
import type { GenerationEnd, ScoredToken } from "../generation/generation.js";
import type { JobTotals } from "../generation/job.js";
import type { StreamFrames } from "../http/respond.js";
import { emptyAnswerItem, outcomeOf, type ResponseFacts } from "./response-objects.js";

class ResponseStream {
  readonly #facts: ResponseFacts;
  readonly #events = new ResponseEvents();
  readonly #items: AnswerItem[] = [];
  #logprobs: object[] = [];

  constructor(facts: ResponseFacts) {
    this.#facts = facts;
  }

  begin(): string {
    return this.#events.hasBegun ? "" : this.#events.begin(this.#facts);
  }

  /** Keeps scores of tokens without text for the next text. */
  score(said: readonly ScoredToken[]): void {
    for (const logprob of this.#facts.logprobs(said)) this.#logprobs.push(logprob);
  }

  add(part: AnswerPart): string {
    const isNew = addPart(this.#items, part);
    const begin = isNew ? this.#events.done("completed") + this.#events.open(this.#items.at(-1)!) : "";
    const delta = textOfPart(part);
    if (delta === "") return begin;
    return begin + this.#events.delta(delta, part.kind === "content" ? this.#takeLogprobs() : []);
  }

  /** The log-probabilities since the last delta, for the next delta of the same item. */
  #takeLogprobs(): readonly object[] {
    const logprobs = this.#logprobs;
    this.#logprobs = [];
    for (const each of logprobs) this.#items.at(-1)?.logprobs.push(each);
    return logprobs;
  }

  finish(end: GenerationEnd, totals: JobTotals, store: StoreResponse): string {
    let text = "";
    if (this.#items.length === 0) {
      this.#items.push(emptyAnswerItem());
      text += this.#events.open(this.#items[0]!);
    }
    if (this.#items.at(-1)?.kind === "content") this.#takeLogprobs();
    const outcome = outcomeOf(this.#facts, { items: this.#items, end, totals });
    text += this.#events.done(statusOf(outcome));
    return text + this.#events.finish(store(responseObject(this.#facts, outcome)));
  }

  fail(message: string): string {
    return this.#events.event("response.failed", { response: failedResponse(this.#facts, message) });
  }
}

/** Receives the complete response before the last event is sent, and returns the response for that event. */
type StoreResponse = (response: WholeResponse) => WholeResponse;

export function responseFrames(facts: ResponseFacts, requestId: string, store: StoreResponse): StreamFrames {
  const events = new ResponseStream(facts);
  let end: GenerationEnd = { reason: "stop", stopReason: null };
  return {
    onUpdate(_index, update) {
      const begin = events.begin();
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
