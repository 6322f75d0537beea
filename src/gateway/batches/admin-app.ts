/**
 * The operators' paths under /admin: batches of all tenants, their progress and their cancellation. Clients' lines,
 * file names and metadata are not shown.
 */
import { Hono } from "hono";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { readQuery } from "../../core/query.js";
import type { Batches } from "./batches.js";
import { batchView, listView } from "./openai-views.js";
import type { BatchRecord } from "./record.js";

const query = z.strictObject({
  limit: z.coerce.number().int().min(1).max(100).default(20),
  after: z.string().max(100).optional(),
});

/** @param batches resolves to undefined if the gateway has had no batches yet */
export function createBatchesApp(batches: () => Promise<Batches | undefined>): Hono {
  const app = new Hono();
  app.get("/batches", async (c) => {
    const asked = readQuery(query, c.req.query());
    return c.json(listView((await batches())?.listAll(asked) ?? { items: [], hasMore: false }, shown));
  });
  app.post("/batches/:id/cancel", async (c) => {
    const id = c.req.param("id");
    const open = await batches();
    if (open !== undefined) return c.json(shown(open.cancelAny(id)));
    throw new MillraceError("not_found", `expected the id of a batch, got ${JSON.stringify(id.slice(0, 80))}`, {
      hint: "this gateway has no batches",
    });
  });
  return app;
}

function shown(batch: BatchRecord): object {
  const { metadata: _metadata, errors: _errors, ...rest } = batchView(batch);
  const { owner, kind, models, faults } = batch;
  return {
    ...rest,
    tenant: owner.tenant,
    api: kind,
    models,
    error_codes: [...new Set(faults.map(({ code }) => code))],
  };
}
