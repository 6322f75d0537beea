/**
 * Keys of limits and budgets: `limits` of keys, teams, organisations and models, and `budgets`, which names the store
 * that counts them.
 */
import { z } from "zod";
import { integer, secret, section, text, timeLimit } from "../../../core/config-values.js";
import { parseDollars } from "../../../gateway/money.js";
import {
  BUDGET_WINDOWS,
  type Budget,
  type BudgetUnit,
  type BudgetWindow,
  type Scope,
  type ScopeLimits,
} from "../../../gateway/scope.js";

const DOLLARS = /^\d{1,9}(\.\d{1,9})?$/;
const MAX_COUNT = 1_000_000_000;
const MAX_TOKENS = 1_000_000_000_000_000;

/** Dollars as nano-dollars. A number is read from its written digits: 0.15 is exactly 0.15. */
const amount = () =>
  z
    .union([z.string().regex(DOLLARS), z.number().min(0)])
    .meta({ title: "dollars with at most nine decimals", examples: ["0.50", "250"] })
    .transform((written, context) => {
      const nano = parseDollars(String(written));
      if (nano !== undefined) return nano;
      context.addIssue({ code: "custom", message: "dollars with at most nine decimals" });
      return z.NEVER;
    });

const tokens = () => integer(0, MAX_TOKENS);

const windows = <Amount extends z.ZodType>(what: string, of: () => Amount) => ({
  hour: of().optional().describe(`${what} in an hour`),
  day: of().optional().describe(`${what} in a day of UTC`),
  month: of().optional().describe(`${what} in a month of UTC`),
  total: of().optional().describe(`${what} in all time`),
});

const count = () => integer(0, MAX_COUNT).optional();

const scopeLimits = () =>
  section({
    "requests-per-minute": count().describe("requests in a minute, in a bucket that refills evenly"),
    "tokens-per-minute": count().describe("tokens of prompts and answers in a minute, in a bucket that refills evenly"),
    "concurrent-requests": count().describe("requests at a time"),
    budget: section(windows("dollars that may be spent", amount)).optional().describe("money, never overspent"),
    "soft-budget": section(windows("dollars beyond which a warning is given", amount))
      .optional()
      .describe("money to warn at"),
    "token-budget": section(windows("tokens of prompts and answers that may be used", tokens))
      .optional()
      .describe("tokens, never overspent"),
    "soft-token-budget": section(windows("tokens beyond which a warning is given", tokens))
      .optional()
      .describe("tokens to warn at"),
  });

type LimitsConfig = z.output<ReturnType<typeof scopeLimits>>;

export const keyLimitKeys = {
  team: text("a name without spaces").regex(/^\S+$/).optional().describe("one of `teams`, whose limits hold too"),
  limits: scopeLimits().optional().describe("limits of the key"),
};

export const modelLimitKeys = {
  limits: scopeLimits().optional().describe("limits of the model, over all callers"),
};

export const budgetKeys = (environment: NodeJS.ProcessEnv) => ({
  orgs: z
    .record(text("a name without spaces").regex(/^[^\s/]+$/), scopeLimits())
    .default({})
    .describe("limits of organisations, by name"),
  teams: z
    .record(text("ORG/TEAM, or a name").regex(/^[^\s/]+(\/[^\s/]+)?$/), scopeLimits())
    .default({})
    .describe("limits of teams, by name; the limits of the organisation before the slash hold too"),
  budgets: section({
    store: z
      .enum(["embedded", "redis", "postgresql"])
      .prefault("embedded")
      .describe("where limits are counted: in data-folder, or in a server that several gateways share"),
    url: secret(environment).optional().describe("address of that server, or env:NAME"),
    "store-timeout": timeLimit().prefault("1s").describe("time that the server may take to answer"),
    "when-store-down": z
      .enum(["fail-closed", "fail-open"])
      .prefault("fail-closed")
      .describe(
        "whether requests with limits are refused while the store does not answer, or pass and are charged later",
      ),
  })
    .prefault({})
    .describe("where and how limits are counted; fixed at the start, but for when-store-down"),
});

export function limitsFrom(config: LimitsConfig | undefined): ScopeLimits {
  const { requestsPerMinute, tokensPerMinute, concurrentRequests, budget, softBudget } = config ?? {};
  const budgets = [
    ...budgetsOf("money", budget, softBudget),
    ...budgetsOf("tokens", config?.tokenBudget, config?.softTokenBudget),
  ];
  return { requestsPerMinute, tokensPerMinute, concurrentRequests, budgets };
}

type ByWindow = Readonly<Partial<Record<BudgetWindow, bigint | number | undefined>>>;

function budgetsOf(unit: BudgetUnit, hards: ByWindow = {}, softs: ByWindow = {}): Budget[] {
  const amountOf = (amount: bigint | number | undefined) => (amount === undefined ? amount : BigInt(amount));
  return BUDGET_WINDOWS.flatMap((window): Budget[] => {
    const [hard, soft] = [hards[window], softs[window]].map(amountOf);
    return hard === undefined && soft === undefined ? [] : [{ unit, window, hard, soft }];
  });
}

/** The organisation in a team's name; "": the team has none. */
export function orgOfTeam(team: string): string {
  const slash = team.indexOf("/");
  return slash < 0 ? "" : team.slice(0, slash);
}

interface LimitedKeys {
  readonly apiKeys: readonly LimitedKey[];
  readonly teams: Readonly<Record<string, LimitsConfig>>;
  readonly orgs: Readonly<Record<string, LimitsConfig>>;
}

interface LimitedKey {
  readonly tenant: string;
  readonly team?: string | undefined;
  readonly limits?: LimitsConfig | undefined;
}

type Scoped<Config extends LimitedKeys> = Omit<Config, "apiKeys"> & {
  readonly apiKeys: readonly (Config["apiKeys"][number] & { readonly scopes: readonly Scope[] })[];
};

/**
 * The configuration with the limits of each key, from its organisation's to its own. A key is named after its tenant;
 * a tenant's further keys get numbers.
 */
export function withKeyScopes<Config extends LimitedKeys>(config: Config): Scoped<Config> {
  const { orgs, teams } = config;
  const counts = new Map<string, number>();
  const scoped = config.apiKeys.map((key) => {
    const { tenant, team = "", limits } = key;
    const nth = (counts.get(tenant) ?? 0) + 1;
    counts.set(tenant, nth);
    const org = orgOfTeam(team);
    const scopes: Scope[] = [];
    if (Object.hasOwn(orgs, org)) scopes.push({ kind: "org", id: org, limits: limitsFrom(orgs[org]) });
    if (Object.hasOwn(teams, team)) scopes.push({ kind: "team", id: team, limits: limitsFrom(teams[team]) });
    if (limits !== undefined) {
      scopes.push({ kind: "key", id: nth === 1 ? tenant : `${tenant}#${nth}`, limits: limitsFrom(limits) });
    }
    return { ...key, scopes };
  });
  return { ...config, apiKeys: scoped };
}
