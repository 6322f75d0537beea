/** Reads the answers of Bedrock's Converse. */
import type { JsonObject } from "../../../core/json-body.js";
import {
  type AnswerPart,
  type AnswerReader,
  assertFewCalls,
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
  guardrail_intervened: "filter",
  content_filtered: "filter",
};

export class ConverseAnswerReader implements AnswerReader {
  #hasBegun = false;
  #isStopped = false;
  #numCalls = 0;
  /** Numbers of the open calls, by the numbers of their blocks. */
  readonly #calls = new Map<number, number>();

  event(event: JsonObject, name: string): readonly AnswerPart[] {
    const parts = this.#begin();
    switch (name) {
      case "contentBlockStart": {
        const start = objectAt(event, "start");
        const use = start === undefined ? undefined : objectAt(start, "toolUse");
        if (use !== undefined) this.#calls.set(blockIndex(event), this.#call(use, parts));
        break;
      }
      case "contentBlockDelta": {
        const delta = objectAt(event, "delta");
        if (delta === undefined) throw malformed("a delta", delta);
        this.#delta(delta, blockIndex(event), parts);
        break;
      }
      case "contentBlockStop":
        this.#calls.delete(blockIndex(event));
        break;
      case "messageStop":
        this.#stop(event, parts);
        break;
      case "metadata":
        parts.push(...usageParts(objectAt(event, "usage")));
        break;
    }
    return parts;
  }

  end(): readonly AnswerPart[] {
    if (!this.#isStopped) throw malformed("a stopReason", undefined);
    return [];
  }

  whole(body: JsonObject): readonly AnswerPart[] {
    const parts = this.#begin();
    const output = objectAt(body, "output");
    const message = output === undefined ? undefined : objectAt(output, "message");
    if (message === undefined) throw malformed("a message", message);
    for (const block of objectsAt(message, "content")) this.#block(block, parts);
    this.#stop(body, parts);
    this.end();
    parts.push(...usageParts(objectAt(body, "usage")));
    return parts;
  }

  /** Converse has neither ids nor a model's name. */
  #begin(): AnswerPart[] {
    if (this.#hasBegun) return [];
    this.#hasBegun = true;
    return [{ kind: "begin", id: undefined, model: undefined }];
  }

  #call(use: JsonObject, parts: AnswerPart[]): number {
    const [id, name] = [textAt(use, "toolUseId"), textAt(use, "name")];
    if (id === undefined || name === undefined) throw malformed("an id and a name of a call", id ?? name);
    assertFewCalls(this.#numCalls);
    const index = this.#numCalls++;
    parts.push({ kind: "call", index, id: callId(id), name });
    return index;
  }

  #block(block: JsonObject, parts: AnswerPart[]): void {
    pushText("text", textAt(block, "text"), parts);
    const use = objectAt(block, "toolUse");
    if (use !== undefined) {
      const index = this.#call(use, parts);
      parts.push({ kind: "arguments", index, json: JSON.stringify(objectAt(use, "input") ?? {}) });
    }
    const reasoning = objectAt(block, "reasoningContent");
    if (reasoning === undefined) return;
    const thought = objectAt(reasoning, "reasoningText");
    if (thought !== undefined) this.#thought(thought, parts);
    this.#thought(reasoning, parts);
  }

  #delta(delta: JsonObject, block: number, parts: AnswerPart[]): void {
    pushText("text", textAt(delta, "text"), parts);
    const use = objectAt(delta, "toolUse");
    if (use !== undefined) {
      const index = this.#calls.get(block);
      const json = textAt(use, "input") ?? "";
      if (index === undefined) throw malformed("a call before its arguments", json);
      if (json !== "") parts.push({ kind: "arguments", index, json });
    }
    const reasoning = objectAt(delta, "reasoningContent");
    if (reasoning !== undefined) this.#thought(reasoning, parts);
  }

  #thought(reasoning: JsonObject, parts: AnswerPart[]): void {
    pushText("thought", textAt(reasoning, "text"), parts);
    const signature = textAt(reasoning, "signature");
    if (signature !== undefined && signature !== "") parts.push({ kind: "signature", signature });
    const data = textAt(reasoning, "redactedContent");
    if (data !== undefined) parts.push({ kind: "hidden-thought", data });
  }

  #stop(holder: JsonObject, parts: AnswerPart[]): void {
    const reason = textAt(holder, "stopReason");
    if (reason === undefined || this.#isStopped) return;
    this.#isStopped = true;
    parts.push({ kind: "stop", reason: STOPS[reason] ?? "end" });
  }
}

function pushText(kind: "text" | "thought", text: string | undefined, parts: AnswerPart[]): void {
  if (text !== undefined && text !== "") parts.push({ kind, text });
}

function blockIndex({ contentBlockIndex: index }: JsonObject): number {
  if (typeof index === "number") return index;
  throw malformed("the number of a block", index);
}
