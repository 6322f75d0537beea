/** GET /admin/alerts: what was found, from the newest to the oldest. */
import { Hono } from "hono";
import { z } from "zod";
import { readQuery } from "../query.js";
import type { AlertStore } from "./alert-store.js";
import { shownAlert } from "./webhook.js";

const query = z.strictObject({
  cursor: z.coerce.number().int().min(0).default(Number.MAX_SAFE_INTEGER),
  limit: z.coerce.number().int().min(1).max(500).default(100),
});

export function createAlertsApp(store: AlertStore): Hono {
  const app = new Hono();
  app.get("/alerts", (c) => {
    const { cursor, limit } = readQuery(query, c.req.query());
    const page = store.page(cursor, limit);
    const data = page.map(({ alert, tries, deliveredMs }) => ({
      ...shownAlert(alert),
      tries,
      delivered: deliveredMs === null ? null : new Date(deliveredMs).toISOString(),
    }));
    const next = page.length === limit ? page.at(-1)!.seq : null;
    return c.json({ object: "list", data, has_more: next !== null, next_cursor: next });
  });
  return app;
}
