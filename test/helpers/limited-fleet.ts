/** A proxy with limits in front of a server that writes as many tokens as a test says. */
import type { ServerResponse } from "node:http";
import { usageAsker } from "../../src/gateway/ask-usage.js";
import { claimsOf, type LimitedScope } from "../../src/gateway/budget/claims.js";
import { EmbeddedStore } from "../../src/gateway/budget/embedded-store.js";
import type { LimitsOptions } from "../../src/gateway/budget/limits-options.js";
import { LimitsPolicy } from "../../src/gateway/budget/limits-policy.js";
import type { BudgetStore } from "../../src/gateway/budget/store.js";
import { TOKEN_PRICE } from "../../src/gateway/budget/worst-cost.js";
import type { Policy } from "../../src/gateway/pipeline.js";
import type { Caller } from "../../src/gateway/request.js";
import type { BudgetUnit, Scope } from "../../src/gateway/scope.js";
import { openDatabase } from "../../src/gateway/store/database.js";
import { groupCommitOf } from "../../src/gateway/store/group-commit.js";
import type { Price } from "../../src/gateway/usage/price.js";
import {
  answerJson,
  type Behaviour,
  beginStream,
  type FleetOptions,
  sse,
  startFleet,
  type TestFleet,
} from "./stand-in.js";

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
  /** Policies behind those of limits. */
  readonly behind?: readonly Policy[];
}

export const keyScope = (limits: Partial<Scope["limits"]>, id = "a"): Scope => ({
  kind: "key",
  id,
  limits: { budgets: [], ...limits },
});

/** Nano-dollars a day, which are as many tokens. */
export const dayBudget = (hard: number, soft?: number, unit: BudgetUnit = "money"): Scope =>
  keyScope({
    budgets: [{ unit, window: "day", hard: BigInt(hard), soft: soft === undefined ? undefined : BigInt(soft) }],
  });

export const CHAT = "/v1/chat/completions";
export const ask = { model: "m", messages: [] };

export const whole = (prompt: number, completion: number): Behaviour =>
  answerJson({ choices: [], usage: { prompt_tokens: prompt, completion_tokens: completion } });

export async function errorOf(response: Response) {
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  return { status: response.status, code: error.code, message: error.message };
}

/** Writes tokens one by one like our engine: with the usage so far, if that is asked for. */
export function tokens(count: number, prompt = 10, more?: (outgoing: ServerResponse) => void): Behaviour {
  return ({ body }, outgoing) => {
    const options = (body.stream_options ?? {}) as { include_usage?: boolean; continuous_usage_stats?: boolean };
    const usage = (output: number) => ({
      prompt_tokens: prompt,
      total_tokens: prompt + output,
      completion_tokens: output,
    });
    const chunk = (output: number, content: string) => {
      const choices = [{ index: 0, delta: { content }, finish_reason: null }];
      if (options.include_usage !== true) return sse({ id: "c", choices });
      return sse({ id: "c", choices, usage: options.continuous_usage_stats === true ? usage(output) : null });
    };
    beginStream(outgoing);
    let written = 0;
    const write = () => {
      if (outgoing.destroyed) return;
      if (written < count) {
        outgoing.write(chunk(++written, `w${written} `));
        setImmediate(write);
        return;
      }
      if (more !== undefined) return more(outgoing);
      if (options.include_usage === true) outgoing.write(sse({ id: "c", choices: [], usage: usage(count) }));
      outgoing.end(sse("[DONE]"));
    };
    write();
  };
}

export const eventsOf = (text: string) =>
  text
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice("data: ".length)));

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
  { scopes, policyOptions, store = embeddedStore(), between = [], behind = [], ...options }: LimitedOptions,
): Promise<LimitedFleet> {
  const softLimits: string[] = [];
  const unreserved: Error[] = [];
  const policy = new LimitsPolicy({
    openStore: () => store,
    prices: { priceOf: () => PRICE },
    highestPriceOf: (name, unit) =>
      unit === "tokens" ? TOKEN_PRICE : (policyOptions?.prices ?? { priceOf: () => PRICE }).priceOf(name),
    modelScope: () => undefined,
    modelOf: (name) => name,
    promptFacts: () => ({ maxModelLen: undefined, templateTokens: undefined }),
    traits: () => ({ hasContinuousUsage: true, isPaid: false, maxTokensField: "max_tokens" }),
    defaultOutputTokens: () => 100,
    isFailOpen: () => false,
    events: {
      softLimit: ({ scope: { kind, id }, window }) => softLimits.push(`${kind} ${id} ${window}`),
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
    proxy: { authorize, policies: [policy, ...between, policy.upstream, ...behind, usageAsker], ...options.proxy },
  });
  return {
    ...fleet,
    policy,
    store,
    softLimits,
    unreserved,
    async spent(scope) {
      await whenSettled(store);
      return (await store.read(claimsOf([scope]))).budgets[0]!.used;
    },
    async stop() {
      await fleet.stop();
      await policy.close();
    },
  };
}
