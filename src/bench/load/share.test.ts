/** A worker's share of a run, in this process, against the mock server's class. */
import { Pool } from "undici";
import { afterEach, beforeEach, expect, test } from "vitest";
import { MockServer } from "../mock/mock-server.js";
import type { OpenSession } from "../workload/session.js";
import { Agenda } from "./agenda.js";
import { LoopWatch } from "./loop-watch.js";
import type { RequestRecord } from "./record.js";
import { Share, type ShareLoad } from "./share.js";

const now = () => performance.now();
let pool: Pool;
beforeEach(async () => {
  const port = await new MockServer({ ttftMs: 10, tpotMs: 2, tokensPerChunk: 1 }).listen();
  pool = new Pool(`http://127.0.0.1:${port}`);
});
afterEach(() => pool.destroy());

const turnOf = (maxTokens: number) => ({
  path: "/v1/completions",
  body: JSON.stringify({ prompt: "a b c", max_tokens: maxTokens }),
  numTokensAsked: maxTokens,
});

function sessions(numTurns: number, answers: string[] = []): OpenSession {
  return () => {
    let turn = 0;
    return {
      next: (answer) => {
        answers.push(answer);
        return turn++ < numTurns ? turnOf(4) : undefined;
      },
    };
  };
}

function share(load: ShareLoad, open: OpenSession, stopMs = Number.POSITIVE_INFINITY) {
  const records: RequestRecord[] = [];
  const connection = { pool, basePath: "", headers: {}, now, watch: new LoopWatch(now) };
  const events = { onSent: () => {}, onRecord: (record: RequestRecord) => records.push(record) };
  return { records, share: new Share({ load, stopMs }, open, connection, new Agenda(now), events) };
}

test("clients run each of their sessions once, and are always busy", async () => {
  const load = { kind: "clients", startMs: [now(), now() + 5], first: 1, step: 2, count: 10 } as const;
  const run = share(load, sessions(1));
  await run.share.run();
  expect(run.share.hasGivenUp).toBe(false);
  expect(run.records.map((record) => record.session).sort()).toEqual([1, 3, 5, 7, 9]);
  for (const { failure, numOutputTokens, chunkAtMs } of run.records) {
    expect({ failure, numOutputTokens, numChunks: chunkAtMs.length }).toEqual({
      failure: undefined,
      numOutputTokens: 4,
      numChunks: 4,
    });
  }
});

test("each turn of a session follows the previous answer", async () => {
  const answers: string[] = [];
  const run = share({ kind: "clients", startMs: [now()], first: 0, step: 1, count: 1 }, sessions(3, answers));
  await run.share.run();
  expect(answers).toEqual(["", " word word word word", " word word word word", " word word word word"]);
  expect(run.records.map((record) => record.turn)).toEqual([0, 1, 2]);
});

test("arrivals are sent at their due times, however long answers take", async () => {
  const startMs = now() + 20;
  const times = [0, 3, 3.5, 20];
  const load = { kind: "arrivals", sessions: times.map((atMs, index) => ({ index, atMs: startMs + atMs })) } as const;
  const run = share(load, sessions(1));
  await run.share.run();
  expect(run.records.map((record) => record.intendedMs - startMs).sort((a, b) => a - b)).toEqual(
    times.map((atMs) => expect.closeTo(atMs, 6)),
  );
  const [first, ...others] = run.records.sort((a, b) => a.intendedMs - b.intendedMs);
  for (const { sentMs } of others.slice(0, 2)) expect(sentMs).toBeLessThan(first!.lastMs);
});

test("no session begins after the stop time, and stopping ends a wait", async () => {
  const run = share({ kind: "clients", startMs: [now()], first: 0, step: 1, count: 1e9 }, sessions(1), now() + 100);
  await run.share.run();
  expect(run.records.length).toBeGreaterThan(1);
  const late = share({ kind: "arrivals", sessions: [{ index: 0, atMs: now() + 1e7 }] }, sessions(1));
  setTimeout(() => late.share.stop(), 10);
  await late.share.run();
  expect(late.records).toEqual([]);
});

test("sending to a dead server stops, and every attempt is a failed record", async () => {
  await pool.destroy();
  pool = new Pool("http://127.0.0.1:9");
  const startMs = Array.from({ length: 6 }, now);
  const run = share({ kind: "clients", startMs, first: 0, step: 1, count: 1e9 }, sessions(1));
  await run.share.run();
  expect(run.records.length).toBeGreaterThanOrEqual(16);
  expect(run.records.length).toBeLessThan(40);
  expect(run.share.hasGivenUp).toBe(true);
  const whole = share({ kind: "clients", startMs: [now()], first: 0, step: 1, count: 11 }, sessions(1));
  await whole.share.run();
  expect([whole.records.length, whole.share.hasGivenUp]).toEqual([11, false]);
  expect(new Set(run.records.map((record) => record.failure?.kind))).toEqual(new Set(["connect"]));
});
