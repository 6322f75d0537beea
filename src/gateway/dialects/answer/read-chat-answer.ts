/** Reads a provider's answers in OpenAI's chat completions, with the reasoning that compatible hosts add. */
import type { JsonObject } from "../../../core/json-body.js";
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
  stop: "end",
  length: "length",
  tool_calls: "calls",
  function_call: "calls",
  content_filter: "filter",
};

export class ChatAnswerReader implements AnswerReader {
  #hasBegun = false;
  #isStopped = false;
  readonly #calls = new Set<number>();

  event(event: JsonObject): readonly AnswerPart[] {
    const error = event.error;
    if (error !== undefined && error !== null) throw failedInStream(messageOf(error));
    const parts = this.#begin(event);
    const choice = objectsAt(event, "choices").find(({ index }) => index === 0 || index === undefined);
    const delta = choice === undefined ? undefined : objectAt(choice, "delta");
    if (delta !== undefined) this.#message(delta, parts);
    const reason = choice === undefined ? undefined : textAt(choice, "finish_reason");
    if (reason !== undefined && !this.#isStopped) this.#stop(reason, parts);
    parts.push(...usageParts(objectAt(event, "usage")));
    return parts;
  }

  end(): readonly AnswerPart[] {
    if (!this.#isStopped) throw malformed("a finish_reason", undefined);
    return [];
  }

  whole(body: JsonObject): readonly AnswerPart[] {
    const parts = this.#begin(body);
    const choice = objectsAt(body, "choices")[0];
    const message = choice === undefined ? undefined : objectAt(choice, "message");
    if (choice === undefined || message === undefined) throw malformed("a choice with a message", choice);
    this.#message(message, parts);
    this.#stop(textAt(choice, "finish_reason") ?? "stop", parts);
    parts.push(...usageParts(objectAt(body, "usage")));
    return parts;
  }

  #begin(body: JsonObject): AnswerPart[] {
    if (this.#hasBegun) return [];
    this.#hasBegun = true;
    return [{ kind: "begin", id: textAt(body, "id"), model: textAt(body, "model") }];
  }

  #message(message: JsonObject, parts: AnswerPart[]): void {
    const thought = textAt(message, "reasoning_content") ?? textAt(message, "reasoning");
    if (thought !== undefined && thought !== "") parts.push({ kind: "thought", text: thought });
    const text = textAt(message, "content") ?? textAt(message, "refusal");
    if (text !== undefined && text !== "") parts.push({ kind: "text", text });
    for (const [place, call] of objectsAt(message, "tool_calls").entries()) this.#call(call, place, parts);
  }

  /** The first piece of a call has its id and name; later ones only its number. */
  #call(call: JsonObject, place: number, parts: AnswerPart[]): void {
    const index = typeof call.index === "number" ? call.index : place;
    const made = objectAt(call, "function");
    if (!this.#calls.has(index)) {
      const [id, name] = [textAt(call, "id"), made === undefined ? undefined : textAt(made, "name")];
      if (id === undefined || name === undefined) throw malformed("an id and a name of a call", id ?? name);
      assertFewCalls(this.#calls.size);
      this.#calls.add(index);
      parts.push({ kind: "call", index, id: callId(id), name });
    }
    const json = made === undefined ? undefined : textAt(made, "arguments");
    if (json !== undefined && json !== "") parts.push({ kind: "arguments", index, json });
  }

  #stop(reason: string, parts: AnswerPart[]): void {
    this.#isStopped = true;
    // Some hosts say "stop" after calls.
    const stop = STOPS[reason] ?? "end";
    parts.push({ kind: "stop", reason: stop === "end" && this.#calls.size > 0 ? "calls" : stop });
  }
}

function messageOf(error: unknown): unknown {
  return typeof error === "object" && error !== null ? ((error as JsonObject).message ?? error) : error;
}
