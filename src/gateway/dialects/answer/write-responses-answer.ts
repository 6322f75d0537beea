/** Writes a client's answers in OpenAI's responses: items, of which one is open at a time. */
import { randomUUID } from "node:crypto";
import { isPlainObject } from "../../../core/is-plain-object.js";
import type { JsonObject } from "../../../core/json-body.js";
import { ResponseEvents } from "../../../core/response-events.js";
import {
  type ItemStatus,
  type ResponseHead,
  type ResponseItem,
  responseObject,
  responseUsage,
  statusOf,
} from "../../../core/response-objects.js";
import type { TokenCounts } from "../../usage/record.js";
import { promptTokensOf } from "../../usage/token-counts.js";
import {
  type AnswerPart,
  type AnswerWriter,
  MAX_CHARACTERS,
  malformed,
  type StopReason,
} from "../conversation/answer-parts.js";
import { NO_COUNTS } from "../conversation/collected.js";
import { type Sealed, sealed } from "../conversation/signatures.js";

const INCOMPLETE: Readonly<Partial<Record<StopReason, "max_output_tokens" | "content_filter">>> = {
  length: "max_output_tokens",
  filter: "content_filter",
  refusal: "content_filter",
};

/** Upper bound of an item's characters apart from its text. */
const ITEM_CHARACTERS = 512;

interface ResponsesFacts {
  /** The client's request: an answer repeats some of its fields. */
  readonly body: JsonObject;
  /** The name that the client gave the model, for answers that name none. */
  readonly model: string;
  /** Unix time of the answer in seconds. */
  readonly created: number;
}

interface Item extends ResponseItem {
  text: string;
  /** The end of the text that no event has sent yet. */
  unsent: string;
  encrypted: string | undefined;
  state: "new" | "open" | "done";
  /** Length of the arguments when they were last found incomplete. */
  numChecked: number;
}

export class ResponsesAnswerWriter implements AnswerWriter {
  readonly #events = new ResponseEvents();
  readonly #items: Item[] = [];
  /** Items of the calls, by the calls' numbers. */
  readonly #calls = new Map<number, Item>();
  /** Items whose last event is sent. */
  #numDone = 0;
  #head: ResponseHead;
  #counts = NO_COUNTS;
  #stop: StopReason = "end";
  #numCharacters = 0;

  constructor({ body, model, created }: ResponsesFacts) {
    this.#head = headOf(body, model, created);
  }

  stream(parts: readonly AnswerPart[]): string {
    return parts.map((part) => this.#event(part)).join("");
  }

  streamEnd(): string {
    if (this.#items.length === 0) this.#new("content");
    const outcome = this.#outcome();
    const events = this.#begun() + this.#news(statusOf(outcome));
    return events + this.#events.finish(responseObject(this.#head, outcome));
  }

  whole(parts: readonly AnswerPart[]): object {
    for (const part of parts) this.#take(part);
    if (this.#items.length === 0) this.#new("content");
    const outcome = this.#outcome();
    for (const [at, item] of this.#items.entries()) this.#fill(item, this.#statusAt(at, statusOf(outcome)));
    return responseObject(this.#head, outcome);
  }

  #event(part: AnswerPart): string {
    const item = this.#take(part);
    if (item?.state === "done") throw malformed("all arguments of a call at once", `more for ${item.name}`);
    if (item === undefined && part.kind !== "begin") return "";
    return this.#begun() + this.#news(undefined);
  }

  /** The beginning, once: a provider may announce it twice, or never. */
  #begun(): string {
    return this.#events.hasBegun ? "" : this.#events.begin(this.#head);
  }

  /**
   * The events that are due. Clients know one open item at a time: parts that come between the arguments of a call wait
   * for the end of these.
   * @param end status of the answer, if it has ended
   */
  #news(end: ItemStatus | undefined): string {
    let events = "";
    for (; this.#numDone < this.#items.length; this.#numDone++) {
      const item = this.#items[this.#numDone]!;
      if (item.state === "new") events += this.#events.open(item, item.text !== "" || item.kind === "content");
      item.state = "open";
      const isLast = this.#numDone === this.#items.length - 1;
      const isDone = end !== undefined || (!isLast && isWhole(item));
      const status = this.#statusAt(this.#numDone, end ?? "completed");
      if (isDone) this.#fill(item, status);
      if (item.unsent !== "") events += this.#events.delta(item.unsent);
      item.unsent = "";
      if (!isDone) break;
      events += this.#events.done(status);
      item.state = "done";
    }
    return events;
  }

  #statusAt(index: number, end: ItemStatus): ItemStatus {
    return index === this.#items.length - 1 ? end : "completed";
  }

  /** Gives a call without arguments those of an empty object, as OpenAI does, unless it was cut off before them. */
  #fill(item: Item, status: ItemStatus): void {
    if (item.kind === "call" && item.text === "" && status === "completed") this.#add(item, "{}");
  }

