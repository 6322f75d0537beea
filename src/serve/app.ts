/**
 * The HTTP application: the checks in front of the routes (request id, CORS, drain, API key), and errors. Hono only
 * routes.
 */
import { Hono } from "hono";
import { createKeyCheck, type KeyCheck } from "../core/api-keys.js";
import { assertPageAllowed, corsHeaders, preflightHeaders } from "../core/cors.js";
import { ANTHROPIC_ERRORS, type ErrorDialect, OLLAMA_ERRORS, OPENAI_ERRORS } from "../core/error-body.js";
import { MillraceError } from "../core/errors.js";
import { requestIdOf } from "../core/http-server.js";
import { ollamaPathHint } from "../core/ollama-api.js";
import { packageVersion } from "../core/package-root.js";
import { pathHint } from "../core/path-hint.js";
import { ResponseState } from "../core/response-state.js";
import { ResponseStore } from "../core/response-store.js";
import { Sessions } from "../core/sign-in/sessions.js";
import { assertTask } from "../engine/admission.js";
import { LiveFeed } from "../observe/live/feed.js";
import { History } from "../observe/live/history.js";
import { requestLogOf } from "../observe/live/request-log.js";
import { RequestRing } from "../observe/live/request-rows.js";
import { AsyncTokenizer } from "../text/async-tokenizer.js";
import { readChatFormat } from "./generation/chat-format.js";
import { createMetrics } from "./generation/metrics.js";
import { RequestNote } from "./generation/request-note.js";
import { randomSeed } from "./generation/seeds.js";
import { addAdministration } from "./http/administration.js";
import type { AppContext, AppEnv, AppOptions, Lifecycle, ServeContext } from "./http/context.js";
import { onDisconnect } from "./http/disconnect.js";
import { respondWithError } from "./http/error-response.js";
import { tenantOf } from "./http/request-terms.js";
import type { Route } from "./http/route.js";
import { addSignIn, authorizationOf } from "./http/sign-in.js";
import { listModels } from "./openai/models.js";
import { ROUTES, shuttingDown } from "./routes.js";

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

/**
 * Whether errors take Anthropic's form: by the path, or on paths of both vendors, such as the list of models, by the
 * header of Anthropic's clients.
 */
function isAnthropic(c: AppContext): boolean {
  return c.req.path.startsWith("/v1/messages/") || c.req.header("anthropic-version") !== undefined;
}

function enterRoute(c: AppContext, { dialect, path, idField }: Route): void {
  c.set("route", path);
  c.set("idField", idField);
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
    const note = new RequestNote({ ...facts, startMs: c.get("startMs") }, context.requestLog);
    c.set("note", note);
    if (route.task !== undefined) {
      note.keepIn(context.requests);
      assertTask(route.task, context.engine.info);
    }
    const asyncTokenizer = context.asyncTokenizer.of({ tenant, watch: (leave) => onDisconnect(c, leave) });
    return route.handler(c, { ...context, asyncTokenizer });
  });
}

/**
 * Paths of OpenAI's API that this server lacks. Another route takes them for an id, so its methods must not be listed
 * for them.
 */
const ABSENT: readonly string[] = ["/v1/responses/compact"];

/** Refuses methods that the path lacks. Registered after the path's handlers. */
function addMethodCheck(app: Hono<AppEnv>, route: Route): void {
  const methods = ROUTES.filter(({ path }) => path === route.path).map(({ method }) => method);
  app.all(route.path, (c) => {
    if (ABSENT.includes(c.req.path)) return c.notFound();
    enterRoute(c, route);
    c.header("Allow", methods.join(", "));
    const expected = methods.join(" or ");
    const hint = pathHint(c.req.path);
    throw new MillraceError(
      "method_not_allowed",
      `expected ${expected} ${c.req.path.slice(0, 80)}, got ${c.req.method}`,
      hint === undefined ? {} : { hint },
    );
  });
}

/** Paths that only a gateway has: its files and batches are kept in a folder and survive a restart. */
const OF_GATEWAYS = /^\/v1\/(files|batches|messages\/batches)(\/|$)/;

function answerUnknownPath(c: AppContext, { logger }: AppOptions): Response {
  if (isAnthropic(c)) enterDialect(c, ANTHROPIC_ERRORS);
  else if (c.req.path.startsWith("/api/")) enterDialect(c, OLLAMA_ERRORS);
  const path = c.req.path.slice(0, 80);
  const hint = OF_GATEWAYS.test(path)
    ? "files and batches are a gateway's: start it with --instances 1, or use `millrace batch run`"
    : (pathHint(path) ?? ollamaPathHint(path) ?? "docs/reference/http-api.md lists them");
  const error = new MillraceError("not_found", `expected one of this server's paths, got ${path}`, { hint });
  return respondWithError(c, error, logger);
}

/** @example const app = createApp(options); const answer = await app.request("/health"); */
export function createApp(options: AppOptions): Hono<AppEnv> {
  return createAppWithLifecycle(options).app;
}

/**
 * The application with its lifecycle, which the server changes when it drains, and the dashboard's figures, which the
 * server starts and stops.
 */
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
  const { history = new History(), events, targets = {} } = options;
  const live = new LiveFeed(() => metrics.render(), history, { events, targets: () => targets });
  const context: ServeContext = {
    ...options,
    asyncTokenizer: options.asyncTokenizer ?? new AsyncTokenizer(options.tokenizer),
    drawSeed: options.drawSeed ?? randomSeed,
    chatFormat: readChatFormat(options),
    metrics,
    live,
    requests: new RequestRing(),
    requestLog: requestLogOf(options.logger),
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
  app.get("/admin/models", (c) => listModels(c, context));
  for (const route of ROUTES) addMethodCheck(app, route);
  app.onError((thrown, c) => respondWithError(c, thrown, options.logger));
  app.notFound((c) => answerUnknownPath(c, options));
  return { app, lifecycle, live };
}
