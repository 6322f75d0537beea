import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { openDatabase } from "../store/database.js";
import { groupCommitOf } from "../store/group-commit.js";
import { hashOf, hintOf, isKeyText, newKeyText } from "./key-text.js";
import { matchesGlob, modelFilter } from "./model-globs.js";
import { mergePatch } from "./settings.js";
import { type Actor, TenantStore } from "./tenant-store.js";

const ACTOR: Actor = { name: "test", requestId: "r" };

function open(database = openDatabase(undefined)) {
  const clock = { nowMs: 1_000_000 };
  const failures: string[] = [];
  const onFailure = (what: string) => failures.push(what);
  const store = new TenantStore({ database, now: () => clock.nowMs, onFailure });
  return { store, clock, database, failures };
}

const OWNER = { org: "default", team: undefined };

test("a key's text is not in the database, and its hash finds the same caller after a restart", async () => {
  const { store, database } = open();
  const { key, record } = await store.createKey(OWNER, { name: "k" }, undefined, ACTOR);
  const tables = ["tenant_scopes", "tenant_key_secrets", "tenant_audit"];
  const rows = tables.map((table) => JSON.stringify(database.prepare(`SELECT * FROM ${table}`).all()));
  expect(rows.join()).not.toContain(key);
  expect(rows.join()).toContain(hashOf(key));
  const before = store.index.callerOf(key);
  expect(before).toMatchObject({ tenant: "org:default", keyId: record.id });
  expect(open(database).store.index.callerOf(key)).toEqual(before);
});

test("a change is committed with what others write, and a refused one leaves theirs", async () => {
  const { store, database } = open();
  const commits = groupCommitOf(database);
  const count = (table: string) => database.prepare(`SELECT count(*) AS n FROM ${table}`).get([]) as { n: number };
  database.exec("CREATE TABLE t (a INTEGER)");
  commits.hold();
  const own = commits.run(() => database.exec("INSERT INTO t VALUES (1)"));
  const made = store.createOrg("acme", { name: "acme" }, ACTOR);
  const again = store.createOrg("acme", { name: "acme" }, ACTOR);
  await new Promise((resolve) => setImmediate(resolve));
  expect([store.list({ kind: "org", withEnded: false, limit: 10 }).length, count("t").n]).toEqual([1, 0]);
  commits.release();
  await expect(again).rejects.toMatchObject({ code: "already_exists" });
  await Promise.all([own, made]);
  expect([store.list({ kind: "org", withEnded: false, limit: 10 }).length, count("t").n]).toEqual([2, 1]);
});

test("a key expires at its time, and its id with it", async () => {
  const { store, clock } = open();
  const { key, record } = await store.createKey(OWNER, { name: "k" }, clock.nowMs + 1000, ACTOR);
  clock.nowMs += 999;
  expect([store.index.callerOf(key)?.keyId, store.index.callerOfId(record.id)?.keyId]).toEqual([record.id, record.id]);
  clock.nowMs += 1;
  expect(() => store.index.callerOf(key)).toThrow(/an expired one/);
  expect(store.index.callerOfId(record.id)).toBeUndefined();
  await store.update("key", record.id, {}, null, ACTOR);
  expect(store.index.callerOf(key)?.keyId).toBe(record.id);
});

test("limits of the organisation, the team and the key are all the caller's, and changes count at once", async () => {
  const { store } = open();
  await store.createOrg("acme", { name: "acme", budgets: { month: { hard: "100" } } }, ACTOR);
  await store.createTeam("acme", "search", { name: "search", tokens_per_minute: 10 }, ACTOR);
  const owner = { org: "acme", team: "acme/search" };
  const { key, record } = await store.createKey(owner, { name: "k", concurrent_requests: 2 }, undefined, ACTOR);
  const scopes = () => store.index.callerOf(key)?.scopes;
  expect(scopes()).toMatchObject([
    {
      kind: "org",
      id: "acme",
      limits: { budgets: [{ unit: "money", window: "month", hard: 100_000_000_000n, soft: undefined }] },
    },
    { kind: "team", id: "acme/search", limits: { tokensPerMinute: 10, budgets: [] } },
    { kind: "key", id: record.id, limits: { concurrentRequests: 2 } },
  ]);
  await store.update("org", "acme", { budgets: { month: { soft: "50" }, day: { hard: "9" } } }, undefined, ACTOR);
  expect(scopes()?.[0]?.limits.budgets).toEqual([
    { unit: "money", window: "day", hard: 9_000_000_000n, soft: undefined },
    { unit: "money", window: "month", hard: 100_000_000_000n, soft: 50_000_000_000n },
  ]);
  await store.update("org", "acme", { budgets: null }, undefined, ACTOR);
  expect(scopes()?.[0]?.limits.budgets).toEqual([]);
});

