/**
 * All faults at once, random from a seed: with any behaviour of instances and clients, answers are complete or say that
 * they are not, and nothing leaks.
 */
import { afterEach, expect, test } from "vitest";
import { cases } from "../../../test/helpers/long.js";
import { TestRng } from "../../../test/helpers/rng.js";
import { type Behaviour, beginStream, sse, startFleet, type TestFleet, until } from "../../../test/helpers/stand-in.js";
import { DEFAULT_ROUTING } from "../routing/router.js";

const NUM_CLIENTS = 24;
const REQUESTS_EACH = 20;
const NUM_EVENTS = 6;
const NUM_PREFIXES = 7;

let fleet: TestFleet;
afterEach(() => fleet.stop());

const answerOf = (prompt: unknown): string =>
  Array.from({ length: NUM_EVENTS }, (_, i) => sse({ prompt, i })).join("") + sse("[DONE]");

/** Answers most requests, in pieces cut anywhere, and fails the others in one of many ways. */
function moody(rng: TestRng): Behaviour {
  return ({ body }, outgoing) => {
    const answer = Buffer.from(answerOf(body.prompt));
    const mood = rng.next();
    if (mood < 0.06) outgoing.destroy();
    else if (mood < 0.12) outgoing.writeHead(503).end("{}");
    else if (mood < 0.18) outgoing.writeHead(429, { "Retry-After": "1" }).end("{}");
    else if (mood < 0.21) outgoing.socket!.end("nonsense\r\n\r\n");
    else {
      beginStream(outgoing);
      const stop = mood < 0.3 ? rng.int(0, answer.length - 1) : answer.length;
      let start = 0;
      const step = () => {
        const end = Math.min(stop, start + rng.int(1, 80));
        if (end > start) outgoing.write(answer.subarray(start, end));
        start = end;
        if (start < stop) setImmediate(step);
        else if (stop < answer.length) outgoing.destroy();
        else outgoing.end();
      };
      step();
    }
  };
}

type Seen = "whole" | "error" | "cut" | "left";

/** Throws if the client's answer is neither complete nor a proper error. */
async function ask(rng: TestRng): Promise<Seen> {
  const prompt = `${`prefix ${rng.int(1, NUM_PREFIXES)} `.repeat(40)}${rng.int(0, 1e9)}`;
  const leaving = new AbortController();
  if (rng.chance(0.15)) setTimeout(() => leaving.abort(), rng.int(0, 10));
  try {
    const body = { model: "m", prompt, priority: rng.int(0, 2), stream: true };
    const response = await fleet.post("/v1/completions", body, { signal: leaving.signal });
    const text = await response.text();
    if (response.status !== 200) {
      expect([429, 502, 503]).toContain(response.status);
      JSON.parse(text);
      return "error";
    }
    const whole = answerOf(prompt);
    if (text === whole) return "whole";
    const events = text.split(/(?<=\n\n)/);
    expect(JSON.parse(events.at(-1)!.slice("data: ".length))).toMatchObject({ error: { code: "upstream_failed" } });
    expect(whole.startsWith(events.slice(0, -1).join(""))).toBe(true);
    expect(events.length).toBeGreaterThan(1);
    return "cut";
  } catch (thrown) {
    if (!leaving.signal.aborted) throw thrown;
    return "left";
  }
}

test.each([1, 2, 3].slice(0, cases(1, 3)))("seed %i", async (seed) => {
  const rng = new TestRng(seed);
  const capacity = { seats: 4, kvTokens: 20_000, blockSize: 16 };
  fleet = await startFleet([moody(rng), moody(rng), moody(rng)], {
    upstream: { capacity },
    limits: { maxWaiting: 16 },
    proxy: { routing: () => DEFAULT_ROUTING },
  });
  const { pool, proxy, watched } = fleet;
  const seen: Record<Seen, number> = { whole: 0, error: 0, cut: 0, left: 0 };
  const client = async () => {
    for (let i = 0; i < REQUESTS_EACH; i++) {
      seen[await ask(rng)]++;
      if (!rng.chance(0.05)) continue;
      const id = rng.pick(["a", "b", "c"]);
      const { starts } = pool.upstreams("m").find((upstream) => upstream.id === id)!;
      pool.change(id, { state: "failed" });
      pool.change(id, { state: "ready", starts: starts + 1 });
    }
  };
  await Promise.all(Array.from({ length: NUM_CLIENTS }, client));
  const numAsked = NUM_CLIENTS * REQUESTS_EACH;
  await until(() => watched.ended.length === watched.numStarted);
  await until(() => ["a", "b", "c"].every((id) => proxy.numInFlight(id) === 0));
  expect(proxy.numWaiting("m")).toBe(0);
  expect(seen.whole + seen.error + seen.cut + seen.left).toBe(numAsked);
  expect(seen.whole).toBeGreaterThan(numAsked / 2);
  for (const count of [seen.cut, seen.left]) expect(count).toBeGreaterThan(0);
  await proxy.drain();
});
