/** Reads a client's answers in OpenAI's responses. The last event of a stream has the whole response. */
import { isPlainObject } from "../../../core/is-plain-object.js";
import type { JsonObject } from "../../../core/json-body.js";
import {
  type AnswerPart,
  type AnswerReader,
  malformed,
  objectAt,
  objectsAt,
  type StopReason,
  textAt,
  usageParts,
} from "../conversation/answer-parts.js";
import { callId } from "../conversation/turns.js";

const STOPS: Readonly<Record<string, StopReason>> = { max_output_tokens: "length", content_filter: "filter" };

export class ResponsesAnswerReader implements AnswerReader {
  #last: JsonObject = {};
  #numCalls = 0;
  #hasRefusal = false;

  event(event: JsonObject): readonly AnswerPart[] {
    this.#last = objectAt(event, "response") ?? this.#last;
    return [];
  }

  end(): readonly AnswerPart[] {
    return this.whole(this.#last);
  }

  whole(body: JsonObject): readonly AnswerPart[] {
    const { status } = body;
    if (status !== "completed" && status !== "incomplete") throw malformed("a complete response", status);
    const parts: AnswerPart[] = [{ kind: "begin", id: textAt(body, "id"), model: textAt(body, "model") }];
    for (const item of objectsAt(body, "output")) this.#item(item, parts);
    parts.push({ kind: "stop", reason: this.#stopOf(body) }, ...usageParts(objectAt(body, "usage")));
    return parts;
  }

  #item(item: JsonObject, parts: AnswerPart[]): void {
    const { type } = item;
    if (type === "function_call" || type === "custom_tool_call") {
      const [id, name] = [textAt(item, "call_id"), textAt(item, "name")];
      if (id === undefined || name === undefined) throw malformed("an id and a name of a call", id ?? name);
      const index = this.#numCalls++;
      const json = type === "function_call" ? textAt(item, "arguments") : JSON.stringify({ input: item.input });
      parts.push({ kind: "call", index, id: callId(id), name }, { kind: "arguments", index, json: json ?? "" });
      return;
    }
    const kind = type === "reasoning" ? "thought" : "text";
    for (const part of [...objectsAt(item, "summary"), ...objectsAt(item, "content")]) {
      if (part.type === "refusal") this.#hasRefusal = true;
      const text = textAt(part, "text") ?? textAt(part, "refusal");
      if (text !== undefined && text !== "") parts.push({ kind, text });
    }
  }

  #stopOf({ incomplete_details: details, status }: JsonObject): StopReason {
    if (this.#hasRefusal) return "refusal";
    if (status === "incomplete") return STOPS[String(isPlainObject(details) ? details.reason : "")] ?? "length";
    return this.#numCalls > 0 ? "calls" : "end";
  }
}
