/** Limits and budgets of whole answers behind the real proxy. */
import { afterEach, describe, expect, test } from "vitest";
import {
  ask,
  CHAT,
  dayBudget,
  errorOf,
  keyScope,
  type LimitedFleet,
  type LimitedOptions,
  startLimitedFleet,
  whole,
} from "../../../test/helpers/limited-fleet.js";
import { answerJson, type Behaviour } from "../../../test/helpers/stand-in.js";
import { MillraceError } from "../../core/errors.js";
import { LengthPolicy } from "../lengths/length-policy.js";
import type { Policy } from "../pipeline.js";
import { NOTE } from "../usage/record.js";
import { claimsOf } from "./claims.js";
import { windowEnd, windowStart } from "./windows.js";

let fleet: LimitedFleet;
afterEach(() => fleet.stop());

const start = async (behaviour: Behaviour | readonly Behaviour[], options: LimitedOptions) => {
  fleet = await startLimitedFleet(Array.isArray(behaviour) ? behaviour : [behaviour as Behaviour], options);
  return fleet;
};
describe("a request without limits", () => {
  test("passes as it came", async () => {
    const { post, standIns, store } = await start(whole(1, 1), { scopes: undefined });
    const response = await post(CHAT, `{"model":"m",  "messages":[]}`);
    expect(response.status).toBe(200);
    expect(standIns[0]!.received[0]!.text).toBe(`{"model":"m",  "messages":[]}`);
    expect([...response.headers.keys()].filter((name) => name.includes("ratelimit"))).toEqual([]);
    expect(await store.numOpen()).toBe(0);
  });
});

