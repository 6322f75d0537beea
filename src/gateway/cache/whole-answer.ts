/** Decides whether the bytes of an answer are a whole answer that may be given again: no error, no end for a reason of the moment. */

/** Why the model ended, in every API. Not among them: aborts, and a provider's filters, which judge anew each time. */
const REGULAR_ENDS = new Set([
  "stop",
  "length",
  "tool_calls",
  "function_call",
  "end_turn",
  "max_tokens",
  "stop_sequence",
  "tool_use",
]);
/** Of a response that its own length limit ended. */
const LENGTH_LIMIT = "max_output_tokens";

const ERROR_EVENT = /^(?:event: ?error\r?$|data: ?\{"error":)/m;
const LAST_EVENT_BYTES = 4 * 1024 * 1024;

type Json = Readonly<Record<string, unknown>>;

/** @param path of the request */
export function isWholeAnswer(path: string, isEventStream: boolean, body: Buffer): boolean {
  if (isEventStream) return isWholeStream(path, body);
  const answer = parse(body.toString());
  if (answer === undefined || (answer.error !== undefined && answer.error !== null)) return false;
  switch (path) {
    case "/v1/chat/completions":
    case "/v1/completions": {
      const { choices } = answer;
      return (
        Array.isArray(choices) && choices.length > 0 && choices.every((choice) => isRegular(choice?.finish_reason))
      );
    }
    case "/v1/responses":
      return isWholeResponse(answer);
    case "/v1/messages":
      return answer.type === "message" && isRegular(answer.stop_reason);
    case "/v1/embeddings":
    case "/v1/score":
    case "/score":
      return Array.isArray(answer.data);
    default:
      return Array.isArray(answer.results);
  }
}

/** Strings in events are escaped, so what the model wrote cannot look like a member or an event. */
function isWholeStream(path: string, body: Buffer): boolean {
  const text = body.toString();
  // Looking for the word is cheap, and most answers do not have it.
  if (text.includes("error") && ERROR_EVENT.test(text)) return false;
  const last = lastEvent(text);
  switch (path) {
    case "/v1/chat/completions":
    case "/v1/completions":
      return /^data: ?\[DONE\]$/.test(last) && hasRegularEnds(text, /"finish_reason": ?"(\w+)"/g);
    case "/v1/responses": {
      const data = dataOf(last);
      const { type, response } = data ?? {};
      const isEnd = type === "response.completed" || type === "response.incomplete";
      return isEnd && typeof response === "object" && response !== null && isWholeResponse(response as Json);
    }
    case "/v1/messages":
      return dataOf(last)?.type === "message_stop" && hasRegularEnds(text, /"stop_reason": ?"(\w+)"/g);
    default:
      return false;
  }
}

/** The last event that is no comment. */
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

function isWholeResponse({ status, incomplete_details: details }: Json): boolean {
  return status === "completed" || (status === "incomplete" && (details as Json | null)?.reason === LENGTH_LIMIT);
}

function hasRegularEnds(text: string, pattern: RegExp): boolean {
  const ends = Array.from(text.matchAll(pattern), ([, end]) => end);
  return ends.length > 0 && ends.every(isRegular);
}

const isRegular = (end: unknown): boolean => typeof end === "string" && REGULAR_ENDS.has(end);

function dataOf(event: string): Json | undefined {
  const [, json] = /^data: ?(.*)$/m.exec(event) ?? [];
  return json === undefined || json.length > LAST_EVENT_BYTES ? undefined : parse(json);
}

function parse(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
  } catch {
    return undefined;
  }
}
