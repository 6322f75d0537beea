/** The stream events of an answer's content blocks: each is opened before its first delta, and closed before the next one opens. */

export function streamEvent(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

const PING = streamEvent("ping", {});

/** What a block is opened with; its deltas are of the same kind. */
interface OpenBlock {
  readonly kind: "text";
  /** Everything of a delta event up to its text. */
  readonly deltaHead: string;
}

export class BlockEvents {
  #numBlocks = 0;
  #open: OpenBlock | undefined;

  /** More of the text that the user sees. */
  text(text: string): string {
    const begin =
      this.#open?.kind === "text" ? "" : this.#begin("text", { type: "text", text: "" }, "text_delta", "text");
    return `${begin}${this.#open?.deltaHead}${JSON.stringify(text)}}}\n\n`;
  }

  /** Ends the block that is open, if any. */
  close(): string {
    if (this.#open === undefined) return "";
    this.#open = undefined;
    return streamEvent("content_block_stop", { index: this.#numBlocks - 1 });
  }

  /** @param field of the delta that holds its text */
  #begin(kind: OpenBlock["kind"], block: object, deltaType: string, field: string): string {
    const closing = this.close();
    const index = this.#numBlocks++;
    const deltaHead =
      `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},` +
      `"delta":{"type":"${deltaType}","${field}":`;
    this.#open = { kind, deltaHead };
    const start = streamEvent("content_block_start", { index, content_block: block });
    return closing + start + (index === 0 ? PING : "");
  }
}
