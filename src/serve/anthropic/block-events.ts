/**
 * An answer's content blocks, complete or as stream events. A block opens before its first delta and closes before the
 * next block opens.
 */
import type { AnswerPart } from "../../text/answer/answer-part.js";
import { readArguments } from "../../text/answer/read-arguments.js";
import { type AnswerItem, addPart, textOfPart } from "../generation/answer-items.js";

export function streamEvent(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

export const PING = streamEvent("ping", {});

/** The type of a block's deltas and the name of their text field. */
const DELTAS: Readonly<Record<AnswerItem["kind"], { readonly type: string; readonly field: string }>> = {
  content: { type: "text_delta", field: "text" },
  reasoning: { type: "thinking_delta", field: "thinking" },
  call: { type: "input_json_delta", field: "partial_json" },
};

/** Thinking blocks carry no real signature, because a client could write thoughts into its prompt anyway. */
const SIGNATURE = "";

export function contentBlock({ kind, id, name, text }: AnswerItem, hidesThoughts: boolean): object {
  switch (kind) {
    case "content":
      return { type: "text", text };
    case "reasoning":
      return { type: "thinking", thinking: hidesThoughts ? "" : text, signature: SIGNATURE };
    case "call":
      return { type: "tool_use", id: `toolu_${id}`, name, input: readArguments(text), caller: { type: "direct" } };
  }
}

export class BlockEvents {
  readonly #hidesThoughts: boolean;
  readonly #items: AnswerItem[] = [];
  /** Index of the last opened block. */
  #index = -1;
  #isOpen = false;
  /** The serialised delta event of the open block, up to its text. */
  #deltaHead = "";

  constructor(hidesThoughts: boolean) {
    this.#hidesThoughts = hidesThoughts;
  }

  get items(): readonly AnswerItem[] {
    return this.#items;
  }

  add(part: AnswerPart): string {
    const begin = addPart(this.#items, part) ? this.close() + this.#open() : "";
    const text = part.kind === "reasoning" && this.#hidesThoughts ? "" : textOfPart(part);
    return text === "" ? begin : `${begin}${this.#deltaHead}${JSON.stringify(text)}}}\n\n`;
  }

  /** Ends the open block, if any. */
  close(): string {
    if (!this.#isOpen) return "";
    this.#isOpen = false;
    const index = this.#index;
    const isThought = this.#items[index]?.kind === "reasoning";
    const delta = { type: "signature_delta", signature: SIGNATURE };
    const signature = isThought ? streamEvent("content_block_delta", { index, delta }) : "";
    return signature + streamEvent("content_block_stop", { index });
  }

  #open(): string {
    const index = ++this.#index;
    const item = this.#items[index]!;
    const { type, field } = DELTAS[item.kind];
    this.#isOpen = true;
    this.#deltaHead =
      `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},` +
      `"delta":{"type":"${type}","${field}":`;
    const block = contentBlock({ ...item, text: "" }, this.#hidesThoughts);
    return streamEvent("content_block_start", { index, content_block: block }) + (index === 0 ? PING : "");
  }
}
