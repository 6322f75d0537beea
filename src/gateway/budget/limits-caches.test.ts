/** Limits and budgets around idempotency and the exact cache: a kept answer is a request, and needs no money. */
import { afterEach, describe, expect, test } from "vitest";
import { CACHE_SETTINGS } from "../../../test/helpers/cached-fleet.js";
import {
  dayBudget,
  embeddedStore,
  keyScope,
  type LimitedFleet,
  startLimitedFleet,
} from "../../../test/helpers/limited-fleet.js";
import { answerJson, type Behaviour, beginStream, sse } from "../../../test/helpers/stand-in.js";
import { MillraceError } from "../../core/errors.js";
import { ExactCache } from "../cache/exact-cache.js";
import { MemoryStore } from "../cache/memory-store.js";
import { Idempotency } from "../idempotency/idempotency.js";
import type { Policy } from "../pipeline.js";
import { RoutePolicy } from "../routes/route-policy.js";
import { ROUTE_DEFAULTS } from "../routes/route-table.js";
import type { Scope } from "../scope.js";
import { claimsOf } from "./claims.js";
import { type BudgetStore, NO_AMOUNTS } from "./store.js";

const CHAT = "/v1/chat/completions";
const ask = { model: "m", messages: [], temperature: 0 };

let fleet: LimitedFleet;
afterEach(() => fleet.stop());

async function start(behaviour: Behaviour, scopes: readonly Scope[], routing: readonly Policy[] = []) {
  const cache = new ExactCache({
    store: new MemoryStore(1 << 20),
    modelOf: (name) => ({ name, version: "1", isOwnEngine: false, settings: CACHE_SETTINGS }),
    hasOwnKeys: () => true,
  });
  const idempotency = new Idempotency({
    store: new MemoryStore(1 << 20),
    settings: () => ({ ttlMs: 60_000, graceMs: 0, maxAnswerBytes: 100_000 }),
    hasOwnKeys: () => true,
  });
  fleet = await startLimitedFleet([behaviour], { scopes, between: [idempotency, ...routing, cache] });
  const { post, standIns } = fleet;
  return {
    fleet,
    numAsked: () => standIns[0]!.received.length,
    ask: async (body: object, key?: string) => {
      const response = await post(CHAT, body, key === undefined ? {} : { headers: { "idempotency-key": key } });
      const { status, headers } = response;
      return { status, headers, text: await response.text() };
    },
  };
}

