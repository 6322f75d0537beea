/** The exact cache behind the real proxy, in front of servers with scripted behaviour. */
import type { ServerResponse } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import {
  arrived,
  type CachedFleetOptions,
  CHAT,
  CREATED,
  chat,
  chunks,
  contentOf,
  counting,
  greedy,
  startCachedFleet,
} from "../../../test/helpers/cached-fleet.js";
import { answerJson, type Behaviour, beginStream, sse, type TestFleet, until } from "../../../test/helpers/stand-in.js";
import type { Policy } from "../../gateway/pipeline.js";
import { withModel } from "../../gateway/request.js";

let fleet: TestFleet;
afterEach(() => fleet.stop());

async function start(behaviour: Behaviour, options: CachedFleetOptions = {}) {
  const started = await startCachedFleet(behaviour, options);
  fleet = started.fleet;
  return started;
}

describe("kept answers", () => {
  test("an equal request gets the same bytes but for id and time, whole and streamed, each with headers that say so", async () => {
    for (const stream of [false, true]) {
      const { ask, numAsked, results } = await start(counting());
      const first = await ask({ ...greedy, stream });
      const second = await ask({ stream, ...greedy, user: "somebody" });
      expect([first.cache, second.cache, numAsked()]).toEqual(["miss", "hit", 1]);
      expect(second.headers.get("x-millrace-cache-age")).toBe("0");
      expect(second.headers.get("content-type")).toBe(first.headers.get("content-type"));
      const idOf = (text: string) => /"id":"(chatcmpl-[^"]+)"/.exec(text)![1]!;
      const createdOf = (text: string) => /"created":(\d+)/.exec(text)![1]!;
      expect(idOf(second.text)).not.toBe(idOf(first.text));
      expect(Number(createdOf(second.text))).toBeGreaterThan(CREATED);
      const renamed = second.text
        .replaceAll(idOf(second.text), idOf(first.text))
        .replaceAll(createdOf(second.text), createdOf(first.text));
      expect(renamed).toBe(first.text);
      expect(results).toEqual(["miss", stream ? "hit" : "hit 5+2"]);
      await fleet.stop();
    }
  });

  test("requests are counted by how they ended, with the tokens that hits saved", async () => {
    const { ask, cache } = await start(counting(), { now: () => 1_700_000_000_000 });
    expect((await cache.stats()).models).toEqual([]);
    for (let i = 0; i < 3; i++) await ask();
    await ask({ ...greedy, n: 2, temperature: 1 }, { "cache-control": "no-store" });
    const { models, countedSince } = await cache.stats();
    const counts = { hit: 2, joined: 0, miss: 1, stale: 0, bypass: 1, savedPromptTokens: 10, savedOutputTokens: 4 };
    expect(models).toEqual([{ model: "m", ...counts }]);
    expect(countedSince).toBe("2023-11-14T22:13:20.000Z");
  });

  test("whole and streamed answers lie apart", async () => {
    const { ask, numAsked } = await start(counting());
    expect([(await ask()).cache, (await ask({ ...greedy, stream: true })).cache, numAsked()]).toEqual([
      "miss",
      "miss",
      2,
    ]);
  });

  test("tenants never share, unless the operator says so", async () => {
    for (const sharedAs of [undefined, "all"]) {
      const { ask } = await start(counting(), { cache: { sharedAs } });
      const asked = ["a", "b", "a"].map((authorization) => () => ask(greedy, { authorization }));
      const answers = [];
      for (const each of asked) answers.push(await each());
      expect(answers.map(({ cache }) => cache)).toEqual(
        sharedAs === undefined ? ["miss", "miss", "hit"] : ["miss", "hit", "hit"],
      );
      await fleet.stop();
    }
  });

  test("where the upstream checks the keys, other keys are other clients", async () => {
    const options = { proxy: { authorize: () => ({ tenant: "" }) } };
    const { ask, cache } = await start(counting(), options);
    Object.assign((cache as unknown as { options: object }).options, { hasOwnKeys: () => false });
    const caches = [];
    for (const authorization of ["Bearer a", "Bearer b", "Bearer a"])
      caches.push((await ask(greedy, { authorization })).cache);
    expect(caches).toEqual(["miss", "miss", "hit"]);
  });

  test("another version of the model, or one that is not known, gets new answers", async () => {
    let version: string | undefined = "1";
    const { ask } = await start(counting(), { version: () => version });
    await ask();
    version = "2";
    expect((await ask()).cache).toBe("miss");
    version = undefined;
    expect((await ask()).cache).toBe("bypass");
    version = "2";
    expect((await ask()).cache).toBe("hit");
  });

  test("a version that changes while the answer is made: it is not kept", async () => {
    let version = "1";
    const { ask } = await start(
      (_, outgoing) => {
        version = version === "1" ? "2" : "1";
        answerJson(chat("a"))({} as never, outgoing);
      },
      { version: () => version },
    );
    await ask();
    version = "1";
    expect((await ask()).cache).toBe("miss");
  });

  test.each<[string, Behaviour]>([
    ["errors", answerJson({ error: { message: "no" } }, 400)],
    ["errors with status 200", answerJson({ error: { message: "no" } })],
    ["answers that are no chat", answerJson({ ok: true })],
    ["aborted answers", answerJson(chat("a", { choices: [{ finish_reason: "abort" }] }))],
    ["text that is no JSON", (_, outgoing) => void outgoing.end("{")],
    [
      "a broken answer",
      (_, outgoing) => void outgoing.writeHead(200, { "Content-Length": 9 }).write("{}", () => outgoing.destroy()),
    ],
    ["too long an answer", answerJson(chat("a".repeat(100_001)))],
  ])("%s are not kept", async (_, behaviour) => {
    const { ask, cache } = await start(behaviour);
    await ask().catch(() => {});
    expect(await cache.stats()).toMatchObject({ entries: 0, running: 0 });
  });

  test.each<[string, (outgoing: ServerResponse) => void]>([
    ["without [DONE]", (outgoing) => void outgoing.end(chunks("ab").slice(0, -1).join(""))],
    ["with an error", (outgoing) => void outgoing.end(sse({ error: { message: "no" } }) + chunks("ab").join(""))],
    ["without a reason to end", (outgoing) => void outgoing.end(chunks("ab")[0]! + sse("[DONE]"))],
    ["cut", (outgoing) => void outgoing.write(chunks("ab").join(""), () => outgoing.destroy())],
  ])("streams %s are not kept", async (_, finish) => {
    const { ask, cache } = await start((_received, outgoing) => {
      beginStream(outgoing);
      finish(outgoing);
    });
    await ask({ ...greedy, stream: true }).catch(() => {});
    expect(await cache.stats()).toMatchObject({ entries: 0, running: 0 });
  });

  test("sampled answers, other paths and other models pass by", async () => {
    const { ask, results } = await start(counting());
    expect((await ask({ ...greedy, temperature: 1 })).cache).toBe("bypass");
    expect((await ask({ ...greedy, temperature: 1, seed: 3 })).cache).toBe("miss");
    expect((await ask({ model: "m", prompt: "a" }, {}, "/tokenize")).cache).toBeNull();
    expect(results).toEqual(["bypass", "miss"]);
  });

  test("cache-control of requests", async () => {
    let nowMs = Date.now();
    const { ask, numAsked } = await start(counting(), { now: () => nowMs });
    const control = (value: string) => ask(greedy, { "cache-control": value });
    const only = await control("only-if-cached");
    expect([only.status, JSON.parse(only.text).error.code, only.headers.get("x-should-retry")]).toEqual([
      504,
      "not_cached",
      "false",
    ]);
    expect((await control("no-store")).cache).toBe("bypass");
    expect((await ask()).cache).toBe("miss");
    const text = contentOf((await ask()).text);
    expect(contentOf((await control("only-if-cached")).text)).toBe(text);
    nowMs += 10_000;
    const aged = await control("max-age=10");
    expect([aged.cache, aged.headers.get("x-millrace-cache-age")]).toEqual(["hit", "10"]);
    expect((await control("max-age=9, only-if-cached")).status).toBe(504);
    const renewed = await control("max-age=9");
    expect([renewed.cache, contentOf(renewed.text) === text]).toEqual(["stale", false]);
    const fresh = await control("no-cache");
    expect([fresh.cache, numAsked()]).toEqual(["miss", 4]);
    expect(contentOf((await ask()).text)).toBe(contentOf(fresh.text));
    nowMs += 60_000;
    expect((await ask()).cache).toBe("miss");
  });

  test("an answer that another model gave is not kept as the model's own", async () => {
    const toOther: Policy = { name: "other", handle: (request, sink, next) => next(withModel(request, "n"), sink) };
    const { ask, cache } = await start(counting(), { behind: [toOther], proxy: { virtualModels: () => ["m"] } });
    fleet.pool.change("a", { model: "n" });
    expect(await ask()).toMatchObject({ status: 200, cache: "miss" });
    expect(await cache.stats()).toMatchObject({ entries: 0 });
  });

  test("purged answers are gone, also those that were being made", async () => {
    let finish = () => {};
    const { ask, cache, numAsked } = await start((_, outgoing) => {
      finish = () => answerJson(chat("a"))({} as never, outgoing);
      if (numAsked() === 1) finish();
    });
    await ask(greedy, { "x-millrace-cache-tag": "doc:1" });
    expect(await cache.purge({ tagPrefix: "doc:" })).toBe(1);
    const second = ask();
    await until(() => numAsked() === 2);
    await cache.purge({});
    finish();
    expect((await second).cache).toBe("miss");
    expect(await cache.stats()).toMatchObject({ entries: 0 });
    expect((await ask(greedy, { "x-millrace-cache-tag": "no tag" })).status).toBe(400);
  });

  test("at its original pace, a kept stream takes the time that it took", async () => {
    const [beginning, ...rest] = chunks("abc");
    let end = () => {};
    const behaviour: Behaviour = (_, outgoing) => {
      beginStream(outgoing);
      outgoing.write(beginning!);
      end = () => outgoing.end(rest.join(""));
    };
    for (const pace of ["original", "none"] as const) {
      const { ask } = await start(behaviour, { cache: { pace } });
      const body = { ...greedy, stream: true };
      const made = await fleet.post(CHAT, body);
      const [counted, read] = made.body!.tee();
      // The pause begins once the gateway has passed the answer's beginning, however late that is.
      await counted.getReader().read();
      setTimeout(end, 120);
      const first = { text: await new Response(read).text() };
      const tookMs: number[] = [];
      // Other programs may delay one of them.
      for (let i = 0; i < 5; i++) {
        const beginMs = performance.now();
        const hit = await ask(body);
        tookMs.push(performance.now() - beginMs);
        expect([hit.cache, contentOf(hit.text)]).toEqual(["hit", contentOf(first.text)]);
      }
      if (pace === "original") expect(Math.min(...tookMs)).toBeGreaterThan(100);
      else expect(Math.min(...tookMs)).toBeLessThan(100);
      await fleet.stop();
    }
  });

  test("a long kept stream reaches a slow client whole", async () => {
    const behaviour: Behaviour = (_, outgoing) => {
      beginStream(outgoing);
      outgoing.end(chunks("é".repeat(15_000)).join(""));
    };
    const { ask } = await start(behaviour, { cache: { maxAnswerBytes: 1 << 24 } });
    const body = { ...greedy, stream: true };
    const first = contentOf((await ask(body)).text);
    const { post } = fleet;
    const response = await post(CHAT, body);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect([response.headers.get("x-millrace-cache"), contentOf(await response.text())]).toEqual(["hit", first]);
  });
});

