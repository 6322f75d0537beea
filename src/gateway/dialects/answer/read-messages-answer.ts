/** Reads a provider's answers in Anthropic's messages. */
import type { JsonObject } from "../../../core/json-body.js";
import { laterUsage, type ReportedUsage } from "../../usage/token-counts.js";
import {
  type AnswerPart,
  type AnswerReader,
  assertFewCalls,
  failedInStream,
  malformed,
  objectAt,
  objectsAt,
  type StopReason,
  textAt,
  usageParts,
} from "../conversation/answer-parts.js";
import { callId } from "../conversation/turns.js";

const STOPS: Readonly<Record<string, StopReason>> = {
  end_turn: "end",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  stop_sequence: "sequence",
  tool_use: "calls",
  refusal: "refusal",
  pause_turn: "pause",
};

export class MessagesAnswerReader implements AnswerReader {
  /** `message_delta` repeats only some counts of `message_start`. */
  #usageSoFar: ReportedUsage = {};
  #isStopped = false;
  #numCalls = 0;
  /** Numbers of the open calls, by the numbers of their blocks. */
  readonly #calls = new Map<number, number>();

  event(event: JsonObject, name: string): readonly AnswerPart[] {
    const parts: AnswerPart[] = [];
    switch (textAt(event, "type") ?? name) {
      case "message_start": {
        const message = objectAt(event, "message");
        if (message === undefined) throw malformed("a message", message);
        this.#begin(message, parts);
        break;
      }
      case "content_block_start": {
        const block = objectAt(event, "content_block");
        if (block === undefined) throw malformed("a content_block", block);
        this.#block(block, indexOf(event), parts, false);
        break;
      }
      case "content_block_delta": {
        const delta = objectAt(event, "delta");
        if (delta === undefined) throw malformed("a delta", delta);
        this.#delta(delta, indexOf(event), parts);
        break;
      }
      case "content_block_stop":
        this.#calls.delete(indexOf(event));
        break;
      case "message_delta": {
        const delta = objectAt(event, "delta");
        if (delta !== undefined) this.#stop(delta, parts);
        this.#usage(event, parts);
        break;
      }
      case "error":
        throw failedInStream(objectAt(event, "error")?.message);
    }
    return parts;
  }

  end(): readonly AnswerPart[] {
    if (!this.#isStopped) throw malformed("a stop_reason", undefined);
    return [];
  }

  whole(body: JsonObject): readonly AnswerPart[] {
    const parts: AnswerPart[] = [];
    if (!Array.isArray(body.content)) throw malformed("a list of blocks as content", body.content);
    this.#begin(body, parts);
    for (const [index, block] of objectsAt(body, "content").entries()) this.#block(block, index, parts, true);
    this.#stop(body, parts);
    if (!this.#isStopped) throw malformed("a stop_reason", body.stop_reason);
    return parts;
  }

  #begin(message: JsonObject, parts: AnswerPart[]): void {
    parts.push({ kind: "begin", id: textAt(message, "id"), model: textAt(message, "model") });
    this.#usage(message, parts);
  }

  /** Reads a block. Skips blocks that only other requests than ours can cause. */
  #block(block: JsonObject, index: number, parts: AnswerPart[], isWhole: boolean): void {
    switch (textAt(block, "type")) {
      case "text":
        pushText("text", textAt(block, "text"), parts);
        break;
      case "thinking":
        pushText("thought", textAt(block, "thinking"), parts);
        pushSignature(textAt(block, "signature"), parts);
        break;
      case "redacted_thinking":
        parts.push({ kind: "hidden-thought", data: textAt(block, "data") ?? "" });
        break;
      case "tool_use": {
        const [id, name] = [textAt(block, "id"), textAt(block, "name")];
        if (id === undefined || name === undefined) throw malformed("an id and a name of a call", id ?? name);
        assertFewCalls(this.#numCalls);
        const number = this.#numCalls++;
        this.#calls.set(index, number);
        parts.push({ kind: "call", index: number, id: callId(id), name });
        const input = objectAt(block, "input") ?? {};
        // In a stream the arguments follow.
        if (isWhole) parts.push({ kind: "arguments", index: number, json: JSON.stringify(input) });
        break;
      }
    }
  }

  #delta(delta: JsonObject, index: number, parts: AnswerPart[]): void {
    switch (textAt(delta, "type")) {
      case "text_delta":
        pushText("text", textAt(delta, "text"), parts);
        break;
      case "thinking_delta":
        pushText("thought", textAt(delta, "thinking"), parts);
        break;
      case "signature_delta":
        pushSignature(textAt(delta, "signature"), parts);
        break;
      case "input_json_delta": {
        const call = this.#calls.get(index);
        const json = textAt(delta, "partial_json") ?? "";
        if (call !== undefined && json !== "") parts.push({ kind: "arguments", index: call, json });
        break;
      }
    }
  }

  #stop(delta: JsonObject, parts: AnswerPart[]): void {
    const reason = textAt(delta, "stop_reason");
    if (reason === undefined || this.#isStopped) return;
    this.#isStopped = true;
    parts.push({ kind: "stop", reason: STOPS[reason] ?? "end", sequence: textAt(delta, "stop_sequence") });
  }

  #usage(holder: JsonObject, parts: AnswerPart[]): void {
    const usage = objectAt(holder, "usage");
    if (usage === undefined) return;
    this.#usageSoFar = laterUsage(this.#usageSoFar, usage);
    parts.push(...usageParts(this.#usageSoFar));
  }
}

function pushText(kind: "text" | "thought", text: string | undefined, parts: AnswerPart[]): void {
  if (text !== undefined && text !== "") parts.push({ kind, text });
}

function pushSignature(signature: string | undefined, parts: AnswerPart[]): void {
  if (signature !== undefined && signature !== "") parts.push({ kind: "signature", signature });
}

function indexOf({ index }: JsonObject): number {
  if (typeof index === "number") return index;
  throw malformed("the number of a block", index);
}
