import { expect, test } from "vitest";
import { readPiped } from "./read-input.js";

test("what is piped in is the text; nothing, or a terminal, is told with what to give", () => {
  expect(readPiped("give --text", {}, () => "a text\n")).toBe("a text\n");
  const refusal = (got: string) =>
    expect.objectContaining({ code: "invalid_option", message: expect.stringContaining(got), hint: "give --text" });
  expect(() => readPiped("give --text", {}, () => "")).toThrow(refusal("got nothing"));
  expect(() => readPiped("give --text", { isTTY: true }, () => "typed")).toThrow(refusal("got a terminal"));
});
