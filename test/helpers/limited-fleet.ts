/** A proxy with limits in front of a server that writes as many tokens as a test says. */

import { usageAsker } from "../../src/gateway/ask-usage.js";
import { claimsOf, type LimitedScope } from "../../src/gateway/budget/claims.js";
import { EmbeddedStore } from "../../src/gateway/budget/embedded-store.js";
import { type LimitsOptions, LimitsPolicy } from "../../src/gateway/budget/limits-policy.js";
import type { BudgetStore } from "../../src/gateway/budget/store.js";
import type { Policy } from "../../src/gateway/pipeline.js";
import type { Price } from "../../src/gateway/prices/price.js";
import type { Caller } from "../../src/gateway/request.js";
import type { Scope } from "../../src/gateway/scope.js";
import { openDatabase } from "../../src/gateway/store/database.js";
import { groupCommitOf } from "../../src/gateway/store/group-commit.js";
import { type Behaviour, type FleetOptions, startFleet, type TestFleet } from "./stand-in.js";

/** A nano-dollar for each token. */
const PRICE: Price = {
  version: "test",
  fresh: 1_000_000n,
  cacheRead: 1_000_000n,
  cacheWrite: 1_000_000n,
  output: 1_000_000n,
};

export interface LimitedFleet extends TestFleet {
  readonly policy: LimitsPolicy;
  readonly store: BudgetStore;
  readonly softLimits: string[];
  readonly unreserved: Error[];
  /** Spent and reserved of a scope in a window; waits until nothing is reserved. */
  spent(scope: LimitedScope): Promise<number>;
}

export interface LimitedOptions extends FleetOptions {
  readonly scopes?: Caller["scopes"];
  readonly policyOptions?: Partial<LimitsOptions>;
  readonly store?: BudgetStore;
  /** Policies between those of limits, such as caches. */
  readonly between?: readonly Policy[];
}

export const keyScope = (limits: Partial<Scope["limits"]>, id = "a"): Scope => ({
  kind: "key",
  id,
  limits: { budgets: [], ...limits },
});

/** Nano-dollars a day, which are tokens. */
export const dayBudget = (hard: number, soft?: number): Scope =>
  keyScope({ budgets: [{ window: "day", hard: BigInt(hard), soft: soft === undefined ? undefined : BigInt(soft) }] });

export function embeddedStore(folder?: string): BudgetStore {
  const database = openDatabase(folder);
  return new EmbeddedStore({ database, commits: groupCommitOf(database), now: () => Date.now() });
}

/** Waits until nothing is reserved. */
export async function whenSettled(store: BudgetStore): Promise<void> {
  const deadlineMs = performance.now() + 10_000;
  while ((await store.numOpen()) > 0) {
    if (performance.now() > deadlineMs) throw new Error("expected every reservation to be settled within 10 s");
    await new Promise((resolve) => setImmediate(resolve));
  }
}

export async function startLimitedFleet(
  behaviours: readonly Behaviour[],
  { scopes, policyOptions, store = embeddedStore(), between = [], ...options }: LimitedOptions,
): Promise<LimitedFleet> {
  const softLimits: string[] = [];
  const unreserved: Error[] = [];
  const policy = new LimitsPolicy({
    openStore: () => store,
    prices: { priceOf: () => PRICE },
    highestPriceOf: (name) => (policyOptions?.prices ?? { priceOf: () => PRICE }).priceOf(name),
    modelScope: () => undefined,
    modelOf: (name) => name,
    traits: () => ({ hasContinuousUsage: true, isPaid: false, maxTokensField: "max_tokens" }),
    defaultOutputTokens: () => 100,
    isFailOpen: () => false,
    events: {
      softLimit: ({ kind, id }, window) => softLimits.push(`${kind} ${id} ${window}`),
      unreserved: (error) => unreserved.push(error),
      recovered() {},
      failed() {},
      lost() {},
      leftReserved() {},
    },
    epochMs: () => Date.now(),
    now: () => performance.now(),
    ...policyOptions,
  });
  const authorize = () => ({ tenant: "t", scopes });
  const fleet = await startFleet(behaviours, {
    ...options,
    proxy: { authorize, policies: [policy, ...between, policy.upstream, usageAsker], ...options.proxy },
  });
  return {
    ...fleet,
    policy,
    store,
    softLimits,
    unreserved,
    async spent(scope) {
      await whenSettled(store);
      return (await store.read(claimsOf([scope]))).money[0]!.used;
    },
    async stop() {
      await fleet.stop();
      await policy.close();
    },
  };
}
