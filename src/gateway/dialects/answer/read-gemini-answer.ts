/** Reads the answers of Google's generateContent: each event of a stream has the form of a whole answer. */
import { randomUUID } from "node:crypto";
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
  STOP: "end",
  MAX_TOKENS: "length",
  SAFETY: "filter",
  RECITATION: "filter",
  LANGUAGE: "filter",
  BLOCKLIST: "filter",
  PROHIBITED_CONTENT: "filter",
  SPII: "filter",
  IMAGE_SAFETY: "filter",
};
/** Finish reasons of an answer with an invalid call. */
const FAILURES: readonly string[] = ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"];

export class GeminiAnswerReader implements AnswerReader {
  #hasBegun = false;
  #isStopped = false;
  #numCalls = 0;

  event(event: JsonObject): readonly AnswerPart[] {
    const error = objectAt(event, "error");
    if (error !== undefined) throw failedInStream(error.message);
    const parts: AnswerPart[] = [];
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      parts.push({ kind: "begin", id: textAt(event, "responseId"), model: textAt(event, "modelVersion") });
    }
    const candidate = objectsAt(event, "candidates")[0];
    if (candidate !== undefined) this.#candidate(candidate, parts);
    const blocked = objectAt(event, "promptFeedback");
    if (blocked !== undefined && textAt(blocked, "blockReason") !== undefined) this.#stop("filter", parts);
    parts.push(...usageParts(objectAt(event, "usageMetadata")));
    return parts;
  }

  end(): readonly AnswerPart[] {
    if (!this.#isStopped) throw malformed("a finishReason", undefined);
    return [];
  }

  whole(body: JsonObject): readonly AnswerPart[] {
    const parts = this.event(body);
    this.end();
    return parts;
  }

  #candidate(candidate: JsonObject, parts: AnswerPart[]): void {
    const content = objectAt(candidate, "content");
    for (const part of content === undefined ? [] : objectsAt(content, "parts")) this.#part(part, parts);
    const reason = textAt(candidate, "finishReason");
    if (reason === undefined) return;
    if (FAILURES.includes(reason)) throw failedInStream(reason);
    const stop = STOPS[reason] ?? "end";
    this.#stop(stop === "end" && this.#numCalls > 0 ? "calls" : stop, parts);
  }

  #part(part: JsonObject, parts: AnswerPart[]): void {
    const call = objectAt(part, "functionCall");
    const signature = textAt(part, "thoughtSignature");
    if (call !== undefined) {
      const name = textAt(call, "name");
      if (name === undefined) throw malformed("the name of a call", name);
      assertFewCalls(this.#numCalls);
      const index = this.#numCalls++;
      // Only newer models of Google's send an id; a call and its result need one.
      const id = callId(textAt(call, "id") ?? `call_${randomUUID().replaceAll("-", "")}`);
      parts.push({ kind: "call", index, id, name, signature });
      parts.push({ kind: "arguments", index, json: JSON.stringify(objectAt(call, "args") ?? {}) });
      return;
    }
    const text = textAt(part, "text");
    if (text === undefined || text === "") return;
    parts.push({ kind: part.thought === true ? "thought" : "text", text });
  }

  #stop(reason: StopReason, parts: AnswerPart[]): void {
    if (this.#isStopped) return;
    this.#isStopped = true;
    parts.push({ kind: "stop", reason });
  }
}
