/**
 * Translates a message or a response into an equivalent chat: only chats have log-probabilities and a seed at every
 * server. The answer is written back in the client's dialect.
 */
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import { bodyJson, type JsonObject } from "../../core/json-body.js";
import type { WholeAnswer } from "../answer.js";
import { routeOf } from "../api/routes.js";
import { ChatAnswerReader } from "../dialects/answer/read-chat-answer.js";
import { MessagesAnswerWriter } from "../dialects/answer/write-messages-answer.js";
import { ResponsesAnswerWriter } from "../dialects/answer/write-responses-answer.js";
import type { AnswerWriter } from "../dialects/conversation/answer-parts.js";
import { Losses } from "../dialects/conversation/losses.js";
import { TranslatedCourse } from "../dialects/courses.js";
import { MESSAGES_NAMES, readMessages } from "../dialects/request/read-messages.js";
import { RESPONSES_NAMES, readResponses } from "../dialects/request/read-responses.js";
import { writeChat } from "../dialects/request/write-chat.js";
import type { GatewayRequest } from "../request.js";

const CHAT = "/v1/chat/completions";

/** Fields with the same meaning in a chat and in the client's request. */
const SHARED = [
  "top_k",
  "min_p",
  "repetition_penalty",
  "chat_template_kwargs",
  "cache_salt",
  "priority",
  "timeout",
] as const;

type Asked = Pick<GatewayRequest, "path" | "url" | "route" | "body" | "bytes" | "isStream">;

/** The form in which the small model is asked, if a judge needs more than its answer. */
export interface ChatForm {
  readonly request: Asked;
  /** The answer in the client's form. @returns undefined for an unreadable answer */
  shown(answer: WholeAnswer): WholeAnswer | undefined;
}

/** @returns undefined for a request that a chat cannot express */
export function chatFormOf(request: GatewayRequest): ChatForm | undefined {
  const { path, url, route, body, bytes, isStream } = request;
  if (path !== "/v1/messages" && path !== "/v1/responses") {
    return { request: { path, url, route, body, bytes, isStream }, shown: (answer) => answer };
  }
  const chat = chatOf(path, body);
  if (chat === undefined) return undefined;
  const asked = { path: CHAT, url: CHAT, route: routeOf(CHAT)!, isStream: false };
  return {
    request: { ...asked, body: chat, bytes: Buffer.from(bodyJson(chat)) },
    shown: (answer) => shownAnswer(answer, request),
  };
}

function chatOf(path: "/v1/messages" | "/v1/responses", body: JsonObject): JsonObject | undefined {
  const shared = SHARED.filter((name) => body[name] !== undefined && body[name] !== null);
  const others = { ...body, ...Object.fromEntries(shared.map((name) => [name, undefined])), stream: false };
  const [names, read] = path === "/v1/messages" ? [MESSAGES_NAMES, readMessages] : [RESPONSES_NAMES, readResponses];
  const losses = new Losses("a chat", false);
  const terms = { model: String(body.model), names, losses, defaultMaxTokens: 0, thinking: "effort" } as const;
  try {
    const chat = writeChat(read(others, losses), terms, "max_tokens");
    return { ...chat, ...Object.fromEntries(shared.map((name) => [name, body[name]])) };
  } catch (thrown) {
    if (thrown instanceof MillraceError) return undefined;
    throw thrown;
  }
}

function shownAnswer({ head, body, error }: WholeAnswer, request: GatewayRequest): WholeAnswer | undefined {
  const { isStream } = request;
  try {
    const answer: unknown = JSON.parse(body.toString("utf8"));
    if (!isPlainObject(answer)) return undefined;
    const course = new TranslatedCourse(new ChatAnswerReader(), writerOf(request), isStream);
    const { "content-length": _, ...headers } = head.headers;
    const type = isStream ? "text/event-stream; charset=utf-8" : "application/json";
    const shown = { status: head.status, headers: { ...headers, "content-type": type }, isEventStream: isStream };
    return { head: shown, body: course.whole(answer), error };
  } catch {
    // An upstream may answer anything.
    return undefined;
  }
}

function writerOf({ path, body, model }: GatewayRequest): AnswerWriter {
  if (path === "/v1/messages") return new MessagesAnswerWriter({ model });
  return new ResponsesAnswerWriter({ body, model, created: Math.floor(Date.now() / 1000) });
}
