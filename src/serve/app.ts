/** The HTTP application: the routes, and the checks in front of them (request id, CORS, drain, API key). Hono only routes. */
import { Hono } from "hono";
import { createKeyCheck, type KeyCheck } from "../core/api-keys.js";
import { assertPageAllowed, corsHeaders, preflightHeaders } from "../core/cors.js";
import { ANTHROPIC_ERRORS, type ErrorDialect, OLLAMA_ERRORS, OPENAI_ERRORS } from "../core/error-body.js";
import { MillraceError } from "../core/errors.js";
import { requestIdOf } from "../core/http-server.js";
import { ollamaPathHint } from "../core/ollama-api.js";
import { packageVersion } from "../core/package-root.js";
import { ResponseState } from "../core/response-state.js";
import { ResponseStore } from "../core/response-store.js";
import { Sessions } from "../core/sign-in/sessions.js";
import { webAnswer } from "../core/web-app.js";
import { wrongTask } from "../engine/admission.js";
import { LiveFeed } from "../observe/live/feed.js";
import { History } from "../observe/live/history.js";
import { historyAnswer, historyQuery, loadSchema, partsAnswer } from "../observe/live/load-schema.js";
import { RequestRing, readQuery, requestQuery, requestRows, rowsAnswer } from "../observe/live/request-rows.js";
import { AsyncTokenizer } from "../text/async-tokenizer.js";
import { COUNT_TOKENS_RULES, countTokens } from "./anthropic/count-tokens.js";
import { MESSAGE_RULES, messages } from "./anthropic/messages.js";
import { readChatFormat } from "./generation/chat-format.js";
import { createMetrics } from "./generation/metrics.js";
import { RequestNote } from "./generation/request-note.js";
import { randomSeed } from "./generation/seeds.js";
import { addAdministration } from "./http/administration.js";
import type { AppContext, AppEnv, AppOptions, Lifecycle, ServeContext } from "./http/context.js";
import { onDisconnect } from "./http/disconnect.js";
import { respondWithError } from "./http/error-response.js";
import { tenantOf } from "./http/request-terms.js";
import { api, info, type Route } from "./http/route.js";
import { addSignIn, authorizationOf } from "./http/sign-in.js";
import { kvEvents } from "./kv-events.js";
import { LLAMA_ROUTES } from "./llama/routes.js";
import { OLLAMA_ROUTES } from "./ollama/routes.js";
import { CHAT_RULES, chatCompletions } from "./openai/chat-completions.js";
import { COMPLETION_RULES, completions } from "./openai/completions.js";
import { EMBEDDING_RULES, embeddings } from "./openai/embeddings.js";
import { getModel, listModels } from "./openai/models.js";
import { RERANK_RULES, rerank, SCORE_RULES, score } from "./openai/rerank.js";
import { RESPONSE_RULES } from "./openai/response-request.js";
import { inputTokens, responses, storedResponse } from "./openai/responses.js";
import { DETOKENIZE_RULES, detokenize, TOKENIZE_RULES, tokenize, tokenizerInfo } from "./openai/tokenize.js";
import { openApiDocument } from "./openapi.js";

const anthropicApi = { ...api, dialect: ANTHROPIC_ERRORS } as const;

