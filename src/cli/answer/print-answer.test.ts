import { expect, test } from "vitest";
import { printedTo, statsLine } from "./print-answer.js";

function printed(isTTY: boolean) {
  const [out, err]: [string[], string[]] = [[], []];
  const to = (texts: string[]) => ({ isTTY, write: (text: string | Uint8Array) => texts.push(String(text)) > 0 });
  const listener = printedTo(to(out), to(err));
  listener.onReasoning("hm\u001b[2J");
  listener.onText("a\n");
  listener.onText("b\u001b]0;x");
  return { out: out.join(""), err: err.join("") };
}

test("a terminal is shown no control characters, a pipe gets every byte, and reasoning goes to the other stream", () => {
  expect(printed(true)).toEqual({ out: "a\nb\\u001b]0;x", err: "hm\\u001b[2J\n\n" });
  expect(printed(false)).toEqual({ out: "a\nb\u001b]0;x", err: "hm\u001b[2J\n\n" });
});

test("the line of figures leaves out counts that the server does not tell", () => {
  const answer = { text: "", numCachedTokens: 2, numEvictedTokens: 0, numOutputTokens: 3, timeToFirstTokenMs: 5 };
  const rest = { tokensPerSecond: undefined, end: "stop" };
  expect(statsLine({ ...answer, ...rest, numPromptTokens: undefined })).toBe(
    "3 output tokens, first after 5 ms, ended by stop",
  );
  expect(statsLine({ ...answer, ...rest, numPromptTokens: 4, tokensPerSecond: 10, end: "length" })).toBe(
    "4 prompt tokens (2 cached), 3 output tokens, first after 5 ms, 10.0 tok/s, ended by length",
  );
});
