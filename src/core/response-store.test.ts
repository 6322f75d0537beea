/** What is kept of responses stays within its bounds, each tenant's is its own, and conversations outlive the deletion of their beginning. */
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { MAX_JSON_MARKS, shapeOf } from "./json-body.js";
import { ResponseState } from "./response-state.js";
import { conversationOf, ResponseStore, type StoreLimits, type Turn } from "./response-store.js";

const LIMITS: StoreLimits = { maxResponses: 1000, maxBytes: 1e6, maxConversationBytes: 1e5, ttlMs: 1000 };

function stored(limits: Partial<StoreLimits> = {}) {
  let nowMs = 0;
  const store = new ResponseStore({ ...LIMITS, ...limits }, () => nowMs);
  const seen = new Map<string, Turn>();
  /** @param previous as the tenant last saw it, deleted meanwhile or not */
  const put = (id: string, options: { tenant?: string; previous?: string; size?: number } = {}) => {
    const { tenant = "a", previous, size = 10 } = options;
    const before = previous === undefined ? undefined : seen.get(`${tenant}/${previous}`);
    const output = [{ type: "message", id: `msg_${id}`, content: "x".repeat(size) }];
    store.put(tenant, id, before, Buffer.from(JSON.stringify([{ role: "user", content: id }])), { id, output });
    const turn = store.get(tenant, id);
    if (turn !== undefined) seen.set(`${tenant}/${id}`, turn);
  };
  const wait = (ms: number) => {
    nowMs += ms;
  };
  return { store, put, wait };
}

const textOf = (store: ResponseStore, tenant: string, id: string) =>
  conversationOf(store.get(tenant, id)!).map(({ id, content }) => id ?? content);

describe("the store", () => {
  it("shows nobody what is another's", () => {
    const { store, put } = stored();
    put("one", { tenant: "a" });
    expect(store.get("b", "one")).toBeUndefined();
    expect(store.item("b", "msg_one")).toBeUndefined();
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
    expect([store.get("a", "two"), store.numBytes, store.numTurns]).toEqual([undefined, 0, 0]);
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
    expect(store.numTurns).toBe(20);
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
          expect(store.numTurns).toBeLessThanOrEqual(9);
        }
        for (const tenant of ["a", "b", "c"]) for (let id = 0; id <= 12; id++) store.delete(tenant, String(id));
        expect([store.numBytes, store.numTurns]).toEqual([0, 0]);
      }),
      { numRuns: 200 },
    );
  });
});

