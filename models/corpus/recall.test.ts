import { expect, test } from "vitest";
import { recallChats } from "./recall.js";

test("questions over long texts have their answers in them, and are the same for the same seed", () => {
  const chats = recallChats(990_007, 40, 3000);
  expect(recallChats(990_007, 40, 3000)).toEqual(chats);
  for (const { messages } of chats) {
    const [question, answer] = messages;
    const text = question!.content.slice(0, question!.content.lastIndexOf("\n\n"));
    expect(text.length).toBeGreaterThan(2900);
    expect(text.toLowerCase()).toContain(answer!.content.toLowerCase().replace(/\.$/, ""));
  }
});
