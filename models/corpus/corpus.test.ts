import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Chat } from "./chat.js";
import { chatAt, families, readMixture } from "./families.js";
import { OverlapCount } from "./overlap-count.js";
import { joinWithAnd, phrase } from "./phrase.js";
import { createRandom } from "./random.js";

const trainingSeed = 1;

const chatsOf = (seed: number, count: number, mixture?: string): Chat[] =>
  Array.from({ length: count }, (_, index) =>
    chatAt(seed, index, mixture === undefined ? undefined : readMixture(mixture)),
  );
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

  it("alternates user and assistant after at most one system message, ends with the assistant and has no empty or unexpanded text", () => {
    for (const chat of chatsOf(trainingSeed, 3000)) {
      const turns = chat.messages[0]?.role === "system" ? chat.messages.slice(1) : chat.messages;
      expect(turns.length % 2).toBe(0);
      for (const [index, message] of turns.entries()) {
        expect(message.role).toBe(index % 2 === 0 ? "user" : "assistant");
      }
      for (const { content } of chat.messages) {
        const isClean = content.length > 0 && content.trim() === content && !/undefined|\[object|\{\w\}/.test(content);
        if (!isClean) expect.fail(`expected clean text, got ${keyOf(chat)}`);
      }
    }
  });

  it("produces every family in about its share", () => {
    const numChats = 5000;
    const chats = chatsOf(trainingSeed, numChats);
    expect(families.reduce((total, family) => total + family.percent, 0)).toBe(100);
    for (const family of families) {
      const percent = (100 * chats.filter((chat) => chat.family === family.name).length) / numChats;
      expect(Math.abs(percent - family.percent), family.name).toBeLessThan(2);
    }
  });

  it("makes one family alone or some in the shares asked for, and names the families when there is no such one", () => {
    expect(new Set(chatsOf(3, 20, "edit").map(({ family }) => family))).toEqual(new Set(["edit"]));
    const mixed = chatsOf(3, 2000, "edit=3,sort=1").map(({ family }) => family);
    expect(new Set(mixed)).toEqual(new Set(["edit", "sort"]));
    expect(mixed.filter((family) => family === "edit").length / mixed.length).toBeCloseTo(0.75, 1);
    expect(chatsOf(3, 20, "echo").every(({ messages }) => messages.at(-1)!.content.length < 400)).toBe(true);
    expect(() => readMixture("poem")).toThrow(/extract.*got "poem"/);
    expect(() => readMixture("edit=0")).toThrow(/above 0 for edit, got "0"/);
  });
});

/**
 * Letters that are surely within 2048 tokens of 4096-token BPE: even figures, at a token each, are a small part of a
 * chat.
 */
const MAX_LETTERS = 6500;
const heldOutSeed = 1_000_001;
const lastTurn = ({ messages }: Chat): readonly [question: string, answer: string] => {
  const [question, answer] = messages.slice(-2);
  return [question?.content ?? "", answer?.content ?? ""];
};

