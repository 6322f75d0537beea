/** The fleet's own paths beside the API: the app in the browser and its figures under /watch, /metrics and /report, which are public, and /admin, which needs an operator's key. */
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { z } from "zod";
import { errorBody } from "../core/error-body.js";
import { MillraceError, toMillraceError } from "../core/errors.js";
import { snakeNames } from "../core/snake-names.js";
import { isWebPath, webAnswer } from "../core/web-app.js";
import { setOperatorName } from "../gateway/api/operator-name.js";
import { requestIdIn } from "../gateway/api/request-id.js";
import type { LiveFeed } from "../observe/live/feed.js";
import { readQuery, rowsAnswer } from "../observe/live/request-rows.js";
import { MAX_INSTANCES } from "./config/schema.js";
import type { Operator } from "./config/sections/operators.js";
import type { Inspected } from "./observe/inspector.js";
import { assertRole, operatorOf } from "./operators/admit.js";
import { assertRolesStated, roleFor } from "./operators/endpoint-roles.js";
import type { InstanceStatus } from "./supervision/instance-status.js";

/** Result of scaling a model. */
export interface Scaled {
  readonly instances: number;
  readonly limitedBy: "min" | "max" | undefined;
}

/** The operations behind the administrator's paths. */
export interface AdminTarget {
  instances(): readonly (InstanceStatus & { readonly inFlight: number })[];
  drain(id: string): Promise<void>;
  restart(id: string): Promise<void>;
  /** @returns the number of instances that there will be, and the bound of the model that changed the requested number, if any */
  scale(model: string, instances: number): Scaled;
  metrics(): Promise<{ readonly text: string; readonly contentType: string }>;
  /** The dashboard's figures. */
  readonly live: LiveFeed;
  /** The last requests. */
  requests(query: ReturnType<typeof readQuery>): Promise<Inspected>;
  /** Whether clients need keys. */
  needsKeys(): boolean;
  /** Who may use /admin. Called for each request, since a reload may change them. */
  operators(): readonly Operator[];
  /** Further paths under /admin, which the gateway's parts serve. */
  readonly parts: readonly Hono[];
  /** File of the page at /report; undefined if there is none. */
  readonly reportFile?: string | undefined;
  /** Runs a task beyond the answer, and logs its failure. */
  inBackground(what: string, task: Promise<void>): void;
}

const scaleBody = z.strictObject({ instances: z.number().int().min(0).max(MAX_INSTANCES) });

/** The public fields of an instance, without its API key. */
function shown({ target, logFile, ...status }: ReturnType<AdminTarget["instances"]>[number]) {
  return snakeNames({ ...status, url: target?.url ?? null, logFile: logFile ?? null });
}

/** Keys of the file without which the paths under one of /admin are not there. */
const TURNED_ON_BY: ReadonlyMap<string | undefined, string> = new Map([
  ...["orgs", "teams", "keys", "audit"].map((each) => [each, "managed-keys: true"] as const),
  ["ledger", "ledger: {}"],
  ["alerts", "ledger: {} and alerts"],
  ["quality", "ledger: {} and quality: {}"],
  ["semantic-cache", "semantic-cache of a model"],
]);

function createAdminApp(target: AdminTarget): Hono {
  const app = new Hono();
  const known = (id: string): string => {
    if (target.instances().some((instance) => instance.id === id)) return id;
    const ids = target.instances().map((instance) => instance.id);
    throw new MillraceError(
      "not_found",
      `expected one of ${ids.join(", ") || "no instances"}, got ${JSON.stringify(id)}`,
    );
  };
  const checkOperator = (c: Context): void => {
    const operator = operatorOf(target.operators(), c.req.header("authorization"), c.req.header("x-api-key"));
    const role = roleFor(c);
    if (role !== undefined) assertRole(operator, role);
    setOperatorName(c, operator.name);
  };
  app.onError((thrown, c) => {
    const error = toMillraceError(thrown);
    return c.json(errorBody(error, requestIdIn(c)), error.status as 400);
  });
  app.notFound((c) => {
    const path = c.req.path.slice(0, 80);
    const key = TURNED_ON_BY.get(path.split("/")[2]);
    const hint = key === undefined ? "docs/guides/fleet.md has all" : `it needs ${key} in the gateway's file`;
    throw new MillraceError("not_found", `expected a path of the administrator, got ${c.req.method} ${path}`, { hint });
  });
  for (const path of ["/", "/app/:file"]) {
    app.get(path, (c) => webAnswer(c.req.path, c.req.header("Accept-Encoding")) ?? c.notFound());
  }
  app.get("/metrics", async (c) => {
    const { text, contentType } = await target.metrics();
    return c.body(text, 200, { "Content-Type": contentType });
  });
  app.get("/watch/live", () => target.live.live());
  app.get("/watch/history", (c) => target.live.past(c.req.query("window")));
  app.get("/watch/requests", async (c) => {
    // They tell of all tenants. A gateway without keys has no secrets among those who reach it.
    if (target.operators().length > 0 || target.needsKeys()) checkOperator(c);
    const { rows, kept } = await target.requests(readQuery(new URL(c.req.url).searchParams));
    return rowsAnswer(rows, kept);
  });
  app.get("/report", async (c) => {
    const page = await readFile(target.reportFile ?? "", "utf8").catch(() => undefined);
    if (page !== undefined) return c.html(page);
    throw new MillraceError("not_found", "expected the report of the first benchmark, got none yet", {
      hint: "the benchmark runs after the first start and takes about five minutes",
    });
  });
  app.use("/admin/*", async (c, next) => {
    checkOperator(c);
    await next();
  });
  for (const part of target.parts) app.route("/admin", part);
  app.get("/admin/instances", (c) => c.json({ instances: target.instances().map(shown) }));
  app.post("/admin/instances/:id/:action{drain|restart}", (c) => {
    const id = known(c.req.param("id"));
    const action = c.req.param("action") as "drain" | "restart";
    // A drain lasts as long as the longest request; GET /admin/instances shows when it is done.
    target.inBackground(`${action} of ${id}`, target[action](id));
    return c.json({ id, action, state: "accepted" }, 202);
  });
  app.post("/admin/models/:model{.+}/scale", async (c) => {
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
  assertRolesStated(app);
  return app;
}

type HandleOther = (incoming: IncomingMessage, outgoing: ServerResponse, requestId: string) => boolean;

const OUR_PREFIXES = ["/admin/", "/watch/"];

/** Handles paths that the proxy on the same port does not serve. */
export function adminHandler(target: AdminTarget): HandleOther {
  const listener = getRequestListener(createAdminApp(target).fetch);
  return (incoming, outgoing, requestId) => {
    const path = (incoming.url ?? "").split("?", 1)[0]!;
    const isReport = path === "/report" && target.reportFile !== undefined;
    const isOurs = OUR_PREFIXES.some((prefix) => path.startsWith(prefix));
    if (path !== "/metrics" && !isReport && !isWebPath(path) && !isOurs) return false;
    incoming.headers["x-request-id"] = requestId;
    outgoing.setHeader("X-Request-Id", requestId);
    void listener(incoming, outgoing);
    return true;
  };
}
