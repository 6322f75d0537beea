/**
 * The stream events of /v1/responses: each output item opens before its first delta and is done before the next item
 * opens. Every event has a sequence number.
 */
import {
  type ItemStatus,
  itemId,
  itemObject,
  pendingResponse,
  type ResponseHead,
  type ResponseItem,
  textPart,
  type WholeResponse,
} from "./response-objects.js";

/** Event names for an item's text and for the part that holds it, and the part's number. */
interface ItemForm {
  readonly text: string;
  readonly part?: string;
  readonly index: object;
}

const FIRST_CONTENT = { part: "response.content_part", index: { content_index: 0 } } as const;

const FORMS: Readonly<Record<ResponseItem["kind"], ItemForm>> = {
  content: { text: "response.output_text", ...FIRST_CONTENT },
  reasoning: { text: "response.reasoning_text", ...FIRST_CONTENT },
  summary: {
    text: "response.reasoning_summary_text",
    part: "response.reasoning_summary_part",
    index: { summary_index: 0 },
  },
  call: { text: "response.function_call_arguments", index: {} },
};

export class ResponseEvents {
  #sequenceNumber = 0;
  /** Index of the current item; earlier items are done. */
  #openIndex = -1;
  #item: ResponseItem | undefined;
  /** The event name of the open item's part; undefined: the item has no part. */
  #part: string | undefined;
  /** The serialised delta event of the open item, up to its sequence number. */
  #deltaHead = "";

  get hasBegun(): boolean {
    return this.#sequenceNumber > 0;
  }

  begin(head: ResponseHead): string {
    const response = pendingResponse(head);
    return this.event("response.created", { response }) + this.event("response.in_progress", { response });
  }

  event(type: string, fields: object): string {
    const data = { type, sequence_number: this.#sequenceNumber++, ...fields };
    return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
  }

  /** Opens the next item; its text so far must follow as a delta. @param hasPart whether the item will have text */
  open(item: ResponseItem, hasPart = true): string {
    this.#openIndex++;
    this.#item = item;
    const form = FORMS[item.kind];
    this.#part = hasPart ? form.part : undefined;
    const type = `${form.text}.delta`;
    const head = JSON.stringify({ type, ...this.#position(item) }).slice(0, -1);
    this.#deltaHead = `event: ${type}\ndata: ${head}`;
    const added = { output_index: this.#openIndex, item: itemObject(item, "in_progress") };
    const begin = this.event("response.output_item.added", added);
    if (this.#part === undefined) return begin;
    return begin + this.event(`${this.#part}.added`, { ...this.#position(item), part: textPart(item.kind, "") });
  }

  /** A piece of the open item's text. @param logprobs those of a message's tokens */
  delta(delta: string, logprobs: readonly object[] = []): string {
    const scores = this.#item?.kind === "content" ? `,"logprobs":${JSON.stringify(logprobs)}` : "";
    const rest = `"sequence_number":${this.#sequenceNumber++},"delta":${JSON.stringify(delta)}${scores}`;
    return `${this.#deltaHead},${rest}}\n\n`;
  }

  /** Ends the open item, if any. */
  done(status: ItemStatus): string {
    const item = this.#item;
    if (item === undefined) return "";
    this.#item = undefined;
    const { kind, name, text, logprobs } = item;
    const position = this.#position(item);
    const type = `${FORMS[kind].text}.done`;
    let events = "";
    if (kind === "call") events += this.event(type, { ...position, name, arguments: text });
    if (this.#part !== undefined) {
      events += this.event(type, { ...position, text, ...(kind === "content" ? { logprobs } : {}) });
      events += this.event(`${this.#part}.done`, { ...position, part: textPart(kind, text, logprobs) });
    }
    const whole = { output_index: this.#openIndex, item: itemObject(item, status) };
    return events + this.event("response.output_item.done", whole);
  }

  /** The last event. */
  finish(response: WholeResponse): string {
    return this.event(`response.${response.status}`, { response });
  }

  #position(item: ResponseItem): object {
    return { item_id: itemId(item), output_index: this.#openIndex, ...FORMS[item.kind].index };
  }
}
