/** Reads requests as applications send them, from a file of JSON lines. */
import { z } from "zod";
import { MillraceError } from "../core/errors.js";
import { readText } from "../core/read-text.js";
import { problemText } from "../core/schema-problem.js";

export interface PromptMessage {
  readonly role: string;
  readonly content: string;
  /** Whether the message has parts other than one text, such as images: mends leave it unchanged. */
  readonly isFixed?: boolean;
  /** Index among the body's messages; absent: the message is a separate field. */
  readonly place?: number;
}

export interface PromptTool {
  readonly name: string;
  /** The definition in the application's form. */
  readonly definition: unknown;
}

export interface PromptRequest {
  readonly messages: readonly PromptMessage[];
  readonly tools: readonly PromptTool[];
  readonly maxTokens: number | undefined;
  /** Whether the request asks for JSON. */
  readonly hasFormat: boolean;
  /** undefined: the file has no answer */
  readonly answer: string | undefined;
  /** Whether the answer calls tools, so that its text is only a part. */
  readonly isCall: boolean;
  /** Names of tools that the answer, or an earlier answer among the messages, calls. */
  readonly calledTools: readonly string[];
  /** The server's count; undefined: the answer is counted instead. */
  readonly outputTokens: number | undefined;
  /** The request's class in the file (`"class"`). */
  readonly label?: string | undefined;
  /** The body as it was read. */
  readonly body: Readonly<Record<string, unknown>>;
  /** Other fields of the batch line around the body; undefined: the body is not from a batch */
  readonly batchFields: Readonly<Record<string, unknown>> | undefined;
}

/** A text-only request with its answer. */
export function plainRequest(
  messages: readonly PromptMessage[],
  answer: string,
  tools: readonly { readonly function: { readonly name: string } }[] = [],
): PromptRequest {
  return {
    messages,
    tools: tools.map((definition) => ({ name: definition.function.name, definition })),
    maxTokens: undefined,
    hasFormat: false,
    answer,
    isCall: false,
    calledTools: [],
    outputTokens: undefined,
    body: { messages },
    batchFields: undefined,
  };
}

const partSchema = z.object({ type: z.string().optional(), text: z.string().optional() }).loose();
const callSchema = z.object({ function: z.object({ name: z.string() }).loose() }).loose();
const messageSchema = z
  .object({
    role: z.string(),
    content: z.union([z.string(), z.array(partSchema)]).nullish(),
    tool_calls: z.array(callSchema).nullish(),
  })
  .loose();
/** The field counts only in this form, since other programs use its name otherwise. */
const label = z.string().min(1).max(40).optional().catch(undefined);
const bodySchema = z
  .object({
    system: z.union([z.string(), z.array(partSchema)]).nullish(),
    messages: z.array(messageSchema).min(1),
    tools: z
      .array(
        z.object({ name: z.string().optional(), function: z.object({ name: z.string() }).loose().optional() }).loose(),
      )
      .nullish(),
    max_tokens: z.number().nullish(),
    max_completion_tokens: z.number().nullish(),
    response_format: z.object({ type: z.string() }).loose().nullish(),
    class: label,
  })
  .loose();
const answerSchema = z
  .object({
    choices: z.array(z.object({ message: messageSchema.partial({ role: true }) }).loose()).nullish(),
    usage: z.object({ completion_tokens: z.number().nullish(), output_tokens: z.number().nullish() }).loose().nullish(),
  })
  .loose();
const response = answerSchema.nullish();
/** A request with its answer, a line of a batch, or a request alone. */
const requestLine = z.object({ request: bodySchema, response, class: label }).loose();
const batchLine = z.object({ body: bodySchema, response, class: label }).loose();
const bodyLine = bodySchema.extend({ response });

const MAX_LINE_CHARACTERS = 1 << 24;

const textOf = (content: z.infer<typeof messageSchema>["content"]): string =>
  typeof content === "string" ? content : (content ?? []).map(({ text = "" }) => text).join("");

const isFixed = (content: z.infer<typeof messageSchema>["content"]): boolean =>
  Array.isArray(content) && (content.length !== 1 || content[0]!.text === undefined);

/** `content` with another text; the single part of a list keeps its other fields. */
const withText = (content: z.infer<typeof messageSchema>["content"], text: string): unknown =>
  Array.isArray(content) ? content.map((part) => ({ ...part, text })) : text;

