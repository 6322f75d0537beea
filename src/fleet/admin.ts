/**
 * The fleet's own paths beside the API: the browser app and its figures under /watch, /metrics and /report, which are
 * public, and /admin, which needs an operator's key.
 */
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { z } from "zod";
import { givenKeys, noValidKey } from "../core/api-keys.js";
import { errorBody } from "../core/error-body.js";
import { MillraceError, toMillraceError } from "../core/errors.js";
import { readIncoming } from "../core/json-body.js";
import { listBody } from "../core/list-body.js";
import type { ModelLibrary } from "../core/model-library.js";
import type { Who } from "../core/sign-in/roles.js";
import { createSessionApp, incomingOf, type KeyOwners } from "../core/sign-in/session-app.js";
import { sessionOperator } from "../core/sign-in/session-cookie.js";
import type { Sessions } from "../core/sign-in/sessions.js";
import { snakeNames } from "../core/snake-names.js";
import { isWebPath, webAnswer } from "../core/web-app.js";
import { setOperatorName } from "../gateway/api/operator-name.js";
import { requestIdIn } from "../gateway/api/request-id.js";
import type { Caller } from "../gateway/request.js";
import type { LiveFeed } from "../observe/live/feed.js";
import { readQuery, rowsAnswer } from "../observe/live/request-rows.js";
import { createReportsApp } from "../observe/reports/reports-app.js";
import { MAX_INSTANCES } from "./config/schema.js";
import type { Operator } from "./config/sections/operators.js";
import type { Inspected } from "./observe/inspector.js";
import type { MetricsText } from "./observe/open-metrics.js";
import { assertRole, OPERATORS_KEY, operatorOf, operatorWith } from "./operators/admit.js";
import { assertRolesStated, roleFor } from "./operators/endpoint-roles.js";
import { createProviderApp } from "./operators/provider-app.js";
import { ProviderSignIn, type SignInSettings } from "./operators/provider-sign-in.js";
import type { InstanceStatus } from "./supervision/instance-status.js";

/** Result of scaling a model. */
export interface Scaled {
  readonly instances: number;
  readonly limitedBy: "min" | "max" | undefined;
}

/** The operations behind the paths under /admin. */
export interface AdminTarget {
  /** All models, in the form of /v1/models. */
  models(): object;
  instances(): readonly (InstanceStatus & { readonly inFlight: number })[];
  drain(id: string): Promise<void>;
  restart(id: string): Promise<void>;
  /** @returns the number of instances to come, and the model's bound that changed the requested number, if any */
  scale(model: string, instances: number): Scaled;
  /** Starts a model from the disk. @returns its name for clients */
  load(spec: string, name: string | undefined): Promise<string>;
  unload(name: string): Promise<void>;
  /** Whether `load` started the model; false for models of the file. */
  isLoaded(name: string): boolean;
  /** The models on this machine's disk; undefined: this fleet does not manage them. */
  readonly library: ModelLibrary | undefined;
  /** @param accept the scraper's Accept header */
  metrics(accept: string | undefined): Promise<MetricsText>;
  /** Figures by tenant, in Prometheus' text format; absent: the fleet does not count them. */
  readonly tenantMetrics?: (() => string) | undefined;
  /** The dashboard's figures. */
  readonly live: LiveFeed;
  /** The last requests. */
  requests(query: ReturnType<typeof readQuery>): Promise<Inspected>;
  /** Whether clients need keys. */
  needsKeys(): boolean;
  /** Whether the gateway stores clients' conversations. */
  readonly keepsChats?: boolean;
  /** Whether the gateway accepts clients' feedback on answers. */
  readonly takesFeedback?: boolean;
  /** The client with a key. Throws or rejects: invalid_api_key, key_store_unavailable, identity_provider_unavailable */
  clientWith(key: string): Caller | Promise<Caller>;
  /** Browser sessions of operators and clients. */
  readonly sessions: Sessions;
  /** The operators who may use /admin. Called for each request, since a reload may change them. */
  operators(): readonly Operator[];
  /** The identity provider at which operators sign in; absent or undefined: there is none. */
  readonly signIn?: SignInSettings | undefined;
  /** Further paths under /admin, which the gateway's parts serve. */
  readonly parts: readonly Hono[];
  /** Folder of reports; undefined: the configuration names none. */
  readonly reports?: string | undefined;
  /** File of the page at /report; undefined if there is none. */
  readonly reportFile?: string | undefined;
  /** Time limit for receiving a request's body under /admin. */
  bodyTimeoutMs(): number;
  /** Runs a task that may outlast the answer, and logs its failure. */
  inBackground(what: string, task: Promise<void>): void;
}

