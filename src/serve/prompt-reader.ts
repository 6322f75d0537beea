/**
 * Builds the tokens of a request's prompt with the endpoint's own code. A gateway needs them to find the engine that
 * has
 * cached the prompt's prefix. Other fields of the request are ignored.
 */
import { MillraceError } from "../core/errors.js";
import type { RequestLogger } from "../core/request-logger.js";
import type { EngineRequest } from "../engine/api/request.js";
import type { SamplingDefaults } from "../formats/sampling-defaults.js";
import { AsyncTokenizer, type JobOwner } from "../text/async-tokenizer.js";
import type { Tokenizer } from "../text/tokenizer/tokenizer.js";
import { planConversation } from "./anthropic/conversation.js";
import { MESSAGE_RULES } from "./anthropic/messages.js";
import { type ChatFormatSource, readChatFormat } from "./generation/chat-format.js";
import { seedsFrom } from "./generation/seeds.js";
import { type Asker, type ChatRenderer, DEFAULT_LIMITS, type PlanContext, type PromptContext } from "./http/context.js";
import { chatEngineRequests, chatPromptIds, parseChat } from "./openai/chat-completions.js";
import { COMPLETION_RULES, completionPrompts } from "./openai/completions.js";
import { parseFields } from "./openai/fields.js";
import { RESPONSE_RULES, responsePromptIds } from "./openai/response-request.js";

export interface PromptSource extends ChatFormatSource {
  readonly tokenizer: Tokenizer;
  readonly chatTemplate: ChatRenderer | undefined;
  readonly templateDefaults?: Readonly<Record<string, unknown>> | undefined;
  readonly asyncTokenizer?: AsyncTokenizer;
}

export interface RequestPrompts {
  readonly prompts: readonly ArrayLike<number>[];
  /** Requests share cached prefixes only with requests of the same salt. */
  readonly salt: string | undefined;
}

type Body = Readonly<Record<string, unknown>>;
type Reader = (context: PromptContext, body: Body) => Promise<RequestPrompts>;

/**
 * Stands in for a request id. Nothing is logged here, since the engine reports the faults of a request when the gateway
 * sends it on.
 */
const NOBODY: Asker = { get: () => "" };
const silent = (): void => {};
const SILENT: RequestLogger = { debug: silent, info: silent, warn: silent, error: silent };

const READERS: Readonly<Record<string, Reader>> = {
  "/v1/chat/completions": async (context, body) => {
    const request = parseChat(NOBODY, context, body);
    return { prompts: [await chatPromptIds(context, request)], salt: request.cache_salt };
  },
  "/v1/completions": async (context, body) => {
    const request = parseFields(NOBODY, context, COMPLETION_RULES, body);
    const prompts = await completionPrompts(context, request);
    return { prompts: prompts.map(({ ids }) => ids), salt: request.cache_salt };
  },
  "/v1/responses": async (context, body) => {
    const request = parseFields(NOBODY, context, RESPONSE_RULES, body);
    return { prompts: [await responsePromptIds(NOBODY, context, request)], salt: request.cache_salt };
  },
  "/v1/messages": async (context, body) => {
    const request = parseFields(NOBODY, context, MESSAGE_RULES, body);
    const { promptIds } = await planConversation(NOBODY, context, request);
    return { prompts: [promptIds], salt: request.cache_salt };
  },
};

function contextOf(source: PromptSource): PromptContext {
  return {
    tokenizer: source.tokenizer,
    chatTemplate: source.chatTemplate,
    templateDefaults: source.templateDefaults,
    chatFormat: readChatFormat(source),
    asyncTokenizer: source.asyncTokenizer ?? new AsyncTokenizer(source.tokenizer),
    // The engine itself reports prompts that are too long and invalid fields.
    engine: { info: { maxModelLen: Number.MAX_SAFE_INTEGER, vocabSize: source.tokenizer.vocabSize } },
    limits: DEFAULT_LIMITS,
    unknownFields: "warn",
    logger: SILENT,
  };
}

/** Terms for an engine without other clients: no tenant, no deadline. */
const TERMS = { arrivedAtMs: 0, tenant: "", priority: 0, isBackground: false, cacheSalt: undefined } as const;

/** For an engine without a server. A request without a seed gets one that depends only on its place. */
export function createRequestPlanner(
  source: PromptSource & { readonly samplingDefaults: SamplingDefaults },
  info: PlanContext["engine"]["info"],
): (body: Body) => Promise<readonly EngineRequest[]> {
  const { samplingDefaults } = source;
  const context = { ...contextOf(source), engine: { info }, drawSeed: seedsFrom(0n), samplingDefaults };
  return (body) => chatEngineRequests(NOBODY, context, body, { ...TERMS, timeoutMs: undefined });
}

/** @returns undefined for a path without prompts, and for a request that the engine will refuse */
export function createPromptReader(
  source: PromptSource,
): ((path: string, body: Body, owner: JobOwner) => Promise<RequestPrompts | undefined>) & { readonly end: () => void } {
  const context = contextOf(source);
  const read = async (path: string, body: Body, owner: JobOwner) => {
    try {
      return await READERS[path]?.({ ...context, asyncTokenizer: context.asyncTokenizer.of(owner) }, body);
    } catch (thrown) {
      if (thrown instanceof MillraceError) return undefined;
      throw thrown;
    }
  };
  return Object.assign(read, { end: () => context.asyncTokenizer.end() });
}
