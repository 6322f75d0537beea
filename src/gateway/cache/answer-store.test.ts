/** One suite for every store of answers. Redis is tested if it is installed. */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { freePort } from "../../../test/helpers/free-port.js";
import { openCacheDatabase } from "../store/database.js";
import type { AnswerStore, PurgeFilter } from "./answer-store.js";
import { EmbeddedStore } from "./embedded-store.js";
import { MemoryStore } from "./memory-store.js";
import { RedisStore } from "./redis-store.js";
import { SafeStore } from "./safe-store.js";
import { bytesOf, decodeAnswer, encodeAnswer, type StoredAnswer } from "./stored-answer.js";
import { answerOf, idOf, NOW_MS } from "./test-answers.js";

const hasRedis = spawnSync("redis-server", ["--version"]).status === 0;
let nowMs = NOW_MS;
const now = () => nowMs;

const closing: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  nowMs = NOW_MS;
  for (const close of closing.splice(0).reverse()) await close();
});

let redis: Promise<string> | undefined;
let stopRedis = async () => {};
let numPrefixes = 0;
afterAll(() => stopRedis());

async function startRedis(): Promise<string> {
  const port = await freePort();
  const server = spawn(
    "redis-server",
    ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
    {
      stdio: "ignore",
    },
  );
  const exited = new Promise((resolve) => server.once("exit", resolve));
  stopRedis = async () => {
    server.kill();
    await exited;
  };
  return `redis://127.0.0.1:${port}`;
}

type Make = (maxBytes: number, isFair?: boolean) => Promise<AnswerStore>;
const MAKERS: readonly (readonly [string, Make, boolean])[] = [
  ["memory", async (maxBytes, isFair) => new MemoryStore(maxBytes, now, isFair), true],
  [
    "embedded",
    async (maxBytes, isFair = false) => {
      const database = openCacheDatabase(undefined);
      closing.push(() => database.close());
      const table = isFair ? "idempotency" : "cache_exact";
      return new EmbeddedStore(database, { table, maxBytes, maxMemoryBytes: isFair ? 0 : maxBytes / 4 }, now);
    },
    true,
  ],
  [
    "embedded without memory",
    async (maxBytes, isFair = false) => {
      const database = openCacheDatabase(undefined);
      closing.push(() => database.close());
      const table = isFair ? "idempotency" : "cache_exact";
      return new EmbeddedStore(database, { table, maxBytes, maxMemoryBytes: 0 }, now);
    },
    true,
  ],
  [
    "embedded, written by its thread",
    async (maxBytes, isFair = false) => {
      const folder = mkdtempSync(join(tmpdir(), "millrace-cache-"));
      closing.push(() => rmSync(folder, { recursive: true, force: true }));
      const database = openCacheDatabase(folder);
      closing.push(() => database.close());
      const table = isFair ? "idempotency" : "cache_exact";
      return new EmbeddedStore(database, { table, maxBytes, maxMemoryBytes: isFair ? 0 : maxBytes / 4 }, now);
    },
    true,
  ],
  [
    "redis",
    async (maxBytes, isFair = false) => {
      redis ??= startRedis();
      const prefix = `test${numPrefixes++}`;
      const options = { url: await redis, prefix, maxBytes, isFair, commandTimeoutMs: 10_000 };
      const store = await RedisStore.open(options, () => {}, now);
      await store.whenReady();
      return store;
    },
    hasRedis,
  ],
];

