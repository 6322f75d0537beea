/** The server's paths and their handlers in one table, including the handlers of a single line. */

import { ANTHROPIC_ERRORS } from "../core/error-body.js";
import { MillraceError } from "../core/errors.js";
import { HEALTH_PATHS } from "../core/health-paths.js";
import { webAnswer } from "../core/web-app.js";
import { assertTask } from "../engine/admission.js";
import { historyAnswer, historyQuery, loadSchema, partsAnswer } from "../observe/live/load-schema.js";
import { readQuery, requestQuery, requestRows, rowsAnswer } from "../observe/live/request-rows.js";
import { COUNT_TOKENS_RULES, countTokens } from "./anthropic/count-tokens.js";
import { MESSAGE_RULES, messages } from "./anthropic/messages.js";
import type { AppContext, ServeContext } from "./http/context.js";
import { readJsonObject } from "./http/read-body.js";
import { api, info, type Route } from "./http/route.js";
import { kvEvents } from "./kv-events.js";
import { LLAMA_ROUTES } from "./llama/routes.js";
import { OLLAMA_ROUTES } from "./ollama/routes.js";
import { CHAT_RULES, chatCompletions } from "./openai/chat-completions.js";
import { COHERE_EMBED_RULES, cohereEmbed } from "./openai/cohere-embed.js";
import { COMPLETION_RULES, completions } from "./openai/completions.js";
import { EMBEDDING_RULES, embeddings } from "./openai/embeddings.js";
import { getModel, listModels } from "./openai/models.js";
import { RERANK_RULES, rerank, SCORE_RULES, score } from "./openai/rerank.js";
import { RESPONSE_RULES } from "./openai/response-request.js";
import { inputTokens, responses, storedResponse } from "./openai/responses.js";
import { DETOKENIZE_RULES, detokenize, TOKENIZE_RULES, tokenize, tokenizerInfo } from "./openai/tokenize.js";
import { openApiDocument } from "./openapi.js";

const anthropicApi = { ...api, dialect: ANTHROPIC_ERRORS } as const;

export const ROUTES: readonly Route[] = [
  { method: "GET", path: "/", handler: webApp, ...info, summary: "The app in the browser", answerType: "text/html" },
  { method: "GET", path: "/app/:file", handler: webApp, ...info, summary: "A file of the app", answerType: "text/*" },
  ...HEALTH_PATHS.map((path): Route => {
    return { method: "GET", path, handler: health, ...info, summary: "Whether requests are taken and served" };
  }),
  { method: "GET", path: "/load", handler: load, ...info, summary: "How many sequences run and wait" },
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
    idField: "prompt",
  },
  ...["/v1/responses", "/responses"].map(
    (path): Route => ({
      method: "POST",
      path,
      handler: responses,
      ...api,
      task: "generate",
      summary: "An answer that later ones may go on from",
      rules: RESPONSE_RULES,
    }),
  ),
  ...["/v1/responses/input_tokens", "/responses/input_tokens"].map(
    (path): Route => ({
      method: "POST",
      path,
      handler: inputTokens,
      ...api,
      summary: "How long the prompt of such a request is",
      rules: RESPONSE_RULES,
    }),
  ),
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
    idField: "input",
  },
  {
    method: "POST",
    path: "/v2/embed",
    handler: cohereEmbed,
    ...api,
    task: "embed",
    summary: "Vectors of texts, by Cohere's API",
    rules: COHERE_EMBED_RULES,
  },
  ...["/v1/rerank", "/v2/rerank", "/rerank", "/v1/reranking", "/reranking"].map(
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
      task: "rerank",
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
    idField: "tokens",
  },
  {
    method: "GET",
    path: "/tokenizer_info",
    handler: tokenizerInfo,
    ...api,
    summary: "Special tokens and the chat template",
  },
  {
    method: "POST",
    path: "/invocations",
    handler: invocations,
    ...api,
    summary: "What another path answers, by the body's fields",
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

/** The paths behind /invocations, by the first of these fields in the body. */
const INVOCATIONS = [
  ["messages", "/v1/chat/completions"],
  ["prompt", "/v1/completions"],
  ["query", "/v1/rerank"],
  ["text_1", "/v1/score"],
  ["queries", "/v1/score"],
  ["data_1", "/v1/score"],
  ["texts", "/v2/embed"],
  ["inputs", "/v2/embed"],
  ["input", "/v1/embeddings"],
] as const;

/** SageMaker's single path for all requests, as in vLLM. */
async function invocations(c: AppContext, context: ServeContext): Promise<Response> {
  const body = await readJsonObject(c, context.limits);
  const [, path] = INVOCATIONS.find(([field]) => Object.hasOwn(body, field)) ?? [];
  const route = ROUTES.find((each) => each.path === path);
  if (route === undefined) {
    const known = INVOCATIONS.map(([field]) => field).join(", ");
    throw new MillraceError("invalid_parameter", `body: expected one of the fields ${known}, got none of them`);
  }
  c.set("body", body);
  if (route.task !== undefined) {
    c.get("note").keepIn(context.requests);
    assertTask(route.task, context.engine.info);
  }
  return route.handler(c, context);
}

/** Answers 200 while the server accepts and serves requests, and an error once it drains, fails or hangs. */
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

function load(c: AppContext, { engine }: ServeContext): Response {
  const { numRunning, numWaiting } = engine.stats();
  return c.json({ server_load: numRunning + numWaiting });
}

function version(c: AppContext, context: ServeContext): Response {
  return c.json({ version: context.version });
}

async function metrics(c: AppContext, context: ServeContext): Promise<Response> {
  return c.body(await context.metrics.render(), 200, { "Content-Type": context.metrics.contentType });
}

/** With `isolatesApiKeys`, a key sees only its own requests. */
function lastRequests(c: AppContext, { requests, isolatesApiKeys, apiKeys }: ServeContext): Response {
  const isApart = isolatesApiKeys === true && apiKeys.length > 1;
  const query = readQuery(new URL(c.req.url).searchParams);
  const found = requests.find(query, ({ tenant }) => !isApart || tenant === c.get("tenant"));
  return rowsAnswer(
    found.map(({ row }) => row),
    requests.size,
  );
}

export function shuttingDown(): MillraceError {
  return new MillraceError("shutting_down", "expected a server that takes requests, got one that is shutting down", {
    hint: "send it to another instance, or again later",
  });
}
