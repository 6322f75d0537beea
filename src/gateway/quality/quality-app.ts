/** The administrator's paths of quality, under /admin. */
import { Hono } from "hono";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { listBody } from "../../core/list-body.js";
import { readQuery } from "../../core/query.js";
import type { Row } from "../store/side-connection.js";
import type { KeptText } from "./check-job.js";
import type { Verdict } from "./checks/check.js";
import type { FoundDrift, SeriesReport } from "./drift-watch.js";
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
const forgetQuery = z.strictObject({ tenant: z.string().max(256), request_id: name });
const acceptBody = z.strictObject({ model: name, check: name });

const time = (ms: number): string => new Date(ms).toISOString();

export interface ReportRow {
  readonly model: string;
  readonly tenant?: string;
  readonly version?: string;
  /** Name of a check, or "feedback". */
  readonly check: string;
  readonly judged: number;
  readonly failing: number;
  /** Share of all requests: samples count by the inverse of their chance. */
  readonly failing_share: number;
  /** Mean badness, 0 to 1. */
  readonly mean: number;
  /** The level that drift is measured against; null: unknown so far. */
  readonly usual: number | null;
  readonly state: "learning" | "steady" | "drifted";
  readonly drift: ShownDrift | null;
}

interface ShownDrift {
  readonly found: string;
  readonly since: string;
  readonly mean: number;
  readonly samples: number;
  readonly usual: number;
  readonly change: { readonly at: string; readonly version: string; readonly before: string } | null;
}

export interface QualityReport {
  readonly object: "quality.report";
  /** Share of requests. */
  readonly sample: number;
  readonly at_least: number;
  readonly from: string;
  readonly data: readonly ReportRow[];
  /** Changes of the gateway, the newest first. `before` is "" for a model's first version. */
  readonly changes: readonly {
    readonly at: string;
    readonly model: string;
    readonly version: string;
    readonly before: string;
  }[];
  readonly dropped: Readonly<Record<string, number>>;
  readonly text_bytes: number;
}

export interface ShownSample {
  readonly request_id: string;
  readonly at: string;
  readonly tenant: string;
  readonly key: string;
  readonly model: string;
  readonly version: string;
  readonly path: string;
  readonly weight: number;
  readonly verdicts: Readonly<Record<string, ShownVerdict>>;
  readonly feedback: {
    readonly score: number;
    readonly correction: string | null;
    readonly comment: string | null;
  } | null;
  readonly text: {
    readonly messages: readonly { readonly role: string; readonly content: string }[];
    readonly answer: string;
    readonly format: unknown;
    readonly plain: boolean;
  } | null;
}

interface ShownVerdict {
  readonly badness: number;
  readonly failing: boolean;
  readonly note: string | null;
}

export function createQualityApp(quality: Quality, epochMs: () => number): Hono {
  const app = new Hono();
  app.get("/quality", async (c) => {
    const { days: numDays, group_by: groups } = readQuery(reportQuery, c.req.query());
    return c.json(await reportOf(quality, epochMs(), numDays, groups));
  });
  app.get("/quality/samples", async (c) => {
    const { days: numDays, failing, cursor, limit, ...filter } = readQuery(samplesQuery, c.req.query());
    const fromMs = epochMs() - numDays * DAY_MS;
    const rows = await quality.store.page({ ...filter, isFailing: failing === "true", fromMs }, cursor, limit);
    const next = rows.length === limit ? (rows.at(-1)!.seq as number) : null;
    return c.json({ ...listBody(rows.map(shownSample)), has_more: next !== null, next_cursor: next });
  });
  app.delete("/quality/samples", async (c) => {
    const { tenant, request_id: requestId } = readQuery(forgetQuery, c.req.query());
    return c.json({ deleted: await quality.store.forget(tenant, requestId) });
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

async function reportOf(quality: Quality, nowMs: number, numDays: number, groups: readonly ("tenant" | "version")[]) {
  const fromMs = nowMs - (numDays - 1) * DAY_MS;
  const sums = await quality.store.sums(fromMs, groups);
  const series = new Map(quality.drift.report(nowMs).map((each) => [keyOf(each.model, each.tenant, each.name), each]));
  const { share, atLeast } = quality.settings;
  const { drops, textBytes } = quality.counts();
  return {
    object: "quality.report",
    sample: share,
    at_least: atLeast,
    from: time(Math.floor(fromMs / DAY_MS) * DAY_MS),
    data: sums.map((row) => reportRow(row, groups, series.get(keyOf(row.model, row.tenant ?? "", row.name)))),
    changes: quality.drift
      .changes(MAX_CHANGES)
      .map(({ atMs, model, version, before }) => ({ at: time(atMs), model, version, before })),
    dropped: drops,
    text_bytes: textBytes,
  } satisfies QualityReport;
}

function reportRow(row: Row, groups: readonly ("tenant" | "version")[], series: SeriesReport | undefined): ReportRow {
  const isLearned = series?.isLearned === true;
  return {
    model: row.model as string,
    ...Object.fromEntries(groups.map((group) => [group, row[group] as string])),
    check: row.name as string,
    judged: row.judged as number,
    failing: row.failing as number,
    failing_share: shareOf(row.weighted_failing, row.weight),
    mean: shareOf(row.badness, row.judged),
    usual: isLearned ? series.expected : null,
    state: !isLearned ? "learning" : series.drift === undefined ? "steady" : "drifted",
    drift: series?.drift === undefined ? null : shownDrift(series.drift),
  };
}

const keyOf = (...parts: readonly unknown[]): string => JSON.stringify(parts);

const shareOf = (part: unknown, all: unknown): number => (Number(all) === 0 ? 0 : Number(part) / Number(all));

function shownDrift({ atMs, sinceMs, mean, count, expected, change }: FoundDrift): ShownDrift {
  const occasion = change && { at: time(change.atMs), version: change.version, before: change.before };
  return { found: time(atMs), since: time(sinceMs), mean, samples: count, usual: expected, change: occasion ?? null };
}

function shownSample(row: Row): ShownSample {
  const verdicts = Object.entries(JSON.parse(row.verdicts as string) as Record<string, Verdict>);
  return {
    request_id: row.request_id as string,
    at: time(row.at_ms as number),
    tenant: row.tenant as string,
    key: row.key as string,
    model: row.model as string,
    version: row.version as string,
    path: row.path as string,
    weight: row.weight as number,
    verdicts: Object.fromEntries(
      verdicts.map(([check, { badness, isFailing, note = null }]) => [check, { badness, failing: isFailing, note }]),
    ),
    feedback:
      row.score === null
        ? null
        : {
            score: row.score as number,
            correction: row.correction as string | null,
            comment: row.comment as string | null,
          },
    text: row.text === null ? null : shownText(row.text as string),
  };
}

function shownText(json: string): ShownSample["text"] {
  const { messages, answer, format = null, isPlain } = JSON.parse(json) as KeptText;
  return { messages: messages.map(({ role, text }) => ({ role, content: text })), answer, format, plain: isPlain };
}
