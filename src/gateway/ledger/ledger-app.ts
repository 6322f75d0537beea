/**
 * The ledger over HTTP: for the administrator under /admin/ledger, and for tenants, who see their own, at /v1/usage.
 */
import { Readable } from "node:stream";
import { Hono } from "hono";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { listBody } from "../../core/list-body.js";
import { readQuery } from "../../core/query.js";
import type { Caller } from "../request.js";
import type { Database } from "../store/database.js";
import type { Row } from "../store/side-connection.js";
import { CONTENT_TYPES, EXPORT_FORMATS, exportFile } from "./ledger-export.js";
import { exportRows, requestPage, SPEND_GROUPS, type SpendGroup, spend } from "./ledger-queries.js";

const MAX_PAGE = 500;
const DEFAULT_PAGE = 100;

/** A day or a time, as milliseconds since 1970. */
const time = z
  .union([z.iso.date(), z.iso.datetime({ offset: true })])
  .transform((written) => Date.parse(written))
  .optional();

const period = { from: time, to: time };
const name = z.string().max(256).optional();
const groupBy = z
  .string()
  .default("")
  .transform((written) => [...new Set(written.split(",").filter((each) => each !== ""))])
  .pipe(z.array(z.enum(SPEND_GROUPS as [SpendGroup, ...SpendGroup[]])));

const requestsQuery = z.strictObject({
  ...period,
  id: name,
  tenant: name,
  team: name,
  key: name,
  end_user: name,
  model: name,
  outcome: z.enum(["answered", "broken", "cancelled", "refused", "lost"]).optional(),
  status: z.coerce.number().int().min(0).max(599).optional(),
  cursor: z.coerce.number().int().min(0).default(Number.MAX_SAFE_INTEGER),
  limit: z.coerce.number().int().min(1).max(MAX_PAGE).default(DEFAULT_PAGE),
});

const spendQuery = z.strictObject({
  ...period,
  group_by: groupBy,
  tenant: name,
  team: name,
  key: name,
  model: name,
});
const exportQuery = z.strictObject({
  ...period,
  tenant: name,
  team: name,
  key: name,
  end_user: name,
  format: z.enum(EXPORT_FORMATS).default("csv"),
});
const ownQuery = z.strictObject({ ...period, group_by: groupBy });

/** The columns by which a tenant may group its own spend. */
const OWN_GROUPS: readonly SpendGroup[] = ["key", "model", "hour", "day", "month"];

export function createLedgerApp(database: Database.Database): Hono {
  const app = new Hono();
  app.get("/ledger/requests", async (c) => {
    const { from: fromMs, to: toMs, cursor, limit, ...filter } = readQuery(requestsQuery, c.req.query());
    const { data, next } = await requestPage(database, { ...filter, fromMs, toMs }, cursor, limit);
    return c.json({ ...listBody(data), has_more: next !== null, next_cursor: next });
  });
  app.get("/ledger/spend", async (c) => {
    const { from: fromMs, to: toMs, group_by: groups, ...filter } = readQuery(spendQuery, c.req.query());
    return c.json(listBody(await spend(database, { ...filter, fromMs, toMs }, groups)));
  });
  app.get("/ledger/export", (c) => {
    const { from, to, format, ...filter } = readQuery(exportQuery, c.req.query());
    const rows = exportRows(database, { ...filter, fromMs: from ?? 0, toMs: to ?? Number.MAX_SAFE_INTEGER });
    const file = Readable.from(exportFile(rows, format), { objectMode: false });
    return c.body(Readable.toWeb(file) as ReadableStream, 200, {
      "Content-Type": CONTENT_TYPES[format],
      "Content-Disposition": `attachment; filename="ledger.${format}"`,
    });
  });
  return app;
}

/** A tenant's own spend: of its managed key, or without managed keys, of all its keys. */
export async function ownUsage(
  database: Database.Database,
  caller: Caller,
  query: Readonly<Record<string, string>>,
): Promise<Row> {
  const { from: fromMs, to: toMs, group_by: groups } = readQuery(ownQuery, query);
  const foreign = groups.find((group) => !OWN_GROUPS.includes(group));
  if (foreign !== undefined) {
    const message = `expected group_by to be of ${OWN_GROUPS.join(", ")}, got ${foreign}`;
    throw new MillraceError("invalid_parameter", message, { param: "group_by" });
  }
  const { tenant, keyId: key } = caller;
  return listBody(await spend(database, { tenant, key, fromMs, toMs }, groups, tenant));
}
