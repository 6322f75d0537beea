/** Creates the policy of limits and budgets from the configuration, with its store. */
import type { LimitedScope } from "../../gateway/budget/claims.js";
import { abandonedCharges, EmbeddedStore } from "../../gateway/budget/embedded-store.js";
import { LimitsPolicy } from "../../gateway/budget/limits-policy.js";
import { PostgresStore } from "../../gateway/budget/postgres-store.js";
import { RedisStore } from "../../gateway/budget/redis-store.js";
import { amountText } from "../../gateway/budget/refusals.js";
import type { BudgetStore } from "../../gateway/budget/store.js";
import { windowEnd } from "../../gateway/budget/windows.js";
import { TOKEN_PRICE } from "../../gateway/budget/worst-cost.js";
import type { LostCharge } from "../../gateway/ledger/ledger-store.js";
import { formatDollars } from "../../gateway/money.js";
import type { BudgetUnit } from "../../gateway/scope.js";
import type { Database } from "../../gateway/store/database.js";
import { groupCommitOf } from "../../gateway/store/group-commit.js";
import type { Price } from "../../gateway/usage/price.js";
import type { Rate } from "../../gateway/usage/record.js";
import type { FleetConfig } from "../config/schema.js";
import { limitsFrom } from "../config/sections/budgets.js";
import type { EngineName } from "../upstream/engine.js";
import { maxTokensField, paidModels } from "./paid-models.js";
import { perConfig } from "./per-config.js";
import type { PolicyContext } from "./policy-context.js";
import { highestPrice, highestTier, modelsBehind } from "./virtual-price.js";

/** Engines whose every event reports token counts. */
const CONTINUOUS: readonly (EngineName | undefined)[] = ["millrace", "vllm"];
/** Time between two identical lines of the log. */
const QUIET_MS = 10_000;

/**
 * The policy always exists, since a reload or the admin API may set limits at any time; without limits it adds no cost
 * to a request.
 */
export function createLimits(context: PolicyContext): LimitsPolicy {
  const { config, models, logger } = context;
  const { prices } = context.ledger;
  const say = quietly();
  const modelOf = (name: string) => models.resolve(name) ?? name;
  const pricesOf: Readonly<Record<BudgetUnit, (name: string, rate?: Rate) => Price | undefined>> = {
    money: (name, rate) => highestTier(prices.priceOf(modelOf(name), rate === "provider-batch" ? rate : "full")),
    tokens: () => TOKEN_PRICE,
  };
  const behind = perConfig(config, (name, now) => modelsBehind(now, name));
  const isPaid = paidModels(context);
  const fieldOf = maxTokensField(context);
  const policy = new LimitsPolicy({
    openStore: () => openStore(context),
    prices,
    highestPriceOf: (name, unit, rate) =>
      behind(name)[0] === name
        ? pricesOf[unit](name, rate)
        : highestPrice(config(), name, (each) => pricesOf[unit](each)),
    modelScope: perConfig(config, (name, now) => scopeOf(name, now)),
    modelOf,
    promptFacts: (name) => models.promptFacts(behind(name).map(modelOf)),
    traits: perConfig(config, (name) => {
      const engines = behind(name).map((each) => models.engine(modelOf(each)));
      return {
        isPaid: isPaid(name),
        hasContinuousUsage: engines.every((engine) => CONTINUOUS.includes(engine)),
        maxTokensField: fieldOf(name),
      };
    }),
    defaultOutputTokens: () => config().limits.defaultOutputTokens,
    isFailOpen: () => config().budgets.whenStoreDown === "fail-open",
    events: {
      softLimit({ key: budget, scope, unit, window, soft = 0 }, { used, held, startMs }, { tenant, keyId = "" }) {
        const { kind, id } = scope;
        const amounts = [used + held, soft].map((amount) => (unit === "money" ? amount / 1e9 : amount));
        const [value, expected] = amounts as [number, number];
        const whose = { tenant: kind === "model" ? "" : tenant, key: kind === "key" ? keyId : "" };
        const endsMs = windowEnd(window, startMs);
        if (context.ledger.alerts !== undefined)
          return context.ledger.alerts.softBudget({
            kind,
            id,
            unit,
            window,
            budget,
            startMs,
            endsMs,
            ...whose,
            value,
            expected,
          });
        const [spent, limit] = [used + held, soft].map((amount) => amountText(unit, amount));
        logger.warn({ kind, id, window, spent, softBudget: limit }, "a soft budget is passed");
      },
      unreserved: (err) => say("open", () => logger.warn({ err }, "requests with limits pass unchecked: no store")),
      failed: (err, waiting) =>
        say("failed", () => logger.warn({ err, waiting }, "what was spent could not be booked")),
      lost: (settlements) => say("lost", () => logger.error({ settlements }, "what was spent will not be booked")),
      leftReserved: (reservations) =>
        say("left", () => logger.error({ reservations }, "what may be reserved stays so until this gateway ends")),
      recovered(charges) {
        const nano = charges.reduce((sum, { money }) => sum + money, 0);
        const dollars = formatDollars(BigInt(nano));
        logger.warn(
          { requests: charges.length, dollars },
          "a gateway ended while requests ran: they are charged in full",
        );
      },
    },
    epochMs: () => Date.now(),
    now: () => performance.now(),
  });
  if (hasLimits(config())) policy.open();
  return policy;
}

function hasLimits({ models, apiKeys }: FleetConfig): boolean {
  return models.some(({ limits }) => limits !== undefined) || apiKeys.some(({ scopes }) => scopes.length > 0);
}

/**
 * The amounts that this gateway's budgets will charge for requests that an earlier process lost, by request id. The
 * ledger records the same amounts.
 */
export function lostCharges(config: FleetConfig, database: () => Database.Database): LostCharge {
  let charges: LostCharge | undefined;
  return (requestId) => {
    if (config.budgets.store !== "embedded") return undefined;
    charges ??= abandonedCharges(database());
    return charges(requestId);
  };
}

function openStore({ config, database }: PolicyContext): BudgetStore {
  const { store, url, storeTimeout: timeoutMs } = config().budgets;
  const address = url?.reveal() ?? "";
  if (store === "redis") return new RedisStore({ url: address, timeoutMs });
  if (store === "postgresql") return new PostgresStore({ url: address, timeoutMs });
  const opened = database();
  return new EmbeddedStore({ database: opened, commits: groupCommitOf(opened), now: () => Date.now() });
}

function scopeOf(model: string, { models }: FleetConfig): LimitedScope | undefined {
  const limits = models.find(({ name }) => name === model)?.limits;
  return limits === undefined ? undefined : { kind: "model", id: model, limits: limitsFrom(limits) };
}

/** Calls `say` at most once per QUIET_MS for each name: while a store is down, every request fails. */
function quietly(): (name: string, say: () => void) => void {
  const saidMs = new Map<string, number>();
  return (name, say) => {
    const now = performance.now();
    if (now - (saidMs.get(name) ?? Number.NEGATIVE_INFINITY) < QUIET_MS) return;
    saidMs.set(name, now);
    say();
  };
}
