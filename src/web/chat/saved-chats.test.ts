import fc from "fast-check";
import { expect, test } from "vitest";
import { type Conversation, DEFAULT_SETTINGS } from "./conversation.js";
import { parseChats, readChats, type TextStore, writeChats } from "./saved-chats.js";

/** Room for so many characters. */
function storeOf(room: number): TextStore {
  let text: string | null = null;
  return {
    getItem: () => text,
    setItem: (_, value) => {
      if (value.length > room) throw new Error("QuotaExceededError");
      text = value;
    },
  };
}

const chatOf = (id: string, updatedMs: number, content = "Hello"): Conversation => ({
  id,
  title: content,
  updatedMs,
  settings: DEFAULT_SETTINGS,
  panes: [{ model: "m", turns: [{ role: "user", content }] }],
});

test("conversations come back as they were, the newest first, without the probabilities of tokens", () => {
  const store = storeOf(1e6);
  const tokens = [{ text: "a", probability: 1, others: [] }];
  const old = chatOf("old", 1);
  const turns = [...old.panes[0]!.turns, { role: "assistant", content: "a", tokens, cost: 0.5 } as const];
  writeChats(store, [{ ...old, panes: [{ model: "m", turns }] }, chatOf("new", 2)]);
  const [first, second] = readChats(store);
  expect([first!.id, second!.id]).toEqual(["new", "old"]);
  expect(second!.panes[0]!.turns).toEqual([
    { role: "user", content: "Hello" },
    { role: "assistant", content: "a", cost: 0.5 },
  ]);
});

test("where there is no room the oldest go", () => {
  const one = JSON.stringify([chatOf("0", 0)]).length;
  const store = storeOf(2 * one);
  const kept = writeChats(store, [chatOf("1", 1), chatOf("2", 2), chatOf("3", 3)]);
  expect(kept.map(({ id }) => id)).toEqual(["3", "2"]);
  expect(readChats(store)).toHaveLength(2);
});

test("a text of any form gives conversations whose parts have their types", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      for (const { panes, settings } of parseChats(text)) {
        expect(panes.length).toBeGreaterThan(0);
        expect(Object.keys(settings)).toEqual(Object.keys(DEFAULT_SETTINGS));
      }
    }),
  );
  const [chat] = parseChats(
    '{"id":"x","panes":[{"turns":[{"role":"user","content":5,"files":[1,{"name":2}]},{"role":"system"}]}]}',
  );
  expect(chat!.panes[0]!.turns).toEqual([{ role: "user", content: "", files: [{ name: "", text: "" }] }]);
});
