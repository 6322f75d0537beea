/**
 * The policy of limits and budgets behind the real proxy.
 *
 * size: every kind of answer is charged in a test of its own, on one small fleet that all of them share
 */
import type { ServerResponse } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import {
  type LimitedFleet,
  type LimitedOptions,
  startLimitedFleet,
  whenSettled,
} from "../../../test/helpers/limited-fleet.js";
import { answerJson, type Behaviour, beginStream, sse, until } from "../../../test/helpers/stand-in.js";
import { MillraceError } from "../../core/errors.js";
import type { Scope } from "../scope.js";
import { claimsOf } from "./claims.js";

let fleet: LimitedFleet;
afterEach(() => fleet.stop());

const start = async (behaviour: Behaviour | readonly Behaviour[], options: LimitedOptions) => {
  fleet = await startLimitedFleet(Array.isArray(behaviour) ? behaviour : [behaviour as Behaviour], options);
  return fleet;
};
const scope = (limits: Partial<Scope["limits"]>, id = "a"): Scope => ({
  kind: "key",
  id,
  limits: { budgets: [], ...limits },
});
const dayBudget = (hard: number, soft?: number): Scope =>
  scope({ budgets: [{ window: "day", hard: BigInt(hard), soft: soft === undefined ? undefined : BigInt(soft) }] });
const whole = (prompt: number, completion: number): Behaviour =>
  answerJson({ choices: [], usage: { prompt_tokens: prompt, completion_tokens: completion } });

const CHAT = "/v1/chat/completions";
const ask = { model: "m", messages: [] };
const errorOf = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  return { status: response.status, code: error.code, message: error.message };
};

