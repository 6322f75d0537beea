/**
 * Shared by every route: the engine, the tokenizer, the options, the limits, and the variables that Hono keeps with a
 * request.
 */

import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import type { PagePolicy } from "../../core/cors.js";
import type { ErrorDialect } from "../../core/error-body.js";
import type { ModelLibrary } from "../../core/model-library.js";
import type { RequestLogger } from "../../core/request-logger.js";
import type { ResponseState } from "../../core/response-state.js";
import type { StoreLimits } from "../../core/response-store.js";
import type { Sessions } from "../../core/sign-in/sessions.js";
import type { Engine } from "../../engine/api/engine.js";
import type { SchedulingPolicyName } from "../../engine/api/options.js";
import type { EngineInfo } from "../../engine/api/stats.js";
import type { SamplingDefaults } from "../../formats/sampling-defaults.js";
import type { EventLog } from "../../observe/live/event-log.js";
import type { LatencyTargets, LiveFeed } from "../../observe/live/feed.js";
import type { History } from "../../observe/live/history.js";
import type { RequestLog } from "../../observe/live/request-log.js";
import type { RequestRing } from "../../observe/live/request-rows.js";
import type { ToolCallParserName } from "../../text/answer/call-formats.js";
import type { ReasoningParserName } from "../../text/answer/reasoning.js";
import type { AsyncTokenizer } from "../../text/async-tokenizer.js";
import type { EmbeddingPrompts } from "../../text/hf/embedding-prompts.js";
import type { ChatTemplateInput } from "../../text/template/chat-template.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";
import type { ChatFormat } from "../generation/chat-format.js";
import type { ServeMetrics } from "../generation/metrics.js";
import type { RequestNote } from "../generation/request-note.js";
import type { SeedSource } from "../generation/seeds.js";

/** The part of a chat template that HTTP needs; `ChatTemplate` of src/text implements it. */
export interface ChatRenderer {
  /** The template's text, which shows whether the model supports tools and reasoning; absent: it supports neither. */
  readonly source?: string;
  /** Whether the template prints tools; absent: judged by its text. */
  readonly takesTools?: boolean;
  /** Whether the template prints the calls of earlier messages; absent: it does. */
  readonly printsCalls?: boolean;
  /** The template for conversations without tools, for models with a separate one. */
  readonly plainSource?: string;
  render(input: ChatTemplateInput): string;
}