for (const [name, make, isThere] of MAKERS) {
  describe.skipIf(!isThere)(`a store of answers: ${name}`, () => {
    async function open(maxBytes = 1 << 20, isFair = false): Promise<AnswerStore> {
      const store = await make(maxBytes, isFair);
      closing.push(() => store.close());
      return store;
    }

    test("gives back what was put, to the byte, and nothing for other ids", async () => {
      const store = await open();
      const answer = answerOf({
        tags: ["a", "b:1"],
        marks: [3, 0.25, 5, 17],
        tenant: "with \0 é",
        isEventStream: true,
      });
      await store.put(idOf(1), answer);
      expect(await store.get(idOf(1))).toEqual(answer);
      expect(await store.get(idOf(2))).toBeUndefined();
      await store.put(idOf(1), answerOf({ body: Buffer.from("other") }));
      expect((await store.get(idOf(1)))?.body.toString()).toBe("other");
      expect(await store.stats()).toMatchObject({ entries: 1, maxBytes: 1 << 20 });
    });

    test("an expired answer is gone", async () => {
      const store = await open();
      await store.put(idOf(1), answerOf({ expiresMs: NOW_MS + 60_000 }));
      nowMs += 59_999;
      expect(await store.get(idOf(1))).toBeDefined();
      nowMs += 1;
      expect(await store.get(idOf(1))).toBeUndefined();
    });

    test("the least recently used answers go when the bound is passed, and the bound is never passed", async () => {
      const one = bytesOf(answerOf({ body: Buffer.alloc(1000) }));
      const store = await open(one * 3);
      for (const n of [1, 2, 3]) {
        nowMs++;
        await store.put(idOf(n), answerOf({ body: Buffer.alloc(1000, n) }));
      }
      nowMs++;
      expect(await store.get(idOf(1))).toBeDefined();
      nowMs++;
      await store.put(idOf(4), answerOf({ body: Buffer.alloc(1000, 4) }));
      const found = await Promise.all([1, 2, 3, 4].map(async (n) => (await store.get(idOf(n))) !== undefined));
      expect(found).toEqual([true, false, true, true]);
      expect(await store.stats()).toMatchObject({ entries: 3, bytes: one * 3 });
      // Too large alone: the answer is not kept, and the replaced one is gone.
      await store.put(idOf(1), answerOf({ body: Buffer.alloc(one * 3) }));
      expect(await store.get(idOf(1))).toBeUndefined();
      expect(await store.stats()).toMatchObject({ entries: 2, bytes: one * 2 });
    });

    test("a tenant with many idempotent answers drives out its own, not another's", async () => {
      const body = Buffer.alloc(1000);
      const maxBytes = 20 * bytesOf(answerOf({ body }));
      const store = await open(maxBytes, true);
      await store.put(idOf(0), answerOf({ tenant: "small", body }));
      for (let n = 1; n <= 60; n++) {
        nowMs++;
        await store.put(idOf(n), answerOf({ tenant: "large", body }));
        // Used answers stay longer, among those of their tenant.
        if (n >= 2) await store.get(idOf(2));
      }
      expect((await store.get(idOf(0)))?.tenant).toBe("small");
      const [first, used, last] = await Promise.all([1, 2, 60].map((n) => store.get(idOf(n))));
      expect([first, used?.tenant, last?.tenant]).toEqual([undefined, "large", "large"]);
      // Two of the same size share the room; purged and replaced answers no longer count.
      for (let n = 100; n < 130; n++) {
        nowMs++;
        await store.put(idOf(n), answerOf({ tenant: "other", body }));
        await store.put(idOf(n), answerOf({ tenant: "other", body }));
      }
      expect(await store.purge({ tenant: "large" })).toBeGreaterThanOrEqual(8);
      expect((await store.stats()).bytes).toBeLessThanOrEqual(maxBytes);
      expect(await store.purge({ tenant: "other" })).toBeGreaterThanOrEqual(8);
      expect((await store.get(idOf(0)))?.tenant).toBe("small");
      expect(await store.stats()).toMatchObject({ entries: 1, bytes: maxBytes / 20 });
    });

    test("an answer that needs much room stays, though its tenant then has the most", async () => {
      const small = answerOf({ body: Buffer.alloc(1000) });
      const store = await make(20 * bytesOf(small), true);
      for (let n = 0; n < 20; n++) await store.put(idOf(n), { ...small, tenant: `t${n}` });
      await store.put(idOf(20), answerOf({ tenant: "new", body: Buffer.alloc(4000) }));
      expect((await store.get(idOf(20)))?.tenant).toBe("new");
      expect(store.stats === undefined || (await store.stats()).bytes <= 20 * bytesOf(small)).toBe(true);
    });

    test("purges by id, model, tenant, tag and the beginning of a tag", async () => {
      const facts: readonly [Partial<StoredAnswer>, PurgeFilter, readonly number[]][] = [
        [{ model: "m1" }, { model: "m1" }, [0]],
        [{ tenant: "t1" }, { tenant: "t1" }, [1]],
        [{ tags: ["doc:1", "x"] }, { tag: "x" }, [2]],
        [{ tags: ["doc:2"] }, { tagPrefix: "doc:" }, [2, 3]],
        [{ tags: ["doc"] }, { id: idOf(4) }, [4]],
        [{ model: "m1", tenant: "t1" }, { model: "m1", tenant: "t1" }, [5]],
      ];
      for (const [, filter, expected] of facts) {
        const store = await open();
        for (const [n, [fields]] of facts.entries()) await store.put(idOf(n), answerOf(fields));
        const gone = expected.length + (filter.model !== undefined || filter.tenant !== undefined ? extra(filter) : 0);
        expect(await store.purge(filter), JSON.stringify(filter)).toBe(gone);
        for (const n of expected) expect(await store.get(idOf(n))).toBeUndefined();
        expect(await store.stats()).toMatchObject({ entries: facts.length - gone });
      }
      const store = await open();
      for (const [n, [fields]] of facts.entries()) await store.put(idOf(n), answerOf(fields));
      expect(await store.purge({})).toBe(facts.length);
      expect(await store.stats()).toMatchObject({ entries: 0, bytes: 0 });
    });

    /** The last answer has the model and the tenant of two others. */
    function extra(filter: PurgeFilter): number {
      return filter.model !== undefined && filter.tenant !== undefined ? 0 : 1;
    }
  });
}

