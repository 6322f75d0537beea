/** The providers of paid APIs: makes the request to each, and reads its answers. */

import type { IncomingHttpHeaders } from "node:http";
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import { bodyJson, type JsonObject } from "../../core/json-body.js";
import { changedFields, withFields } from "../edit-json.js";
import { ChatAnswerReader } from "./answer/read-chat-answer.js";
import { ConverseAnswerReader } from "./answer/read-converse-answer.js";
import { GeminiAnswerReader } from "./answer/read-gemini-answer.js";
import { MessagesAnswerReader } from "./answer/read-messages-answer.js";
import { ChatAnswerWriter } from "./answer/write-chat-answer.js";
import { MessagesAnswerWriter } from "./answer/write-messages-answer.js";
import { ResponsesAnswerWriter } from "./answer/write-responses-answer.js";
import type { AnswerReader, AnswerWriter } from "./conversation/answer-parts.js";
import type { Conversation, FieldNames } from "./conversation/conversation.js";
import { Losses } from "./conversation/losses.js";
import { signatureOf } from "./conversation/signatures.js";
import { bedrockCount, COUNTED_PATHS, CountCourse, counted, geminiCount, messagesCount } from "./counts.js";
import { ChatCourse, framed, MessagesCourse, TranslatedCourse } from "./courses.js";
import type { ClientDialect } from "./provider-error.js";
import { withoutIdleSamplers } from "./request/idle-samplers.js";
import { CHAT_NAMES, readChat } from "./request/read-chat.js";
import { MESSAGES_NAMES, readMessages } from "./request/read-messages.js";
import { RESPONSES_NAMES, readResponses, withoutForeignThoughts } from "./request/read-responses.js";
import type { WriteTerms } from "./request/terms.js";
import { writeChat } from "./request/write-chat.js";
import { writeConverse } from "./request/write-converse.js";
import { writeGemini } from "./request/write-gemini.js";
import { writeMessages } from "./request/write-messages.js";
import { type AnswerCourse, Translation } from "./translation.js";
import { Redactor } from "./wire/redact.js";
import { type AwsCredentials, awsEncode, signedHeaders } from "./wire/sigv4.js";

export const PROVIDER_ENGINES = ["openai", "anthropic", "google", "azure", "bedrock"] as const;
export type ProviderEngine = (typeof PROVIDER_ENGINES)[number];

/** One account at one provider. */
export interface Provider {
  readonly engine: ProviderEngine;
  /** Path in front of the API's own; for `openai`, it stands for /v1. */
  readonly basePath: string;
  /** OpenAI's newer models know only the first name, and most compatible hosts the second. */
  readonly maxTokensName: "max_completion_tokens" | "max_tokens";
  readonly apiKey: string | undefined;
  readonly aws: AwsCredentials | undefined;
  /** The dialect for Claude on Bedrock: Bedrock's own, or Claude's. */
  readonly bedrockApi: "converse" | "invoke";
  /** Version of Azure's API; undefined: the one without versions, which takes the model's name in the body. */
  readonly apiVersion: string | undefined;
  readonly thinking: WriteTerms["thinking"];
  /** Whether a host with OpenAI's API gets responses unchanged, or as chats, which more hosts have. */
  readonly responses: "pass" | "translate";
  readonly dropsParams: boolean;
  readonly defaultMaxTokens: number;
}

/** The parts of a client's request that the provider's request is made of. */
export interface ClientRequest {
  readonly path: string;
  readonly body: JsonObject;
  readonly bytes: Buffer;
  readonly headers: IncomingHttpHeaders;
}

interface ProviderRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly translation: Translation;
}

const CHAT = "/v1/chat/completions";
const MESSAGES = "/v1/messages";
const RESPONSES = "/v1/responses";
const MESSAGES_VERSION = "2023-06-01";
const BEDROCK_MESSAGES_VERSION = "bedrock-2023-05-31";

/** Default addresses of providers; `openai` means compatible hosts too. */
export function defaultUrl(engine: ProviderEngine, awsRegion: string | undefined): string | undefined {
  switch (engine) {
    case "openai":
      return "https://api.openai.com/v1";
    case "anthropic":
      return "https://api.anthropic.com";
    case "google":
      return "https://generativelanguage.googleapis.com";
    case "bedrock":
      return awsRegion === undefined ? undefined : `https://bedrock-runtime.${awsRegion}.amazonaws.com`;
    case "azure":
      return undefined;
  }
}

