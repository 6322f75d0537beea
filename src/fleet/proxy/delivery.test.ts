/** The path of a request whose instance falls silent, returns, or is slow, on stand-ins whose health the test sets. */
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  answerJson,
  type Behaviour,
  beginStream,
  type FleetOptions,
  passWhenAsked,
  sse,
  startFleet,
  type TestFleet,
  until,
} from "../../../test/helpers/stand-in.js";
import { DEFAULT_ROUTING } from "../routing/router.js";
import { FROM_AFAR_HEADER } from "./request-terms.js";

let fleet: TestFleet;
afterEach(() => {
  vi.useRealTimers();
  return fleet.stop();
});

const start = async (behaviours: readonly Behaviour[], options?: FleetOptions) => {
  fleet = await startFleet(behaviours, options);
  return fleet;
};
const request = { model: "m", messages: [] };
const chat = "/v1/chat/completions";
const ok = answerJson({ ok: true });
const never: Behaviour = () => {};
const onlyHeaders: Behaviour = (_, outgoing) => {
  beginStream(outgoing);
  outgoing.flushHeaders();
};
const halfAnEvent: Behaviour = (_, outgoing) => {
  beginStream(outgoing);
  outgoing.write("data: {");
};
const suspect = { state: "suspect", isComing: true } as const;
const well = { state: "ready", isComing: false } as const;
const isWhole = async (response: Promise<Response>) =>
  expect(await (await response).json()).toMatchObject({ ok: true });
const codeOf = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string } };
  return [response.status, error.code];
};

describe("an instance that stops responding", () => {
  test.each([
    ["nothing at all", never],
    ["headers", onlyHeaders],
    ["half an event", halfAnEvent],
  ])("loses a request after sending %s", async (_, behaviour) => {
    const { post, pool, proxy, standIns, watched } = await start([behaviour, ok]);
    const response = post(chat, request);
    await until(() => standIns[0]!.received.length === 1);
    pool.change("a", suspect);
    await isWhole(response);
    await until(() => standIns[0]!.numCut === 1);
    expect([watched.routed, watched.retried]).toEqual([["a", "b"], ["a"]]);
    expect(proxy.numInFlight("a")).toBe(0);
    // Its health is known already, and one silence is one failure for all its requests.
    expect(pool.failures).toEqual([]);
    expect(proxy.breakerState("a")).toBe("closed");
  });

  test("keeps a stream that it has begun", async () => {
    let go = () => {};
    const stalls: Behaviour = (_, outgoing) => {
      beginStream(outgoing);
      outgoing.write(sse({ n: 1 }));
      go = () => outgoing.end(sse("[DONE]"));
    };
    const { post, pool, standIns } = await start([stalls, ok]);
    const response = await post(chat, request);
    pool.change("a", suspect);
    pool.change("a", { state: "failed" });
    go();
    expect(await response.text()).toBe(sse({ n: 1 }) + sse("[DONE]"));
    expect(standIns[1]!.received).toEqual([]);
  });

  test("keeps its requests and may still answer them while there is no other instance; they move when one becomes ready", async () => {
    const { post, pool, standIns } = await start([never, ok]);
    pool.change("b", { state: "starting", isComing: true });
    const stays = post(chat, request);
    const goes = post(chat, request);
    await until(() => standIns[0]!.received.length === 2);
    pool.change("a", suspect);
    pool.change("a", well);
    pool.change("a", { state: "failed", isComing: true });
    expect(standIns[0]!.numCut).toBe(0);
    pool.change("b", well);
    await Promise.all([isWhole(stays), isWhole(goes)]);
    expect(standIns[1]!.received).toHaveLength(2);
  });

  test("loses a request only within max-attempts", async () => {
    const { post, pool, standIns, watched } = await start([never, never, ok], { limits: { maxAttempts: 2 } });
    pool.change("c", { state: "stopped" });
    post(chat, request).catch(() => {});
    await until(() => standIns[0]!.received.length === 1);
    pool.change("a", suspect);
    await until(() => standIns[1]!.received.length === 1);
    pool.change("c", well);
    pool.change("b", suspect);
    // The instance of this answer has seen the change.
    await isWhole(post(chat, request));
    expect(standIns[1]!.numCut).toBe(0);
    expect(watched.routed).toEqual(["a", "b", "c"]);
  });

  test("may get the request again when it has recovered and the others are busy", async () => {
    const capacity = { seats: 1, kvTokens: undefined, blockSize: undefined };
    let numRequests = 0;
    const second: Behaviour = (...exchange) => (numRequests++ === 0 ? never : ok)(...exchange);
    const { post, pool, proxy, standIns } = await start([second, never], { upstream: { capacity } });
    const response = post(chat, request);
    post(chat, request).catch(() => {});
    await until(() => standIns.every(({ received }) => received.length === 1));
    pool.change("a", suspect);
    await until(() => proxy.numWaiting("m") === 1);
    pool.change("a", well);
    await isWhole(response);
  });
});

