/** Flags of `millrace orgs`, `teams` and `keys`, and their JSON for the admin API. */
import type { Command } from "commander";
import { Option } from "commander";
import { optionError } from "../../core/option-error.js";
import type { Json } from "../output/format.js";
import { listOf } from "./option-values.js";

export interface SettingFlags {
  readonly name?: string;
  readonly models?: readonly string[];
  readonly requestsPerMinute?: string;
  readonly tokensPerMinute?: string;
  readonly concurrentRequests?: string;
  readonly budget?: readonly string[];
  readonly softBudget?: readonly string[];
  readonly tokenBudget?: readonly string[];
  readonly softTokenBudget?: readonly string[];
  readonly metadata?: readonly string[];
}

const NONE = "none";
const WINDOWS = ["hour", "day", "month", "total"];

export function addAdminFlags(command: Command): Command {
  return command
    .addOption(new Option("--url <url>", "address of the gateway").env("MILLRACE_URL").default("http://127.0.0.1:8000"))
    .addOption(
      new Option("--admin-key <key>", "the gateway's admin-key, or an operator's key").env("MILLRACE_ADMIN_KEY"),
    )
    .option("--json", "print one JSON object");
}

export function addSettingFlags(command: Command): Command {
  const repeated = (text: string, previous: readonly string[] = []): readonly string[] => [...previous, text];
  return command
    .option("--models <patterns>", "models that it may use, such as mill-*; none: no bound", listOf("--models"))
    .option("--requests-per-minute <n>", "limit; none: no limit")
    .option("--tokens-per-minute <n>", "limit on prompt and output tokens; none: no limit")
    .option("--concurrent-requests <n>", "limit; none: no limit")
    .option(
      "--budget <window=dollars>",
      "money per hour, day, month or in total, such as day=5; none as dollars: no budget",
      repeated,
    )
    .option("--soft-budget <window=dollars>", "money above which the spending is reported", repeated)
    .option(
      "--token-budget <window=tokens>",
      "prompt and output tokens per hour, day, month or in total, such as month=50000000; none: no budget",
      repeated,
    )
    .option("--soft-token-budget <window=tokens>", "tokens above which their use is reported", repeated)
    .option("--metadata <name=value>", "a note; an empty value removes it", repeated);
}

/** A JSON Merge Patch: null removes a field. */
export function settingsOf(flags: SettingFlags): Json {
  const { name, models, requestsPerMinute, tokensPerMinute, concurrentRequests } = flags;
  const notes = (flags.metadata ?? []).map((entry) => pairOf("--metadata", entry));
  const given = {
    name,
    models: models?.join() === NONE ? null : models,
    requests_per_minute: countOf("--requests-per-minute", requestsPerMinute),
    tokens_per_minute: countOf("--tokens-per-minute", tokensPerMinute),
    concurrent_requests: countOf("--concurrent-requests", concurrentRequests),
    budgets: budgetsOf("budget", flags.budget, flags.softBudget, "dollars", (text) => text),
    token_budgets: budgetsOf("token-budget", flags.tokenBudget, flags.softTokenBudget, "tokens", tokensOf),
    metadata:
      notes.length === 0
        ? undefined
        : Object.fromEntries(notes.map(([key, value]) => [key, value === "" ? null : value])),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

/** The fields of a new scope, without those for a patch to remove. */
export function withoutNulls(value: Json): Json {
  const entries = Object.entries(value).filter(([, each]) => each !== null);
  return Object.fromEntries(
    entries.map(([name, each]) => [
      name,
      typeof each === "object" && !Array.isArray(each) ? withoutNulls(each as Json) : each,
    ]),
  );
}

type Budgets = Readonly<Record<string, Readonly<Record<string, string | number | null>>>>;

/** @param name name of the flag for hard limits, without its dashes */
function budgetsOf(
  name: string,
  hard: readonly string[] = [],
  soft: readonly string[] = [],
  unit: string,
  amountOf: (text: string) => string | number | undefined,
): Budgets | undefined {
  const budgets: Record<string, Record<string, string | number | null>> = {};
  const add = (flag: string, kind: string, entries: readonly string[]): void => {
    for (const entry of entries) {
      const [window, text] = pairOf(flag, entry);
      const amount = text === NONE ? null : amountOf(text);
      if (!WINDOWS.includes(window) || amount === undefined) {
        throw optionError(flag, `hour, day, month or total, =, and ${unit}`, entry);
      }
      budgets[window] = { ...budgets[window], [kind]: amount };
    }
  };
  add(`--${name}`, "hard", hard);
  add(`--soft-${name}`, "soft", soft);
  return Object.keys(budgets).length === 0 ? undefined : budgets;
}

const tokensOf = (text: string): number | undefined => (/^\d{1,15}$/.test(text) ? Number(text) : undefined);

function pairOf(flag: string, entry: string): readonly [string, string] {
  const at = entry.indexOf("=");
  if (at > 0) return [entry.slice(0, at), entry.slice(at + 1)];
  throw optionError(flag, "two texts with = between them", entry);
}

function countOf(flag: string, text: string | undefined): number | null | undefined {
  if (text === undefined) return undefined;
  if (text === NONE) return null;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw optionError(flag, "a whole number, or none", text);
}

const SECONDS_BY_UNIT: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** @returns seconds @example secondsIn("--grace", "90d") // 7776000 */
export function secondsIn(flag: string, text: string): number {
  const match = /^(\d{1,6})([smhd])$/.exec(text);
  const seconds = text === "0" ? 0 : Number(match?.[1]) * (SECONDS_BY_UNIT[match?.[2] ?? ""] ?? Number.NaN);
  if (Number.isSafeInteger(seconds)) return seconds;
  throw optionError(flag, "a duration such as 30m, 24h or 90d", text);
}