const ROUTES: readonly Route[] = [
  { method: "GET", path: "/", handler: webApp, ...info, summary: "The app in the browser", answerType: "text/html" },
  { method: "GET", path: "/app/:file", handler: webApp, ...info, summary: "A file of the app", answerType: "text/*" },
  { method: "GET", path: "/health", handler: health, ...info, summary: "Whether requests are taken and served" },
  { method: "GET", path: "/version", handler: version, ...info, summary: "The version" },
  { method: "GET", path: "/metrics", handler: metrics, ...info, summary: "Prometheus text", answerType: "text/plain" },
  {
    method: "GET",
    path: "/watch/live",
    handler: (c, { live }) => live.live(c.req.query()),
    ...info,
    summary: "The dashboard's figures, each second",
    answer: loadSchema,
    answerType: "text/event-stream",
  },
  {
    method: "GET",
    path: "/watch/history",
    handler: (c, { live }) => live.past(c.req.query()),
    ...info,
    summary: "The dashboard's figures of the last hour, day or week",
    query: historyQuery,
    answer: historyAnswer,
  },
  {
    method: "GET",
    path: "/watch/series",
    handler: (_, { live }) => live.parts(),
    ...info,
    summary: "The parts of a fleet that have figures of their own",
    answer: partsAnswer,
  },
  {
    method: "GET",
    path: "/watch/requests",
    handler: lastRequests,
    ...info,
    isProtected: true,
    summary: "The last requests, with the time of each of their parts",
    query: requestQuery,
    answer: requestRows,
  },
  {
    method: "GET",
    path: "/kv_events",
    handler: kvEvents,
    ...api,
    summary: "Changes of the prefix cache, as events",
    answerType: "text/event-stream",
  },
  { method: "GET", path: "/v1/models", handler: listModels, ...api, summary: "The served names" },
  // Model names may contain slashes.
  { method: "GET", path: "/v1/models/:id{.+}", handler: getModel, ...api, summary: "One of the served names" },
  {
    method: "POST",
    path: "/v1/chat/completions",
    handler: chatCompletions,
    ...api,
    task: "generate",
    summary: "An answer to a chat",
    rules: CHAT_RULES,
  },
  {
    method: "POST",
    path: "/v1/completions",
    handler: completions,
    ...api,
    task: "generate",
    summary: "A text that goes on from a prompt",
    rules: COMPLETION_RULES,
  },
  {
    method: "POST",
    path: "/v1/responses",
    handler: responses,
    ...api,
    task: "generate",
    summary: "An answer that later ones may go on from",
    rules: RESPONSE_RULES,
  },
  {
    method: "POST",
    path: "/v1/responses/input_tokens",
    handler: inputTokens,
    ...api,
    summary: "How long the prompt of such a request is",
    rules: RESPONSE_RULES,
  },
  { method: "GET", path: "/v1/responses/:id", handler: storedResponse, ...api, summary: "A stored answer" },
  { method: "DELETE", path: "/v1/responses/:id", handler: storedResponse, ...api, summary: "Forgets a stored answer" },
  {
    method: "POST",
    path: "/v1/responses/:id/cancel",
    handler: storedResponse,
    ...api,
    summary: "Refused: no answer is made in the background",
  },
  {
    method: "GET",
    path: "/v1/responses/:id/input_items",
    handler: storedResponse,
    ...api,
    summary: "What a stored answer was an answer to",
  },
  {
    method: "POST",
    path: "/v1/embeddings",
    handler: embeddings,
    ...api,
    task: "embed",
    summary: "A vector for each input",
    rules: EMBEDDING_RULES,
  },
  ...["/v1/rerank", "/v2/rerank", "/rerank"].map(
    (path): Route => ({
      method: "POST",
      path,
      handler: rerank,
      ...api,
      task: "rerank",
      summary: "Texts in the order of their relevance to a query",
      rules: RERANK_RULES,
    }),
  ),
  ...["/v1/score", "/score"].map(
    (path): Route => ({
      method: "POST",
      path,
      handler: score,
      ...api,
      summary: "How well texts go together, pair by pair",
      rules: SCORE_RULES,
    }),
  ),
  {
    method: "POST",
    path: "/v1/messages",
    handler: messages,
    ...anthropicApi,
    task: "generate",
    summary: "An answer by Anthropic's Messages API",
    rules: MESSAGE_RULES,
  },
  {
    method: "POST",
    path: "/v1/messages/count_tokens",
    handler: countTokens,
    ...anthropicApi,
    summary: "How long the prompt of such a request is",
    rules: COUNT_TOKENS_RULES,
  },
  {
    method: "POST",
    path: "/tokenize",
    handler: tokenize,
    ...api,
    summary: "Ids of a text or of a rendered chat",
    rules: TOKENIZE_RULES,
  },
  {
    method: "POST",
    path: "/detokenize",
    handler: detokenize,
    ...api,
    summary: "The text of ids",
    rules: DETOKENIZE_RULES,
  },
  {
    method: "GET",
    path: "/tokenizer_info",
    handler: tokenizerInfo,
    ...api,
    summary: "Special tokens and the chat template",
  },
  ...OLLAMA_ROUTES,
  ...LLAMA_ROUTES,
  { method: "GET", path: "/openapi.json", handler: openApi, ...info, summary: "This description, by OpenAPI" },
];

/** Built on the first request; it never changes. */
let description: object | undefined;