/** Throws file_unreadable, and invalid_option with the line number. */
export function readRequests(path: string): PromptRequest[] {
  const text = readText(path, "requests");
  const requests = text
    .split("\n")
    .flatMap((line, index) => (line.trim() === "" ? [] : [parse(line, `${path}, line ${index + 1}`)]));
  if (requests.length > 0) return requests;
  throw new MillraceError("invalid_option", `expected requests in ${path}, got none`, { hint: HINT });
}

const HINT =
  'a line is the body of a chat request ({"messages", "tools", …}), {"request", "response"}, or a line of a batch ({"body"})';

function parse(line: string, place: string): PromptRequest {
  const refuse = (got: string): never => {
    throw new MillraceError("invalid_option", `expected a chat request in ${place}, got ${got}`, { hint: HINT });
  };
  if (line.length > MAX_LINE_CHARACTERS) return refuse(`${line.length} characters`);
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    return refuse(`invalid JSON: ${(cause as Error).message}`);
  }
  const has = (key: string): boolean => typeof value === "object" && value !== null && key in value;
  const parsed = (has("request") ? requestLine : has("body") ? batchLine : bodyLine).safeParse(value);
  if (!parsed.success) {
    return refuse(`another line (${problemText(parsed.error, value)})`);
  }
  const { data } = parsed;
  const whole = ("request" in data ? data.request : "body" in data ? data.body : data) as z.infer<typeof bodySchema>;
  const { response: given, ...body } = whole;
  const response = (data.response ?? given) as z.infer<typeof answerSchema> | null | undefined;
  const answer = response?.choices?.[0]?.message;
  const isPresent = <T>(value: T | null | undefined): value is T => value !== undefined && value !== null;
  const messageOf = (
    role: string,
    content: z.infer<typeof messageSchema>["content"],
    place?: number,
  ): PromptMessage => ({
    role,
    content: textOf(content),
    isFixed: isFixed(content),
    ...(place === undefined ? {} : { place }),
  });
  const usage = response?.usage;
  return {
    messages: [
      ...(isPresent(body.system) ? [messageOf("system", body.system)] : []),
      ...body.messages.map(({ role, content }, place) => messageOf(role, content, place)),
    ],
    tools: (body.tools ?? []).map((definition) => ({
      name: definition.function?.name ?? definition.name ?? "",
      definition,
    })),
    maxTokens: body.max_completion_tokens ?? body.max_tokens ?? undefined,
    hasFormat: isPresent(body.response_format) && body.response_format.type !== "text",
    answer: answer === undefined ? undefined : textOf(answer.content),
    isCall: (answer?.tool_calls ?? []).length > 0,
    calledTools: [answer, ...body.messages].flatMap((message) =>
      (message?.tool_calls ?? []).map((call) => call.function.name),
    ),
    outputTokens: usage?.completion_tokens ?? usage?.output_tokens ?? undefined,
    label: data.class ?? body.class,
    body,
    batchFields: "body" in data && !("request" in data) ? withoutResponse(data) : undefined,
  };
}

function withoutResponse(line: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { response: _, ...fields } = line;
  return fields;
}

/** A line to send: the mended body, inside its batch line if it came from one. */
export function lineOf(request: PromptRequest): object {
  const { batchFields } = request;
  return batchFields === undefined ? bodyOf(request) : { ...batchFields, body: bodyOf(request) };
}

/** The recorded body with the mends' changes. */
export function bodyOf({ body, messages, tools, maxTokens, hasFormat }: PromptRequest): object {
  const parsed = bodySchema.parse(body);
  const hasSystem = parsed.system !== undefined && parsed.system !== null;
  const written = messages.slice(hasSystem ? 1 : 0).map(({ content, place }) => {
    const message = parsed.messages[place!]!;
    return textOf(message.content) === content ? message : { ...message, content: withText(message.content, content) };
  });
  const limit =
    parsed.max_completion_tokens === undefined || parsed.max_completion_tokens === null
      ? "max_tokens"
      : "max_completion_tokens";
  const isFormatNew = hasFormat && (parsed.response_format ?? { type: "text" }).type === "text";
  const { tools: _, tool_choice: __, ...bare } = body;
  return {
    ...((parsed.tools ?? []).length > 0 && tools.length === 0 ? bare : body),
    ...(hasSystem && textOf(parsed.system) !== messages[0]!.content
      ? { system: withText(parsed.system, messages[0]!.content) }
      : {}),
    messages: written,
    ...(tools.length === 0 ? {} : { tools: tools.map(({ definition }) => definition) }),
    ...(maxTokens === undefined ? {} : { [limit]: maxTokens }),
    ...(isFormatNew ? { response_format: { type: "json_object" } } : {}),
  };
}
