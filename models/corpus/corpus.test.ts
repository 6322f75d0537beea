import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Chat } from "./chat.js";
import { chatAt, families } from "./families.js";
import { joinWithAnd, phrase } from "./phrase.js";
import { createRandom } from "./random.js";

const trainingSeed = 1;
const heldOutSeed = 1_000_001;

const chatsOf = (seed: number, count: number): Chat[] =>
  Array.from({ length: count }, (_, index) => chatAt(seed, index));
const keyOf = (chat: Chat): string => JSON.stringify(chat.messages);

describe("chatAt", () => {
  it("gives the same bytes for the same seed and index, whatever was made before", () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(1_000_000), fc.nat(1_000_000), (seed, index, other) => {
        const first = JSON.stringify(chatAt(seed, index));
        chatAt(seed, other);
        expect(JSON.stringify(chatAt(seed, index))).toBe(first);
      }),
      { seed: 7 },
    );
  });

  it("pins one chat, so that a changed generator is noticed", () => {
    expect(chatAt(trainingSeed, 3)).toMatchInlineSnapshot(`
      {
        "family": "list",
        "messages": [
          {
            "content": "You are a helpful assistant.",
            "role": "system",
          },
          {
            "content": "Please list four animals that live in the sea in a numbered list.",
            "role": "user",
          },
          {
            "content": "1. shark
      2. turtle
      3. dolphin
      4. octopus",
            "role": "assistant",
          },
        ],
      }
    `);
  });

  it("alternates user and assistant after at most one system message, ends with the assistant and has no empty or unexpanded text", () => {
    for (const chat of chatsOf(trainingSeed, 3000)) {
      const turns = chat.messages[0]?.role === "system" ? chat.messages.slice(1) : chat.messages;
      expect(turns.length % 2).toBe(0);
      for (const [index, message] of turns.entries()) {
        expect(message.role).toBe(index % 2 === 0 ? "user" : "assistant");
      }
      for (const message of chat.messages) {
        const isClean = message.content.length > 0 && message.content.trim() === message.content;
        const isExpanded = chat.family === "json" || !/[{}[\]|]|undefined/.test(message.content);
        if (!isClean || !isExpanded) expect.fail(`expected clean text, got ${keyOf(chat)}`);
      }
    }
  });

  it("produces every family in about its share", () => {
    const numChats = 5000;
    const chats = chatsOf(trainingSeed, numChats);
    const totalPercent = families.reduce((total, family) => total + family.percent, 0);
    expect(totalPercent).toBe(100);
    for (const family of families) {
      const percent = (100 * chats.filter((chat) => chat.family === family.name).length) / numChats;
      expect(Math.abs(percent - family.percent), family.name).toBeLessThan(2);
    }
  });

  it("shares few whole dialogues between the training seed and the held-out seed", () => {
    const training = new Set(chatsOf(trainingSeed, 10_000).map(keyOf));
    const heldOut = chatsOf(heldOutSeed, 2000);
    const numShared = heldOut.filter((chat) => training.has(keyOf(chat))).length;
    expect(numShared / heldOut.length).toBeLessThan(0.15);
    const longFamilies = heldOut.filter((chat) => ["passage", "story", "json"].includes(chat.family));
    const numSharedLong = longFamilies.filter((chat) => training.has(keyOf(chat))).length;
    expect(numSharedLong / longFamilies.length).toBeLessThan(0.01);
  });
});

describe("families", () => {
  const chats = chatsOf(heldOutSeed, 4000);
  const ofFamily = (name: string): Chat[] => chats.filter((chat) => chat.family === name);

  it("json answers parse and hold only values the request names", () => {
    const requests = ofFamily("json");
    expect(requests.length).toBeGreaterThan(100);
    for (const { messages } of requests) {
      const [question, answer] = messages.slice(-2);
      const value: unknown = JSON.parse(answer?.content ?? "");
      const leaves = Object.values(value as object).flat();
      expect(leaves.length).toBeGreaterThan(0);
      // A food's colour is the one value the model must know by itself.
      if (question?.content.includes("with its colour") === true) continue;
      for (const leaf of leaves) expect(question?.content).toContain(String(leaf));
    }
  });

  it("passage answers occur in the passage", () => {
    const passages = ofFamily("passage");
    expect(passages.length).toBeGreaterThan(100);
    for (const { messages } of passages) {
      // The passage is in the first message, or in the second after a general system message.
      const passage = messages
        .slice(0, 2)
        .filter((message) => message.role !== "assistant")
        .map((message) => message.content)
        .join("\n");
      for (const message of messages) {
        if (message.role === "assistant") expect(passage).toContain(message.content);
      }
    }
  });

  it("stories use what the request names", () => {
    for (const { messages } of ofFamily("story")) {
      const [question, answer] = messages.slice(-2).map((message) => message.content.toLowerCase());
      const things = /about an? (.*)$/.exec(question ?? "")?.[1]?.replace(/\.$/, "") ?? "";
      expect(things).not.toBe("");
      const lastThing = things.split(/ (?:and|named|called) (?:an? )?/).at(-1) ?? "";
      expect(answer, question).toContain(lastThing.split(" ").at(-1));
    }
  });

  it("sums are right", () => {
    let numChecked = 0;
    for (const { messages } of ofFamily("sum")) {
      const match = /^(\d+) ([-+*]) (\d+) = (\d+)$/.exec(messages.at(-1)?.content ?? "");
      if (match === null) continue;
      const [a, b] = [Number(match[1]), Number(match[3])];
      const expected = { "+": a + b, "-": a - b, "*": a * b }[match[2] ?? ""];
      expect(Number(match[4])).toBe(expected);
      numChecked += 1;
    }
    expect(numChecked).toBeGreaterThan(20);
  });
});

describe("phrase", () => {
  const random = createRandom(1);

  it("expands nested choices and slots", () => {
    const seen = new Set(Array.from({ length: 200 }, () => phrase(random, "[a|b [c|{slot}]|]!", { slot: "d" })));
    expect([...seen].sort()).toEqual(["!", "a!", "b c!", "b d!"]);
  });

  it("refuses unbalanced brackets and unknown slots", () => {
    expect(() => phrase(random, "[a|b")).toThrow(SyntaxError);
    expect(() => phrase(random, "a]b")).toThrow(SyntaxError);
    expect(() => phrase(random, "{missing}")).toThrow(RangeError);
  });

  it("joins with commas and a last and", () => {
    expect([[], ["a"], ["a", "b"], ["a", "b", "c"]].map(joinWithAnd)).toEqual(["", "a", "a and b", "a, b and c"]);
  });
});
