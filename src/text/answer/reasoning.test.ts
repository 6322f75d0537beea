import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { cutting } from "../../../test/helpers/cut-text.js";
import {
  endsInsideReasoning,
  markerTexts,
  type ReasoningMarkers,
  ReasoningSplitter,
  reasoningMarkers,
  THINK,
} from "./reasoning.js";

const none = () => false;
const seed = reasoningMarkers("seed_oss", "", none)!;
const mistral = reasoningMarkers("mistral", "", none)!;
const gemma = reasoningMarkers("gemma4", "", none)!;

function split(pieces: readonly string[], startsInside = false, markers: ReasoningMarkers = THINK) {
  const splitter = new ReasoningSplitter(markers, startsInside);
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

  it.each([
    [seed, "<seed:think>a<think></seed:think>b"],
    [mistral, "[THINK]a<think>[/THINK]b"],
    [gemma, "<|channel>thought\na<think>\n<channel|>b"],
  ])("splits by other markers, and by these alone: %#", (markers, text) => {
    expect(split([...text], false, markers)).toEqual({ reasoning: "a<think>", content: "b" });
    expect(split([text.slice(1)], false, markers)).toEqual({ reasoning: "", content: text.slice(1) });
  });

  it.each([
    ["a\n<call>b</think>", "a", "<call>b</think>"],
    ["a <cal</think>b<call>", "a <cal", "b<call>"],
    ["a </thi<call>", "a </thi", "<call>"],
    ["a <call", "a <call", ""],
  ])("ends the reasoning at calls where a format says so: %s", (text, reasoning, content) => {
    for (const pieces of [[text], text.split("")]) {
      const splitter = new ReasoningSplitter(THINK, true, "<call>");
      const parts = [...pieces.map((piece) => splitter.push(piece)), splitter.flush()];
      expect(parts.map((part) => part.reasoning).join("")).toBe(reasoning);
      expect(parts.map((part) => part.content).join("")).toBe(content);
    }
  });

  it("reports whether it is inside the reasoning", () => {
    const splitter = new ReasoningSplitter(THINK, false);
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

it.each(["", "<think>hm"])("white space behind %j takes time in proportion to its length", (begin) => {
  const splitter = new ReasoningSplitter(THINK, false);
  splitter.push(begin);
  const startMs = computedMs();
  // Each blank is a separate piece: searching all held text at each piece takes seconds.
  for (let i = 0; i < 100_000; i++) splitter.push(" ");
  expect(computedMs() - startMs).toBeLessThan(2000);
});

describe("endsInsideReasoning", () => {
  it("looks only at the end of the prompt", () => {
    expect(endsInsideReasoning("<|im_start|>assistant\n<think>\n", THINK)).toBe(true);
    expect(endsInsideReasoning("say <think><|im_start|>assistant\n", THINK)).toBe(false);
    expect(endsInsideReasoning("<think>\n\n</think>\n\n", THINK)).toBe(false);
    expect(endsInsideReasoning("assistant\n<seed:think>", THINK)).toBe(false);
  });

  it("sees the note that Seed-OSS begins there", () => {
    expect(endsInsideReasoning("assistant\n<seed:think><seed:cot_budget_reflect>", seed)).toBe(true);
    expect(endsInsideReasoning("<seed:cot_budget_reflect>", seed)).toBe(false);
  });
});

describe("the markers of a model's reasoning", () => {
  const inVocabulary = (of: ReasoningMarkers) => (texts: readonly string[]) => texts[0] === markerTexts(of)[0];
  it.each([
    ["by the template", "auto", "{{ '<think>' }}", none, THINK],
    ["by the template before the vocabulary", "auto", "{{ '<seed:think>' }}", inVocabulary(mistral), seed],
    ["by the vocabulary", "auto", "{{ x }}", inVocabulary(mistral), mistral],
    ["by a template that writes an empty thought", "auto", "{{ '<|channel>thought\\n<channel|>' }}", none, gemma],
    ["by the tokens that begin and end a thought", "auto", "{{ x }}", inVocabulary(gemma), gemma],
    ["none", "auto", "{{ x }}", none, undefined],
    ["none by the flag", "none", "<think>", none, undefined],
    ["by the flag", "mistral", "<think>", none, mistral],
  ] as const)("%s", (_name, parser, source, isInVocabulary, markers) => {
    expect(reasoningMarkers(parser, source, isInVocabulary)).toEqual(markers);
  });
});