describe("equal requests under way", () => {
  const stream = { ...greedy, stream: true };

  /** Holds the answer back until the test releases it. */
  async function held(options: CachedFleetOptions = {}) {
    const answers: ServerResponse[] = [];
    const started = await start((_, outgoing) => void answers.push(outgoing), options);
    return {
      ...started,
      answers,
      /** Waits until the gateway asks for the n-th answer, then begins it. */
      begin: async (n: number) => {
        await until(() => answers.length === n);
        beginStream(answers[n - 1]!);
        answers[n - 1]!.write(chunks("a")[0]!);
        return answers[n - 1]!;
      },
    };
  }
  const rest = () => chunks("b").join("");

  test("share one run; each has an id of its own", async () => {
    const { ask, begin, numAsked, results } = await held();
    const asked = Array.from({ length: 5 }, () => ask(stream));
    const answer = await begin(1);
    asked.push(ask(stream));
    await arrived(fleet, 6);
    answer.end(rest());
    const all = await Promise.all(asked);
    expect(all.map(({ text }) => contentOf(text))).toEqual(Array(6).fill("ab"));
    expect(new Set(all.map(({ text }) => /"id":"([^"]+)"/.exec(text)![1])).size).toBe(6);
    expect(all.map(({ cache }) => cache).sort()).toEqual(["hit", "hit", "hit", "hit", "hit", "miss"]);
    expect(numAsked()).toBe(1);
    expect(results.filter((result) => result === "joined")).toHaveLength(5);
  });

  test("the first may leave, and the others get the rest", async () => {
    const { post, ask, begin, standIn } = await held();
    const leaving = new AbortController();
    const first = post(CHAT, stream, { signal: leaving.signal });
    const answer = await begin(1);
    const reader = (await first).body!.getReader();
    await reader.read();
    const second = ask(stream);
    await arrived(fleet, 2);
    leaving.abort();
    await reader.read().catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 20));
    answer.end(rest());
    expect([contentOf((await second).text), standIn.numCut]).toEqual(["ab", 0]);
  });

  test("all may leave, and then the instance stops", async () => {
    const { post, begin, standIn, cache } = await held();
    const leaving = new AbortController();
    const both = [1, 2].map(() => post(CHAT, stream, { signal: leaving.signal }).then((response) => response.text()));
    await begin(1);
    await arrived(fleet, 2);
    leaving.abort();
    await Promise.allSettled(both);
    await until(() => standIn.numCut === 1);
    expect(await cache.stats()).toMatchObject({ running: 0, entries: 0 });
  });

  test("where the first fails before a byte, another takes over; after two failures each goes its own way", async () => {
    const { ask, answers, numAsked } = await held({ limits: { maxAttempts: 1 } });
    const asked = Array.from({ length: 4 }, () => ask(stream));
    await arrived(fleet, 4);
    for (const n of [1, 2]) {
      await until(() => answers.length === n);
      answers[n - 1]!.writeHead(500).end("{}");
    }
    await until(() => answers.length === 4);
    for (const answer of answers.slice(2)) {
      beginStream(answer);
      answer.end(chunks("c").join(""));
    }
    const all = await Promise.all(asked);
    expect(all.map(({ status }) => status).sort()).toEqual([200, 200, 500, 500]);
    expect(numAsked()).toBe(4);
  });

  test("other time limits are other runs", async () => {
    const { ask, answers } = await held();
    const both = [ask({ ...greedy, timeout: 5 }), ask({ ...greedy, timeout: 6 })];
    await until(() => answers.length === 2);
    for (const answer of answers) answerJson(chat("a"))({} as never, answer);
    expect((await Promise.all(both)).map(({ cache }) => cache)).toEqual(["miss", "miss"]);
    expect((await ask({ ...greedy, timeout: 7 })).cache).toBe("hit");
  });
});
