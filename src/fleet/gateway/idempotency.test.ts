/** Idempotency-Key behind the real proxy. */
import type { ServerResponse } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import {
  arrived,
  type CachedFleetOptions,
  CHAT,
  chat,
  chunks,
  contentOf,
  counting,
  greedy,
  startCachedFleet,
} from "../../../test/helpers/cached-fleet.js";
import { answerJson, type Behaviour, beginStream, type TestFleet, until } from "../../../test/helpers/stand-in.js";
import { MemoryStore } from "../../gateway/cache/memory-store.js";
import { Idempotency } from "../../gateway/idempotency/idempotency.js";

let fleet: TestFleet;
afterEach(() => fleet.stop());

async function start(behaviour: Behaviour, options: CachedFleetOptions = {}) {
  const started = await startCachedFleet(behaviour, options);
  fleet = started.fleet;
  return started;
}

describe("Idempotency-Key", () => {
  function idempotency(fields: Partial<ReturnType<ConstructorParameters<typeof Idempotency>[0]["settings"]>> = {}) {
    return new Idempotency({
      store: new MemoryStore(1 << 20),
      settings: () => ({ ttlMs: 60_000, graceMs: 1000, maxAnswerBytes: 100_000, ...fields }),
      hasOwnKeys: () => true,
    });
  }
  const sampled = { ...greedy, temperature: 1 };
  const keyed = (key: string) => ({ "idempotency-key": key });

  test("a request that is sent again gets the first one's bytes, id included; another body is refused", async () => {
    for (const stream of [false, true]) {
      const { ask, numAsked } = await start(counting(), { before: [idempotency()] });
      const body = { ...sampled, stream };
      const first = await ask(body, keyed("k"));
      const second = await ask({ stream, ...sampled }, keyed("k"));
      expect([second.text, second.headers.get("idempotent-replayed"), numAsked()]).toEqual([first.text, "true", 1]);
      expect(first.headers.get("idempotent-replayed")).toBeNull();
      const third = await ask({ ...body, user: "x" }, keyed("k"));
      expect([third.status, JSON.parse(third.text).error.code, numAsked()]).toEqual([409, "idempotency_conflict", 1]);
      expect((await ask(body, keyed("other"))).text).not.toBe(first.text);
      expect((await ask(body, { ...keyed("k"), authorization: "another tenant" })).text).not.toBe(first.text);
      expect((await ask(body)).text).not.toBe(first.text);
      await fleet.stop();
    }
  });

  test("a request is the same however its numbers are written", async () => {
    const { numAsked } = await start(counting(), { before: [idempotency()] });
    const send = async (number: string) => {
      const schema = `{"type": "integer", "minimum": ${number}}`;
      const body = `{"model": "m", "messages": [], "temperature": ${number}, "response_format": {"schema": ${schema}}}`;
      const headers = { ...keyed("k"), "content-type": "application/json" };
      const answer = await fetch(`${fleet.proxy.url}/v1/chat/completions`, { method: "POST", headers, body });
      return [answer.status, await answer.text()];
    };
    const first = await send("1");
    for (const number of ["1.0", "1e0", "1.00E+0"]) expect(await send(number)).toEqual(first);
    expect([first[0], numAsked(), (await send("2"))[0]]).toEqual([200, 1, 409]);
  });

  test("a second request joins the running one; another body is refused at once", async () => {
    const answers: ServerResponse[] = [];
    const { ask } = await start((_, outgoing) => void answers.push(outgoing), { before: [idempotency()] });
    const both = [ask(sampled, keyed("k")), ask(sampled, keyed("k"))];
    await until(() => answers.length === 1);
    await arrived(fleet, 2);
    expect((await ask({ ...sampled, n: 2 }, keyed("k"))).status).toBe(409);
    answerJson(chat("a"))({} as never, answers[0]!);
    const [first, second] = await Promise.all(both);
    expect([first!.text, answers.length]).toEqual([second!.text, 1]);
    expect([first, second].map((each) => each!.headers.get("idempotent-replayed")).sort()).toEqual(
      [null, "true"].sort(),
    );
  });

  test("after a lost connection the answer is made on for a while, and the retry gets all of it", async () => {
    const answers: ServerResponse[] = [];
    const { post, ask, standIn } = await start((_, outgoing) => void answers.push(outgoing), {
      before: [idempotency()],
    });
    const leaving = new AbortController();
    const body = { ...sampled, stream: true };
    const first = post(CHAT, body, { headers: keyed("k"), signal: leaving.signal });
    await until(() => answers.length === 1);
    beginStream(answers[0]!);
    answers[0]!.write(chunks("a")[0]!);
    await first;
    leaving.abort();
    await new Promise((resolve) => setTimeout(resolve, 30));
    const second = ask(body, keyed("k"));
    await arrived(fleet, 2);
    answers[0]!.end(chunks("b").join(""));
    expect([contentOf((await second).text), standIn.numCut, answers.length]).toEqual(["ab", 0, 1]);
  });

  test("nobody comes back: the instance is told after the grace", async () => {
    const { post, standIn } = await start(() => {}, { before: [idempotency({ graceMs: 20 })] });
    const leaving = new AbortController();
    const first = post(CHAT, sampled, { headers: keyed("k"), signal: leaving.signal }).catch(() => {});
    await until(() => standIn.received.length === 1);
    leaving.abort();
    await first;
    await until(() => standIn.numCut === 1);
  });

  test("errors are not kept: the next request is made anew", async () => {
    let status = 500;
    const { ask, numAsked } = await start((_, outgoing) => answerJson(chat("a"), status)({} as never, outgoing), {
      before: [idempotency()],
    });
    expect((await ask(sampled, keyed("k"))).status).toBe(500);
    status = 200;
    expect([(await ask(sampled, keyed("k"))).status, (await ask(sampled, keyed("k"))).status, numAsked()]).toEqual([
      200, 200, 2,
    ]);
  });

  test("a key that is none is refused", async () => {
    const { ask } = await start(counting(), { before: [idempotency()] });
    for (const key of ["", "a".repeat(256)]) expect((await ask(sampled, keyed(key))).status, key).toBe(400);
  });
});