test("organisations have cache scopes of their own", async () => {
  const { store } = open();
  await store.createOrg("acme", { name: "acme" }, ACTOR);
  const made = await Promise.all(
    [OWNER, OWNER, { org: "acme", team: undefined }].map((owner) =>
      store.createKey(owner, { name: "k" }, undefined, ACTOR),
    ),
  );
  const [first, second, third] = made.map(({ key }) => store.index.callerOf(key)?.cacheScope);
  expect([first === second, first === third, /^[0-9a-f]{32}$/.test(first!)]).toEqual([true, false, true]);
});

test("another gateway with the same database takes over changes within a second", async () => {
  const { store, database } = open();
  const other = open(database).store;
  const { key, record } = await store.createKey(OWNER, { name: "k" }, undefined, ACTOR);
  expect(other.index.callerOf(key)).toBeUndefined();
  other.refresh();
  expect(other.index.callerOf(key)?.keyId).toBe(record.id);
  await store.end("key", record.id, ACTOR);
  other.refresh();
  expect(other.index.callerOf(key)).toBeUndefined();
  // Both see changes of both, made one after the other.
  const own = await other.createKey(OWNER, { name: "own" }, undefined, ACTOR);
  const foreign = await store.createKey(OWNER, { name: "foreign" }, undefined, ACTOR);
  for (const each of [store, other]) {
    each.refresh();
    expect([own, foreign].map((made) => each.index.callerOf(made.key)?.keyId)).toEqual([
      own.record.id,
      foreign.record.id,
    ]);
  }
});

test("a change that the database refuses changes nothing", async () => {
  const { store, database } = open();
  const { key, record } = await store.createKey(OWNER, { name: "k" }, undefined, ACTOR);
  database.exec("CREATE TRIGGER no BEFORE INSERT ON tenant_audit BEGIN SELECT RAISE(ABORT, 'full'); END");
  await expect(store.end("key", record.id, ACTOR)).rejects.toMatchObject({ code: "key_store_unavailable" });
  await expect(store.rotate(record.id, 0, ACTOR)).rejects.toMatchObject({ code: "key_store_unavailable" });
  expect(store.index.callerOf(key)?.keyId).toBe(record.id);
  expect(open(database).store.index.callerOf(key)?.keyId).toBe(record.id);
});

test("uses are written in one go", async () => {
  const { store, database, clock } = open();
  const { key, record } = await store.createKey(OWNER, { name: "k" }, undefined, ACTOR);
  store.index.callerOf(key);
  clock.nowMs += 5;
  store.index.callerOf(key);
  await store.flushUses();
  expect(open(database).store.find("key", record.id).secret?.lastUsedMs).toBe(clock.nowMs);
  expect(store.index.takeUses().size).toBe(0);
});

test("every change answers and keeps the last use, a key's end too", async () => {
  const { store, clock, database } = open();
  const made = await store.createKey(OWNER, { name: "k" }, undefined, ACTOR);
  const { id } = made.record;
  const used = (key: string) => {
    clock.nowMs += 5;
    store.index.callerOf(key);
    return clock.nowMs;
  };
  let atMs = used(made.key);
  expect((await store.update("key", id, { name: "l" }, undefined, ACTOR)).secret?.lastUsedMs).toBe(atMs);
  atMs = used(made.key);
  const rotated = await store.rotate(id, 0, ACTOR);
  expect(rotated.record.secret?.lastUsedMs).toBe(atMs);
  atMs = used(rotated.key);
  expect((await store.end("key", id, ACTOR)).secret?.lastUsedMs).toBe(atMs);
  expect(open(database).store.find("key", id).secret?.lastUsedMs).toBe(atMs);
});

test("a use that another gateway writes later is not replaced by an earlier one", async () => {
  const one = open();
  const { key, record } = await one.store.createKey(OWNER, { name: "k" }, undefined, ACTOR);
  const other = open(one.database);
  one.store.index.callerOf(key);
  other.clock.nowMs += 5;
  other.store.index.callerOf(key);
  await other.store.flushUses();
  await one.store.flushUses();
  expect(one.store.find("key", record.id).secret?.lastUsedMs).toBe(other.clock.nowMs);
});