  /** @returns the item that the part belongs to, if any */
  #take(part: AnswerPart): Item | undefined {
    switch (part.kind) {
      case "begin":
        this.#head = { ...this.#head, model: part.model ?? this.#head.model };
        return undefined;
      case "text":
      case "thought":
        return part.text === "" ? undefined : this.#say(part);
      case "signature":
        return part.signature === "" ? undefined : this.#seal("thought", part.signature);
      case "hidden-thought":
        return this.#sealed(this.#new("summary"), "hidden", part.data);
      case "call": {
        if (part.signature !== undefined) this.#seal("call", part.signature);
        const call = this.#new("call", part);
        this.#calls.set(part.index, call);
        return call;
      }
      case "arguments": {
        const call = this.#calls.get(part.index);
        if (call === undefined) throw malformed("a call before its arguments", part.json);
        return this.#add(call, part.json);
      }
      case "stop":
        this.#stop = part.reason;
        return undefined;
      case "usage":
        this.#counts = part.counts;
        return undefined;
    }
  }

  #new(kind: Item["kind"], { name, id }: { readonly name: string; readonly id?: string } = { name: "" }): Item {
    this.#count(ITEM_CHARACTERS);
    const item: Item = {
      kind,
      id: randomUUID().replaceAll("-", ""),
      name,
      callId: id,
      text: "",
      unsent: "",
      logprobs: [],
      // Even without a signature, a thought shows its origin.
      encrypted: kind === "summary" ? UNSIGNED : undefined,
      state: "new",
      numChecked: 0,
    };
    this.#items.push(item);
    return item;
  }

  #say({ kind, text }: { readonly kind: "text" | "thought"; readonly text: string }): Item {
    const last = this.#items.at(-1);
    const isOpen = kind === "text" ? last?.kind === "content" : last?.encrypted === UNSIGNED;
    return this.#add(isOpen ? last! : this.#new(kind === "text" ? "content" : "summary"), text);
  }

  #add(item: Item, text: string): Item {
    this.#count(text.length);
    item.text += text;
    item.unsent += text;
    return item;
  }

  /** Signs the thought that comes last, or an empty one: a hidden thought has a signature but no text. */
  #seal(kind: Sealed["kind"], value: string): Item {
    const last = this.#items.at(-1);
    return this.#sealed(last?.encrypted === UNSIGNED ? last : this.#new("summary"), kind, value);
  }

  #sealed(item: Item, kind: Sealed["kind"], value: string): Item {
    this.#count(value.length);
    item.encrypted = sealed({ kind, value });
    return item;
  }

  #count(numCharacters: number): void {
    this.#numCharacters += numCharacters;
    // The last event repeats all texts, so they are kept.
    if (this.#numCharacters > MAX_CHARACTERS) throw malformed(`at most ${MAX_CHARACTERS} characters`, "more");
  }

  #outcome() {
    return { items: this.#items, incomplete: INCOMPLETE[this.#stop], usage: usageOf(this.#counts) };
  }
}

const UNSIGNED = sealed({ kind: "thought", value: "" });

/** Whether the item's text is complete, if other items follow: a call's is at the end of an object. */
function isWhole(item: Item): boolean {
  if (item.kind !== "call") return true;
  if (item.numChecked === item.text.length) return false;
  item.numChecked = item.text.length;
  try {
    return isPlainObject(JSON.parse(item.text));
  } catch {
    return false;
  }
}

function usageOf(counts: TokenCounts): object {
  const { cacheRead, cacheWrite, output, reasoning } = counts;
  const input = promptTokensOf(counts);
  return responseUsage({ input, cached: cacheRead, written: cacheWrite, output, reasoning });
}

/** Values that another API would not take have been refused before. */
function headOf(body: JsonObject, model: string, created: number): ResponseHead {
  const { instructions, max_output_tokens, temperature, top_p, tools, tool_choice, reasoning, text } = body;
  return {
    id: `resp_${randomUUID().replaceAll("-", "")}`,
    createdAtSeconds: created,
    model,
    instructions: textOr(instructions, null),
    maxOutputTokens: numberOr(max_output_tokens, null),
    temperature: numberOr(temperature, null),
    topP: numberOr(top_p, null),
    presencePenalty: numberOr(body.presence_penalty, 0),
    frequencyPenalty: numberOr(body.frequency_penalty, 0),
    tools: Array.isArray(tools) ? tools : [],
    toolChoice: tool_choice ?? "auto",
    isParallel: body.parallel_tool_calls !== false,
    effort: isPlainObject(reasoning) ? textOr(reasoning.effort, null) : null,
    textFormat: isPlainObject(text) && isPlainObject(text.format) ? text.format : { type: "text" },
    truncation: "disabled",
    numTopLogprobs: undefined,
    previousId: null,
    isToBeStored: false,
    metadata: isPlainObject(body.metadata) ? body.metadata : {},
  };
}

const textOr = <T>(value: unknown, other: T): string | T => (typeof value === "string" ? value : other);
const numberOr = <T>(value: unknown, other: T): number | T => (typeof value === "number" ? value : other);