const choice = (text: string) => ({ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" });
const whole = (prompt: number, completion: number): Behaviour =>
  answerJson({ choices: [choice("a")], usage: { prompt_tokens: prompt, completion_tokens: completion } });

/** A stream of `count` tokens whose upstream reports the fields that it was sent. */
function streamed(count: number): Behaviour {
  return ({ body }, outgoing) => {
    beginStream(outgoing);
    const { continuous_usage_stats: isEach } = (body.stream_options ?? {}) as Record<string, unknown>;
    for (let i = 1; i <= count; i++) {
      const end = i === count ? "stop" : null;
      const choices = [{ index: 0, delta: { content: "w" }, finish_reason: end }];
      const usage = { prompt_tokens: 10, total_tokens: 10 + i, completion_tokens: i };
      outgoing.write(sse(isEach === true ? { id: "c", choices, usage } : { id: "c", choices }));
    }
    outgoing.end(sse("[DONE]"));
  };
}

test("a retry under its Idempotency-Key gets the first answer, though less money is left, or none", async () => {
  const budget = dayBudget(1_200);
  const { ask: send, fleet: limited, numAsked } = await start(whole(300, 150), [budget]);
  const sampled = { ...ask, temperature: 1 };
  const first = await send(sampled, "k");
  expect(await limited.spent(budget)).toBe(450);
  expect(await send(sampled, "k")).toMatchObject({ status: 200, text: first.text });
  expect((await send({ ...sampled, user: "x" }, "l")).status).toBe(200);
  expect(await limited.spent(budget)).toBe(900);
  expect((await send(sampled, "m")).text).toContain("budget_exceeded");
  const replayed = await send(sampled, "k");
  expect([replayed.status, replayed.text, replayed.headers.get("idempotent-replayed")]).toEqual([
    200,
    first.text,
    "true",
  ]);
  expect([await limited.spent(budget), numAsked()]).toEqual([900, 2]);
});

test("the upstream's bounds and the counts it is asked for are no part of a cache's key", async () => {
  const budget = dayBudget(100_000);
  const { ask: send, fleet: limited, numAsked } = await start(streamed(5), [budget]);
  const first = await send({ ...ask, stream: true });
  const spent = await limited.spent(budget);
  expect(first.text).not.toContain("usage");
  expect((await send({ ...ask, stream: true })).headers.get("x-millrace-cache")).toBe("hit");
  const options = { include_usage: true, continuous_usage_stats: true };
  const asked = await send({ ...ask, stream: true, stream_options: options });
  expect([asked.headers.get("x-millrace-cache"), numAsked()]).toEqual(["miss", 2]);
  expect(asked.text).toContain('"completion_tokens":5');
  expect(await limited.spent(budget)).toBe(2 * spent);
});

test("a hit is never cut, and costs nothing but a request", async () => {
  const budget = dayBudget(1_200);
  const limits = keyScope({ requestsPerMinute: 2, tokensPerMinute: 1_000_000, budgets: budget.limits.budgets });
  const { ask: send, fleet: limited, numAsked } = await start(streamed(1_000), [limits]);
  const body = { ...ask, stream: true };
  const first = await send(body);
  expect(first.text).toContain("[DONE]");
  expect(await limited.spent(budget)).toBe(1_010);
  const hit = await send(body);
  expect([hit.headers.get("x-millrace-cache"), hit.text.length]).toEqual(["hit", first.text.length]);
  expect([await limited.spent(budget), numAsked()]).toEqual([1_010, 1]);
  expect(hit.headers.get("x-ratelimit-remaining-requests")).toBe("0");
});

test("an answer that its budget shortened is not kept for others", async () => {
  const cut: Behaviour = answerJson({
    choices: [{ ...choice("a"), finish_reason: "length" }],
    usage: { prompt_tokens: 1, completion_tokens: 1 },
  });
  const { ask: send, numAsked } = await start(cut, [dayBudget(100_000)]);
  for (const max_tokens of [undefined, undefined, 5, 5]) await send({ ...ask, max_tokens });
  expect(numAsked()).toBe(3);
});

test("a request that is not paid for holds its place and is counted, unless that is refused", async () => {
  const budget = dayBudget(0);
  const limits = keyScope({ requestsPerMinute: 2, budgets: budget.limits.budgets });
  const { ask: send, fleet: limited, numAsked } = await start(whole(1, 1), [limits]);
  expect((await send(ask)).text).toContain("budget_exceeded");
  expect((await send(ask)).text).toContain("budget_exceeded");
  expect((await send(ask)).text).toContain("rate_limit_exceeded");
  expect([await limited.spent(budget), numAsked()]).toEqual([0, 0]);
});

describe("behind a route", () => {
  const fallbacks: string[] = [];
  const to = [{ model: "m", weight: 1 }];
  const everything = { unavailable: ["n"], timeout: ["n"], overload: ["n"], "content-filter": ["n"] };
  const route = { ...ROUTE_DEFAULTS, name: "m", rules: [{ when: {}, to }], fallback: everything };
  const routing = new RoutePolicy({
    routes: () => new Map([["m", route]]),
    sessionHeader: () => "x-session-id",
    onFallback: (_, from) => fallbacks.push(from),
  });

  test("a kept answer needs no money, and without one the route asks no other model", async () => {
    const budget = dayBudget(1_200);
    const { ask: send, numAsked } = await start(whole(300, 800), [budget], [routing]);
    const first = await send(ask);
    expect(first.status).toBe(200);
    expect(await send(ask)).toMatchObject({ status: 200 });
    const refused = await send({ ...ask, seed: 1 });
    expect(refused.text).toContain("budget_exceeded");
    expect(refused.text).not.toContain("then n");
    expect([numAsked(), fallbacks]).toEqual([1, []]);
  });

  test("a second model's answer needs money beside what the first one's has cost", async () => {
    let numAsked = 0;
    const filtered: Behaviour = (received, outgoing) => {
      numAsked++;
      const cut = { ...choice("a"), finish_reason: "content_filter" };
      answerJson({ choices: [cut], usage: { prompt_tokens: 100, completion_tokens: 100 } })(received, outgoing);
    };
    for (const [tokens, isPaid] of [
      [700, true],
      [500, false],
    ] as const) {
      const budget = dayBudget(tokens);
      fleet = await startLimitedFleet([filtered, whole(100, 100)], { scopes: [budget], between: [routing] });
      fleet.pool.change("b", { model: "n" });
      const response = await fleet.post(CHAT, { ...ask, max_tokens: 100 });
      const text = await response.text();
      expect([response.status, text.includes("budget_exceeded")]).toEqual(isPaid ? [200, false] : [429, true]);
      // Official clients would repeat it, and pay for the first model's answer again.
      expect(response.headers.get("x-should-retry")).toBe(isPaid ? null : "false");
      expect(await fleet.spent(budget)).toBe(isPaid ? 400 : 200);
      expect(fleet.standIns[1]!.received).toHaveLength(isPaid ? 1 : 0);
      await fleet.stop();
    }
    expect(numAsked).toBe(2);
  });

  describe("a second model's answer", () => {
    const isPayableLater: boolean[] = [];
    const watch: Policy = {
      name: "watch",
      handle: (request, sink, next) =>
        next(request, sink).finally(() => isPayableLater.push(request.record.isPayableLater)),
    };

    /** @param onFirst called before the first model answers */
    async function sendTwice(budget: Scope, store: BudgetStore, isFailOpen: boolean, onFirst: () => Promise<unknown>) {
      const cut = { ...choice("a"), finish_reason: "content_filter" };
      const filtered: Behaviour = async (received, outgoing) => {
        await onFirst();
        answerJson({ choices: [cut], usage: { prompt_tokens: 100, completion_tokens: 100 } })(received, outgoing);
      };
      fleet = await startLimitedFleet([filtered, whole(100, 100)], {
        scopes: [budget],
        store,
        between: [watch, routing],
        policyOptions: { isFailOpen: () => isFailOpen },
      });
      fleet.pool.change("b", { model: "n" });
      const response = await fleet.post(CHAT, { ...ask, max_tokens: 100 });
      return { status: response.status, text: await response.text() };
    }

    test.each([
      [true, 200],
      [false, 503],
    ])("where the store is down: fail-open %s gives %i", async (isFailOpen, status) => {
      const store = embeddedStore();
      const resize = store.resize.bind(store);
      let isDown = false;
      store.resize = (...args) =>
        isDown ? Promise.reject(new MillraceError("budget_store_failed", "down")) : resize(...args);
      const budget = dayBudget(10_000);
      const answer = await sendTwice(budget, store, isFailOpen, async () => {
        isDown = true;
      });
      expect(answer.status).toBe(status);
      expect(fleet.unreserved).toHaveLength(isFailOpen ? 1 : 0);
      expect(fleet.standIns[1]!.received).toHaveLength(isFailOpen ? 1 : 0);
      if (isFailOpen) expect(fleet.standIns[1]!.received[0]!.body.max_tokens).toBe(100);
      expect(await fleet.spent(budget)).toBe(isFailOpen ? 400 : 200);
    });

    test("is payable later where other requests have reserved the rest", async () => {
      const budget = dayBudget(1_000);
      const store = embeddedStore();
      const want = { money: 1_000, tokens: 0 };
      const others = { id: "other", claims: claimsOf([budget]), want, least: NO_AMOUNTS, tokens: 0 };
      const answer = await sendTwice(budget, store, false, () => store.reserve(others));
      expect(answer.status).toBe(429);
      expect(answer.text).toContain("reserved by requests under way");
      expect(isPayableLater.at(-1)).toBe(true);
      await store.settle("other", 0, 0);
    });
  });
});
