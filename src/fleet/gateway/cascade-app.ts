/** The administrator's paths of routes and cascades, under /admin. */
import { Hono } from "hono";
import { listBody } from "../../core/list-body.js";
import { snakeNames } from "../../core/snake-names.js";
import type { VirtualModels } from "./virtual-models.js";

export function createCascadeApp(models: VirtualModels): Hono {
  const app = new Hono();
  app.get("/cascades", (c) => c.json(listBody(models.reports().map(snakeNames))));
  app.get("/routes", (c) => c.json(listBody(models.routeReports().map(snakeNames))));
  app.post("/cascades/:name{.+}/open", (c) => {
    const name = c.req.param("name");
    models.reopen(name);
    return c.json({ name, state: "open" });
  });
  return app;
}
