import { expect, test } from "vitest";
import type { Chat } from "./chat.js";
import { OverlapCount } from "./overlap-count.js";

const chat = (family: string, question: string, answer: string): Chat => ({
  family,
  messages: [
    { role: "user", content: question },
    { role: "assistant", content: answer },
  ],
  check: { kind: "exact" },
});

test("finds whole chats, turns, answers and runs of words, each by its own measure", () => {
  const nine = "one two three four five six seven eight nine";
  const heldOut = [chat("a", "q1", nine), chat("a", "q2", "yes"), chat("b", "q3", "no")];
  const count = new OverlapCount(heldOut);
  count.addTraining(heldOut[1] as Chat);
  count.addTraining(chat("z", "other", `zero ${nine.slice(0, -5)} ten`));
  count.addTraining(chat("z", "still another", "no"));
  const [a, b, all] = count.report();
  expect(a).toEqual({ family: "a", numChats: 2, chats: 0.5, turns: 0.5, answers: 0.5, answerRuns: 0.5, chatRuns: 0 });
  expect(b).toEqual({ family: "b", numChats: 1, chats: 0, turns: 0, answers: 1, answerRuns: 0, chatRuns: 0 });
  expect(all).toMatchObject({ family: "all", numChats: 3, answers: 2 / 3, chats: 1 / 3 });
});

test("an earlier turn of training counts, an earlier turn of a held-out chat does not", () => {
  const [first, second] = [chat("a", "q1", "a1"), chat("a", "q2", "a2")];
  const both: Chat = { ...first, messages: [...first.messages, ...second.messages] };
  const count = new OverlapCount([second, both]);
  count.addTraining(both);
  expect(count.report()[0]).toMatchObject({ chats: 0.5, turns: 1, answers: 1 });
});