export interface ServeLimits {
  /** Parsing JSON blocks every stream, for one second with the slowest 8 MiB. */
  readonly maxBodyBytes: number;
  /** Longest text of /tokenize, in UTF-16 units; the context length does not bound it. */
  readonly maxTokenizeLength: number;
  /** Time limit for receiving the complete request body after its headers. */
  readonly bodyTimeoutMs: number;
  /**
   * Unsent bytes that one stream may buffer, in addition to the longest single write. The engine cannot pause for one
   * reader, so beyond this limit the request is aborted and its connection cut.
   */
  readonly maxBufferedBytes: number;
  /**
   * Time after which stalled connections (unsent bytes, and a client that reads nothing) and connections without a
   * request
   * are closed.
   */
  readonly stalledClientTimeoutMs: number;
  readonly maxChoices: number;
  /** Upper bound of prompts × choices of one request. */
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

/** Unknown fields are refused, or logged and otherwise ignored. */
export type UnknownFields = "error" | "warn";

export interface AppOptions {
  readonly engine: Engine;
  readonly tokenizer: Tokenizer;
  /** Tokenizes prompts; absent: the tokenizer does so in the caller's thread. */
  readonly asyncTokenizer?: AsyncTokenizer;
  /** undefined: the model has no template, and chat requests get template_missing. */
  readonly chatTemplate: ChatRenderer | undefined;
  /** Arguments of the template that requests may override. */
  readonly templateDefaults?: Readonly<Record<string, unknown>> | undefined;
  /** Texts to put before inputs, for embedding models that have them. */
  readonly embeddingPrompts?: EmbeddingPrompts | undefined;
  /** Values for fields that a request leaves out; the API's own defaults apply to fields that are absent here too. */
  readonly samplingDefaults?: SamplingDefaults;
  /** Names that requests may use for the model; answers show the first. */
  readonly modelNames: readonly [string, ...string[]];
  /** Any of these opens /v1/*, /tokenize and /detokenize; empty: no key needed. */
  readonly apiKeys: readonly string[];
  /** Requests share cached prefixes only with requests of the same key. */
  readonly isolatesApiKeys?: boolean;
  /** The engine's policy; fcfs if absent. */
  readonly schedulingPolicy?: SchedulingPolicyName;
  /** Opens /admin; undefined: there is no /admin. */
  readonly adminKey?: string | undefined;
  /** The models on this machine's disk, for the administrator. */
  readonly library?: ModelLibrary | undefined;
  /** Folder of reports, for the administrator; undefined: none are kept. */
  readonly reports?: string | undefined;
  /** Web pages that may call this server. */
  readonly pages: PagePolicy;
  readonly limits: ServeLimits;
  readonly logger: RequestLogger;
  readonly unknownFields: UnknownFields;
  /** The format of tool calls in answers; auto (the default): as the template shows. */
  readonly toolCallParser?: ToolCallParserName | undefined;
  /**
   * Whether reasoning is split from answers; auto (the default): if the template or the vocabulary has markers for it.
   */
  readonly reasoningParser?: ReasoningParserName | undefined;
  /** Bounds of the responses that /v1/responses stores. */
  readonly responseLimits?: StoreLimits;
  /** Stores the dashboard's figures; in memory if absent. */
  readonly history?: History;
  readonly events?: EventLog;
  /** Latency targets of the dashboard. */
  readonly targets?: LatencyTargets | undefined;
  /** Draws seeds for requests without one; random if absent. */
  readonly drawSeed?: SeedSource;
}

/** Everything for building a request's prompt. A gateway has it too, without an engine. */
export interface PromptContext
  extends Pick<AppOptions, "tokenizer" | "chatTemplate" | "templateDefaults" | "unknownFields" | "logger"> {
  readonly engine: { readonly info: Pick<EngineInfo, "maxModelLen" | "vocabSize"> };
  readonly asyncTokenizer: AsyncTokenizer;
  readonly chatFormat: ChatFormat;
  readonly limits: Pick<ServeLimits, "maxSequencesPerRequest">;
}

/** Everything for building the engine's request. */
export interface PlanContext extends PromptContext, Pick<AppOptions, "samplingDefaults"> {
  readonly engine: {
    readonly info: Pick<EngineInfo, "maxModelLen" | "vocabSize" | "numKvBlocks" | "blockSize">;
  };
  readonly drawSeed: SeedSource;
}

export interface ServeContext extends AppOptions {
  readonly asyncTokenizer: AsyncTokenizer;
  readonly drawSeed: SeedSource;
  readonly chatFormat: ChatFormat;
  readonly metrics: ServeMetrics;
  /** The dashboard's figures. */
  readonly live: LiveFeed;
  /** The last requests. */
  readonly requests: RequestRing<RequestNote>;
  readonly requestLog?: RequestLog | undefined;
  readonly version: string;
  /** Unix seconds of this server's creation; shown as the model's `created`. */
  readonly createdAtSeconds: number;
  readonly lifecycle: Lifecycle;
  /** The responses that /v1/responses stores between requests. */
  readonly responses: ResponseState;
  /** Sessions of browsers that signed in. */
  readonly sessions: Sessions;
}

/** Whether the server accepts requests; if not, why. */
export interface Lifecycle {
  isDraining: boolean;
  /** Ends endless streams, such as /kv_events, which a draining server would wait for forever. */
  readonly endless: Set<() => void>;
  /** The error that ended the engine; undefined while it runs. */
  engineFailure: Error | undefined;
}

export interface AppEnv {
  /** Absent when a test calls app.request() without a socket. */
  Bindings: Partial<HttpBindings>;
  Variables: {
    requestId: string;
    startMs: number;
    dialect: ErrorDialect;
    /** The path of the matched route; absent: no route matched. */
    route?: string;
    /** The request's body, if a handler has read it for another one. */
    body?: Readonly<Record<string, unknown>>;
    /** The matched route's field for lists of token ids. */
    idField?: string | undefined;
    /** The request's tenant; set on routes that need a key. */
    tenant: string;
    /** The server's note of the request; set with the tenant. */
    note: RequestNote;
    /** Keywords of the request's schema that are not enforced, for the answer's header. */
    unenforced?: string;
  };
}

export type AppContext = Context<AppEnv>;

/** The sender of a request, for log lines about it. */
export interface Asker {
  get(name: "requestId"): string;
}
