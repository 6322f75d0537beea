/** The facts and events that limits and budgets are given by the gateway around them. */
import type { PriceBook } from "../prices/price.js";
import type { Caller } from "../request.js";
import type { BudgetUnit } from "../scope.js";
import type { Price } from "../usage/price.js";
import type { Rate } from "../usage/record.js";
import type { BudgetClaim, LimitedScope } from "./claims.js";
import type { PromptFacts } from "./estimate.js";
import type { SettlementEvents } from "./settlements.js";
import type { BudgetStore, Levels } from "./store.js";

/** How a model's upstream is asked for token counts and bounded. */
interface UpstreamTraits {
  /** It reports token counts with every event of a stream where it is asked to. */
  readonly hasContinuousUsage: boolean;
  /** The field of chats that bounds an answer. */
  readonly maxTokensField: "max_tokens" | "max_completion_tokens";
  /** Its tokens are paid for whether or not they are passed on, so that counting them as texts need not be safe. */
  readonly isPaid: boolean;
}

interface LimitsEvents extends SettlementEvents {
  /** A soft limit has been passed: once for each window. */
  softLimit(claim: BudgetClaim, level: Levels["budgets"][number], caller: Caller): void;
  /** A request was let pass without a reservation, since the store is down. */
  unreserved(error: Error): void;
}

export interface LimitsOptions {
  /** Opened at the first request that has limits. */
  readonly openStore: () => BudgetStore;
  readonly prices: PriceBook;
  /**
   * The price to reserve at: of a name that several models may answer for, the highest. Tokens cost one each. Batches
   * that the gateway runs itself are reserved for like other requests.
   */
  readonly highestPriceOf: (name: string, unit: BudgetUnit, rate: Rate) => Price | undefined;
  /** Limits of a model, for all callers. Undefined: none. */
  readonly modelScope: (model: string) => LimitedScope | undefined;
  /** The model that a client's name stands for. */
  readonly modelOf: (name: string) => string;
  readonly traits: (model: string) => UpstreamTraits;
  readonly promptFacts: (model: string) => PromptFacts;
  /** Tokens of an answer before any is known. */
  readonly defaultOutputTokens: () => number;
  /** Whether requests pass while the store is down. */
  readonly isFailOpen: () => boolean;
  readonly events: LimitsEvents;
  /** Milliseconds since 1970, and milliseconds that only grow. */
  readonly epochMs: () => number;
  readonly now: () => number;
}
