/**
 * Decides whether an answer's bytes are a whole answer that may be given again: without an error, and without an end
 * for a reason of the moment.
 */

import { isPlainObject } from "../../core/is-plain-object.js";
import type { JsonObject } from "../../core/json-body.js";

/**
 * The model's own reasons to end, in every API. Aborts are not among them, nor a provider's filters, which judge anew
 * each time.
 */
const OWN_ENDS = ["stop", "tool_calls", "function_call", "end_turn", "stop_sequence", "tool_use"];
const UNBOUNDED = new Set(OWN_ENDS);
const REGULAR_ENDS = new Set([...OWN_ENDS, "length", "max_tokens"]);
/** Reason of a response that its own length limit ended. */
const LENGTH_LIMIT = "max_output_tokens";

const ERROR_EVENT = /^(?:event: ?error\r?$|data: ?\{"error":)/m;
const LAST_EVENT_BYTES = 4 * 1024 * 1024;

type Ends = ReadonlySet<string>;
/**
 * @param path of the request
 * @param isBounded someone other than the client limited the length: an answer that ends at that limit is not whole
 */
export function isWholeAnswer(path: string, isEventStream: boolean, body: Buffer, isBounded = false): boolean {
  const ends = isBounded ? UNBOUNDED : REGULAR_ENDS;
  if (isEventStream) return isWholeStream(path, body, ends);
  const answer = parse(body.toString());
  if (answer === undefined || (answer.error !== undefined && answer.error !== null)) return false;
  switch (path) {
    case "/v1/chat/completions":
    case "/v1/completions": {
      const { choices } = answer;
      return Array.isArray(choices) && choices.length > 0 && choices.every((choice) => ends.has(choice?.finish_reason));
    }
    case "/v1/responses":
      return isWholeResponse(answer, ends);
    case "/v1/messages":
      return answer.type === "message" && ends.has(answer.stop_reason as string);
    case "/v1/embeddings":
    case "/v1/score":
    case "/score":
      return Array.isArray(answer.data);
    case "/v2/embed":
      return typeof answer.embeddings === "object" && answer.embeddings !== null;
    default:
      return Array.isArray(answer.results);
  }
}

/** Strings in events are escaped, so the model's text cannot look like a member or an event. */
function isWholeStream(path: string, body: Buffer, ends: Ends): boolean {
  const text = body.toString();
  // The word is cheap to find, and most answers lack it.
  if (text.includes("error") && ERROR_EVENT.test(text)) return false;
  const last = lastEvent(text);
  switch (path) {
    case "/v1/chat/completions":
    case "/v1/completions":
      return /^data: ?\[DONE\]$/.test(last) && hasEnds(text, /"finish_reason": ?"(\w+)"/g, ends);
    case "/v1/responses": {
      const data = dataOf(last);
      const { type, response } = data ?? {};
      const isEnd = type === "response.completed" || type === "response.incomplete";
      return (
        isEnd && typeof response === "object" && response !== null && isWholeResponse(response as JsonObject, ends)
      );
    }
    case "/v1/messages":
      return dataOf(last)?.type === "message_stop" && hasEnds(text, /"stop_reason": ?"(\w+)"/g, ends);
    default:
      return false;
  }
}

/** The last event that is not a comment. */
function lastEvent(text: string): string {
  let rest = text.trimEnd();
  while (rest !== "") {
    const [plain, withReturn] = [rest.lastIndexOf("\n\n"), rest.lastIndexOf("\n\r\n")];
    const start = Math.max(plain < 0 ? 0 : plain + 2, withReturn < 0 ? 0 : withReturn + 3);
    const event = rest.slice(start);
    if (!event.startsWith(":")) return event;
    rest = rest.slice(0, start).trimEnd();
  }
  return "";
}

function isWholeResponse({ status, incomplete_details: details }: JsonObject, ends: Ends): boolean {
  if (status === "completed") return true;
  const isLengthLimit = status === "incomplete" && (details as JsonObject | null)?.reason === LENGTH_LIMIT;
  return isLengthLimit && ends === REGULAR_ENDS;
}

function hasEnds(text: string, pattern: RegExp, ends: Ends): boolean {
  const found = Array.from(text.matchAll(pattern), ([, end]) => end!);
  return found.length > 0 && found.every((end) => ends.has(end));
}

function dataOf(event: string): JsonObject | undefined {
  const [, json] = /^data: ?([^\r\n]*)/m.exec(event) ?? [];
  return json === undefined || json.length > LAST_EVENT_BYTES ? undefined : parse(json);
}

function parse(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isPlainObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