/** Writes tokens one by one like our engine: with the usage so far, if that is asked for. */
function tokens(count: number, prompt = 10, more?: (outgoing: ServerResponse) => void): Behaviour {
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
const eventsOf = (text: string) =>
  text
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice("data: ".length)));

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
    expect(response.headers.get("retry-after")).toBeNull();
    const { status, code, message } = await errorOf(response);
    expect([status, code]).toEqual([429, "budget_exceeded"]);
    expect(message).toMatch(
      /^expected key a to have 0\.\d+ \$ of its budget of 0\.0000005 \$ per day left, got 0\.00000005 \$/,
    );
  });

  test("needs a price, and a free model needs no budget", async () => {
    const prices = { priceOf: (): undefined => undefined };
    const { post, spent } = await start(whole(1, 1), { scopes: [dayBudget(500)], policyOptions: { prices } });
    expect(await errorOf(await post(CHAT, ask))).toMatchObject({ status: 403, code: "price_missing" });
    await fleet.stop();
    const free = { version: "free", fresh: 0n, cacheRead: 0n, cacheWrite: 0n, output: 0n };
    const used = dayBudget(0);
    await start(whole(1, 1), { scopes: [used], policyOptions: { prices: { priceOf: () => free } } });
    expect((await fleet.post(CHAT, ask)).status).toBe(200);
    expect(await fleet.spent(used)).toBe(0);
    expect(spent).toBeDefined();
  });

  test("lets no unknown path pass, whose tokens nobody counts", async () => {
    const { post } = await start(whole(1, 1), { scopes: [dayBudget(100_000)] });
    expect(await errorOf(await post("/v1/images/generations", ask))).toMatchObject({ code: "price_missing" });
    expect((await post("/v1/embeddings", { model: "m", input: "x" })).status).toBe(200);
    expect((await post("/tokenize", { model: "m", prompt: "x" })).status).toBe(200);
  });

  test("pays nothing for an answer that fails", async () => {
    const budget = dayBudget(100_000);
    const limited = scope({ requestsPerMinute: 10 });
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

describe("a stream", () => {
  const streamed = { ...ask, stream: true };

  test("is asked for its usage, which a client that did not ask does not see", async () => {
    const budget = dayBudget(100_000);
    const { post, standIns, spent } = await start(tokens(5), { scopes: [budget] });
    const text = await (await post(CHAT, streamed)).text();
    expect(standIns[0]!.received[0]!.body.stream_options).toEqual({
      include_usage: true,
      continuous_usage_stats: true,
    });
    const bare = [1, 2, 3, 4, 5].map((i) =>
      sse({ id: "c", choices: [{ index: 0, delta: { content: `w${i} ` }, finish_reason: null }] }),
    );
    expect(text).toBe(bare.join("") + sse("[DONE]"));
    expect(await spent(budget)).toBe(15);
  });

  test("has the usage that its client asked for", async () => {
    const { post } = await start(tokens(2), { scopes: [dayBudget(100_000)] });
    const withLast = await (await post(CHAT, { ...streamed, stream_options: { include_usage: true } })).text();
    expect(eventsOf(withLast).map(({ usage }) => usage?.completion_tokens ?? usage)).toEqual([null, null, 2]);
    const options = { include_usage: true, continuous_usage_stats: true };
    const withAll = await (await post(CHAT, { ...streamed, stream_options: options })).text();
    expect(eventsOf(withAll).map(({ usage }) => usage.completion_tokens)).toEqual([1, 2, 2]);
  });

  test("grows beyond its reservation while the budget pays", async () => {
    const budget = dayBudget(100_000);
    const { post, spent } = await start(tokens(3_000), { scopes: [budget] });
    const text = await (await post(CHAT, streamed)).text();
    expect(eventsOf(text)).toHaveLength(3_000);
    expect(await spent(budget)).toBe(3_010);
  });

  test("ends cleanly when the budget is used up, and never costs more", async () => {
    const budget = dayBudget(1_500);
    const { post, spent, watched, standIns } = await start(tokens(1_000_000), { scopes: [budget] });
    const response = await post(CHAT, streamed);
    const events = eventsOf(await response.text());
    expect(events.at(-1)).toMatchObject({ error: { code: "budget_exceeded" } });
    const used = await spent(budget);
    expect(used).toBe(10 + events.length - 1);
    expect(used).toBeLessThanOrEqual(1_500);
    expect(used).toBeGreaterThan(1_490);
    await until(() => watched.ended.length === 1 && standIns[0]!.numCut === 1);
    expect(watched.ended).toEqual([{ outcome: "broken", status: 200 }]);
  });

  test("whose client leaves costs what was made", async () => {
    const budget = dayBudget(100_000);
    const { post, spent, standIns } = await start(tokens(1_000_000), { scopes: [budget] });
    const leaving = new AbortController();
    const response = await post(CHAT, streamed, { signal: leaving.signal });
    const reader = response.body!.getReader();
    let received = 0;
    while (received < 20) received += eventsOf(Buffer.from((await reader.read()).value!).toString()).length;
    leaving.abort();
    await until(() => standIns[0]!.numCut === 1);
    const used = await spent(budget);
    expect(used).toBeGreaterThanOrEqual(10 + received);
    expect(used).toBeLessThan(100_000);
  });

  test("gives back early what its prompt did not take", async () => {
    const budget = dayBudget(100_000);
    let goOn = () => {};
    const behaviour: Behaviour = (received, outgoing) => {
      const end = tokens(3, 10, () => {
        goOn = () => outgoing.end(sse("[DONE]"));
      });
      goOn = () => end(received, outgoing);
    };
    const { post, store, standIns } = await start(behaviour, { scopes: [budget] });
    const held = async () => (await store.read(claimsOf([budget]))).money[0]!.held;
    const answer = post(CHAT, { ...streamed, messages: [{ role: "user", content: "x".repeat(5_000) }] });
    await until(() => standIns[0]!.received.length === 1);
    expect(await held()).toBeGreaterThan(5_000);
    goOn();
    const response = await answer;
    const deadlineMs = performance.now() + 5_000;
    while ((await held()) > 300 && performance.now() < deadlineMs)
      await new Promise((resolve) => setImmediate(resolve));
    expect(await held()).toBeLessThan(300);
    goOn();
    await response.text();
  });

  test("whose client leaves before anything has come costs the prompt, and nothing that was never sent does", async () => {
    const budget = dayBudget(100_000);
    const { post, spent, standIns } = await start(() => {}, { scopes: [budget] });
    const leaving = new AbortController();
    const content = "x".repeat(1_000);
    const body = { ...streamed, messages: [{ role: "user", content }] };
    const asked = post(CHAT, body, { signal: leaving.signal });
    await until(() => standIns[0]!.received.length === 1);
    leaving.abort();
    await expect(asked).rejects.toThrow();
    // At the tokens per byte that are assumed at first.
    expect(await spent(budget)).toBe(Math.ceil(0.3 * JSON.stringify(body).length));
  });

  test("that its server breaks off while events are held costs what was passed on", async () => {
    const budget = dayBudget(1_000);
    const { post, spent, store } = await start(
      tokens(100_000, 10, (outgoing) => outgoing.destroy()),
      { scopes: [budget] },
    );
    const other = { ...claimsOf([budget]) };
    // Another request holds all the rest, so the stream waits with what it may not pass on.
    await store.reserve({ id: "other", claims: other, wantMoney: 450, leastMoney: 450, tokens: 0 });
    const events = eventsOf(await (await post(CHAT, streamed)).text());
    await store.settle("other", 0, 0);
    expect(events.at(-1)).toMatchObject({ error: {} });
    const used = await spent(budget);
    expect(used).toBe(10 + events.length - 1);
    expect(used).toBeLessThanOrEqual(550);
  });

  test("that its server breaks off costs what came", async () => {
    const budget = dayBudget(100_000);
    const dying = tokens(7, 10, (outgoing) => outgoing.destroy());
    const { post, spent } = await start(dying, { scopes: [budget] });
    const events = eventsOf(await (await post(CHAT, streamed)).text());
    expect(events).toHaveLength(8);
    expect(await spent(budget)).toBe(17);
  });

  test("is counted by its texts where the server reports at the end, and charged what is reported", async () => {
    const budget = dayBudget(100_000);
    const traits = () => ({
      hasContinuousUsage: false,
      isPaid: true,
      maxTokensField: "max_completion_tokens" as const,
    });
    const { post, spent, standIns } = await start(tokens(400), { scopes: [budget], policyOptions: { traits } });
    await (await post(CHAT, { ...streamed, stream_options: { include_usage: true } })).text();
    expect(await spent(budget)).toBe(410);
    const response = await post(CHAT, streamed);
    expect(eventsOf(await response.text())).toHaveLength(400);
    const used = await spent(budget);
    expect(used - 410).toBeGreaterThan(400);
    expect(standIns[0]!.received[1]!.body.max_completion_tokens).toBeLessThan(100_000);
  });

  test("of Anthropic's API is cut at its budget, too", async () => {
    const budget = dayBudget(1_200);
    const behaviour: Behaviour = (_, outgoing) => {
      beginStream(outgoing);
      const event = (data: { type: string }) => `event: ${data.type}\n${sse(data)}`;
      const message = { usage: { input_tokens: 10, output_tokens: 1 } };
      outgoing.write(event({ type: "message_start", message } as { type: string }));
      const write = () => {
        if (outgoing.destroyed) return;
        const delta = { type: "text_delta", text: "word" };
        outgoing.write(event({ type: "content_block_delta", delta } as { type: string }));
        setImmediate(write);
      };
      write();
    };
    const { post, spent } = await start(behaviour, { scopes: [budget] });
    const text = await (await post("/v1/messages", { ...streamed, max_tokens: 100_000 })).text();
    expect(text).toContain('"error_code":"budget_exceeded"');
    const numDeltas = text.split("content_block_delta").length / 2 - 0.5;
    const used = await spent(budget);
    expect(used).toBeLessThanOrEqual(1_200);
    expect(used).toBe(10 + numDeltas);
  });
});

describe("rates", () => {
  test("are in OpenAI's headers, and a refusal tells when to come back", async () => {
    const limited = scope({ requestsPerMinute: 2, tokensPerMinute: 100_000 });
    const { post } = await start(whole(30, 12), { scopes: [limited] });
    const first = await post(CHAT, ask);
    const of = (response: Response, name: string) => response.headers.get(`x-ratelimit-${name}`);
    expect([of(first, "limit-requests"), of(first, "remaining-requests")]).toEqual(["2", "1"]);
    expect(of(first, "reset-requests")).toMatch(/^30s$/);
    expect(of(first, "limit-tokens")).toBe("100000");
    await post(CHAT, ask);
    const refused = await post(CHAT, ask);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(25);
    expect(of(refused, "remaining-requests")).toBe("0");
    expect(await errorOf(refused)).toMatchObject({ status: 429, code: "rate_limit_exceeded" });
  });

  test("are in Anthropic's headers on Anthropic's path", async () => {
    const { post } = await start(whole(30, 12), { scopes: [scope({ requestsPerMinute: 2 })] });
    const response = await post("/v1/messages", { ...ask, max_tokens: 5 });
    expect(response.headers.get("anthropic-ratelimit-requests-limit")).toBe("2");
    expect(response.headers.get("anthropic-ratelimit-requests-reset")).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    await post("/v1/messages", ask);
    const refused = await post("/v1/messages", ask);
    expect(((await refused.json()) as { error: object }).error).toMatchObject({ type: "rate_limit_error" });
  });

  test("give back the tokens that an answer did not take", async () => {
    const limited = scope({ tokensPerMinute: 1_000 });
    const { post, store } = await start(whole(30, 12), {
      scopes: [limited],
      policyOptions: { defaultOutputTokens: () => 700 },
    });
    for (let i = 0; i < 5; i++) {
      const response = await post(CHAT, ask);
      expect(response.status).toBe(200);
      await response.text();
      await whenSettled(store);
    }
  });

  test("a place is free when its request ends, however it ends", async () => {
    const limited = scope({ concurrentRequests: 1 });
    let release = () => {};
    const waiting: Behaviour = (_, outgoing) => {
      release = () => outgoing.writeHead(200).end("{}");
    };
    const { post, standIns, store } = await start(waiting, { scopes: [limited] });
    const leaving = new AbortController();
    const first = post(CHAT, ask, { signal: leaving.signal });
    await until(() => standIns[0]!.received.length === 1);
    expect(await errorOf(await post(CHAT, ask))).toMatchObject({ code: "rate_limit_exceeded" });
    leaving.abort();
    await expect(first).rejects.toThrow();
    await whenSettled(store);
    const second = post(CHAT, ask);
    await until(() => standIns[0]!.received.length === 2);
    release();
    expect((await second).status).toBe(200);
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
