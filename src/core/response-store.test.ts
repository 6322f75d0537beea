/**
 * The store keeps responses within its bounds, separates tenants, and keeps conversations after the deletion of their
 * beginning.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { conversationOf, ResponseStore, type StoreLimits, storedInput, type Turn } from "./response-store.js";

const LIMITS: StoreLimits = { maxResponses: 1000, maxBytes: 1e6, maxConversationBytes: 1e5, ttlMs: 1000 };

function stored(limits: Partial<StoreLimits> = {}) {
  let nowMs = 0;
  const store = new ResponseStore({ ...LIMITS, ...limits }, () => nowMs);
  const seen = new Map<string, Turn>();
  /** @param previous id of the tenant's last state of it, even if deleted since */
  const put = (id: string, options: { tenant?: string; previous?: string; size?: number } = {}) => {
    const { tenant = "a", previous, size = 10 } = options;
    const before = previous === undefined ? undefined : seen.get(`${tenant}/${previous}`);
    const output = [{ type: "message", id: `msg_${id}`, content: "x".repeat(size) }];
    const isKept = store.put(tenant, id, before, storedInput([{ role: "user", content: id }]), { id, output });
    const found = store.get(tenant, id);
    expect(isKept).toBe(found !== undefined);
    if (found !== undefined) seen.set(`${tenant}/${id}`, found.turn);
    return isKept;
  };
  const wait = (ms: number) => {
    nowMs += ms;
  };
  return { store, put, wait };
}

const textOf = (store: ResponseStore, tenant: string, id: string) =>
  conversationOf(store.get(tenant, id)!.turn).map(({ id, content }) => id ?? content);

describe("the store", () => {
  it("shows nobody what is another's", () => {
    const { store, put } = stored();
    put("one", { tenant: "a" });
    expect(store.get("b", "one")).toBeUndefined();
    expect(store.ofItem("b", "msg_one")).toBeUndefined();
    expect(store.delete("b", "one")).toBe(false);
    expect(store.get("a", "one")?.id).toBe("one");
  });

  it("forgets after a time", () => {
    const { store, put, wait } = stored();
    put("one");
    wait(600);
    put("two", { previous: "one" });
    wait(600);
    expect(store.get("a", "one")).toBeUndefined();
    expect(textOf(store, "a", "two")).toEqual(["one", "msg_one", "two", "msg_two"]);
    wait(600);
    expect([store.get("a", "two"), store.numBytes, store.numResponses]).toEqual([undefined, 0, 0]);
  });

  it("takes the oldest of whoever holds most, and leaves the others theirs", () => {
    const { store, put } = stored({ maxBytes: 20_000 });
    put("small", { tenant: "b" });
    for (let i = 0; i < 100; i++) put(`big${i}`, { size: 2000 });
    expect(store.get("b", "small")).toBeDefined();
    expect(store.numBytes).toBeLessThanOrEqual(20_000);
    expect(store.get("a", "big99")).toBeDefined();
  });

  it("takes of too many the oldest of whoever has most of them, not of whoever has the largest", () => {
    const { store, put } = stored({ maxResponses: 20 });
    for (let i = 0; i < 5; i++) put(`big${i}`, { tenant: "b", size: 4000 });
    for (let i = 0; i < 100; i++) put(`small${i}`);
    for (let i = 0; i < 5; i++) expect(store.get("b", `big${i}`)).toBeDefined();
    expect(store.numResponses).toBe(20);
  });

  it("says of an answer that nobody would give up room for that it is not stored", () => {
    const { store, put } = stored({ maxBytes: 12_000 });
    for (const tenant of ["b", "c"]) expect(put("small", { tenant, size: 3000 })).toBe(true);
    expect(put("big", { size: 4000 })).toBe(false);
    expect([store.get("b", "small"), store.get("c", "small")].map((each) => each?.id)).toEqual(["small", "small"]);
  });

  it("does not make room for an answer that would not fit alone", () => {
    const { store, put } = stored({ maxBytes: 12_000 });
    expect([put("one"), put("two", { size: 12_000 })]).toEqual([true, false]);
    expect(store.get("a", "one")?.id).toBe("one");
  });

  it("counts the bytes that it keeps, and keeps of a deleted answer only what was said", () => {
    const { store } = stored();
    const input = storedInput([{ role: "user", content: "hi" }]);
    const answer = { tools: ["x".repeat(5000)], output: [{ content: "hello" }] };
    store.put("a", "one", undefined, input, { id: "one", ...answer });
    const first = store.get("a", "one")!;
    store.put("a", "two", first.turn, input, { id: "two", ...answer });
    const second = store.get("a", "two")!;
    const buffers = [first, second].flatMap(({ json, turn }) => [json, turn.input, turn.output]);
    const numBytes = (kept: readonly Buffer[]) => kept.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
    const entryBytes = store.numBytes - numBytes(buffers);
    expect(entryBytes % 4).toBe(0);
    expect(entryBytes / 4).toBeGreaterThan(500);
    expect(entryBytes / 4).toBeLessThan(1500);
    store.delete("a", "one");
    expect(store.numBytes).toBe(numBytes(buffers.slice(1)) + (3 * entryBytes) / 4);
    expect(store.numBytes).toBeLessThan(10_000);
  });

  it("has an item of several answers as long as one of them is there, and counts the room of ids", () => {
    const { store } = stored();
    const input = storedInput([{ id: "in", role: "user", content: "hi" }]);
    const output = [{ id: "out", content: "hello" }];
    for (const id of ["one", "two", "three"]) store.put("a", id, undefined, input, { id, output });
    for (const [deleted, newest] of [
      [undefined, "three"],
      ["three", "two"],
      ["one", "two"],
    ] as const) {
      if (deleted !== undefined) store.delete("a", deleted);
      expect(["in", "out"].map((id) => store.ofItem("a", id)?.id)).toEqual([newest, newest]);
    }
    store.delete("a", "two");
    expect([store.ofItem("a", "in"), store.ofItem("a", "out"), store.numBytes]).toEqual([undefined, undefined, 0]);
    store.put("a", "few", undefined, storedInput([]), { id: "few" });
    const before = store.numBytes;
    const many = Array.from({ length: 100 }, (_, i) => ({ id: `${i}` }));
    store.put("a", "many", undefined, storedInput(many), { id: "many" });
    expect(store.numBytes - 2 * before).toBeGreaterThan(100 * 100);
  });

  it("stays within its bounds whatever happens, and ends with nothing when all is deleted", () => {
    const step = fc.record({
      kind: fc.constantFrom("put", "delete", "wait"),
      tenant: fc.constantFrom("a", "b", "c"),
      id: fc.integer({ min: 0, max: 12 }),
      previous: fc.integer({ min: 0, max: 12 }),
      size: fc.integer({ min: 0, max: 4000 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const { store, put, wait } = stored({ maxResponses: 9, maxBytes: 15_000 });
        for (const { kind, tenant, id, previous, size } of steps) {
          if (kind === "put") put(String(id), { tenant, previous: String(previous), size });
          else if (kind === "delete") store.delete(tenant, String(id));
          else wait(size / 10);
          expect(store.numBytes).toBeLessThanOrEqual(15_000);
          expect(store.numResponses).toBeLessThanOrEqual(9);
        }
        for (const tenant of ["a", "b", "c"]) for (let id = 0; id <= 12; id++) store.delete(tenant, String(id));
        expect([store.numBytes, store.numResponses]).toEqual([0, 0]);
      }),
      { numRuns: 200 },
    );
  });
});
