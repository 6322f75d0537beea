/**
 * Settings that organisations, teams and keys share: a name, models, limits, budgets and metadata, as JSON of the admin
 * API and of the database.
 */

import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import type { JsonObject } from "../../core/json-body.js";
import { firstProblem } from "../../core/schema-problem.js";
import { decimalText, formatDollars, parseDollars } from "../money.js";
import { BUDGET_WINDOWS, type Budget, type BudgetUnit, type BudgetWindow, type ScopeLimits } from "../scope.js";

/** As in OpenAI's API. */
const MAX_PAIRS = 16;
const MAX_MODELS = 256;
const MAX_COUNT = 1_000_000_000;
const MAX_TOKENS = 1_000_000_000_000_000;
/** The settings are three objects deep. */
const MAX_PATCH_DEPTH = 4;

const dollars = z
  .union([z.string(), z.number()])
  .transform(decimalText)
  .refine((text) => parseDollars(text) !== undefined, {
    error: "expected dollars with at most nine decimals, such as 12.50",
  })
  .transform((text) => formatDollars(parseDollars(text)!));

const budget = z
  .strictObject({ hard: dollars.optional(), soft: dollars.optional() })
  .refine(({ hard, soft }) => hard === undefined || soft === undefined || parseDollars(soft)! <= parseDollars(hard)!, {
    error: "expected soft to be at most hard",
  });

const count = (min: number) => z.number().int().min(min).max(MAX_COUNT);

const tokens = z.number().int().min(0).max(MAX_TOKENS);
const tokenBudget = z
  .strictObject({ hard: tokens.optional(), soft: tokens.optional() })
  .refine(({ hard, soft }) => hard === undefined || soft === undefined || soft <= hard, {
    error: "expected soft to be at most hard",
  });

const settingsShape = {
  name: z.string().min(1).max(200),
  /** Absent: all models that the wider scopes allow. */
  models: z.array(z.string().min(1).max(200)).min(1).max(MAX_MODELS).optional(),
  requests_per_minute: count(0).optional(),
  tokens_per_minute: count(0).optional(),
  concurrent_requests: count(0).optional(),
  budgets: z.partialRecord(z.enum(BUDGET_WINDOWS), budget).optional(),
  token_budgets: z.partialRecord(z.enum(BUDGET_WINDOWS), tokenBudget).optional(),
  metadata: z
    .record(z.string().min(1).max(64), z.string().max(512))
    .refine((pairs) => Object.keys(pairs).length <= MAX_PAIRS, { error: `expected at most ${MAX_PAIRS} pairs` })
    .optional(),
} as const;

export const settingsSchema = z.strictObject(settingsShape);
export type Settings = z.output<typeof settingsSchema>;

/** The fields of a new scope: its settings, and others beside them. */
export function creationSchema<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject({ ...settingsShape, ...shape });
}

export function limitsOf(settings: Settings): ScopeLimits {
  const { budgets, token_budgets: tokenBudgets } = settings;
  return {
    requestsPerMinute: settings.requests_per_minute,
    tokensPerMinute: settings.tokens_per_minute,
    concurrentRequests: settings.concurrent_requests,
    budgets: [...budgetsOf("money", budgets, dollarsOf), ...budgetsOf("tokens", tokenBudgets, BigInt)],
  };
}

type Limits<Amount> = { readonly hard?: Amount | undefined; readonly soft?: Amount | undefined };
type Given<Amount> = Readonly<Partial<Record<BudgetWindow, Limits<Amount> | undefined>>>;

const dollarsOf = (text: string): bigint => parseDollars(text)!;

function budgetsOf<Amount>(unit: BudgetUnit, given: Given<Amount> = {}, amountOf: (amount: Amount) => bigint) {
  return BUDGET_WINDOWS.flatMap((window): Budget[] => {
    const { hard, soft } = given[window] ?? {};
    if (hard === undefined && soft === undefined) return [];
    const [most, warned] = [hard, soft].map((each) => (each === undefined ? undefined : amountOf(each)));
    return [{ unit, window, hard: most, soft: warned }];
  });
}

/** JSON Merge Patch (RFC 7396): objects are merged, null removes, other values replace. */
export function mergePatch(target: JsonObject, patch: JsonObject, depth = 0): JsonObject {
  if (depth > MAX_PATCH_DEPTH) throw new MillraceError("invalid_parameter", "expected a flat body, got a deep one");
  const merged = new Map(Object.entries(target));
  for (const [name, value] of Object.entries(patch)) {
    const before = merged.get(name);
    if (value === null) merged.delete(name);
    else
      merged.set(
        name,
        isPlainObject(value) ? mergePatch(isPlainObject(before) ? before : {}, value, depth + 1) : value,
      );
  }
  return Object.fromEntries(merged);
}

/** Checks a client's JSON. Throws invalid_parameter with the wrong field. */
export function parseFields<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { param, reason } = firstProblem(parsed.error, value);
  throw new MillraceError(
    "invalid_parameter",
    `${param === "" ? "body" : param}: ${reason}`,
    param === "" ? {} : { param },
  );
}
