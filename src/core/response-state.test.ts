import { describe, expect, it, vi } from "vitest";
import { MAX_JSON_MARKS, shapeOf } from "./json-body.js";
import { ResponseState } from "./response-state.js";
import { ResponseStore, type StoreLimits } from "./response-store.js";

const LIMITS: StoreLimits = { maxResponses: 1000, maxBytes: 1e6, maxConversationBytes: 1e5, ttlMs: 1000 };

describe("a turn", () => {
  const output = [
    { type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "hello" }] },
  ];
  const state = (limits: Partial<StoreLimits> = {}) =>
    new ResponseState(new ResponseStore({ ...LIMITS, ...limits }, () => 0));

  it("goes on from another's answer, which the engine sees as input", () => {
    const kept = state();
    kept.open("a", { input: "hi" })?.finish({ id: "resp_1", output });
    const next = kept.open("a", { input: [{ role: "user", content: "more" }], previous_response_id: "resp_1" });
    expect(next?.body).toEqual({
      store: false,
      input: [{ type: "message", role: "user", content: "hi" }, ...output, { role: "user", content: "more" }],
    });
    expect(next).toMatchObject({ previousId: "resp_1", isToBeStored: true });
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

  it("puts items of earlier inputs in their place too, by the ids that they came with or are shown by", () => {
    const kept = state();
    const given = { type: "message", id: "msg_mine", role: "user", content: "hi" };
    kept.open("a", { input: [given, { role: "user", content: "there" }] })?.finish({ id: "resp_1", output });
    kept.open("a", { input: "more", previous_response_id: "resp_1" })?.finish({ id: "resp_2", output: [] });
    const shown = kept.answer("a", "GET", "/v1/responses/resp_2/input_items?order=asc") as { data: { id: string }[] };
    const ids = shown.data.map(({ id }) => id);
    expect(ids).toEqual(["msg_mine", "item_resp_2_1", "msg_1", "item_resp_2_3"]);
    const ask = (tenant: string, id: string) =>
      kept.open(tenant, { input: [{ type: "item_reference", id }], store: false })?.body.input;
    expect(ids.map((id) => ask("a", id))).toEqual([
      [given],
      [{ role: "user", content: "there" }],
      output,
      [{ type: "message", role: "user", content: "more" }],
    ]);
    for (const id of [...ids, "item_resp_2_4", "item_resp_2_999999", "item_resp_2_-1", "item_resp_3_0", "item__0"]) {
      if (!ids.includes(id)) expect(() => ask("a", id)).toThrow(/stored item/);
      expect(() => ask("b", id)).toThrow(/stored item/);
    }
  });

  it("lists the items of an answer whose upstream put null among them", () => {
    const kept = state();
    kept.open("a", { input: "hi" })?.finish({ id: "resp_1", output: [null, ...output] });
    kept.open("a", { input: "more", previous_response_id: "resp_1" })?.finish({ id: "resp_2", output: [] });
    const shown = kept.answer("a", "GET", "/v1/responses/resp_2/input_items?order=asc") as { data: { id: string }[] };
    expect(shown.data.map(({ id }) => id)).toEqual(["item_resp_2_0", "item_resp_2_1", "msg_1", "item_resp_2_3"]);
  });

  it("whose references make the server read many long answers is refused", () => {
    const kept = state({ maxConversationBytes: 5000 });
    const items = (i: number) => [
      { id: `msg_${i}`, content: "" },
      { id: `long_${i}`, content: "x".repeat(4000) },
    ];
    for (let i = 0; i < 6; i++) kept.open("a", { input: "hi" })?.finish({ id: `resp_${i}`, output: items(i) });
    const ask = (count: number) =>
      kept.open("a", { input: Array.from({ length: count }, (_, i) => ({ type: "item_reference", id: `msg_${i}` })) });
    expect(ask(4)?.body.input).toHaveLength(4);
    expect(() => ask(5)).toThrow(/^input: expected a conversation of at most 20000 bytes of stored items to look/);
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
    expect(turn).toMatchObject({ isToBeStored: false, body: { store: false } });
  });

  it("of a conversation that is too long is not kept, and says so", () => {
    const kept = state({ maxConversationBytes: 5000 });
    const long = kept.open("a", { input: "x".repeat(6000) });
    expect(long?.isToBeStored).toBe(false);
    expect(long?.finish({ id: "resp_1", output })).toEqual({ id: "resp_1", output, store: false });
    const answer = { id: "resp_2", output: [{ id: "m", content: "x".repeat(6000) }] };
    const turn = kept.open("a", { input: "hi" });
    expect(turn?.isToBeStored).toBe(true);
    expect(turn?.finish(answer)).toEqual({ ...answer, store: false });
    for (const id of ["resp_1", "resp_2"]) {
      const refusal = { code: "previous_response_not_found", hint: expect.stringContaining("store: false") };
      expect(() => kept.open("a", { previous_response_id: id })).toThrow(expect.objectContaining(refusal));
    }
  });

  it("is counted by what is said in it, not by the tools and instructions that its answer repeats", () => {
    const kept = state({ maxConversationBytes: 5000 });
    const echo = { tools: [{ name: "f", description: "x".repeat(4000) }], instructions: "x".repeat(4000) };
    for (let turn = 0; turn < 10; turn++) {
      const previous = turn === 0 ? {} : { previous_response_id: `resp_${turn - 1}` };
      const answer = { id: `resp_${turn}`, ...echo, output };
      const opened = kept.open("a", { input: "hi", ...previous });
      expect(opened).toMatchObject({ isToBeStored: true });
      expect(opened?.finish(answer)).toEqual({ ...answer, store: true });
      expect(kept.answer("a", "GET", `/v1/responses/resp_${turn}`)).toEqual({ ...answer, store: true });
    }
  });

  it("goes on without the log-probabilities of earlier answers, which are shown with the answer", () => {
    const kept = state();
    const [message] = output;
    const logprobs = new Array(MAX_JSON_MARKS).fill({ token: "a", logprob: -1 });
    const scored = { ...message!, content: [{ ...message!.content[0]!, logprobs }] };
    const turn = kept.open("a", { input: [scored] });
    expect(turn?.finish({ id: "resp_1", output: [scored] })).toMatchObject({ store: true });
    expect(kept.answer("a", "GET", "/v1/responses/resp_1")).toMatchObject({ output: [scored] });
    const bare = { ...message!, content: [{ ...message!.content[0]!, logprobs: [] }] };
    const next = kept.open("a", { input: "more", previous_response_id: "resp_1" });
    expect(next?.body.input).toEqual([bare, bare, { type: "message", role: "user", content: "more" }]);
    expect(kept.open("a", { input: [{ type: "item_reference", id: "msg_1" }] })?.body.input).toEqual([bare]);
  });

  it("has each answer that its references name parsed once", () => {
    const kept = state();
    const items = Array.from({ length: 50 }, (_, i) => ({ type: "message", id: `msg_${i}`, content: `${i}` }));
    kept.open("a", { input: "hi" })?.finish({ id: "resp_1", output: items });
    const input = items.map(({ id }) => ({ type: "item_reference", id }));
    const parse = vi.spyOn(JSON, "parse");
    const turn = kept.open("a", { input });
    expect(parse).toHaveBeenCalledTimes(1);
    parse.mockRestore();
    expect(turn?.body.input).toEqual(items);
  });

  it("whose references name megabytes over and over is refused", () => {
    const kept = state({ maxConversationBytes: 5000 });
    kept.open("a", { input: "hi" })?.finish({ id: "resp_1", output: [{ id: "msg_1", content: "x".repeat(2000) }] });
    const ask = (count: number) =>
      kept.open("a", { input: new Array(count).fill({ type: "item_reference", id: "msg_1" }), store: false });
    expect(ask(2)?.body.input).toHaveLength(2);
    expect(() => ask(3)).toThrow(/^input: expected a conversation of at most 5000 characters in the items that/);
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
    const long = kept.open("a", { input: "hi" });
    const longOutput = [{ id: "msg_long", content: [...parts, ...parts, ...parts] }];
    expect(long?.finish({ id: "resp_long", output: longOutput }).store).toBe(false);
    kept.open("a", { input: "hi" })?.finish({ id: "resp_half", output: [{ id: "msg_half", content: parts }] });
    const references = new Array(3).fill({ type: "item_reference", id: "msg_half" });
    expect(() => kept.open("a", { input: references, store: false })).toThrow(
      `input: expected a conversation of ${tooMany}`,
    );
  });

  it("is walked once, however many of its items are named by where they stand", () => {
    const store = new ResponseStore(LIMITS);
    const kept = new ResponseState(store);
    for (let i = 0; i < 9; i++) {
      const previous = i === 0 ? {} : { previous_response_id: `resp_${i - 1}` };
      kept.open("a", { input: `${i}`, ...previous })?.finish({ id: `resp_${i}`, output: [] });
    }
    const { turn } = store.get("a", "resp_8")!;
    const { previous } = turn;
    const read = vi.fn(() => previous);
    Object.defineProperty(turn, "previous", { get: read });
    const input = Array.from({ length: 100 }, (_, i) => ({ type: "item_reference", id: `item_resp_8_${i % 9}` }));
    const items = kept.open("a", { input, store: false })?.body.input as { readonly content: string }[];
    expect(items.map(({ content }) => content)).toEqual(Array.from({ length: 100 }, (_, i) => `${i % 9}`));
    expect(read).toHaveBeenCalledTimes(1);
    // References to many responses must not cause walks of many long conversations either.
    const few = new ResponseState(new ResponseStore({ ...LIMITS, maxConversationBytes: 1000 }));
    const ids = Array.from({ length: 70 }, (_, i) => `resp_${i}`);
    for (const id of ids) few.open("a", { input: "" })?.finish({ id, output: [] });
    const named = ids.map((id) => ({ type: "item_reference", id: `item_${id}_0` }));
    expect(() => few.open("a", { input: named, store: false })).toThrow(/stored items to look references up in/);
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
