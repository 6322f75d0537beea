/** The facts and events that the gateway passes to limits and budgets. */
import type { PriceBook } from "../prices/price.js";
import type { Caller } from "../request.js";
import type { BudgetUnit } from "../scope.js";
import type { Price } from "../usage/price.js";
import type { Rate } from "../usage/record.js";
import type { BudgetClaim, LimitedScope } from "./claims.js";
import type { PromptFacts } from "./estimate.js";
import type { SettlementEvents } from "./settlements.js";
import type { BudgetStore, Levels } from "./store.js";

/** How to ask a model's upstream for token counts, and how to bound it. */
interface UpstreamTraits {
  /** The upstream reports token counts with every event of a stream on request. */
  readonly hasContinuousUsage: boolean;
  /** The field of chats that bounds an answer. */
  readonly maxTokensField: "max_tokens" | "max_completion_tokens";
  /**
   * The upstream's tokens are paid for even if they are not passed on, so that counting them as texts need not be safe.
   */
  readonly isPaid: boolean;
}

interface LimitsEvents extends SettlementEvents {
  /** A soft limit is exceeded: reported once for each window. */
  softLimit(claim: BudgetClaim, level: Levels["budgets"][number], caller: Caller): void;
  /** A request has passed without a reservation, since the store is down. */
  unreserved(error: Error): void;
}

export interface LimitsOptions {
  /** Opened at the first request that has limits. */
  readonly openStore: () => BudgetStore;
  readonly prices: PriceBook;
  /**
   * The price to reserve at: the highest of the models that may answer for a name. Tokens cost one each. Batches that
   * the gateway runs itself reserve like other requests.
   */
  readonly highestPriceOf: (name: string, unit: BudgetUnit, rate: Rate) => Price | undefined;
  /** Limits of a model, for all callers. Undefined: none. */
  readonly modelScope: (model: string) => LimitedScope | undefined;
  /** The model that a client's name stands for. */
  readonly modelOf: (name: string) => string;
  readonly traits: (model: string) => UpstreamTraits;
  readonly promptFacts: (model: string) => PromptFacts;
  /** Tokens assumed for an answer before any length is known. */
  readonly defaultOutputTokens: () => number;
  /** Whether requests pass while the store is down. */
  readonly isFailOpen: () => boolean;
  readonly events: LimitsEvents;
  /** Milliseconds since 1970, and milliseconds that only grow. */
  readonly epochMs: () => number;
  readonly now: () => number;
}
