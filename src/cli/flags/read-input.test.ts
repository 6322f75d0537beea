import { expect, test } from "vitest";
import { readPiped } from "./read-input.js";

test("piped text is read; an empty pipe or a terminal is refused with a hint", () => {
  expect(readPiped("give --text", {}, () => "a text\n")).toBe("a text\n");
  const refusal = (got: string) =>
    expect.objectContaining({ code: "invalid_option", message: expect.stringContaining(got), hint: "give --text" });
  expect(() => readPiped("give --text", {}, () => "")).toThrow(refusal("got nothing"));
  expect(() => readPiped("give --text", { isTTY: true }, () => "typed")).toThrow(refusal("got a terminal"));
});