describe("a turn", () => {
  const output = [
    { type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "hello" }] },
  ];
  const state = (limits: Partial<StoreLimits> = {}) => new ResponseState(new ResponseStore({ ...LIMITS, ...limits }));

  it("goes on from another's answer, which the engine sees as input", () => {
    const kept = state();
    kept.open("a", { input: "hi" })?.finish({ id: "resp_1", output });
    const next = kept.open("a", { input: [{ role: "user", content: "more" }], previous_response_id: "resp_1" });
    expect(next?.body).toEqual({
      store: false,
      input: [{ type: "message", role: "user", content: "hi" }, ...output, { role: "user", content: "more" }],
    });
    expect(next).toMatchObject({ previousId: "resp_1", isStored: true });
    expect(() => kept.open("b", { input: "hi", previous_response_id: "resp_1" })).toThrow(
      /expected the id of a stored response/,
    );
  });

  it("puts items in the place of references to them", () => {
    const kept = state();
    kept.open("a", { input: "hi" })?.finish({ id: "resp_1", output });
    const reference = { type: "item_reference", id: "msg_1" };
    expect(kept.open("a", { input: [reference], store: false })?.body).toEqual({ store: false, input: output });
    expect(() => kept.open("b", { input: [reference] })).toThrow(/stored item/);
  });

  it("that asks for nothing kept is left as it is", () => {
    expect(state().open("a", { input: "hi", store: false })).toBeUndefined();
    expect(state().open("a", { input: "hi", store: "yes" })).toBeUndefined();
    expect(state().open("a", { input: 7, previous_response_id: 7, store: null })?.body).toEqual({
      input: 7,
      previous_response_id: 7,
      store: false,
    });
  });

  it("whose input is ids, or lists of them, is left to the engine's refusal", () => {
    const ids = new Int32Array(40_000).fill(1);
    for (const input of [ids, [ids, ids]]) expect(state().open("a", { input })).toBeUndefined();
  });

  it("whose input alone is too long is not written out to find that", () => {
    const stringify = vi.spyOn(JSON, "stringify");
    const turn = state({ maxConversationBytes: 5000 }).open("a", { input: "x".repeat(5001) });
    expect(stringify).not.toHaveBeenCalled();
    stringify.mockRestore();
    expect(turn).toMatchObject({ isStored: false, body: { store: false } });
  });

  it("of a conversation that is too long is not kept, and says so", () => {
    const kept = state({ maxConversationBytes: 5000 });
    const long = kept.open("a", { input: "x".repeat(6000) });
    long?.finish({ id: "resp_1", output });
    expect(long?.isStored).toBe(false);
    expect(() => kept.open("a", { previous_response_id: "resp_1" })).toThrow(/stored response/);
    kept.open("a", { input: "hi" })?.finish({ id: "resp_2", output: [{ id: "m", content: "x".repeat(6000) }] });
    expect(() => kept.open("a", { previous_response_id: "resp_2" })).toThrow(/at most 5000 bytes/);
  });

  it("of a conversation of too many parts is refused, before all of it is read", () => {
    const kept = state({ maxConversationBytes: 2 ** 21 });
    const message = { role: "user", content: new Array(1500).fill({ type: "input_text", text: "" }) };
    const ask = (previous?: string) => kept.open("a", { input: [message], previous_response_id: previous });
    const tooMany = `at most ${MAX_JSON_MARKS} commas, colons and opening brackets`;
    let last: string | undefined;
    for (let turn = 0; turn < 4; turn++) {
      const { body, finish } = ask(last)!;
      expect(shapeOf(Buffer.from(JSON.stringify(body))).numMarks).toBeLessThan(MAX_JSON_MARKS);
      last = `resp_${turn}`;
      finish({ id: last, output });
    }
    expect(() => ask(last)).toThrow(`previous_response_id: expected a conversation of ${tooMany}`);
    const parts = new Array(3000).fill(message.content[0]);
    kept
      .open("a", { input: "hi" })
      ?.finish({ id: "resp_long", output: [{ id: "msg_long", content: [...parts, ...parts, ...parts] }] });
    kept.open("a", { input: "hi" })?.finish({ id: "resp_half", output: [{ id: "msg_half", content: parts }] });
    expect(() => kept.open("a", { input: "hi", previous_response_id: "resp_long" })).toThrow(tooMany);
    const references = new Array(3).fill({ type: "item_reference", id: "msg_half" });
    expect(() => kept.open("a", { input: references, store: false })).toThrow(
      `input: expected a conversation of ${tooMany}`,
    );
  });

  it("has its input items given page by page, each once, and no page behind what is none of them", () => {
    const kept = state();
    const input = ["a", "b", "b", "c", "d"].map((id) => ({ id, role: "user", content: id }));
    kept.open("a", { input })?.finish({ id: "resp_1", output });
    const page = (query: string) =>
      kept.answer("a", "GET", `/v1/responses/resp_1/input_items?order=asc&limit=2${query}`);
    expect(page("")).toMatchObject({ data: [{ id: "a" }, { id: "b" }], has_more: true });
    expect(page("&after=b")).toMatchObject({ data: [{ id: "c" }, { id: "d" }], has_more: false });
    expect(page("&after=d")).toMatchObject({ data: [], has_more: false });
    expect(() => page("&after=e")).toThrow(
      expect.objectContaining({ code: "invalid_parameter", status: 400, param: "after" }),
    );
  });
});
