/** The administrator's paths of alerts, under /admin: alerts from the newest to the oldest, and silences. */
import { Hono } from "hono";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { listBody } from "../../core/list-body.js";
import { readQuery } from "../../core/query.js";
import { firstProblem, problemText } from "../../core/schema-problem.js";
import { personIn } from "../api/operator-name.js";
import type { AlertStore } from "./alert-store.js";
import type { Silence } from "./silences.js";
import { shownAlert } from "./webhook.js";

const query = z.strictObject({
  cursor: z.coerce.number().int().min(0).default(Number.MAX_SAFE_INTEGER),
  limit: z.coerce.number().int().min(1).max(500).default(100),
  open: z.enum(["true", "false"]).default("false"),
});

const name = z.string().max(256).optional();
const time = z.iso.datetime({ offset: true }).transform((written) => Date.parse(written));
const silenceBody = z
  .strictObject({
    metric: name,
    tenant: name,
    key: name,
    model: name,
    starts: time.optional(),
    ends: time,
    comment: z.string().trim().min(1).max(500),
    author: z.string().max(100).optional(),
  })
  .refine(({ metric, tenant, key, model }) => [metric, tenant, key, model].some((each) => each !== undefined), {
    error: "expected at least one of metric, tenant, key and model",
  });

export function createAlertsApp(store: AlertStore, epochMs: () => number): Hono {
  const app = new Hono();
  app.get("/alerts", (c) => {
    const { cursor, limit, open } = readQuery(query, c.req.query());
    const page = store.page(cursor, limit, open === "true");
    const data = page.map((each) => ({
      ...shownAlert(each),
      tries: each.tries,
      delivered: each.deliveredMs === null ? null : iso(each.deliveredMs),
      silence: each.silence,
    }));
    const next = page.length === limit ? page.at(-1)!.seq : null;
    return c.json({ ...listBody(data), has_more: next !== null, next_cursor: next });
  });
  app.get("/alerts/silences", (c) =>
    c.json(listBody(store.silences.all().map((each) => shownSilence(each, epochMs())))),
  );
  app.post("/alerts/silences", async (c) => {
    const nowMs = epochMs();
    const { starts = nowMs, ends, comment, author: told, ...matcher } = readSilence(await c.req.text());
    const author = authorOf(told, personIn(c));
    if (ends <= Math.max(starts, nowMs)) {
      const message = `expected ends to be after now and after starts, got ${iso(ends)}`;
      throw new MillraceError("invalid_parameter", message, { param: "ends" });
    }
    const silence = store.silences.add({ matcher, startsMs: starts, endsMs: ends, comment, author }, nowMs);
    return c.json(shownSilence(silence, nowMs), 201);
  });
  app.delete("/alerts/silences/:id", (c) => {
    const id = c.req.param("id");
    if (store.silences.end(id, epochMs())) return c.json({ id, object: "silence", ended: true });
    const message = `expected the id of a silence, got ${JSON.stringify(id.slice(0, 80))}`;
    throw new MillraceError("not_found", message, { hint: "GET /admin/alerts/silences lists them" });
  });
  return app;
}

function readSilence(text: string): z.output<typeof silenceBody> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  const body = silenceBody.safeParse(value);
  if (body.success) return body.data;
  const { param } = firstProblem(body.error, value);
  const got = `another body (${problemText(body.error, value)})`;
  throw new MillraceError("invalid_parameter", `expected a silence as JSON, got ${got}`, {
    ...(param === "" ? {} : { param }),
    hint: 'such as {"metric": "spend", "tenant": "acme", "ends": "2026-12-01T08:00:00Z", "comment": "load test"}',
  });
}

/** The signed-in person. Only the `admin-key`, which belongs to no person, may name an author itself. */
function authorOf(told: string | undefined, person: string | undefined): string {
  if (person === undefined) return told ?? "";
  if (told === undefined || told === person) return person;
  const message = `expected no author beside a signed-in operator, ${person}, got ${JSON.stringify(told)}`;
  throw new MillraceError("invalid_parameter", message, { param: "author", hint: "leave author out" });
}

const iso = (ms: number): string => new Date(ms).toISOString();

function shownSilence({ id, matcher, startsMs, endsMs, comment, author }: Silence, nowMs: number) {
  const state = endsMs <= nowMs ? "ended" : startsMs <= nowMs ? "active" : "pending";
  return { id, object: "silence", state, ...matcher, starts: iso(startsMs), ends: iso(endsMs), comment, author };
}