/**
 * Throws the client's error if the provider cannot serve the request.
 * @param model the provider's name for the model
 * @param url origin of the provider, for the signature
 */
export function providerRequest(
  provider: Provider,
  url: string,
  model: string,
  request: ClientRequest,
  now: Date,
): ProviderRequest {
  const losses = new Losses(provider.engine, provider.dropsParams);
  const client: ClientDialect = request.path.startsWith(MESSAGES) ? "anthropic" : "openai";
  const told = client === "openai" ? { ...request, body: withoutIdleSamplers(request.body) } : request;
  const asked = question(provider, model, told, losses);
  const body = asked.course.isNative
    ? withFields(request.bytes, request.body, changedFields(request.body, asked.body))
    : Buffer.from(bodyJson(asked.body));
  const path = provider.basePath + asked.path;
  const { apiKey, aws } = provider;
  const redactor = new Redactor([apiKey, aws?.secretAccessKey, aws?.sessionToken, aws?.accessKeyId]);
  const isStream = request.body.stream === true && !COUNTED_PATHS.has(request.path);
  const terms = {
    provider: provider.engine,
    client,
    isStream,
    redactor,
    dropped: losses.dropped,
    course: asked.course,
  };
  return {
    path,
    headers: { ...asked.headers, ...authorization(provider, url, path, body, now) },
    body,
    translation: new Translation(terms),
  };
}

interface Question {
  readonly path: string;
  readonly body: JsonObject;
  readonly headers?: Readonly<Record<string, string>>;
  readonly course: AnswerCourse;
}

function question(provider: Provider, model: string, request: ClientRequest, losses: Losses): Question {
  const { engine } = provider;
  if (engine === "openai" || engine === "azure") {
    const isForeign = request.path === MESSAGES || request.path.startsWith(`${MESSAGES}/`);
    const isChatted = isOfResponses(request.path) && provider.responses === "translate";
    if (!isForeign && !isChatted) return openaiQuestion(provider, model, request);
  } else if (isNativeMessages(provider, model, request.path)) return messagesQuestion(provider, model, request);
  const countedPath = COUNTED_PATHS.get(request.path);
  const dialect = DIALECTS.get(countedPath ?? request.path);
  // OpenAI itself counts only responses, and hosts with only chats do not count.
  const isUncounted = countedPath !== undefined && (engine === "openai" || engine === "azure");
  if (dialect === undefined || isUncounted) {
    throw new MillraceError("not_found", `expected a path that ${engine} has, got ${request.path.slice(0, 80)}`, {
      hint: isUncounted
        ? "ask a model of Anthropic, Google or Bedrock for a count, or read `usage` in an answer"
        : `${CHAT}, ${MESSAGES}, ${RESPONSES} and counts of their tokens are translated for every provider`,
    });
  }
  if (countedPath !== undefined) return countQuestion(provider, model, dialect, request, losses);
  return translated(provider, model, dialect, request, losses);
}

/** The question how long the provider's prompt would be. */
function countQuestion(
  provider: Provider,
  model: string,
  dialect: Dialect,
  { path, body }: ClientRequest,
  losses: Losses,
): Question {
  const { defaultMaxTokens, thinking } = provider;
  // Only messages always name a bound, and no count does.
  const bounded =
    dialect.names === MESSAGES_NAMES ? { ...body, max_tokens: body.max_tokens ?? defaultMaxTokens } : body;
  const conversation = counted(dialect.read(bounded, losses));
  const terms: WriteTerms = { model, names: dialect.names, losses, defaultMaxTokens, thinking };
  const { headers, ...asked } = written(provider, conversation, terms);
  const course = new CountCourse(path);
  if (provider.engine === "anthropic") return { ...messagesCount(asked), ...(headers && { headers }), course };
  if (provider.engine === "google") return { ...geminiCount(model, asked), course };
  return { ...bedrockCount(`/model/${awsEncode(model)}`, asked, isInvoked(provider, model)), course };
}

