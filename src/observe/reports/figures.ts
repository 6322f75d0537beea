/** Turns the JSON of any command's measurement report into its kind, facts and named figures. */
import { z } from "zod";
import { extremesOf, median } from "../../core/statistics.js";

/** A number in a report; the bounds are those of its interval, or the least and largest of several rounds. */
interface Figure {
  readonly name: string;
  readonly value: number;
  readonly low?: number;
  readonly high?: number;
}

export interface ReportFacts {
  readonly kind: ReportKind;
  /** ISO 8601; absent: the report has no date. */
  readonly at?: string;
  readonly machine?: string;
  readonly version?: string;
  readonly figures: readonly Figure[];
}

const MOST_FIGURES = 200;
const MOST_DEPTH = 5;
const MOST_NAME = 120;

/** In this order; the first matching schema counts. */
const KINDS = {
  bench: z.looseObject({ format: z.literal("millrace-bench"), runs: z.array(z.unknown()) }),
  tune: z.looseObject({ format: z.string().regex(/tun/), trials: z.array(z.unknown()) }),
  plan: z.looseObject({ configurations: z.array(z.unknown()), request: z.looseObject({}) }),
  distill: z.looseObject({ teacher: z.looseObject({}), student: z.looseObject({}) }),
  shorten: z.looseObject({ saved: z.number(), decisions: z.array(z.unknown()) }),
  eval: z.looseObject({ tasks: z.array(z.looseObject({ task: z.string() })) }),
  measurement: z.looseObject({ versions: z.looseObject({}), machine: z.looseObject({}) }),
} as const;

type ReportKind = keyof typeof KINDS;

/** The most important figures of a report, which are shown first. */
const HEADLINES: Partial<Record<ReportKind, RegExp>> = {
  tune: /measured$/,
  plan: /outputTokensPerS$/,
  distill: /^quality/,
  shorten: /^(confirmation )?saved$/,
  eval: /overall drop$|exact$/,
};

const factsSchema = z.object({
  createdAt: z.iso.datetime({ offset: true }).optional().catch(undefined),
  machine: z
    .union([z.string(), z.looseObject({ cpu: z.string() })])
    .optional()
    .catch(undefined),
  versions: z.looseObject({ millrace: z.string() }).optional().catch(undefined),
});

/**
 * Settings and single items of a report, which are not results. Prompts and answers are never shown, only numbers and
 * names.
 */
const LEFT_OUT =
  /^(items|requests|prompts|chats|samples|seed|version|versions|machine|options|engine|settings|request|ceilings|launch|trace|steps|numThreads|numCpus|numItems|numOutputTokens)$/;

/** @returns undefined if the report is not ours */
export function factsOf(report: unknown): ReportFacts | undefined {
  const kind = (Object.keys(KINDS) as ReportKind[]).find((name) => KINDS[name].safeParse(report).success);
  if (kind === undefined) return undefined;
  const { createdAt, machine, versions } = factsSchema.parse(report);
  const figures = kind === "bench" ? benchFigures(report) : numbersIn(report);
  const isFirst = ({ name }: Figure): boolean => HEADLINES[kind]?.test(name) ?? false;
  return {
    kind,
    ...(createdAt === undefined ? {} : { at: createdAt }),
    ...(machine === undefined ? {} : { machine: cut(typeof machine === "string" ? machine : machine.cpu) }),
    ...(versions === undefined ? {} : { version: cut(versions.millrace) }),
    figures: [...figures.filter(isFirst), ...figures.filter((figure) => !isFirst(figure))].slice(0, MOST_FIGURES),
  };
}

const cut = (text: string): string => text.slice(0, MOST_NAME);

/** A substring keeps its complete long text in memory; a copy does not. */
const copied = (name: string): string => (name.length <= MOST_NAME ? name : Buffer.from(cut(name)).toString());

