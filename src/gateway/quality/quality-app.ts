/** The administrator's paths of quality, under /admin. */
import { Hono } from "hono";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { readQuery } from "../query.js";
import type { FoundDrift } from "./drift-watch.js";
import type { Quality } from "./quality.js";
import { DAY_MS } from "./quality-store.js";

const DEFAULT_DAYS = 7;
const MAX_CHANGES = 20;

const name = z.string().max(256).optional();
const days = z.coerce.number().int().min(1).max(3650).default(DEFAULT_DAYS);
const reportQuery = z.strictObject({
  days,
  group_by: z
    .string()
    .default("")
    .transform((written) => [...new Set(written.split(",").filter((each) => each !== ""))])
    .pipe(z.array(z.enum(["tenant", "version"]))),
});
const samplesQuery = z.strictObject({
  days,
  failing: z.enum(["true", "false"]).default("false"),
  check: name,
  model: name,
  tenant: name,
  cursor: z.coerce.number().int().min(0).default(Number.MAX_SAFE_INTEGER),
  limit: z.coerce.number().int().min(1).max(100).default(50),
});
const acceptBody = z.strictObject({ model: name, check: name });

const time = (ms: number): string => new Date(ms).toISOString();

export function createQualityApp(quality: Quality, epochMs: () => number): Hono {
  const app = new Hono();
  app.get("/quality", async (c) => {
    const { days: numDays, group_by: groups } = readQuery(reportQuery, c.req.query());
    const fromMs = epochMs() - (numDays - 1) * DAY_MS;
    const sums = await quality.store.sums(fromMs, groups);
    const series = new Map(
      quality.drift.report(epochMs()).map((each) => [keyOf(each.model, each.tenant, each.name), each]),
    );
    const data = sums.map((row) => {
      const known = series.get(keyOf(row.model, row.tenant ?? "", row.name));
      return {
        model: row.model,
        ...Object.fromEntries(groups.map((group) => [group, row[group]])),
        check: row.name,
        judged: row.judged,
        failing: row.failing,
        failing_share: shareOf(row.weighted_failing, row.weight),
        mean: shareOf(row.badness, row.judged),
        usual: known?.isLearned === true ? known.expected : null,
        state: known === undefined || !known.isLearned ? "learning" : known.drift === undefined ? "steady" : "drifted",
        drift: known?.drift === undefined ? null : shownDrift(known.drift),
      };
    });
    const { share, atLeast } = quality.settings;
    const { drops, textBytes } = quality.counts();
    return c.json({
      object: "quality.report",
      sample: share,
      at_least: atLeast,
      from: time(Math.floor(fromMs / DAY_MS) * DAY_MS),
      data,
      changes: quality.drift
        .changes(MAX_CHANGES)
        .map(({ atMs, model, version, before }) => ({ at: time(atMs), model, version, before })),
      dropped: drops,
      text_bytes: textBytes,
    });
  });
  app.get("/quality/samples", async (c) => {
    const { days: numDays, failing, check, model, tenant, cursor, limit } = readQuery(samplesQuery, c.req.query());
    const fromMs = epochMs() - numDays * DAY_MS;
    const rows = await quality.store.page(
      { isFailing: failing === "true", check, model, tenant, fromMs },
      cursor,
      limit,
    );
    const data = rows.map((row) => ({
      request_id: row.request_id,
      at: time(row.at_ms as number),
      tenant: row.tenant,
      key: row.key,
      model: row.model,
      version: row.version,
      path: row.path,
      weight: row.weight,
      verdicts: Object.fromEntries(
        Object.entries(
          JSON.parse(row.verdicts as string) as Record<string, { badness: number; isFailing: boolean; note?: string }>,
        ).map(([check, { badness, isFailing, note }]) => [check, { badness, failing: isFailing, note: note ?? null }]),
      ),
      feedback: row.score === null ? null : { score: row.score, correction: row.correction, comment: row.comment },
      text: row.text === null ? null : shownText(row.text as string),
    }));
    const next = rows.length === limit ? (rows.at(-1)!.seq as number) : null;
    return c.json({ object: "list", data, has_more: next !== null, next_cursor: next });
  });
  app.post("/quality/accept", async (c) => {
    const body = acceptBody.safeParse(await c.req.json().catch(() => undefined));
    if (!body.success) {
      throw new MillraceError("invalid_parameter", 'expected {"model", "check"}, each optional, got something else');
    }
    return c.json({ accepted: quality.drift.accept(body.data.model, body.data.check) });
  });
  return app;
}

const keyOf = (...parts: readonly unknown[]): string => JSON.stringify(parts);

const shareOf = (part: unknown, all: unknown): number => (Number(all) === 0 ? 0 : Number(part) / Number(all));

function shownDrift({ atMs, sinceMs, mean, count, expected, change }: FoundDrift) {
  const occasion = change && { at: time(change.atMs), version: change.version, before: change.before };
  return { found: time(atMs), since: time(sinceMs), mean, samples: count, usual: expected, change: occasion ?? null };
}

function shownText(json: string) {
  const { messages, answer, format, isPlain } = JSON.parse(json) as {
    readonly messages: readonly { readonly role: string; readonly text: string }[];
    readonly answer: string;
    readonly format?: unknown;
    readonly isPlain: boolean;
  };
  return {
    messages: messages.map(({ role, text }) => ({ role, content: text })),
    answer,
    format: format ?? null,
    plain: isPlain,
  };
}