const isClaude = (model: string): boolean => /(^|[./])anthropic\./.test(model);
const isInvoked = ({ engine, bedrockApi }: Provider, model: string): boolean =>
  engine === "bedrock" && bedrockApi === "invoke" && isClaude(model);

function isNativeMessages(provider: Provider, model: string, path: string): boolean {
  if (provider.engine === "anthropic") return path === MESSAGES || path.startsWith(`${MESSAGES}/`);
  return path === MESSAGES && isInvoked(provider, model);
}

/** Counts of responses' tokens, too, which take the same input. */
const isOfResponses = (path: string): boolean => path === RESPONSES || path.startsWith(`${RESPONSES}/`);

/** OpenAI's own paths: the client's body, with the provider's name for the model, and a request for counts. */
function openaiQuestion(provider: Provider, model: string, { path, body }: ClientRequest): Question {
  const isChat = path === CHAT;
  const asksUsage = body.stream === true && (isChat || path === "/v1/completions");
  const options = isPlainObject(body.stream_options) ? body.stream_options : {};
  const sent = {
    ...(isOfResponses(path) ? withoutForeignThoughts(body) : body),
    model,
    ...(asksUsage ? { stream_options: { ...options, include_usage: true } } : {}),
  };
  return {
    path: openaiPath(provider, model, path),
    body: sent,
    course: new ChatCourse(options.include_usage === true, isChat || path === "/v1/completions"),
  };
}

/** Azure's older API names the deployment in the path, for the operations on one. */
function openaiPath({ engine, apiVersion }: Provider, model: string, path: string): string {
  const rest = path.replace(/^\/v1/, "");
  if (engine !== "azure") return rest;
  if (apiVersion === undefined) return `/openai/v1${rest}`;
  const deployment = isOfResponses(path) ? "" : `/deployments/${encodeURIComponent(model)}`;
  return `/openai${deployment}${rest}?api-version=${encodeURIComponent(apiVersion)}`;
}

function messagesQuestion(provider: Provider, model: string, request: ClientRequest): Question {
  const { body, headers, path } = request;
  if (provider.engine === "bedrock") {
    const { model: _, stream, ...rest } = withoutUnsigned(body);
    const course = new MessagesCourse();
    return {
      path: invokePath(model, stream === true),
      body: { ...rest, anthropic_version: BEDROCK_MESSAGES_VERSION },
      course,
    };
  }
  const beta = headers["anthropic-beta"];
  const version = headers["anthropic-version"];
  return {
    path,
    body: { ...withoutUnsigned(body), model },
    headers: {
      "anthropic-version": typeof version === "string" ? version : MESSAGES_VERSION,
      ...(typeof beta === "string" ? { "anthropic-beta": beta } : {}),
    },
    course: new MessagesCourse(),
  };
}

/**
 * Removes thoughts without a real signature, which another model made earlier in the conversation. Claude's API refuses
 * them.
 */
function withoutUnsigned(body: JsonObject): JsonObject {
  if (!Array.isArray(body.messages)) return body;
  const isForeign = (block: unknown): boolean =>
    isPlainObject(block) &&
    block.type === "thinking" &&
    (block.signature === "" || (typeof block.signature === "string" && signatureOf(block.signature) !== undefined));
  const messages = body.messages.map((message: unknown) => {
    if (!isPlainObject(message) || !Array.isArray(message.content) || !message.content.some(isForeign)) return message;
    return { ...message, content: message.content.filter((block) => !isForeign(block)) };
  });
  return { ...body, messages };
}

function invokePath(model: string, isStream: boolean): string {
  return `/model/${awsEncode(model)}/${isStream ? "invoke-with-response-stream" : "invoke"}`;
}

/** The dialect of a path's clients: reads their requests and writes their answers. */
interface Dialect {
  readonly names: FieldNames;
  read(body: JsonObject, losses: Losses): Conversation;
  /** @param created Unix time of the answer in seconds */
  writer(body: JsonObject, model: string, created: number): AnswerWriter;
}

