/** Reads a whole answer that a client got, in any dialect with a reader, into its parts. */
import { type JsonObject, jsonObjectIn } from "../../../core/json-body.js";
import type { AnswerPart, AnswerReader } from "../conversation/answer-parts.js";
import { EventReader } from "../wire/sse.js";
import { ChatAnswerReader } from "./read-chat-answer.js";
import { MessagesAnswerReader } from "./read-messages-answer.js";
import { ResponsesAnswerReader } from "./read-responses-answer.js";

const READERS: ReadonlyMap<string, () => AnswerReader> = new Map<string, () => AnswerReader>([
  ["/v1/chat/completions", () => new ChatAnswerReader()],
  ["/v1/messages", () => new MessagesAnswerReader()],
  ["/v1/responses", () => new ResponsesAnswerReader()],
]);

/** @param path of the request, one of the three above; throws upstream_failed for an answer of another form */
export function answerPartsOf(path: string, body: Buffer, isEventStream: boolean): readonly AnswerPart[] {
  const reader = READERS.get(path)!();
  if (!isEventStream) return reader.whole(jsonObjectIn(body) ?? {});
  return [...answerEvents(body).flatMap(({ name, data }) => reader.event(data, name)), ...reader.end()];
}

interface AnswerEvent {
  readonly name: string;
  readonly data: JsonObject;
}

/** The events of a stream whose data is an object, which [DONE] is not. */
function answerEvents(body: Buffer): readonly AnswerEvent[] {
  const events: AnswerEvent[] = [];
  new EventReader().push(body, ({ name, data }) => {
    const value = jsonObjectIn(Buffer.from(data));
    if (value !== undefined) events.push({ name, data: value });
  });
  return events;
}