describe("a budget", () => {
  test("is charged what an answer reports", async () => {
    const budget = dayBudget(100_000);
    const { post, spent } = await start(whole(30, 12), { scopes: [budget] });
    expect((await post(CHAT, ask)).status).toBe(200);
    expect(await spent(budget)).toBe(42);
  });

  test("is charged an estimate where an answer reports nothing", async () => {
    const budget = dayBudget(100_000);
    const { post, spent } = await start(answerJson({ choices: [{ message: { content: "x".repeat(4_000) } }] }), {
      scopes: [budget],
    });
    expect((await post(CHAT, { ...ask, messages: [{ role: "user", content: "y".repeat(400) }] })).status).toBe(200);
    const used = await spent(budget);
    expect(used).toBeGreaterThan(1_100);
    expect(used).toBeLessThan(1_250);
    expect((await post("/tokenize", { model: "m", prompt: "x" })).status).toBe(200);
    expect((await post("/v1/embeddings", { model: "m", input: "x".repeat(400) })).status).toBe(200);
    // Only the prompt costs: vectors are not tokens.
    expect((await spent(budget)) - used).toBeLessThan(150);
  });

  test("is charged a line of a batch at the price of batches", async () => {
    const budget = dayBudget(100_000);
    const per = (nano: bigint) => ({ version: "", fresh: nano, cacheRead: nano, cacheWrite: nano, output: nano });
    const prices = { priceOf: (_: string, rate?: string) => per(rate === "batch" ? 500_000n : 1_000_000n) };
    const inBatch: Policy = {
      name: "in a batch",
      handle: (request, sink, next) => {
        request.record.notes.set(NOTE.batch, "batch_1");
        return next(request, sink);
      },
    };
    const options = { scopes: [budget], policyOptions: { prices }, between: [inBatch] };
    const { post, spent } = await start(whole(30, 12), options);
    expect((await post(CHAT, ask)).status).toBe(200);
    expect(await spent(budget)).toBe(21);
  });

  test("bounds an answer that is not streamed by what it pays", async () => {
    const budget = dayBudget(2_000);
    const { post, standIns, spent } = await start(whole(30, 12), { scopes: [budget] });
    await post(CHAT, { ...ask, max_tokens: 50 });
    await spent(budget);
    await post(CHAT, { ...ask, max_completion_tokens: 5_000 });
    await spent(budget);
    await post(CHAT, ask);
    const sent = standIns[0]!.received.map(({ body }) => [body.max_tokens, body.max_completion_tokens]);
    expect(sent[0]).toEqual([50, undefined]);
    expect(sent[1]![1]).toBeLessThan(2_000);
    expect(sent[1]![1]).toBeGreaterThan(1_000);
    expect(sent[2]![0]).toBeLessThan(2_000);
  });

  test("bounds an engine that passes over a field", async () => {
    const { post, standIns } = await start(whole(30, 12), { scopes: [dayBudget(2_000)] });
    await post(CHAT, { ...ask, max_completion_tokens: 1 });
    await post(CHAT, { ...ask, max_output_tokens: 1 });
    const [one, other] = standIns[0]!.received.map(({ body }) => body.max_tokens as number);
    expect(one).toBe(1);
    expect(other).toBeLessThan(2_000);
  });

  test("that is used up refuses, and says so once and for all", async () => {
    const budget = dayBudget(500);
    const { post, spent } = await start(whole(300, 150), { scopes: [budget] });
    expect((await post(CHAT, { ...ask, max_tokens: 100 })).status).toBe(200);
    expect(await spent(budget)).toBe(450);
    const response = await post(CHAT, ask);
    expect(response.headers.get("x-should-retry")).toBe("false");
    const untilMs = windowEnd("day", windowStart("day", Date.now()))! - Date.now();
    expect(Math.abs(Number(response.headers.get("retry-after")) - untilMs / 1000)).toBeLessThan(60);
    const { status, code, message } = await errorOf(response);
    expect([status, code]).toEqual([429, "budget_exceeded"]);
    expect(message).toMatch(
      /^expected key a to have 0\.\d+ \$ of its budget of 0\.0000005 \$ per day left, got 0\.00000005 \$/,
    );
  });

  test("says whether it is short only by what other requests have reserved", async () => {
    const budget = dayBudget(500);
    const seen: boolean[] = [];
    const watch: Policy = {
      name: "watch",
      handle: async (request, sink, next) => {
        try {
          return await next(request, sink);
        } finally {
          seen.push(request.record.isPayableLater);
        }
      },
    };
    const { post, store, spent } = await start(whole(300, 150), { scopes: [budget], between: [watch] });
    const amounts = { money: 450, tokens: 0 };
    const held = { id: "other", claims: claimsOf([budget]), want: amounts, least: amounts, tokens: 0 };
    await store.reserve(held);
    expect(await errorOf(await post(CHAT, { ...ask, max_tokens: 100 }))).toMatchObject({ code: "budget_exceeded" });
    expect(await errorOf(await post(CHAT, { ...ask, user: "x".repeat(500) }))).toMatchObject({
      code: "budget_exceeded",
    });
    await store.settle("other", 450, 0);
    expect(await errorOf(await post(CHAT, { ...ask, max_tokens: 100 }))).toMatchObject({ code: "budget_exceeded" });
    expect(seen).toEqual([true, false, false]);
    expect(await spent(budget)).toBe(450);
  });

  test("needs a price, and a free model needs no budget", async () => {
    const prices = { priceOf: (): undefined => undefined };
    const { post } = await start(whole(1, 1), { scopes: [dayBudget(500)], policyOptions: { prices } });
    expect(await errorOf(await post(CHAT, ask))).toMatchObject({ status: 403, code: "price_missing" });
    await fleet.stop();
    const free = { version: "free", fresh: 0n, cacheRead: 0n, cacheWrite: 0n, output: 0n };
    const used = dayBudget(0);
    await start(whole(1, 1), { scopes: [used], policyOptions: { prices: { priceOf: () => free } } });
    expect((await fleet.post(CHAT, ask)).status).toBe(200);
    expect(await fleet.spent(used)).toBe(0);
  });

  test("lets no unknown path pass, whose tokens nobody counts", async () => {
    const { post } = await start(whole(1, 1), { scopes: [dayBudget(100_000)] });
    expect(await errorOf(await post("/v1/images/generations", ask))).toMatchObject({ code: "price_missing" });
    expect((await post("/v1/embeddings", { model: "m", input: "x" })).status).toBe(200);
    expect((await post("/tokenize", { model: "m", prompt: "x" })).status).toBe(200);
  });

  test("pays nothing for an answer that fails", async () => {
    const budget = dayBudget(100_000);
    const limited = keyScope({ requestsPerMinute: 10 });
    const failing = answerJson({ error: { message: "no" } }, 400);
    const { post, spent } = await start(failing, { scopes: [budget, limited] });
    const response = await post(CHAT, ask);
    expect(response.status).toBe(400);
    expect(response.headers.get("x-ratelimit-remaining-requests")).toBe("9");
    expect(await spent(budget)).toBe(0);
  });

  test("passed softly warns in a header and once by an event", async () => {
    const budget = dayBudget(100_000, 40);
    const { post, spent, softLimits } = await start(whole(30, 12), { scopes: [budget] });
    const warning = async () => {
      const response = await post(CHAT, { ...ask, max_tokens: 1 });
      await spent(budget);
      return response.headers.get("x-millrace-budget-warning");
    };
    expect(await warning()).toMatch(/^key a: 0\.\d+ of 0\.00000004 \$ per day$/);
    await warning();
    expect(softLimits).toEqual(["key a day"]);
  });
});

