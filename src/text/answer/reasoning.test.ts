import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cutting } from "../../../test/helpers/cut-text.js";
import { endsInsideReasoning, ReasoningSplitter } from "./reasoning.js";

function split(pieces: readonly string[], startsInside = false) {
  const splitter = new ReasoningSplitter(startsInside);
  const parts = [...pieces.map((piece) => splitter.push(piece)), splitter.flush()];
  return {
    reasoning: parts.map((part) => part.reasoning).join(""),
    content: parts.map((part) => part.content).join(""),
  };
}

describe("ReasoningSplitter", () => {
  it.each([
    ["plain text", "Hello <think> you", false, "", "Hello <think> you"],
    ["an element at the start", "\n<think>\na b\n\n</think>\n\nyes\n", false, "a b", "yes\n"],
    ["a turn that starts inside", "a </thin b </think>yes", true, "a </thin b", "yes"],
    ["a turn cut off while thinking", "<think> a\n</thi", false, "a\n</thi", ""],
    ["an empty element", "<think>\n\n</think>\n\nyes", false, "", "yes"],
    ["a second element", "<think>a</think>b<think>c</think>", false, "a", "b<think>c</think>"],
    ["a marker that never comes", " \n<thi", false, "", " \n<thi"],
    ["nothing but white space", " \n", false, "", " \n"],
  ])("splits %s", (_name, text, startsInside, reasoning, content) => {
    expect(split([text], startsInside)).toEqual({ reasoning, content });
    expect(split([...text], startsInside)).toEqual({ reasoning, content });
  });

  it("reports whether it is inside the reasoning", () => {
    const splitter = new ReasoningSplitter(false);
    const states = ["<think>", "a", "</think>", "b"].map((piece) => {
      splitter.push(piece);
      return splitter.isReasoning;
    });
    expect(states).toEqual([true, true, false, false]);
  });

  it("gives the same parts however the text is cut, and drops only markers and white space", () => {
    const text = fc
      .array(fc.constantFrom("<think>", "</think>", "</", "<", "think>", "a", "😀", " ", "\n"), { maxLength: 20 })
      .map((pieces) => pieces.join(""));
    fc.assert(
      fc.property(cutting(text), fc.boolean(), ({ whole, pieces }, startsInside) => {
        const result = split([whole], startsInside);
        expect(split(pieces, startsInside)).toEqual(result);
        const isMarked = startsInside || whole.trimStart().startsWith("<think>");
        const body = isMarked && !startsInside ? whole.trimStart().slice("<think>".length) : whole;
        const rest = isMarked ? body.replace("</think>", "") : body;
        expect((result.reasoning + result.content).replaceAll(/\s/g, "")).toBe(rest.replaceAll(/\s/g, ""));
        if (!isMarked) expect(result.content).toBe(whole);
      }),
      { numRuns: 2000, seed: 20261121 },
    );
  });
});

describe("endsInsideReasoning", () => {
  it("looks only at the end of the prompt", () => {
    expect(endsInsideReasoning("<|im_start|>assistant\n<think>\n")).toBe(true);
    expect(endsInsideReasoning("say <think><|im_start|>assistant\n")).toBe(false);
    expect(endsInsideReasoning("<think>\n\n</think>\n\n")).toBe(false);
  });
});
