/** Asks an upstream for log-probabilities that the client did not ask for, and removes them from the answer. */
import type { JsonObject } from "../../core/json-body.js";
import type { WholeAnswer } from "../answer.js";
import type { GatewayRequest, RequestBody } from "../request.js";

/** Two alternatives, of which one is the token itself: enough for its lead. */
const NUM_ALTERNATIVES = 2;

const CHAT = "/v1/chat/completions";

const asked = (value: unknown): number => (typeof value === "number" && value > 0 ? value : 0);

/** The fields that ask a chat or a completion for log-probabilities, beside the client's own fields. */
export function logprobFields({ path, body }: Pick<GatewayRequest, "path" | "body">): RequestBody {
  return path === CHAT
    ? { logprobs: true, top_logprobs: Math.max(NUM_ALTERNATIVES, asked(body.top_logprobs)) }
    : { logprobs: Math.max(NUM_ALTERNATIVES, asked(body.logprobs)) };
}

/** The answer without the log-probabilities that the client did not ask for. */
export function withoutExtraLogprobs(
  answer: WholeAnswer,
  { path, body }: Pick<GatewayRequest, "path" | "body">,
): WholeAnswer {
  const wants = path === CHAT ? body.logprobs === true : typeof body.logprobs === "number";
  const most = asked(path === CHAT ? body.top_logprobs : body.logprobs);
  if (wants && most >= NUM_ALTERNATIVES) return answer;
  const edit = (logprobs: JsonObject): JsonObject | null => (wants ? trimmed(logprobs, most) : null);
  const text = answer.body.toString("utf8");
  const edited = answer.head.isEventStream ? editEvents(text, edit) : editPart(text, edit);
  const { "content-length": _, ...headers } = answer.head.headers;
  return { ...answer, head: { ...answer.head, headers }, body: Buffer.from(edited) };
}

/** An empty line ends an event. */
function editEvents(text: string, edit: (logprobs: JsonObject) => JsonObject | null): string {
  return text
    .split(/(?<=\n\r?\n)/)
    .map((event) => {
      const [, head, data, tail] = /^((?:.*\n)*?data: ?)(.*)([\s\S]*)$/.exec(event) ?? [];
      return head === undefined ? event : head + editPart(data!, edit) + tail!;
    })
    .join("");
}

function editPart(text: string, edit: (logprobs: JsonObject) => JsonObject | null): string {
  // Most events of a stream without log-probabilities need no parsing.
  if (!text.includes('"logprobs"')) return text;
  let part: unknown;
  try {
    part = JSON.parse(text);
  } catch {
    return text;
  }
  const { choices } = part as { choices?: unknown };
  if (!Array.isArray(choices)) return text;
  const edited = choices.map((choice: unknown) => {
    const logprobs = (choice as JsonObject | null)?.logprobs;
    return typeof logprobs === "object" && logprobs !== null
      ? { ...(choice as JsonObject), logprobs: edit(logprobs as JsonObject) }
      : choice;
  });
  return JSON.stringify({ ...(part as JsonObject), choices: edited });
}

/** At most `most` alternatives for each token. */
function trimmed(logprobs: JsonObject, most: number): JsonObject {
  const { content, top_logprobs: tops } = logprobs;
  if (Array.isArray(content)) {
    const shorter = content.map((token: JsonObject) =>
      Array.isArray(token?.top_logprobs) ? { ...token, top_logprobs: token.top_logprobs.slice(0, most) } : token,
    );
    return { ...logprobs, content: shorter };
  }
  if (!Array.isArray(tops)) return logprobs;
  if (most === 0) return { ...logprobs, top_logprobs: null };
  const best = tops.map((alternatives: unknown) => {
    if (typeof alternatives !== "object" || alternatives === null) return alternatives;
    const sorted = Object.entries(alternatives as Record<string, number>).sort(([, a], [, b]) => b - a);
    return Object.fromEntries(sorted.slice(0, most));
  });
  return { ...logprobs, top_logprobs: best };
}