function openApi(c: AppContext, context: ServeContext): Response {
  description ??= openApiDocument(ROUTES, context.version);
  return c.json(description);
}

/** Answers 200 while the server accepts and serves requests, and an error once it drains, has failed or is stuck. */
function health(c: AppContext, context: ServeContext): Response {
  const { engineFailure, isDraining } = context.lifecycle;
  if (engineFailure !== undefined) {
    throw new MillraceError("engine_failed", "expected a running engine, got one that has ended", {
      cause: engineFailure,
    });
  }
  if (isDraining) throw shuttingDown();
  const stalledMs = context.engine.stalledMs();
  if (stalledMs > 0) {
    const got = `got none of its steps for ${Math.round(stalledMs / 1000)} s`;
    throw new MillraceError("engine_stalled", `expected the engine to turn its loop while requests wait, ${got}`, {
      hint: "restart the server: its thread is stuck, for instance in a disk that does not answer",
    });
  }
  return c.json({ status: "ok" });
}

function webApp(c: AppContext): Response {
  const answer = webAnswer(c.req.path, c.req.header("Accept-Encoding"));
  if (answer !== undefined) return answer;
  throw new MillraceError("not_found", `expected a file of the app, got ${c.req.path.slice(0, 80)}`, {
    hint: "load the page again: its files have new names after an update",
  });
}

function version(c: AppContext, context: ServeContext): Response {
  return c.json({ version: context.version });
}

async function metrics(c: AppContext, context: ServeContext): Promise<Response> {
  return c.body(await context.metrics.render(), 200, { "Content-Type": context.metrics.contentType });
}

/** With `isolatesApiKeys`, a key sees its own requests only. */
function lastRequests(c: AppContext, { requests, isolatesApiKeys, apiKeys }: ServeContext): Response {
  const isApart = isolatesApiKeys === true && apiKeys.length > 1;
  const query = readQuery(new URL(c.req.url).searchParams);
  const found = requests.find(query, ({ tenant }) => !isApart || tenant === c.get("tenant"));
  return rowsAnswer(
    found.map(({ row }) => row),
    requests.size,
  );
}

function shuttingDown(): MillraceError {
  return new MillraceError("shutting_down", "expected a server that takes requests, got one that is shutting down", {
    hint: "send it to another instance, or again later",
  });
}

function addEntry(app: Hono<AppEnv>, options: AppOptions): void {
  app.use(async (c, next) => {
    c.set("startMs", performance.now());
    const requestId = requestIdOf(c.req.header("X-Request-Id"));
    c.set("requestId", requestId);
    c.set("dialect", OPENAI_ERRORS);
    c.header("X-Request-Id", requestId);
    const origin = c.req.header("Origin");
    if (c.req.method === "OPTIONS" && c.req.header("Access-Control-Request-Method") !== undefined) {
      const asked = c.req.header("Access-Control-Request-Headers");
      return c.body(null, 204, preflightHeaders(origin, asked, options.pages));
    }
    for (const [name, value] of Object.entries(corsHeaders(origin, options.pages))) c.header(name, value);
    assertPageAllowed(options.pages, (name) => c.req.header(name));
    return next();
  });
}

/** Decided by the path, or by the header of Anthropic's clients on paths that both vendors have, such as the list of models. */
function isAnthropic(c: AppContext): boolean {
  return c.req.path.startsWith("/v1/messages/") || c.req.header("anthropic-version") !== undefined;
}

function enterRoute(c: AppContext, { dialect, path }: Route): void {
  c.set("route", path);
  enterDialect(c, isAnthropic(c) ? ANTHROPIC_ERRORS : dialect);
}

function enterDialect(c: AppContext, dialect: ErrorDialect): void {
  c.set("dialect", dialect);
  c.header(dialect.requestIdHeader, c.get("requestId"));
}