describe("a budget of tokens", () => {
  const unpriced = { prices: { priceOf: (): undefined => undefined } };

  test("needs no price, counts prompts and answers, and refuses until its window ends", async () => {
    const budget = dayBudget(500, undefined, "tokens");
    const { post, spent } = await start(whole(300, 150), { scopes: [budget], policyOptions: unpriced });
    expect((await post(CHAT, { ...ask, max_tokens: 100 })).status).toBe(200);
    expect(await spent(budget)).toBe(450);
    const response = await post(CHAT, ask);
    expect(response.headers.get("x-should-retry")).toBe("false");
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await errorOf(response)).toMatchObject({
      status: 429,
      code: "budget_exceeded",
      message: expect.stringMatching(
        /^expected key a to have \d+ tokens of its budget of 500 tokens per day left, got 50 tokens/,
      ),
    });
  });

  test("in total has no window to wait for", async () => {
    const budget = keyScope({ budgets: [{ unit: "tokens", window: "total", hard: 10n }] });
    const { post } = await start(whole(1, 1), { scopes: [budget], policyOptions: unpriced });
    const response = await post(CHAT, ask);
    expect(response.headers.get("retry-after")).toBeNull();
    expect((await errorOf(response)).message).toContain("its budget of 10 tokens in total");
  });

  test("counts for a free model too, whose budget of money does not", async () => {
    const free = { version: "free", fresh: 0n, cacheRead: 0n, cacheWrite: 0n, output: 0n };
    const ofTokens = dayBudget(1_000, undefined, "tokens");
    const both = keyScope({ budgets: [...dayBudget(0).limits.budgets, ...ofTokens.limits.budgets] });
    const { post, spent } = await start(whole(30, 12), {
      scopes: [both],
      policyOptions: { prices: { priceOf: () => free } },
    });
    expect((await post(CHAT, { ...ask, max_tokens: 20 })).status).toBe(200);
    expect([await spent(dayBudget(0)), await spent(ofTokens)]).toEqual([0, 42]);
  });

  test("bounds an answer beside a budget of money by the tighter of the two", async () => {
    const both = (money: number, tokens: number) =>
      keyScope({
        budgets: [dayBudget(money), dayBudget(tokens, undefined, "tokens")].flatMap((each) => each.limits.budgets),
      });
    const boundOf = async (scope: ReturnType<typeof both>) => {
      const { post, standIns } = await start(whole(30, 12), { scopes: [scope] });
      expect((await post(CHAT, { ...ask, max_tokens: 5_000 })).status).toBe(200);
      await fleet.stop();
      return standIns[0]!.received[0]!.body.max_tokens as number;
    };
    const [byTokens, byMoney] = [await boundOf(both(100_000, 2_000)), await boundOf(both(1_000, 100_000))];
    expect(byTokens).toBeGreaterThan(1_000);
    expect(byTokens).toBeLessThan(2_000);
    expect(byMoney).toBeLessThan(1_000);
  });

  test("passed softly warns in tokens", async () => {
    const budget = dayBudget(100_000, 40, "tokens");
    const { post, spent, softLimits } = await start(whole(30, 12), {
      scopes: [budget],
      policyOptions: unpriced,
    });
    const response = await post(CHAT, { ...ask, max_tokens: 1 });
    expect(response.headers.get("x-millrace-budget-warning")).toMatch(/^key a: \d+ of 40 tokens per day$/);
    expect(softLimits).toEqual(["key a day"]);
    expect(await spent(budget)).toBe(42);
  });

  test("lets no unknown path pass, whose tokens nobody counts", async () => {
    const scopes = [dayBudget(100_000, undefined, "tokens")];
    const { post } = await start(whole(1, 1), { scopes, policyOptions: unpriced });
    expect(await errorOf(await post("/v1/images/generations", ask))).toMatchObject({ code: "price_missing" });
    expect((await post("/tokenize", { model: "m", prompt: "x" })).status).toBe(200);
  });
});