test("answers survive their form as bytes; bytes of another form are no answer", () => {
  const answer = fc.record({
    model: fc.string(),
    tenant: fc.string(),
    tags: fc.array(fc.string()),
    marks: fc.array(fc.nat()),
    check: fc.string(),
    body: fc.uint8Array().map((bytes) => Buffer.from(bytes)),
  });
  fc.assert(
    fc.property(answer, (fields) => {
      expect(decodeAnswer(encodeAnswer(answerOf(fields)))).toEqual(answerOf(fields));
    }),
  );
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      expect(decodeAnswer(Buffer.from(bytes))).toBeUndefined();
    }),
  );
  const whole = encodeAnswer(answerOf());
  fc.assert(
    fc.property(fc.nat(whole.length - 1), fc.integer({ min: 1, max: 255 }), (at, change) => {
      const damaged = Buffer.from(whole);
      damaged[at]! ^= change;
      expect(decodeAnswer(damaged)).toBeUndefined();
      expect(decodeAnswer(whole.subarray(0, at))).toBeUndefined();
    }),
  );
});

test("a store that fails is a miss, and is left alone for a second", async () => {
  let numAsked = 0;
  const failures: unknown[] = [];
  const broken: AnswerStore = {
    get() {
      if (numAsked++ === 0) throw new Error("at once");
      return Promise.reject(new Error("later"));
    },
    put: () => Promise.reject(new Error("put")),
    purge: () => Promise.reject(new Error("purge")),
    stats: () => ({ kind: "memory", entries: 0, bytes: 0, maxBytes: 0 }),
    close: async () => {},
  };
  const store = new SafeStore(broken, (thrown) => failures.push((thrown as Error).message), now);
  expect(store.get(idOf(1))).toBeUndefined();
  expect(store.get(idOf(1))).toBeUndefined();
  expect([numAsked, failures]).toEqual([1, ["at once"]]);
  nowMs += 1000;
  expect(await store.get(idOf(1))).toBeUndefined();
  nowMs += 1000;
  await store.put(idOf(1), answerOf());
  expect(failures).toEqual(["at once", "later", "put"]);
  await expect(store.purge({})).rejects.toThrow("purge");
});

test.skipIf(!hasRedis)("without its server, Redis fails at once and not after a wait", async () => {
  const store = await RedisStore.open(
    { url: `redis://127.0.0.1:${await freePort()}`, prefix: "t", isFair: false, maxBytes: 1 },
    () => {},
  );
  closing.push(() => store.close());
  const beginMs = performance.now();
  await expect(store.get(idOf(1))).rejects.toThrow();
  // Long before a connection would be given up.
  expect(performance.now() - beginMs).toBeLessThan(1500);
});
