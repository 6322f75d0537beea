/** Writes a client's answers in Anthropic's messages. One block is open at a time, as its clients expect. */
import { randomUUID } from "node:crypto";
import type { TokenCounts } from "../../usage/record.js";
import { type AnswerPart, type AnswerWriter, malformed, type StopReason } from "../conversation/answer-parts.js";
import { argumentsObject, type Block, collected, NO_COUNTS } from "../conversation/collected.js";
import { thoughtSignature } from "../conversation/signatures.js";

const REASONS: Readonly<Record<StopReason, string>> = {
  end: "end_turn",
  sequence: "stop_sequence",
  pause: "pause_turn",
  length: "max_tokens",
  calls: "tool_use",
  filter: "refusal",
  refusal: "refusal",
};

interface MessagesFacts {
  /** The name that the client gave the model, for answers that name none. */
  readonly model: string;
}

function messagesUsage({ fresh, cacheRead, cacheWrite, output, reasoning }: TokenCounts): object {
  return {
    input_tokens: fresh,
    cache_creation_input_tokens: cacheWrite,
    cache_read_input_tokens: cacheRead,
    output_tokens: output,
    ...(reasoning === 0 ? {} : { output_tokens_details: { thinking_tokens: reasoning } }),
  };
}

function event(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

interface OpenBlock {
  readonly kind: "text" | "thought" | "call";
  /** Number of the call. */
  readonly call: number;
  signature: string;
}

export class MessagesAnswerWriter implements AnswerWriter {
  #counts = NO_COUNTS;
  #index = -1;
  #open: OpenBlock | undefined;
  #stop: { readonly stop_reason: string; readonly stop_sequence: string | null } | undefined;

  constructor(private readonly facts: MessagesFacts) {}

  stream(parts: readonly AnswerPart[]): string {
    // Counts that come with the first parts belong to the first event.
    for (const part of parts) if (part.kind === "usage") this.#counts = part.counts;
    return parts.map((part) => this.#event(part)).join("");
  }

  streamEnd(): string {
    const stop = this.#stop ?? { stop_reason: "end_turn", stop_sequence: null };
    const ending = event("message_delta", { delta: stop, usage: messagesUsage(this.#counts) });
    return this.#close() + ending + event("message_stop", {});
  }

  whole(parts: readonly AnswerPart[]): object {
    const { id, model, blocks, stop, sequence, counts } = collected(parts);
    return {
      ...this.#envelope(id, model),
      content: blocks.flatMap(blocksOf),
      stop_reason: REASONS[stop],
      stop_sequence: sequence ?? null,
      usage: messagesUsage(counts),
    };
  }

  #envelope(id: string | undefined, model: string | undefined): object {
    const own = id ?? `msg_${randomUUID().replaceAll("-", "")}`;
    return { id: own, type: "message", role: "assistant", model: model ?? this.facts.model };
  }

  #event(part: AnswerPart): string {
    switch (part.kind) {
      case "begin": {
        const message = { ...this.#envelope(part.id, part.model), content: [], stop_reason: null, stop_sequence: null };
        const usage = messagesUsage({ ...this.#counts, output: 0, reasoning: 0 });
        return event("message_start", { message: { ...message, usage } });
      }
      case "text":
        return this.#into("text", { type: "text", text: "" }) + this.#delta({ type: "text_delta", text: part.text });
      case "thought":
        return (
          this.#into("thought", { type: "thinking", thinking: "", signature: "" }) +
          this.#delta({ type: "thinking_delta", thinking: part.text })
        );
      case "signature":
        return this.#sign(part.signature);
      case "hidden-thought":
        return this.#close() + this.#start({ type: "redacted_thinking", data: part.data }) + this.#closeAt();
      case "call":
        return this.#call(part);
      case "arguments":
        if (this.#open?.kind !== "call" || this.#open.call !== part.index) {
          throw malformed(
            "the arguments of one call after those of another",
            `those of call ${part.index} among others`,
          );
        }
        return this.#delta({ type: "input_json_delta", partial_json: part.json });
      case "stop":
        this.#stop = { stop_reason: REASONS[part.reason], stop_sequence: part.sequence ?? null };
        return "";
      case "usage":
        return "";
    }
  }

  #call({ index, id, name, signature }: AnswerPart & { kind: "call" }): string {
    const signed = signature === undefined ? "" : this.#signedThought(thoughtSignature(signature));
    const closed = this.#close();
    this.#open = { kind: "call", call: index, signature: "" };
    return signed + closed + this.#start({ type: "tool_use", id, name, input: {} });
  }

  /** The thought that carries a call's signature: the one before the call, or an empty one. */
  #signedThought(signature: string): string {
    const opened = this.#into("thought", { type: "thinking", thinking: "", signature: "" });
    this.#open!.signature = signature;
    return opened;
  }

  #sign(signature: string): string {
    // A hidden thought has a signature but no text.
    const opened = this.#into("thought", { type: "thinking", thinking: "", signature: "" });
    this.#open!.signature = signature;
    return opened + this.#close();
  }

  /** Opens a block, unless one of the kind is open. */
  #into(kind: "text" | "thought", block: object): string {
    if (this.#open?.kind === kind) return "";
    const closed = this.#close();
    this.#open = { kind, call: -1, signature: "" };
    return closed + this.#start(block);
  }

  #start(block: object): string {
    return event("content_block_start", { index: ++this.#index, content_block: block });
  }

  #delta(delta: object): string {
    return event("content_block_delta", { index: this.#index, delta });
  }

  #close(): string {
    if (this.#open === undefined) return "";
    const { kind, signature } = this.#open;
    this.#open = undefined;
    return (kind === "thought" ? this.#delta({ type: "signature_delta", signature }) : "") + this.#closeAt();
  }

  #closeAt(): string {
    return event("content_block_stop", { index: this.#index });
  }
}

function blocksOf(block: Block): readonly object[] {
  switch (block.kind) {
    case "text":
      return [{ type: "text", text: block.text }];
    case "thought":
      return [{ type: "thinking", thinking: block.text, signature: block.signature ?? "" }];
    case "hidden-thought":
      return [{ type: "redacted_thinking", data: block.data }];
    case "call": {
      const { id, name, json, signature } = block;
      const use = { type: "tool_use", id, name, input: argumentsObject(json) };
      if (signature === undefined) return [use];
      return [{ type: "thinking", thinking: "", signature: thoughtSignature(signature) }, use];
    }
  }
}
