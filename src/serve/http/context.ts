/** What every route shares: the engine and its companions, the limits, and the types Hono carries along. */

import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import type { PagePolicy } from "../../core/cors.js";
import type { ErrorDialect } from "../../core/error-body.js";
import type { RequestLogger } from "../../core/request-logger.js";
import type { ResponseState } from "../../core/response-state.js";
import type { StoreLimits } from "../../core/response-store.js";
import type { Engine } from "../../engine/api/engine.js";
import type { SchedulingPolicyName } from "../../engine/api/options.js";
import type { EngineInfo } from "../../engine/api/stats.js";
import type { SamplingDefaults } from "../../formats/sampling-defaults.js";
import type { ToolCallParserName } from "../../text/answer/call-formats.js";
import type { ReasoningParserName } from "../../text/answer/reasoning.js";
import type { AsyncTokenizer } from "../../text/async-tokenizer.js";
import type { ChatTemplateInput } from "../../text/template/chat-template.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";
import type { ChatFormat } from "../generation/chat-format.js";
import type { ServeMetrics } from "../generation/metrics.js";
import type { SeedSource } from "../generation/seeds.js";

/** The part of a chat template that HTTP needs (`ChatTemplate` of src/text fits). */
export interface ChatRenderer {
  /** The template's text, which shows what the model knows of tools and reasoning; absent = nothing. */
  readonly source?: string;
  /** Without what is for conversations with tools only, where that is a template of its own. */
  readonly plainSource?: string;
  render(input: ChatTemplateInput): string;
}

export interface ServeLimits {
  /** Reading JSON blocks every stream for its time: a second for the worst 8 MiB. */
  readonly maxBodyBytes: number;
  /** UTF-16 units of text that /tokenize takes, which no context bounds. */
  readonly maxTokenizeLength: number;
  /** A request's body must have arrived within this time of its headers. */
  readonly bodyTimeoutMs: number;
  /** Unsent bytes one stream may pile up beside the longest text written at once. The engine cannot be paused for one reader, so beyond this the request is aborted and the connection cut. */
  readonly maxBufferedBytes: number;
  /** A connection with unsent bytes whose client has read nothing for this long is cut, and one that has asked nothing. */
  readonly stalledClientTimeoutMs: number;
  readonly maxChoices: number;
  /** Prompts × choices of one request. */
  readonly maxSequencesPerRequest: number;
}

export const DEFAULT_LIMITS: ServeLimits = {
  maxBodyBytes: 8 * 1024 * 1024,
  maxTokenizeLength: 1024 * 1024,
  bodyTimeoutMs: 60_000,
  maxBufferedBytes: 1024 * 1024,
  stalledClientTimeoutMs: 60_000,
  maxChoices: 128,
  maxSequencesPerRequest: 2048,
};

/** Unknown fields are refused, or reported in the log and otherwise ignored. */
export type UnknownFields = "error" | "warn";

export interface AppOptions {
  readonly engine: Engine;
  readonly tokenizer: Tokenizer;
  /** Makes tokens of prompts; absent: the tokenizer does, in the caller's thread. */
  readonly asyncTokenizer?: AsyncTokenizer;
  /** undefined: the model has none, and chat requests get template_missing. */
  readonly chatTemplate: ChatRenderer | undefined;
  /** What holds for requests that say nothing; the API's own defaults where this says nothing either. */
  readonly samplingDefaults?: SamplingDefaults;
  /** Names the model answers to; the first is its own. */
  readonly modelNames: readonly [string, ...string[]];
  /** Any of these opens /v1/*, /tokenize and /detokenize; empty = no key needed. */
  readonly apiKeys: readonly string[];
  /** Cached prefixes are shared only between requests of the same key. */
  readonly isolatesApiKeys?: boolean;
  /** The engine's; fcfs when absent. */
  readonly schedulingPolicy?: SchedulingPolicyName;
  /** Which web pages may call. */
  readonly pages: PagePolicy;
  readonly limits: ServeLimits;
  readonly logger: RequestLogger;
  readonly unknownFields: UnknownFields;
  /** How calls are read from answers; auto (the default) = as the template shows. */
  readonly toolCallParser?: ToolCallParserName | undefined;
  /** Whether reasoning is split from answers; auto (the default) = where template or vocabulary know of it. */
  readonly reasoningParser?: ReasoningParserName | undefined;
  /** Bounds of what /v1/responses keeps. */
  readonly responseLimits?: StoreLimits;
  /** Seeds of requests that bring none; random ones when absent. */
  readonly drawSeed?: SeedSource;
}

/** What it takes to make a request's prompt: a gateway has it too, without an engine. */
export interface PromptContext extends Pick<AppOptions, "tokenizer" | "chatTemplate" | "unknownFields" | "logger"> {
  readonly engine: { readonly info: Pick<EngineInfo, "maxModelLen" | "vocabSize"> };
  readonly asyncTokenizer: AsyncTokenizer;
  readonly chatFormat: ChatFormat;
  readonly limits: Pick<ServeLimits, "maxSequencesPerRequest">;
}

export interface ServeContext extends AppOptions {
  readonly asyncTokenizer: AsyncTokenizer;
  readonly drawSeed: SeedSource;
  readonly chatFormat: ChatFormat;
  readonly metrics: ServeMetrics;
  readonly version: string;
  /** Unix seconds at which this server was made; the model's `created`. */
  readonly createdAtSeconds: number;
  readonly lifecycle: Lifecycle;
  /** What /v1/responses keeps between requests. */
  readonly responses: ResponseState;
}

/** Whether the server takes requests, and how many it is busy with. */
export interface Lifecycle {
  isDraining: boolean;
  /** Ends streams that have no end of their own, which a server that drains would wait for. */
  readonly endless: Set<() => void>;
  /** Why the engine died, once it has. */
  engineFailure: Error | undefined;
}

export interface AppEnv {
  /** Absent when a test calls app.request() without a socket. */
  Bindings: Partial<HttpBindings>;
  Variables: {
    requestId: string;
    startMs: number;
    dialect: ErrorDialect;
    /** The path as this server has it; absent: none of ours. */
    route?: string;
    /** Whose request it is, behind routes that need a key. */
    tenant: string;
    /** Keywords of the request's schema that are not kept, as the answer's headers name them. */
    unenforced?: string;
  };
}

export type AppContext = Context<AppEnv>;

/** What a complaint about a request is logged under. */
export interface Asker {
  get(name: "requestId"): string;
}