describe("families", () => {
  it("keep to the context, and shares of lengths are as planned", () => {
    const lengths = chatsOf(heldOutSeed, 4000).map(({ messages }) =>
      messages.reduce((total, { content }) => total + content.length, 0),
    );
    expect(Math.max(...lengths)).toBeLessThan(MAX_LETTERS);
    expect(lengths.filter((length) => length > 3000).length).toBeGreaterThan(25);
    expect(lengths.filter((length) => length < 400).length).toBeGreaterThan(1000);
  });

  it("extract: answers are JSON whose values stand in the chat", () => {
    for (const chat of chatsOf(heldOutSeed, 400, "extract")) {
      const before = chat.messages
        .slice(0, -1)
        .map(({ content }) => content)
        .join("\n");
      const leaves = (value: unknown): unknown[] =>
        typeof value === "object" && value !== null ? Object.values(value).flatMap(leaves) : [value];
      const values = leaves(JSON.parse(lastTurn(chat)[1])).filter(
        (value) => value !== null && typeof value !== "boolean",
      );
      for (const value of values) expect(before).toContain(String(value));
    }
  });

  it("story, passage: an article fits its noun", () => {
    const text = chatsOf(heldOutSeed, 600, "story=1,passage=1").map(keyOf).join("\n");
    expect(text.match(/\b[Aa] (?:[aeio]|umbrella|uncle)\w+/g)).toBeNull();
  });

  it("passage: answers are copied, or the passage does not say", () => {
    let numUnsaid = 0;
    for (const chat of chatsOf(heldOutSeed, 400, "passage")) {
      const before = chat.messages
        .slice(0, -1)
        .map(({ content }) => content)
        .join("\n")
        .toLowerCase();
      const [, answer] = lastTurn(chat);
      if (answer === "The passage does not say.") numUnsaid += 1;
      else expect(before).toContain(answer.toLowerCase());
    }
    expect(numUnsaid).toBeGreaterThan(10);
    expect(numUnsaid).toBeLessThan(80);
  });

  it("passage: a question has one answer", () => {
    for (const { messages } of chatsOf(heldOutSeed, 400, "passage")) {
      const answers = new Map<string, string>();
      for (let index = 1; index < messages.length; index++) {
        const [question, answer] = [messages[index - 1]?.content ?? "", messages[index]?.content ?? ""];
        if (messages[index]?.role !== "assistant") continue;
        expect(answers.get(question) ?? answer).toBe(answer);
        answers.set(question, answer);
      }
    }
  });

  it("arithmetic: every equation of every step is right", () => {
    let numChecked = 0;
    for (const chat of chatsOf(heldOutSeed, 400, "arithmetic")) {
      for (const [, left, right] of lastTurn(chat)[1].matchAll(/(?<=^|: |, )(\d+(?: [-+*/] \d+)+) = (\d+)/gm)) {
        const [first = "", ...rest] = (left ?? "").split(" ");
        let value = Number(first);
        for (let index = 0; index < rest.length; index += 2) {
          const operand = Number(rest[index + 1]);
          const sign = rest[index] as "+" | "-" | "*" | "/";
          value = { "+": value + operand, "-": value - operand, "*": value * operand, "/": value / operand }[sign];
        }
        expect(value, lastTurn(chat)[1]).toBe(Number(right));
        numChecked += 1;
      }
    }
    expect(numChecked).toBeGreaterThan(800);
  });

  it("edit: the answer is the text of the request, changed", () => {
    for (const chat of chatsOf(heldOutSeed, 400, "edit")) {
      const [question, answer] = lastTurn(chat);
      const shared = answer.split("\n").filter((line) => chat.messages.some(({ content }) => content.includes(line)));
      expect(shared.length, `${question}\n---\n${answer}`).toBeGreaterThan(0);
    }
  });

  it("change: words that the request does not name stay as they are, in order", () => {
    const wordsOf = (text: string): string[] => text.split(/[\n ,;"`-]+/).filter((word) => word !== "");
    let numChanged = 0;
    for (const chat of chatsOf(heldOutSeed, 400, "change")) {
      const [question, answer] = lastTurn(chat);
      const asked = wordsOf(question);
      // What neither came from the list nor was asked for in capitals would be made up.
      const known = new Set(
        [...asked, ...asked.map((word) => word.toUpperCase())].map((word) => word.replace(/[:.]$/, "")),
      );
      for (const word of wordsOf(answer)) {
        expect(known.has(word.replace(/[:.]$/, "")), `${word} in ${question}\n---\n${answer}`).toBe(true);
      }
      if (!question.includes(answer)) numChanged += 1;
    }
    expect(numChanged).toBeGreaterThan(350);
  });

  it("story: one hero keeps name and pronoun", () => {
    for (const chat of chatsOf(heldOutSeed, 300, "story")) {
      const [, answer] = lastTurn(chat);
      const [, hero] = /named (\p{L}+)/u.exec(answer) ?? [];
      if (hero === undefined) continue;
      expect(answer.split(hero).length).toBeGreaterThan(2);
      expect(answer).not.toMatch(/\{|\}| ,| \.|\.\.|a [aeiou]\w+ named/);
    }
  });

  it("share few chats with training text where there is much to say", () => {
    const overlap = new OverlapCount(
      ["extract", "passage", "edit", "story", "summary", "code"].flatMap((family) => chatsOf(heldOutSeed, 60, family)),
    );
    for (const chat of chatsOf(trainingSeed, 6000)) overlap.addTraining(chat);
    expect(overlap.report().at(-1)).toMatchObject({ chats: 0, turns: expect.closeTo(0, 1) });
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