/** Media type of Prometheus' text format. */
const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Larger than any request under /admin. */
const MAX_BODY_BYTES = 64 * 1024;

const scaleBody = z.strictObject({ instances: z.number().int().min(0).max(MAX_INSTANCES) });

/** The public fields of an instance, without its API key. */
function shown({
  target,
  logFile,
  ...status
}: ReturnType<AdminTarget["instances"]>[number] & { readonly isLoaded: boolean }) {
  return snakeNames({ ...status, url: target?.url ?? null, logFile: logFile ?? null });
}

/** Part of a path under /admin → the keys of the file that turn the part on. */
const TURNED_ON_BY: ReadonlyMap<string | undefined, string> = new Map([
  ...["orgs", "teams", "keys", "audit"].map((each) => [each, "managed-keys: true"] as const),
  ["ledger", "ledger: {}"],
  ["alerts", "ledger: {} and alerts"],
  ["quality", "ledger: {} and quality: {}"],
  ["semantic-cache", "semantic-cache of a model"],
]);

function keyOwners(target: AdminTarget): KeyOwners {
  const { signIn } = target;
  return {
    operator: (key) => {
      const operator = operatorWith(target.operators(), key);
      if (operator === undefined) return undefined;
      // After a reload that removed the key, the operator is no longer signed in.
      return () => target.operators().find((each) => each.key.equals(operator.key));
    },
    client: async (key) => {
      if (!target.needsKeys()) return undefined;
      const { tenant, keyId, holder } = await target.clientWith(key);
      const name = keyId === undefined ? tenant : `${tenant}, ${keyId}`;
      // Conversations belong to a person, and a token without a subject names no person.
      return { owner: holder ?? tenant, name, keepsChats: target.keepsChats === true && holder !== undefined };
    },
    ways: () => [
      ...(target.operators().length > 0 ? (["key"] as const) : []),
      ...(signIn === undefined ? [] : (["oidc"] as const)),
    ],
    provider: signIn?.name,
    takesFeedback: target.takesFeedback === true,
  };
}

/** Checks of the client behind a request. `operator` and `reader` throw if it lacks the right. */
interface Checks {
  /** The client is an operator with the role that the path needs. */
  operator(c: Context): void;
  /** The client is an operator that may read; without keys, a gateway lets every client read. */
  reader(c: Context): void;
  isReader(c: Context): boolean;
}

function checksOf(target: AdminTarget): Checks {
  const whoAsks = (c: Context): Who => {
    const who = sessionOperator(incomingOf(c), target.sessions);
    if (who !== undefined) return who;
    const [authorization, apiKey] = [c.req.header("authorization"), c.req.header("x-api-key")];
    const isForProvider = target.signIn !== undefined && target.operators().length === 0;
    if (isForProvider) throw noValidKey(givenKeys(authorization, apiKey), OPERATORS_KEY);
    return operatorOf(target.operators(), authorization, apiKey);
  };
  const operator = (c: Context): void => {
    const who = whoAsks(c);
    const role = roleFor(c);
    if (role !== undefined) assertRole(who, role);
    setOperatorName(c, who.name);
  };
  const reader = (c: Context): void => {
    const isOpen = target.operators().length === 0 && target.signIn === undefined && !target.needsKeys();
    if (!isOpen) operator(c);
  };
  const isReader = (c: Context): boolean => {
    try {
      reader(c);
      return true;
    } catch {
      return false;
    }
  };
  return { operator, reader, isReader };
}

/**
 * /metrics, /watch and /report. Figures are public, except those that name a tenant or a request: these are for
 * operators.
 */
