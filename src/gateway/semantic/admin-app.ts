/** The administrator's paths of semantic caches, under /admin. */
import { Hono } from "hono";
import { MillraceError } from "../../core/errors.js";
import { listBody } from "../../core/list-body.js";
import { snakeNames } from "../../core/snake-names.js";
import type { SemanticCache } from "./policy.js";

export function createSemanticApp(cache: SemanticCache): Hono {
  const app = new Hono();
  app.get("/semantic-cache", (c) => c.json(listBody(cache.status().map(snakeNames))));
  app.post("/semantic-cache/:model{.+}/reset", async (c) => {
    const model = c.req.param("model");
    if (await cache.reset(model)) return c.json({ model, state: "shadow" });
    throw new MillraceError("model_not_found", `expected a model whose semantic cache has begun, got ${model}`);
  });
  return app;
}
