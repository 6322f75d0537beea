/** Paths for clients about kept answers: POST /v1/cache/{id}/wrong. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { errorBody } from "../../core/error-body.js";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import { incomingOf } from "../../core/sign-in/session-app.js";
import { requestIdIn } from "../../gateway/api/request-id.js";
import type { SemanticCache } from "../../gateway/semantic/policy.js";
import type { Authorize } from "../proxy/options.js";

interface CachePathsTarget {
  readonly authorize: Authorize;
  readonly semanticCache: () => SemanticCache | undefined;
}

const PATH = /^\/v1\/cache\/([0-9a-f]{32})\/wrong$/;

/** @returns whether this handler takes the request */
export function cachePathsHandler(target: CachePathsTarget) {
  const app = new Hono();
  app.onError((thrown, c) => {
    const error = toMillraceError(thrown);
    return c.json(errorBody(error, requestIdIn(c)), error.status as 400);
  });
  app.post("/v1/cache/:id/wrong", async (c) => {
    const { tenant } = await target.authorize(incomingOf(c).headers);
    const id = c.req.param("id");
    if (!(await target.semanticCache()?.reportWrong(id, tenant))) {
      throw new MillraceError("not_found", `expected the id of a kept answer of this tenant, got ${id}`, {
        hint: "the id is in the header x-millrace-cache-id of the answer; it is gone once an answer was reported",
      });
    }
    return c.json({ id, purged: true });
  });
  const listener = getRequestListener(app.fetch);
  return (incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): boolean => {
    const path = (incoming.url ?? "").split("?", 1)[0]!;
    if (incoming.method !== "POST" || !PATH.test(path)) return false;
    incoming.headers["x-request-id"] = requestId;
    outgoing.setHeader("X-Request-Id", requestId);
    void listener(incoming, outgoing);
    return true;
  };
}
