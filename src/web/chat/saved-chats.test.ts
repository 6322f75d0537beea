import fc from "fast-check";
import { expect, test } from "vitest";
import { z } from "zod";
import { type Conversation, DEFAULT_SETTINGS, TROUBLES } from "./conversation.js";
import { parseChats, readChats, type TextStore, writeChats } from "./saved-chats.js";

/** A store with room for `room` characters. */
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
  const { kept, tooLarge, numDropped } = writeChats(store, [chatOf("1", 1), chatOf("2", 2), chatOf("3", 3)]);
  expect([tooLarge, numDropped]).toEqual([[], 1]);
  expect(kept.map(({ id }) => id)).toEqual(["3", "2"]);
  expect(readChats(store)).toHaveLength(2);
});

test.each([3, 1.5, 0])("one of time %d that has no room even alone is left out, and the others stay", (updatedMs) => {
  const store = storeOf(1000);
  writeChats(store, [chatOf("old", 1), chatOf("other", 2)]);
  const huge = "x".repeat(1000);
  const { kept, tooLarge, numDropped } = writeChats(store, [chatOf("huge", updatedMs, huge), ...readChats(store)]);
  expect([tooLarge, numDropped]).toEqual([["huge"], 0]);
  expect(kept.map(({ id }) => id)).toEqual(["other", "old"]);
  expect(readChats(store)).toEqual(kept);
});

test("one that grows beyond the room stays as it was kept last", () => {
  const store = storeOf(1000);
  writeChats(store, [chatOf("grows", 1), chatOf("other", 2)]);
  const written = writeChats(store, [chatOf("grows", 3, "x".repeat(1000)), chatOf("other", 2)]);
  const { kept, tooLarge, numDropped } = written;
  expect([tooLarge, numDropped]).toEqual([["grows"], 0]);
  expect(kept).toEqual([chatOf("other", 2), chatOf("grows", 1)]);
  expect(readChats(store)).toEqual(kept);
});

test("a browser that stores nothing ends", () => {
  expect(writeChats(storeOf(0), [chatOf("1", 1)])).toEqual({
    kept: [],
    tooLarge: ["1"],
    numDropped: 0,
  });
});

test("beyond the most that a list holds the oldest go, though there is room", () => {
  const chats = Array.from({ length: 1003 }, (_, i) => chatOf(String(i), i));
  const { kept, numDropped } = writeChats(storeOf(1e7), chats);
  expect([kept.length, kept.at(-1)!.id, numDropped]).toEqual([1000, "3", 3]);
});

/** Objects with our keys; each value has its own form, or any other. */
const shaped = (keys: Readonly<Record<string, fc.Arbitrary<unknown>>>) =>
  fc.record(
    Object.fromEntries(
      Object.entries(keys).map(([key, own]) => [
        key,
        fc.oneof({ weight: 4, arbitrary: own }, { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 1 }) }),
      ]),
    ),
    { requiredKeys: [] },
  );
const number = fc.oneof(fc.double(), fc.integer());
const turn = shaped({
  role: fc.constantFrom("user", "assistant", "system"),
  content: fc.string(),
  reasoning: fc.string(),
  files: fc.array(
    shaped({
      name: fc.string(),
      text: fc.string(),
      image: fc.constantFrom("data:image/png;base64,AAAA", "https://example.com/a.png"),
    }),
  ),
  toolCalls: fc.array(shaped({ name: fc.string(), arguments: fc.string() })),
  speed: shaped({ numTokens: number, firstMs: number, restMs: number }),
  cost: number,
  trouble: fc.constantFrom(...TROUBLES),
  error: fc.string(),
  isDropped: fc.boolean(),
  feedback: shaped({
    requestId: fc.oneof(fc.uuid(), fc.string()),
    rating: fc.constantFrom("up", "down", "sideways"),
    correction: fc.string(),
    cacheId: fc.oneof(fc.constant("0123456789abcdef".repeat(2)), fc.string()),
    isWrong: fc.boolean(),
  }),
});
const conversation = shaped({
  id: fc.string(),
  title: fc.string(),
  isNamed: fc.boolean(),
  updatedMs: number,
  settings: shaped(
    Object.fromEntries(
      Object.entries(DEFAULT_SETTINGS).map(([key, value]) => [
        key,
        typeof value === "boolean" ? fc.boolean() : fc.oneof(fc.string(), fc.constant("json")),
      ]),
    ),
  ),
  panes: fc.array(shaped({ model: fc.string(), turns: fc.array(turn, { maxLength: 3 }) }), { maxLength: 3 }),
});

/** The form that the page relies on. */
const amount = z.number().min(0);
const form = z.strictObject({
  id: z.string(),
  title: z.string().min(1),
  isNamed: z.literal(true).optional(),
  updatedMs: z.number(),
  settings: z.strictObject({
    ...Object.fromEntries(
      Object.entries(DEFAULT_SETTINGS).map(([key, value]) => [
        key,
        typeof value === "boolean" ? z.boolean() : z.string(),
      ]),
    ),
    format: z.enum(["text", "json", "schema"]),
  }),
  panes: z
    .array(
      z.strictObject({
        model: z.string(),
        turns: z.array(
          z.strictObject({
            role: z.enum(["user", "assistant"]),
            content: z.string(),
            reasoning: z.string().min(1).optional(),
            files: z
              .array(
                z.strictObject({
                  name: z.string(),
                  text: z.string(),
                  image: z.literal("data:image/png;base64,AAAA").optional(),
                }),
              )
              .optional(),
            toolCalls: z.array(z.strictObject({ name: z.string(), arguments: z.string() })).optional(),
            speed: z.strictObject({ numTokens: amount.int(), firstMs: amount, restMs: amount }).optional(),
            cost: amount.optional(),
            trouble: z.enum(TROUBLES).optional(),
            error: z.string().optional(),
            isDropped: z.literal(true).optional(),
            feedback: z
              .strictObject({
                requestId: z.string().regex(/^[!-~]{1,200}$/),
                rating: z.enum(["up", "down"]).optional(),
                correction: z.string().min(1).optional(),
                cacheId: z
                  .string()
                  .regex(/^[0-9a-f]{32}$/)
                  .optional(),
                isWrong: z.literal(true).optional(),
              })
              .optional(),
          }),
        ),
      }),
    )
    .min(1)
    .max(2),
});

test("a text of any form gives conversations whose parts have their types", () => {
  let numFound = 0;
  fc.assert(
    fc.property(
      fc.oneof(
        fc.json(),
        fc.array(conversation).map((value) => JSON.stringify(value)),
      ),
      (text) => {
        for (const chat of parseChats(text)) {
          numFound++;
          form.parse(chat);
        }
      },
    ),
    { numRuns: 300 },
  );
  expect(numFound).toBeGreaterThan(50);
  const [chat] = parseChats(
    '{"id":"x","panes":[{"turns":[{"role":"user","content":5,"files":[1,{"name":2}]},{"role":"system"}]}]}',
  );
  expect(chat!.panes[0]!.turns).toEqual([{ role: "user", content: "", files: [{ name: "", text: "" }] }]);
});