/** After any changes of keys, a lookup agrees with the history of changes. */
test("for any changes, a key's text is valid exactly while it should be, also after a restart", async () => {
  const step = fc.record({
    kind: fc.constantFrom("create", "rotate", "revoke", "expire", "wait", "delete team"),
    which: fc.nat(5),
    ms: fc.nat(50),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const { store, clock, database } = open();
      await store.createTeam("default", "t", { name: "t" }, ACTOR);
      /** Text → id and end; a key's end holds for all its texts. */
      const texts = new Map<string, { readonly id: string; untilMs: number }>();
      const keys: {
        readonly id: string;
        readonly hasTeam: boolean;
        text: string;
        isOver: boolean;
        expiresMs: number;
      }[] = [];
      let isTeamOver = false;
      for (const { kind, which, ms } of steps) {
        const key = keys[which % Math.max(keys.length, 1)];
        if (kind === "create") {
          const team = which % 2 === 0 && !isTeamOver ? "default/t" : undefined;
          const made = await store.createKey({ org: "default", team }, { name: "k" }, undefined, ACTOR);
          const forever = Number.POSITIVE_INFINITY;
          keys.push({
            id: made.record.id,
            hasTeam: team !== undefined,
            text: made.key,
            isOver: false,
            expiresMs: forever,
          });
          texts.set(made.key, { id: made.record.id, untilMs: forever });
        } else if (kind === "wait") clock.nowMs += ms;
        else if (kind === "delete team" && !isTeamOver) {
          await store.end("team", "default/t", ACTOR);
          isTeamOver = true;
          for (const each of keys) if (each.hasTeam) each.isOver = true;
        } else if (key !== undefined && !key.isOver) {
          if (kind === "revoke") {
            await store.end("key", key.id, ACTOR);
            key.isOver = true;
          } else if (kind === "expire") {
            key.expiresMs = clock.nowMs + ms;
            await store.update("key", key.id, {}, key.expiresMs, ACTOR);
          } else if (kind === "rotate") {
            const rotated = await store.rotate(key.id, ms, ACTOR);
            // The text before the last one ends at once.
            for (const [text, each] of texts) if (each.id === key.id && text !== key.text) each.untilMs = 0;
            texts.get(key.text)!.untilMs = clock.nowMs + ms;
            key.text = rotated.key;
            texts.set(rotated.key, { id: key.id, untilMs: Number.POSITIVE_INFINITY });
          }
        }
      }
      const restarted = open(database);
      restarted.clock.nowMs = clock.nowMs;
      for (const [text, { id, untilMs }] of texts) {
        const key = keys.find((each) => each.id === id)!;
        const isValid = !key.isOver && clock.nowMs < Math.min(key.expiresMs, untilMs);
        for (const { index } of [store, restarted.store]) {
          let found: string | undefined;
          try {
            found = index.callerOf(text)?.keyId;
          } catch {
            found = undefined;
          }
          expect(found).toBe(isValid ? id : undefined);
        }
      }
    }),
    { numRuns: 60 },
  );
});

describe("texts of keys", () => {
  test("are random and recognised, and a hint shows four characters", () => {
    const texts = Array.from({ length: 100 }, newKeyText);
    expect([new Set(texts).size, texts.every(isKeyText)]).toEqual([100, true]);
    expect(hintOf(texts[0]!)).toBe(`mk-…${texts[0]!.slice(-4)}`);
  });
});

describe("patterns of models", () => {
  test("agree with regular expressions, for any pattern", () => {
    const text = fc.string({ unit: fc.constantFrom("a", "b", "/"), maxLength: 8 });
    const glob = fc.string({ unit: fc.constantFrom("a", "b", "/", "*", "?"), maxLength: 8 });
    fc.assert(
      fc.property(glob, text, (pattern, name) => {
        const expected = new RegExp(`^${pattern.replaceAll("*", ".*").replaceAll("?", ".")}$`, "s").test(name);
        expect(matchesGlob(pattern, name)).toBe(expected);
      }),
      { numRuns: 2000 },
    );
  });

  test("take little time whatever they are", () => {
    const startMs = computedMs();
    expect(matchesGlob("*a".repeat(100), "a".repeat(10_000).concat("b"))).toBe(false);
    // A matcher that tries every way would not end.
    expect(computedMs() - startMs).toBeLessThan(5000);
  });

  test("a name must be in every list", () => {
    const filter = modelFilter([["a*", "b"], undefined, ["*b"]]);
    expect(["ab", "a", "b", "cb"].map((name) => filter?.(name))).toEqual([true, false, true, false]);
    expect(modelFilter([undefined, undefined])).toBeUndefined();
  });
});

test("a merge patch has RFC 7396's examples", () => {
  expect(mergePatch({ a: "b" }, { a: "c" })).toEqual({ a: "c" });
  expect(mergePatch({ a: "b", b: "c" }, { a: null })).toEqual({ b: "c" });
  expect(mergePatch({ a: ["b"] }, { a: "c" })).toEqual({ a: "c" });
  expect(mergePatch({ a: { b: "c" } }, { a: { b: "d", c: null } })).toEqual({ a: { b: "d" } });
  expect(mergePatch({ a: "c" }, { a: { bb: { ccc: null } } })).toEqual({ a: { bb: {} } });
  expect(() => mergePatch({}, JSON.parse(`${'{"a":'.repeat(9)}1${"}".repeat(9)}`))).toThrow(/flat/);
});
