/**
 * Makes the line of a recorded request: a chat and its answer in OpenAI's form, independent of the client's dialect.
 */

import { isPlainObject } from "../../core/is-plain-object.js";
import { isTooDeep, type JsonObject } from "../../core/json-body.js";
import type { RecordHead } from "../../core/recorded-request.js";
import { ChatAnswerReader } from "../dialects/answer/read-chat-answer.js";
import { MessagesAnswerReader } from "../dialects/answer/read-messages-answer.js";
import { ResponsesAnswerReader } from "../dialects/answer/read-responses-answer.js";
import { ChatAnswerWriter } from "../dialects/answer/write-chat-answer.js";
import type { AnswerPart, AnswerReader } from "../dialects/conversation/answer-parts.js";
import { Losses } from "../dialects/conversation/losses.js";
import { MESSAGES_NAMES, readMessages } from "../dialects/request/read-messages.js";
import { RESPONSES_NAMES, readResponses } from "../dialects/request/read-responses.js";
import { writeChat } from "../dialects/request/write-chat.js";
import { EventReader } from "../dialects/wire/sse.js";
import { formatDollars } from "../money.js";
import type { GatewayRequest } from "../request.js";
import type { RequestRecord, TokenCounts } from "../usage/record.js";

const CHATS = "/v1/chat/completions";

/** Readers of other paths' requests and answers. */
const OTHERS = new Map([
  ["/v1/messages", { names: MESSAGES_NAMES, read: readMessages, reader: () => new MessagesAnswerReader() }],
  ["/v1/responses", { names: RESPONSES_NAMES, read: readResponses, reader: () => new ResponsesAnswerReader() }],
]);

/** Paths whose requests are recorded. */
export const RECORDED_PATHS: readonly string[] = [CHATS, ...OTHERS.keys()];

interface Exchanged {
  readonly request: Pick<GatewayRequest, "id" | "path" | "caller" | "record" | "body" | "bytes" | "asked">;
  readonly answer: { readonly body: Buffer; readonly isEventStream: boolean };
  /** Milliseconds since 1970. */
  readonly startMs: number;
  readonly firstByteMs: number | undefined;
  readonly endMs: number;
}

/** The text of the line, without its line break. Throws for an unreadable request or answer. */
export function recordLine({ request, answer, startMs, firstByteMs, endMs }: Exchanged): string {
  const { id, path, caller, record, asked } = request;
  const head: RecordHead = {
    timestamp: startMs,
    id,
    path,
    model: record.kept?.model ?? record.attempts.at(-1)?.model ?? asked,
    tenant: caller.tenant,
    first_byte_ms: firstByteMs === undefined ? undefined : firstByteMs - startMs,
    duration_ms: endMs - startMs,
    cost: costOf(record),
    cached: record.kept !== undefined,
  };
  const response = responseOf(request, answer, Math.floor(startMs / 1000));
  return `${JSON.stringify(head).slice(0, -1)},"request":${requestJson(request)},"response":${JSON.stringify(response)}}`;
}

/**
 * The client's bytes unchanged, since a parsed number may be rounded. JSON has line breaks only between its parts, and
 * a byte order mark before them.
 */
function requestJson({ path, body, bytes, asked: model }: Exchanged["request"]): string {
  const other = OTHERS.get(path);
  if (other === undefined)
    return bytes
      .toString("utf8")
      .replace(/^\uFEFF/, "")
      .replace(/[\r\n]+/g, " ");
  const losses = new Losses("a record", true);
  const terms = { model, names: other.names, losses, defaultMaxTokens: 0, thinking: "effort" } as const;
  return JSON.stringify(writeChat(other.read(body, losses), terms, "max_tokens"));
}

function responseOf({ path, record, asked }: Exchanged["request"], answer: Exchanged["answer"], created: number) {
  const reader = OTHERS.get(path)?.reader() ?? new ChatAnswerReader();
  const parts = [...partsOf(reader, answer)];
  const usage = record.kept?.usage ?? usageOf(record);
  if (usage !== undefined) parts.push({ kind: "usage", counts: usage });
  const writer = new ChatAnswerWriter({ model: asked, includesUsage: true, created });
  const whole = writer.whole(parts) as JsonObject;
  return parts.some(({ kind }) => kind === "usage") ? whole : { ...whole, usage: undefined };
}

/** The usage that the upstream reported: clients of streams need not have asked for it. */
function usageOf({ attempts }: RequestRecord): TokenCounts | undefined {
  const usage = attempts.findLast(({ outcome }) => outcome === "answered")?.usage;
  return usage?.isEstimated === true ? undefined : usage;
}

function costOf({ attempts, kept }: RequestRecord): string | undefined {
  const charges = attempts.flatMap(({ charge }) => charge ?? []);
  if (charges.length === 0) return kept === undefined ? undefined : formatDollars(0n);
  return formatDollars(charges.reduce((sum, { nanoDollars }) => sum + nanoDollars, 0n));
}

function partsOf(reader: AnswerReader, { body, isEventStream }: Exchanged["answer"]): readonly AnswerPart[] {
  if (!isEventStream) return reader.whole(parsed(body));
  const parts: AnswerPart[] = [];
  new EventReader().push(body, ({ name, data }) => {
    if (data.trim() !== "[DONE]") parts.push(...reader.event(parsed(Buffer.from(data)), name));
  });
  return [...parts, ...reader.end()];
}

/** Throws for an answer that is not a JSON object; the recorder counts it as lost. */
function parsed(json: Buffer): JsonObject {
  const value: unknown = isTooDeep(json) ? undefined : JSON.parse(json.toString("utf8"));
  if (isPlainObject(value)) return value;
  throw new Error("expected an answer that is a JSON object, got another one");
}