const distribution = z.looseObject({
  percentiles: z.looseObject({ p50: z.number().optional(), p95: z.number().optional() }),
});
const runSchema = z.looseObject({
  target: z.string(),
  cell: z.string(),
  voidReasons: z.array(z.string()),
  metrics: z.looseObject({
    outputTokensPerS: z.number(),
    ttftMs: distribution.optional(),
    tpotMs: distribution.optional(),
  }),
});
type Run = z.infer<typeof runSchema>;

const BENCH_FIGURES: readonly (readonly [string, (run: Run) => number | undefined])[] = [
  ["output tokens/s", ({ metrics }) => metrics.outputTokensPerS],
  ["TTFT p50, ms", ({ metrics }) => metrics.ttftMs?.percentiles.p50],
  ["TTFT p95, ms", ({ metrics }) => metrics.ttftMs?.percentiles.p95],
  ["TPOT p50, ms", ({ metrics }) => metrics.tpotMs?.percentiles.p50],
];

/** For each server and cell, the median of the valid rounds, with the least and the largest. */
function benchFigures(report: unknown): Figure[] {
  const runs = KINDS.bench.parse(report).runs.flatMap((run) => runSchema.safeParse(run).data ?? []);
  const groups = new Map<string, Run[]>();
  for (const run of runs) {
    const group = groups.get(nameOf(run));
    if (group === undefined) groups.set(nameOf(run), [run]);
    else group.push(run);
  }
  return [...groups].flatMap(([name, all]) =>
    BENCH_FIGURES.flatMap(([what, read]) => {
      const counted = all.filter(({ voidReasons }) => voidReasons.length === 0);
      const values = counted.flatMap((run) => read(run) ?? []);
      if (values.length === 0) return [];
      const { min: low, max: high } = extremesOf(values);
      const bounds = values.length === 1 ? {} : { low, high };
      return [{ name: cut(`${name}: ${what}`), value: median(values), ...bounds }];
    }),
  );
}

const nameOf = ({ target, cell }: Run): string => `${target}, ${cell}`;

const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);

/** A pair of numbers, the form of intervals in reports. */
function boundsIn(value: unknown): Pick<Figure, "low" | "high"> {
  const [low, high] = Array.isArray(value) ? (value as unknown[]) : [];
  return isNumber(low) && isNumber(high) ? { low, high } : {};
}

/** The numbers of any object, named by their paths. */
function numbersIn(value: unknown, path: readonly string[] = []): Figure[] {
  if (isNumber(value)) return [{ name: cut(path.join(" ")), value }];
  if (typeof value !== "object" || value === null || path.length >= MOST_DEPTH) return [];
  if (Array.isArray(value)) {
    const named = value.slice(0, MOST_FIGURES).filter((each) => typeof each === "object");
    return named.flatMap((each, i) => numbersIn(each, [...path, titleOf(each) ?? String(i + 1)]));
  }
  const all = value as Readonly<Record<string, unknown>>;
  const estimated = boundsIn([all.low, all.high]);
  if (isNumber(all.value) && "low" in estimated) return [{ name: cut(path.join(" ")), value: all.value, ...estimated }];
  return Object.entries(all).flatMap(([name, each]) => {
    if (LEFT_OUT.test(name) || /interval$/i.test(name)) return [];
    // An interval without a name belongs to a comparison's drop.
    const bounds = boundsIn(all[`${name}Interval`] ?? (name === "drop" ? all.interval : undefined));
    return isNumber(each)
      ? [{ name: cut([...path, name].join(" ")), value: each, ...bounds }]
      : numbersIn(each, [...path, copied(name)]);
  });
}

function titleOf(value: unknown): string | undefined {
  const { name, task, label, proposal } = (value ?? {}) as Record<string, unknown>;
  const title = [name, task, label].find((each) => typeof each === "string");
  if (title !== undefined) return (title as string).slice(0, 40);
  return proposal === undefined ? undefined : titleOf(proposal);
}