function createFiguresApp(target: AdminTarget, checks: Checks): Hono {
  const app = new Hono();
  app.get("/metrics", async (c) => {
    // An exemplar names one request's trace, so only operators see it.
    const { text, contentType } = await target.metrics(checks.isReader(c) ? c.req.header("Accept") : undefined);
    return c.body(text, 200, { "Content-Type": contentType });
  });
  app.get("/metrics/tenants", (c) => {
    checks.reader(c);
    const text = target.tenantMetrics?.();
    if (text !== undefined) return c.body(text, 200, { "Content-Type": METRICS_TYPE });
    const hint = "add ledger: {} to the gateway's file, and start it again";
    throw new MillraceError("not_found", "expected a gateway with a ledger, got one without", { hint });
  });
  const checkQuery = (c: Context): void => {
    if (c.req.query("tenant") !== undefined) checks.reader(c);
  };
  app.get("/watch/live", (c) => {
    checkQuery(c);
    const isOpen = c.req.query("tenant") === undefined;
    return target.live.live(c.req.query(), () => isOpen || checks.isReader(c), checks.isReader(c));
  });
  app.get("/watch/history", (c) => {
    checkQuery(c);
    return target.live.past(c.req.query());
  });
  app.get("/watch/series", (c) => target.live.parts(checks.isReader(c)));
  app.get("/watch/tenants", (c) => {
    checks.reader(c);
    return target.live.tenantsNow();
  });
  app.get("/watch/requests", async (c) => {
    checks.reader(c);
    const { rows, kept } = await target.requests(readQuery(new URL(c.req.url).searchParams));
    return rowsAnswer(rows, kept);
  });
  const remedy = "it needs reports: and the name of a folder in the gateway's file";
  app.route("/watch/reports", createReportsApp(target.reports, checks.reader, remedy));
  app.get("/report", async (c) => {
    const page = await readFile(target.reportFile ?? "", "utf8").catch(() => undefined);
    if (page !== undefined) return c.html(page);
    throw new MillraceError("not_found", "expected the report of the first benchmark, got none yet", {
      hint: "the benchmark runs after the first start and takes about five minutes",
    });
  });
  return app;
}

/** Paths under /admin that list, start and stop instances and models. */
function createInstancesApp(target: AdminTarget): Hono {
  const app = new Hono();
  const known = (id: string): string => {
    const ids = target.instances().map((instance) => instance.id);
    if (ids.includes(id)) return id;
    const message = `expected one of ${ids.join(", ") || "no instances"}, got ${JSON.stringify(id)}`;
    throw new MillraceError("not_found", message);
  };
  app.post("/library/models/:model{.+}/load", async (c) => {
    const model = c.req.param("model");
    return c.json({ model, name: await target.load(model, c.req.query("name")) }, 202);
  });
  if (target.library !== undefined) app.route("/library", target.library.app);
  app.delete("/models/:model{.+}", async (c) => {
    const model = c.req.param("model");
    if (!target.isLoaded(model)) {
      const message = `expected a model that was loaded here, got ${JSON.stringify(model)}`;
      const hint = "a model of the gateway's file is scaled down, or leaves the file";
      throw new MillraceError("model_not_found", message, { hint });
    }
    // The model's requests end first, which may take minutes.
    target.inBackground(`unloading ${model}`, target.unload(model));
    return c.json({ model, state: "accepted" }, 202);
  });
  // /v1/models needs a client's key, which an operator may not have.
  app.get("/models", (c) => c.json(target.models()));
  app.get("/instances", (c) => {
    const instances = target.instances().map((each) => ({ ...each, isLoaded: target.isLoaded(each.model) }));
    return c.json(listBody(instances.map(shown)));
  });
  app.post("/instances/:id/:action{drain|restart}", (c) => {
    const id = known(c.req.param("id"));
    const action = c.req.param("action") as "drain" | "restart";
    // A drain lasts as long as the longest request; GET /admin/instances shows when it is done.
    target.inBackground(`${action} of ${id}`, target[action](id));
    return c.json({ id, action, state: "accepted" }, 202);
  });
  app.post("/models/:model{.+}/scale", async (c) => {
    const body = scaleBody.safeParse(await c.req.json().catch(() => undefined));
    if (!body.success) {
      const message = `expected {"instances": n} with n in [0, ${MAX_INSTANCES}], got something else`;
      throw new MillraceError("invalid_parameter", message, { param: "instances" });
    }
    const model = c.req.param("model");
    const { instances, limitedBy } = target.scale(model, body.data.instances);
    const answer = { model, instances };
    if (limitedBy === undefined) return c.json(answer, 202);
    const hint = `the configuration limits ${model} to ${limitedBy}: ${instances}; change it there, and send SIGHUP`;
    return c.json({ ...answer, asked: body.data.instances, limited_by: limitedBy, hint }, 202);
  });
  return app;
}