describe("a store that is down", () => {
  const down = new MillraceError("budget_store_failed", "expected Redis to answer, got none");
  const failing = () => {
    const charges: number[] = [];
    let isDown = true;
    const store = {
      reserve: async () => Promise.reject(down),
      resize: async () => Promise.reject(down),
      settle: async () => (isDown ? Promise.reject(down) : false),
      charge: async (_: unknown, money: number) => void charges.push(money),
      read: async () => Promise.reject(down),
      tend: async () => (isDown ? Promise.reject(down) : []),
      numOpen: async () => 0,
      close: async () => {},
    };
    return { store, charges, comeBack: () => (isDown = false) };
  };

  test("refuses under fail-closed", async () => {
    const { post, standIns } = await start(whole(30, 12), { scopes: [dayBudget(100)], store: failing().store });
    expect(await errorOf(await post(CHAT, ask))).toMatchObject({ status: 503, code: "budget_store_failed" });
    expect(standIns[0]!.received).toHaveLength(0);
  });

  test("refuses under fail-open, too, where it has said before that a budget is used up", async () => {
    const levels = { budgets: [{ used: 100, held: 0, startMs: 0 }], requests: [0], tokens: [], concurrent: [] };
    const refused = { kind: "refused", limit: "budget", index: 0, retryAfterMs: 0, levels } as const;
    let numAsked = 0;
    const store = { ...failing().store, reserve: async () => (numAsked++ === 0 ? refused : Promise.reject(down)) };
    const scopes = [keyScope({ ...dayBudget(100).limits, requestsPerMinute: 5 })];
    const { post, standIns } = await start(whole(30, 12), { scopes, store, policyOptions: { isFailOpen: () => true } });
    expect(await errorOf(await post(CHAT, ask))).toMatchObject({ status: 429, code: "budget_exceeded" });
    expect([numAsked, standIns[0]!.received.length]).toEqual([2, 0]);
  });

  test("lets pass under fail-open, and is charged when it is back", async () => {
    const { store, charges, comeBack } = failing();
    const policyOptions = { isFailOpen: () => true };
    const { post, unreserved } = await start(whole(30, 12), { scopes: [dayBudget(100)], store, policyOptions });
    expect((await post(CHAT, ask)).status).toBe(200);
    expect(unreserved).toHaveLength(1);
    expect(charges).toEqual([]);
    comeBack();
    await fleet.stop();
    expect(charges).toEqual([42]);
  });
});

test("a budget that pays for more leaves a default of max-tokens in force", async () => {
  const lengths = new LengthPolicy({
    rulesOf: (name) => ({ name, rules: { default: 40 } }),
    maxTokensFieldOf: () => "max_tokens",
    earlierAnswers: () => [],
    onAnswer: () => {},
  });
  const { post, standIns } = await start(whole(30, 12), { scopes: [dayBudget(2_000)], behind: [lengths] });
  for (const max_tokens of [undefined, 60]) await (await post(CHAT, { ...ask, max_tokens })).text();
  expect(standIns[0]!.received.map(({ body }) => body.max_tokens)).toEqual([40, 60]);
});