const DIALECTS: ReadonlyMap<string, Dialect> = new Map<string, Dialect>([
  [CHAT, { names: CHAT_NAMES, read: readChat, writer: chatWriter }],
  [MESSAGES, { names: MESSAGES_NAMES, read: readMessages, writer: (_, model) => new MessagesAnswerWriter({ model }) }],
  [
    RESPONSES,
    {
      names: RESPONSES_NAMES,
      read: readResponses,
      writer: (body, model, created) => new ResponsesAnswerWriter({ body, model, created }),
    },
  ],
]);

function translated(
  provider: Provider,
  model: string,
  dialect: Dialect,
  { body }: ClientRequest,
  losses: Losses,
): Question {
  const conversation = dialect.read(body, losses);
  const { defaultMaxTokens, thinking } = provider;
  const terms: WriteTerms = { model, names: dialect.names, losses, defaultMaxTokens, thinking };
  const asked = written(provider, conversation, terms);
  const clientModel = typeof body.model === "string" ? body.model : "";
  const writer = dialect.writer(body, clientModel, Math.floor(Date.now() / 1000));
  return { ...asked, course: new TranslatedCourse(asked.reader, writer, conversation.isStream) };
}

function chatWriter(body: JsonObject, model: string, created: number): AnswerWriter {
  const includesUsage = isPlainObject(body.stream_options) && body.stream_options.include_usage === true;
  return new ChatAnswerWriter({ model, includesUsage, created });
}

type Written = Omit<Question, "course"> & { readonly reader: AnswerReader };

function written(provider: Provider, conversation: Conversation, terms: WriteTerms): Written {
  const { engine, maxTokensName } = provider;
  const { model } = terms;
  const { isStream } = conversation;
  switch (engine) {
    case "openai":
    case "azure": {
      const body = writeChat(conversation, terms, maxTokensName);
      return { path: openaiPath(provider, model, CHAT), body, reader: new ChatAnswerReader() };
    }
    case "anthropic":
      return {
        path: MESSAGES,
        body: writeMessages(conversation, terms),
        headers: { "anthropic-version": MESSAGES_VERSION },
        reader: new MessagesAnswerReader(),
      };
    case "google": {
      const method = isStream ? "streamGenerateContent?alt=sse" : "generateContent";
      const path = `/v1beta/models/${encodeURIComponent(model)}:${method}`;
      return { path, body: writeGemini(conversation, terms), reader: new GeminiAnswerReader() };
    }
    case "bedrock": {
      if (isInvoked(provider, model)) return invoked(conversation, terms);
      const path = `/model/${awsEncode(model)}/${isStream ? "converse-stream" : "converse"}`;
      return { path, body: writeConverse(conversation, terms), reader: new ConverseAnswerReader() };
    }
  }
}

function invoked(conversation: Conversation, terms: WriteTerms): Written {
  const body: Record<string, unknown> = { ...writeMessages(conversation, terms) };
  delete body.model;
  delete body.stream;
  return {
    path: invokePath(terms.model, conversation.isStream),
    body: { ...body, anthropic_version: BEDROCK_MESSAGES_VERSION },
    reader: new InvokeAnswerReader(),
  };
}

/** Claude's events in Bedrock's chunks. */
class InvokeAnswerReader extends MessagesAnswerReader {
  override event(event: JsonObject, name: string) {
    return name === "chunk" ? super.event(framed(event).event, "") : [];
  }
}

/** Headers with the key, or with a signature by it, in the provider's form. */
function authorization(
  provider: Provider,
  url: string,
  path: string,
  body: Buffer,
  now: Date,
): Readonly<Record<string, string>> {
  const { engine, aws } = provider;
  if (engine !== "bedrock" || aws === undefined) return providerKey(provider);
  const { host } = new URL(url);
  return signedHeaders(aws, { host, path, body, service: "bedrock", now });
}

/** The header with the key. */
export function providerKey({ engine, apiKey }: Provider): Readonly<Record<string, string>> {
  if (apiKey === undefined) return {};
  switch (engine) {
    case "anthropic":
      return { "x-api-key": apiKey };
    case "google":
      return { "x-goog-api-key": apiKey };
    case "azure":
      return { "api-key": apiKey };
    default:
      return { authorization: `Bearer ${apiKey}` };
  }
}