describe("a retry", () => {
  test("waits for the only instance during its restart, but not for a dead port", async () => {
    const { post, pool, standIns, watched } = await start([ok]);
    const { url } = standIns[0]!;
    const target = (to: string) => ({ url: to, apiKey: undefined, modelName: undefined });
    // No server listens there.
    pool.change("a", { target: target("http://127.0.0.1:9") });
    pool.onReport = async () => pool.change("a", { state: "failed", isComing: true });
    const response = post(chat, request);
    await until(() => pool.failures.length === 1);
    pool.change("a", { state: "starting" });
    pool.change("a", { ...well, starts: 2, target: target(url) });
    await isWhole(response);
    expect(watched.routed).toEqual(["a", "a"]);
  });

  test("goes to the process that replaces the crashed one if the other instance is busy", async () => {
    const capacity = { seats: 4, kvTokens: undefined, blockSize: undefined };
    const { post, pool, proxy, standIns } = await start([never, never, ok], { upstream: { capacity } });
    pool.change("c", { state: "stopped" });
    const responses = Array.from({ length: 8 }, () => post(chat, request).catch(() => undefined));
    await until(() => standIns.slice(0, 2).every(({ received }) => received.length === 4));
    pool.onReport = async () => pool.change("a", { state: "failed", isComing: true });
    await standIns[0]!.die();
    await until(() => proxy.numWaiting("m") === 4);
    const target = { url: standIns[2]!.url, apiKey: undefined, modelName: undefined };
    pool.change("a", { ...well, starts: 2, target });
    await until(() => standIns[2]!.received.length === 4);
    expect(proxy.numWaiting("m")).toBe(0);
    await standIns[1]!.die();
    const statuses = (await Promise.all(responses)).map((response) => response?.status);
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(4);
  });

  test("fails at once if that instance will not come back", async () => {
    const { post, pool, standIns } = await start([ok]);
    await standIns[0]!.die();
    pool.onReport = async () => pool.change("a", { state: "failed" });
    expect(await codeOf(await post(chat, request))).toEqual([502, "upstream_failed"]);
  });

  test("fails at once if the others are in another region, and the request has come from one", async () => {
    const busy: Behaviour = (_, outgoing) => void outgoing.writeHead(503).end();
    const { post, pool, standIns } = await start([busy, ok], { limits: { maxWaitMs: 3000 } });
    const [, far] = pool.upstreams("m");
    pool.change("b", { target: { ...far!.target!, distance: 1 } });
    expect((await post(chat, request, { headers: { [FROM_AFAR_HEADER]: "1" } })).status).toBe(503);
    expect(standIns[1]!.received).toEqual([]);
    await isWhole(post(chat, request));
  });

  test("ends while waiting when its client leaves", async () => {
    const { post, pool, standIns, proxy, watched } = await start([ok]);
    await standIns[0]!.die();
    pool.onReport = async () => pool.change("a", { state: "failed", isComing: true });
    const leaving = new AbortController();
    post(chat, request, { signal: leaving.signal }).catch(() => {});
    await until(() => proxy.numWaiting("m") === 1);
    leaving.abort();
    await until(() => watched.ended.length === 1);
    expect([watched.ended[0]!.outcome, proxy.numWaiting("m")]).toEqual(["cancelled", 0]);
  });

  test("goes to another instance after a first-byte timeout", async () => {
    const { post, pool, standIns, watched } = await start([never, ok], { timeouts: { firstByteMs: 30 } });
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const response = post(chat, request);
    await passWhenAsked(standIns[0]!, 30);
    await isWhole(response);
    expect([watched.retried, pool.failures]).toEqual([["a"], ["a"]]);
  });
});

describe("with hedge-after: auto", () => {
  const auto: FleetOptions = {
    proxy: { routing: () => ({ ...DEFAULT_ROUTING, policy: "round-robin", hedgeAfterMs: "auto" }) },
  };
  const body = { model: "m", messages: [], stream: true };

  test("nothing is sent twice until first bytes have been measured, and then what is slow", async () => {
    const { post, standIns, watched } = await start([ok, ok], auto);
    for (let i = 0; i < 40; i++) await post("/v1/chat/completions", body);
    expect(watched.hedged).toEqual([]);
    standIns[0]!.behave = () => {};
    const responses = await Promise.all([post("/v1/chat/completions", body), post("/v1/chat/completions", body)]);
    expect(responses.map(({ status }) => status)).toEqual([200, 200]);
    // On a busy machine, the other may be slow too.
    expect(watched.hedged).toContain("b");
  });

  test("busy instances end it", async () => {
    const held: Behaviour = (received, outgoing) => {
      if (received.body.user !== "held") ok(received, outgoing);
    };
    const { post, proxy, standIns, watched, pool } = await start([held, held], auto);
    for (const id of ["a", "b"]) pool.change(id, { capacity: { seats: 4, kvTokens: undefined, blockSize: undefined } });
    // Three of four seats are taken before anything has been measured, and stay so.
    const leaving = new AbortController();
    const init = { signal: leaving.signal };
    for (let i = 0; i < 6; i++) post("/v1/chat/completions", { ...body, user: "held" }, init).catch(() => {});
    await until(() => ["a", "b"].every((id) => proxy.numInFlight(id) === 3));
    for (let i = 0; i < 40; i++) await post("/v1/chat/completions", body);
    for (const standIn of standIns) {
      standIn.behave = (...exchange) => void setTimeout(() => answerJson({ late: true })(...exchange), 500);
    }
    // The other instance has a seat for it.
    await post("/v1/chat/completions", body);
    expect(watched.hedged).toEqual([]);
    leaving.abort();
  });
});

