import { expect, test, vi } from "vitest";
import { type Conversation, DEFAULT_SETTINGS } from "./conversation.js";

const storage = { getItem: () => null, setItem: () => {}, removeItem: () => {} };
vi.stubGlobal("localStorage", storage);
vi.stubGlobal("sessionStorage", storage);
vi.stubGlobal("addEventListener", () => {});

const { patternOf, placeIn } = await import("./search.js");

const chatOf = (...contents: readonly string[]): Conversation => ({
  id: "a",
  title: "a",
  updatedMs: 1,
  settings: DEFAULT_SETTINGS,
  panes: [{ model: "m", turns: contents.map((content) => ({ role: "user", content })) }],
});
const find = (words: string, ...contents: readonly string[]) => placeIn(chatOf(...contents), patternOf(words)!);

test("words are found in any case and over line ends, with what stands around them", () => {
  expect(find(" grey  HERON ", "None.", `${"x".repeat(50)} a grey\nheron, ${"y".repeat(100)}`)).toEqual({
    pane: 0,
    turn: 1,
    before: `${"x".repeat(27)} a `,
    match: "grey heron",
    after: `, ${"y".repeat(88)}`,
  });
  expect(find("straße", "STRAßE")!.match).toBe("STRAßE");
  expect(find("heron", "None.")).toBeUndefined();
  expect(patternOf(" \n")).toBeUndefined();
});

test("every character stands for itself", () => {
  for (let code = 33; code < 127; code++) {
    const words = `a${String.fromCharCode(code)}b`;
    expect(find(words, `.. ${words} ..`)!.match).toBe(words);
    expect(find(words, "a~~b ab")).toEqual(undefined);
  }
});