function addRoute(app: Hono<AppEnv>, route: Route, context: ServeContext, checkKey: KeyCheck): void {
  app.on(route.method, route.path, (c) => {
    enterRoute(c, route);
    if (context.lifecycle.isDraining && !route.isOpenWhileDraining) throw shuttingDown();
    if (!route.isProtected) return route.handler(c, context);
    const keyTenant = checkKey(authorizationOf(c, context.sessions), c.req.header("x-api-key"));
    const tenant = tenantOf(c, context.apiKeys.length, keyTenant);
    c.set("tenant", tenant);
    const facts = { id: c.get("requestId"), path: route.path, model: context.modelNames[0], tenant };
    const note = new RequestNote({ ...facts, startMs: c.get("startMs") });
    c.set("note", note);
    if (route.task !== undefined) note.keepIn(context.requests);
    const { info: engineInfo } = context.engine;
    if (route.task !== undefined && !engineInfo.tasks.includes(route.task)) throw wrongTask(route.task, engineInfo);
    const asyncTokenizer = context.asyncTokenizer.of({ tenant, watch: (leave) => onDisconnect(c, leave) });
    return route.handler(c, { ...context, asyncTokenizer });
  });
}

/** Refuses methods that the path does not have. It stands after the path's handlers. */
function addMethodCheck(app: Hono<AppEnv>, route: Route): void {
  const methods = ROUTES.filter(({ path }) => path === route.path).map(({ method }) => method);
  app.all(route.path, (c) => {
    enterRoute(c, route);
    c.header("Allow", methods.join(", "));
    const expected = methods.join(" or ");
    throw new MillraceError("method_not_allowed", `expected ${expected} ${route.path}, got ${c.req.method}`);
  });
}

/** Paths that only a gateway has: they need a folder, and go on after a restart. */
const OF_GATEWAYS = /^\/v1\/(files|batches|messages\/batches)(\/|$)/;

/** @example const app = createApp(options); const answer = await app.request("/health"); */
export function createApp(options: AppOptions): Hono<AppEnv> {
  return createAppWithLifecycle(options).app;
}

/** The application with its lifecycle, which the server changes when it drains, and the dashboard's figures, which the server starts and stops. */
export function createAppWithLifecycle(options: AppOptions): {
  readonly app: Hono<AppEnv>;
  readonly lifecycle: Lifecycle;
  readonly live: LiveFeed;
} {
  const lifecycle: Lifecycle = { isDraining: false, engineFailure: undefined, endless: new Set() };
  options.engine.failure.catch((thrown: unknown) => {
    lifecycle.engineFailure = thrown instanceof Error ? thrown : new Error(String(thrown));
  });
  const metrics = createMetrics(options.engine, options.modelNames[0]);
  const live = new LiveFeed(() => metrics.render(), options.history ?? new History(), options.events);
  const context: ServeContext = {
    ...options,
    asyncTokenizer: options.asyncTokenizer ?? new AsyncTokenizer(options.tokenizer),
    drawSeed: options.drawSeed ?? randomSeed,
    chatFormat: readChatFormat(options),
    metrics,
    live,
    requests: new RequestRing(),
    version: packageVersion(),
    createdAtSeconds: Math.floor(Date.now() / 1000),
    lifecycle,
    responses: new ResponseState(new ResponseStore(options.responseLimits)),
    sessions: new Sessions(),
  };
  const app = new Hono<AppEnv>();
  const checkKey = createKeyCheck(options.apiKeys);
  addEntry(app, options);
  const { apiKeys, adminKey } = options;
  const isOpen = apiKeys.length === 0 || adminKey === undefined;
  const checkAnyKey = isOpen ? checkKey : createKeyCheck([...apiKeys, adminKey]);
  for (const route of ROUTES) addRoute(app, route, context, route.isForAdmin === true ? checkAnyKey : checkKey);
  addSignIn(app, options, context.sessions);
  addAdministration(app, options, context.sessions);
  for (const route of ROUTES) addMethodCheck(app, route);
  app.onError((thrown, c) => respondWithError(c, thrown, options.logger));
  app.notFound((c) => {
    if (isAnthropic(c)) enterDialect(c, ANTHROPIC_ERRORS);
    else if (c.req.path.startsWith("/api/")) enterDialect(c, OLLAMA_ERRORS);
    const path = c.req.path.slice(0, 80);
    const hint = OF_GATEWAYS.test(path)
      ? "files and batches are a gateway's: start it with --instances 1, or use `millrace batch run`"
      : (ollamaPathHint(path) ?? "docs/reference/http-api.md lists them");
    const error = new MillraceError("not_found", `expected one of this server's paths, got ${path}`, { hint });
    return respondWithError(c, error, options.logger);
  });
  return { app, lifecycle, live };
}