describe("with hedge-after", () => {
  const hedged = (hedgeAfterMs: number): FleetOptions => ({
    upstream: { engine: "millrace" },
    proxy: { routing: () => ({ ...DEFAULT_ROUTING, policy: "round-robin", hedgeAfterMs }) },
  });

  test("a slow request also goes to a second instance with the same seed; the first answer wins, and the other is cancelled", async () => {
    const { post, proxy, standIns, watched } = await start([never, ok], hedged(20));
    await isWhole(post(chat, request));
    await until(() => standIns[0]!.numCut === 1);
    const [first, second] = standIns.map(({ received }) => received[0]?.body);
    expect(first).toEqual(second);
    expect(first!.seed).toEqual(expect.any(Number));
    expect([watched.hedged, watched.routed, watched.retried]).toEqual([["b"], ["a", "b"], []]);
    expect(watched.ended).toEqual([{ outcome: "answered", status: 200 }]);
    await until(() => ["a", "b"].every((id) => proxy.numInFlight(id) === 0));
    expect(proxy.breakerState("a")).toBe("closed");
  });

  test("the first instance may still win, and the second one's answer is discarded", async () => {
    let answer = () => {};
    const slow: Behaviour = (received, outgoing) => {
      answer = () => ok(received, outgoing);
    };
    for (const behaviour of [never, answerJson({ error: "busy" }, 503)]) {
      const { post, standIns, proxy } = await start([slow, behaviour], hedged(20));
      const response = post(chat, request);
      await until(() => standIns[1]!.received.length === 1 && (behaviour === never || proxy.numInFlight("b") === 0));
      answer();
      await isWhole(response);
      await until(() => proxy.numInFlight("b") === 0);
      await fleet.stop();
    }
  });

  test("a second instance that cannot be asked this leaves the first one its request", async () => {
    let answer = () => {};
    const slow: Behaviour = (received, outgoing) => {
      answer = () => ok(received, outgoing);
    };
    const options = hedged(20);
    const authorize = () => ({ tenant: "t", cacheScope: "s" });
    const fields = { ...options, proxy: { ...options.proxy, authorize } };
    const { post, pool, proxy, standIns, watched } = await start([slow, ok], fields);
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const response = post(chat, request);
    // On a busy machine, the second instance would otherwise be asked before it changes.
    await passWhenAsked(standIns[0]!, 0);
    // A reload put an engine there that cannot keep tenants apart.
    pool.change("b", { engine: "openai" });
    await vi.advanceTimersByTimeAsync(20);
    expect(watched.hedged).toEqual(["b"]);
    answer();
    await isWhole(response);
    expect([standIns[1]!.received, proxy.numInFlight("b")]).toEqual([[], 0]);
  });

  test("both attempts are cancelled when the client leaves", async () => {
    const { post, standIns, watched, proxy } = await start([never, never], hedged(20));
    const leaving = new AbortController();
    post(chat, request, { signal: leaving.signal }).catch(() => {});
    await until(() => standIns[1]!.received.length === 1);
    leaving.abort();
    await until(() => standIns.every(({ numCut }) => numCut === 1));
    await until(() => watched.ended.length === 1);
    expect(["a", "b"].map((id) => proxy.numInFlight(id))).toEqual([0, 0]);
  });

  test("max-attempts counts the second instance, too", async () => {
    const late: Behaviour = (received, outgoing) => void setTimeout(() => ok(received, outgoing), 50);
    const { post, watched } = await start([late, late], { ...hedged(1), limits: { maxAttempts: 1 } });
    await isWhole(post(chat, request));
    expect([watched.hedged, watched.routed]).toEqual([[], ["a"]]);
  });

  test("a request to a path with possible side effects is sent once", async () => {
    const late: Behaviour = (received, outgoing) => void setTimeout(() => ok(received, outgoing), 50);
    const { post, standIns, watched } = await start([late, late], hedged(1));
    await isWhole(post("/v1/responses", request));
    await isWhole(post("/v1/anything", request));
    expect(watched.hedged).toEqual([]);
    expect(standIns.map(({ received }) => received.length)).toEqual([1, 1]);
  });

  test("a stream that has begun is not repeated", async () => {
    let end = () => {};
    const slow: Behaviour = (_, outgoing) => {
      beginStream(outgoing);
      outgoing.write(sse({ n: 1 }));
      end = () => outgoing.end(sse("[DONE]"));
    };
    const { post, watched } = await start([slow, slow], hedged(2000));
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const response = await post(chat, request);
    const [begun, whole] = response.body!.tee();
    await begun.getReader().read();
    await vi.advanceTimersByTimeAsync(2100);
    end();
    expect(await new Response(whole).text()).toBe(sse({ n: 1 }) + sse("[DONE]"));
    expect(watched.hedged).toEqual([]);
  });
});
