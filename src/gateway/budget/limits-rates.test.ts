/** Limits on requests, tokens and places behind the real proxy. */
import { afterEach, describe, expect, test } from "vitest";
import {
  ask,
  CHAT,
  errorOf,
  keyScope,
  type LimitedFleet,
  type LimitedOptions,
  startLimitedFleet,
  tokens,
  whenSettled,
  whole,
} from "../../../test/helpers/limited-fleet.js";
import { type Behaviour, until } from "../../../test/helpers/stand-in.js";

let fleet: LimitedFleet;
afterEach(() => fleet.stop());

const start = async (behaviour: Behaviour | readonly Behaviour[], options: LimitedOptions) => {
  fleet = await startLimitedFleet(Array.isArray(behaviour) ? behaviour : [behaviour as Behaviour], options);
  return fleet;
};
describe("rates", () => {
  test("are in OpenAI's headers, and a refusal tells when to come back", async () => {
    const limited = keyScope({ requestsPerMinute: 2, tokensPerMinute: 100_000 });
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
    const { post } = await start(whole(30, 12), { scopes: [keyScope({ requestsPerMinute: 2 })] });
    const response = await post("/v1/messages", { ...ask, max_tokens: 5 });
    expect(response.headers.get("anthropic-ratelimit-requests-limit")).toBe("2");
    expect(response.headers.get("anthropic-ratelimit-requests-reset")).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    await post("/v1/messages", ask);
    const refused = await post("/v1/messages", ask);
    expect(((await refused.json()) as { error: object }).error).toMatchObject({ type: "rate_limit_error" });
  });

  test("give back the tokens that an answer did not take", async () => {
    const limited = keyScope({ tokensPerMinute: 1_000 });
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
    const limited = keyScope({ concurrentRequests: 1 });
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

  test("count the tokens of a stream whose client asks for no counts", async () => {
    const { post, standIns } = await start(tokens(5), { scopes: [keyScope({ tokensPerMinute: 1_000 })] });
    const text = await (await post(CHAT, { ...ask, stream: true })).text();
    expect(standIns[0]!.received[0]!.body.stream_options).toEqual({ include_usage: true });
    expect(text).not.toContain("usage");
  });
});
