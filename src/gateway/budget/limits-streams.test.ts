/** Budgets of streams behind the real proxy. */
import { afterEach, describe, expect, test } from "vitest";
import {
  ask,
  CHAT,
  dayBudget,
  eventsOf,
  type LimitedFleet,
  type LimitedOptions,
  startLimitedFleet,
  tokens,
} from "../../../test/helpers/limited-fleet.js";
import { answerJson, type Behaviour, beginStream, sse, until } from "../../../test/helpers/stand-in.js";
import type { Scope } from "../scope.js";
import { claimsOf } from "./claims.js";

let fleet: LimitedFleet;
afterEach(() => fleet.stop());

const USAGE = { prompt_tokens: 10, completion_tokens: 2_000, total_tokens: 2_010 };

const start = async (behaviour: Behaviour | readonly Behaviour[], options: LimitedOptions) => {
  fleet = await startLimitedFleet(Array.isArray(behaviour) ? behaviour : [behaviour as Behaviour], options);
  return fleet;
};
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

  test("ends where its budget of tokens does, whether or not money is left", async () => {
    const ofTokens = dayBudget(1_500, undefined, "tokens");
    const usedUnder = async (scopes: readonly Scope[]) => {
      const { post, spent } = await start(tokens(1_000_000), { scopes });
      const events = eventsOf(await (await post(CHAT, streamed)).text());
      expect(events.at(-1)).toMatchObject({ error: { code: "budget_exceeded" } });
      const used = await spent(ofTokens);
      expect(used).toBe(10 + events.length - 1);
      const ofMoney = await spent(dayBudget(1));
      await fleet.stop();
      return [used, ofMoney];
    };
    const [alone, none] = await usedUnder([ofTokens]);
    expect(none).toBe(0);
    expect(alone).toBeGreaterThan(1_490);
    expect(alone).toBeLessThanOrEqual(1_500);
    const [beside, money] = await usedUnder([dayBudget(100_000), ofTokens]);
    expect(beside).toBeGreaterThan(1_490);
    expect(beside).toBeLessThanOrEqual(1_500);
    expect(money).toBe(beside);
    const [less, paid] = await usedUnder([dayBudget(1_200), ofTokens]);
    expect(less).toBeLessThanOrEqual(1_200);
    expect(less).toBeGreaterThan(1_190);
    expect(paid).toBe(less);
  });

  test("that comes whole is paid in both units, or withheld", async () => {
    const usage = { prompt_tokens: 10, completion_tokens: 2_000, total_tokens: 2_010 };
    const body = { choices: [{ message: { content: "x".repeat(500) } }], usage };
    const askUnder = async (money: number, ofTokens: number) => {
      const scopes = [dayBudget(money), dayBudget(ofTokens, undefined, "tokens")];
      const { post, spent } = await start(answerJson(body), { scopes });
      const answer = await post(CHAT, streamed);
      const text = await answer.text();
      const used = [await spent(scopes[0]!), await spent(scopes[1]!)];
      await fleet.stop();
      return { status: answer.status, text, used };
    };
    expect(await askUnder(100_000, 100_000)).toEqual({ status: 200, text: JSON.stringify(body), used: [2_010, 2_010] });
    for (const [money, ofTokens] of [
      [400, 100_000],
      [100_000, 400],
      [400, 400],
    ] as const) {
      const { status, text, used } = await askUnder(money, ofTokens);
      expect([status, text]).toEqual([429, expect.stringContaining("budget_exceeded")]);
      expect(Math.max(...used)).toBeLessThanOrEqual(400);
    }
  });

  test("that comes instead of a whole answer is cut at its budget, too", async () => {
    const budget = dayBudget(1_500);
    const { post, spent } = await start(tokens(1_000_000), { scopes: [budget] });
    const text = await (await post(CHAT, { ...ask, max_tokens: 100 })).text();
    expect(text).toContain("budget_exceeded");
    expect(await spent(budget)).toBeLessThanOrEqual(1_500);
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
    let begin = () => {};
    let end: (() => void) | undefined;
    const behaviour: Behaviour = (received, outgoing) => {
      const send = tokens(3, 10, () => {
        end = () => outgoing.end(sse("[DONE]"));
      });
      begin = () => send(received, outgoing);
    };
    const { post, store, standIns } = await start(behaviour, { scopes: [budget] });
    const held = async () => (await store.read(claimsOf([budget]))).budgets[0]!.held;
    const answer = post(CHAT, { ...streamed, messages: [{ role: "user", content: "x".repeat(5_000) }] });
    await until(() => standIns[0]!.received.length === 1);
    expect(await held()).toBeGreaterThan(5_000);
    begin();
    const response = await answer;
    const deadlineMs = performance.now() + 5_000;
    while ((await held()) > 300 && performance.now() < deadlineMs)
      await new Promise((resolve) => setImmediate(resolve));
    expect(await held()).toBeLessThan(300);
    // The reservation may shrink before the last token is sent.
    await until(() => end !== undefined);
    end!();
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
    // At the initial estimate of tokens per byte.
    expect(await spent(budget)).toBe(Math.ceil(0.3 * JSON.stringify(body).length));
  });

  test("and a whole answer that its client does not wait for costs what a paid API makes all the same", async () => {
    const costOf = async (isPaid: boolean, fields: object): Promise<number> => {
      const budget = dayBudget(100_000);
      const traits = () => ({ hasContinuousUsage: true, isPaid, maxTokensField: "max_tokens" as const });
      const { post, spent, standIns } = await start(() => {}, { scopes: [budget], policyOptions: { traits } });
      const leaving = new AbortController();
      const asked = post(CHAT, { ...ask, max_tokens: 700, ...fields }, { signal: leaving.signal });
      await until(() => standIns[0]!.received.length === 1);
      leaving.abort();
      await expect(asked).rejects.toThrow();
      const money = await spent(budget);
      await fleet.stop();
      return money;
    };
    const own = await costOf(false, {});
    expect(own).toBeLessThan(100);
    expect((await costOf(true, {})) - own).toBe(100);
    expect(await costOf(true, { stream: true })).toBeLessThan(100);
  });

  test("that its server breaks off while events are held costs what was passed on", async () => {
    const budget = dayBudget(1_000);
    const { post, spent, store } = await start(
      tokens(100_000, 10, (outgoing) => outgoing.destroy()),
      { scopes: [budget] },
    );
    const other = { ...claimsOf([budget]) };
    // Another request holds all the rest, so the stream waits with its unpaid events.
    const amounts = { money: 450, tokens: 0 };
    await store.reserve({ id: "other", claims: other, want: amounts, least: amounts, tokens: 0 });
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

  test("that ends without a report is charged what its texts are", async () => {
    const budget = dayBudget(100_000);
    const behaviour: Behaviour = (_, outgoing) => {
      beginStream(outgoing);
      outgoing.write(sse({ choices: [{ index: 0, delta: { content: "x".repeat(2_000) } }] }));
      outgoing.end(sse("[DONE]"));
    };
    const { post, spent } = await start(behaviour, { scopes: [budget] });
    await (await post(CHAT, streamed)).text();
    expect(await spent(budget)).toBeGreaterThanOrEqual(500);
  });

  test("that comes under another type is charged what its bytes are", async () => {
    const budget = dayBudget(100_000);
    const behaviour: Behaviour = (_, outgoing) => {
      outgoing.writeHead(200, { "Content-Type": "text/plain" });
      outgoing.end(sse({ choices: [{ index: 0, delta: { content: "x".repeat(2_000) } }] }));
    };
    const { post, spent } = await start(behaviour, { scopes: [budget] });
    await (await post(CHAT, streamed)).text();
    expect(await spent(budget)).toBeGreaterThanOrEqual(500);
  });

  test("that comes whole is paid before it is passed on, as it reports or else as its texts are", async () => {
    const reported = { choices: [{ index: 0, message: { content: "x".repeat(500) } }], usage: USAGE };
    const costOf = async (answer: object, hard = 100_000) => {
      const budget = dayBudget(hard);
      const { post, spent, watched } = await start(answerJson(answer), { scopes: [budget] });
      const response = await post(CHAT, streamed);
      const { status } = response;
      const body = (await response.json()) as object;
      await until(() => watched.ended.length === 1);
      const money = await spent(budget);
      await fleet.stop();
      return { status, body, money };
    };
    expect(await costOf(reported)).toEqual({ status: 200, body: reported, money: 2_010 });
    const { usage: _, ...silent } = reported;
    const counted = await costOf(silent);
    expect(counted).toMatchObject({ status: 200, body: silent });
    expect(counted.money).toBeGreaterThanOrEqual(125);
    for (const body of [reported, silent, { content: [{ type: "text", text: "x".repeat(500) }] }]) {
      const refused = await costOf(body, 400);
      expect(refused).toMatchObject({ status: 429, body: { error: { code: "budget_exceeded" } } });
      expect(refused.money).toBeLessThanOrEqual(400);
    }
  });

  test("that comes whole and breaks off is a cut answer", async () => {
    const behaviour: Behaviour = (_, outgoing) => {
      outgoing.writeHead(200, { "Content-Type": "application/json" });
      outgoing.write('{"choices": [', () => outgoing.destroy());
    };
    const { post, watched } = await start(behaviour, { scopes: [dayBudget(100_000)] });
    const answer = post(CHAT, streamed).then((response) => response.text());
    await expect(answer).rejects.toThrow();
    await until(() => watched.ended.length === 1);
    expect(watched.ended).toEqual([{ outcome: "broken", status: 200 }]);
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