function createAdminApp(target: AdminTarget): Hono {
  const app = new Hono();
  const checks = checksOf(target);
  app.onError((thrown, c) => {
    const error = toMillraceError(thrown);
    if (error.retryAfterSeconds !== undefined) c.header("Retry-After", String(error.retryAfterSeconds));
    // Close the connection instead of waiting for the rest of the body.
    if (error.code === "request_timeout") c.header("Connection", "close");
    return c.json(errorBody(error, requestIdIn(c)), error.status as 400);
  });
  app.notFound((c) => {
    const path = c.req.path.slice(0, 80);
    const part = path.split("/")[2];
    const isOn = app.routes.some((route) => `${route.path}/`.startsWith(`/admin/${part}/`));
    const key = TURNED_ON_BY.get(part);
    const hint =
      isOn || key === undefined ? "docs/guides/ has the paths of each part" : `it needs ${key} in the gateway's file`;
    throw new MillraceError("not_found", `expected one of the gateway's paths, got ${c.req.method} ${path}`, { hint });
  });
  for (const path of ["/", "/app/:file"]) {
    app.get(path, (c) => webAnswer(c.req.path, c.req.header("Accept-Encoding")) ?? c.notFound());
  }
  app.route("/", createFiguresApp(target, checks));
  app.route("/session", createSessionApp(keyOwners(target), target.sessions));
  const provider = target.signIn === undefined ? undefined : new ProviderSignIn(target.signIn);
  app.route("/", createProviderApp(provider, target.sessions));
  app.use("/admin/*", async (c, next) => {
    checks.operator(c);
    await next();
  });
  app.use("/admin/*", async (c, next) => {
    const { method, url, headers } = c.req.raw;
    if (method !== "GET" && method !== "HEAD") {
      const limits = { maxBodyBytes: MAX_BODY_BYTES, bodyTimeoutMs: target.bodyTimeoutMs() };
      const body = new Uint8Array(await readIncoming(incomingOf(c), limits));
      // An empty body stays as it is: some methods allow no body in a new request.
      if (body.length > 0) c.req.raw = new Request(url, { method, headers, body });
    }
    await next();
  });
  for (const part of [...target.parts, createInstancesApp(target)]) app.route("/admin", part);
  assertRolesStated(app);
  return app;
}

type HandleOther = (incoming: IncomingMessage, outgoing: ServerResponse, requestId: string) => boolean;

const OUR_PATHS = ["/metrics", "/metrics/tenants", "/session", "/sign-in", "/signed-in"];
const OUR_PREFIXES = ["/admin/", "/watch/"];

/** Handles paths that the proxy on the same port does not serve. */
export function adminHandler(target: AdminTarget): HandleOther {
  const listener = getRequestListener(createAdminApp(target).fetch);
  return (incoming, outgoing, requestId) => {
    const path = (incoming.url ?? "").split("?", 1)[0]!;
    const isReport = path === "/report" && target.reportFile !== undefined;
    const isOurs = OUR_PREFIXES.some((prefix) => path.startsWith(prefix));
    if (!OUR_PATHS.includes(path) && !isReport && !isWebPath(path) && !isOurs) return false;
    incoming.headers["x-request-id"] = requestId;
    outgoing.setHeader("X-Request-Id", requestId);
    void listener(incoming, outgoing);
    return true;
  };
}
