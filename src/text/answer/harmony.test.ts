/** Harmony's messages become parts, wherever the text is cut. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { type AnswerPart, appendPart } from "./answer-part.js";
import { awaitsChannel, HarmonyReader, type HarmonyReaderOptions, harmonyOpening, speaksHarmony } from "./harmony.js";

const OPTIONS: HarmonyReaderOptions = {
  toolNames: new Set(["now", "get_weather"]),
  isSingle: false,
  hasReasoning: true,
  opening: "",
};

function read(pieces: readonly string[], options: Partial<HarmonyReaderOptions> = {}) {
  const reader = new HarmonyReader({ ...OPTIONS, ...options });
  const parts: AnswerPart[] = [];
  for (const piece of pieces) for (const part of reader.push(piece)) appendPart(parts, part);
  for (const part of reader.flush()) appendPart(parts, part);
  return { parts, isComplete: reader.isComplete };
}

/** Short forms: r, c for text, "name(" for a call, a for arguments. */
const shown = (parts: readonly AnswerPart[]) =>
  parts.map((part) => (part.kind === "call" ? `${part.name}(` : `${part.kind[0]}:${part.text}`));

const THOUGHT = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
const CALL = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>";

type Case = readonly [text: string, parts: readonly string[], options?: Partial<HarmonyReaderOptions>];
const CASES: readonly Case[] = [
  [`${THOUGHT}<|channel|>final<|message|>Yes.<|return|>`, ["r:Hm.", "c:Yes."]],
  [`${THOUGHT}<|channel|>final<|message|>Yes.`, ["r:Hm.", "c:Yes."]],
  [`${THOUGHT}${CALL}{"city": "Rome"}<|call|>`, ["r:Hm.", "get_weather(", 'a:{"city": "Rome"}']],
  [`${THOUGHT} to=functions.now<|channel|>commentary json<|message|>{}`, ["r:Hm.", "now(", "a:{}"]],
  [" to=functions.now<|channel|>commentary<|message|>{}<|call|>", ["now(", "a:{}"]],
  ["<|channel|>analysis to=functions.now code<|message|>{}<|call|>", ["now(", "a:{}"]],
  ["<|channel|>commentary to=functions.now<|message|><|call|>", ["now(", "a:{}"]],
  [`<|channel|>commentary<|message|>I look.<|end|><|start|>assistant${CALL}{`, ["c:I look.", "get_weather(", "a:{"]],
  [`${CALL}{}<|end|><|start|>assistant${CALL}{"a":1}`, ["get_weather(", "a:{}", "get_weather(", 'a:{"a":1}']],
  ["<|channel|>commentary to=functions.other<|message|>{}<|call|>", ["c:{}"]],
  ["<|channel|>commentary to=browser.search<|message|>{}<|call|>", ["c:{}"]],
  [`${THOUGHT}<|channel|>analysis<|message|>More.`, ["r:Hm.\n\nMore."]],
  // Omitted or truncated ends, text that only resembles a marker, and headers that never end.
  ["<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>final<|message|>A", ["r:Hm.", "c:A"]],
  ["<|channel|>final<|message|>a < b <|x <|en", ["c:a < b <|x <|en"]],
  ["<|channel|>final<|message|>a<|end", ["c:a<|end"]],
  [`${THOUGHT}<|channel|>fin`, ["r:Hm."]],
  ["<|channel|>final", []],
  ["", []],
  // No headers at all.
  ["Plain text.", ["c:Plain text."]],
  [" to be", ["c: to be"]],
  ["to", ["c:to"]],
  [`${THOUGHT}<|channel|>final<|message|>Yes.`, ["c:Hm.\n\nYes."], { hasReasoning: false }],
  ["Yes.<|return|>", ["c:Yes."], { opening: "<|channel|>final<|message|>" }],
  [
    " more.<|end|><|start|>assistant<|channel|>final<|message|>A",
    ["r: more.", "c:A"],
    { opening: "<|channel|>analysis<|message|>" },
  ],
  ['{"city":1}', ["get_weather(", 'a:{"city":1}'], { opening: CALL, isSingle: true }],
  ["now <|constrain|>json<|message|>{}", ["now(", "a:{}"], { opening: "<|channel|>commentary to=functions." }],
  [`${CALL}{}<|end|><|start|>assistant${CALL}{}`, ["get_weather(", "a:{}"], { isSingle: true }],
];

describe("an answer", () => {
  it.each(CASES.map((one): [Case] => [one]))("%j", ([text, parts, options]) => {
    expect(shown(read([text], options).parts)).toEqual(parts);
    // Character by character, and in pieces that begin or end within markers.
    expect(shown(read([...text], options).parts)).toEqual(parts);
  });

  it("is read alike however it is cut", () => {
    const word = fc.constantFrom(
      "<|start|>",
      "<|end|>",
      "<|channel|>",
      "<|message|>",
      "<|constrain|>",
      "<|call|>",
      "<|return|>",
      "assistant",
      "analysis",
      "final",
      "commentary",
      " to=functions.now",
      " to=functions.x",
      "json",
      "a",
      "<",
      "<|",
      " ",
      "{}",
    );
    fc.assert(
      fc.property(
        fc.array(word, { maxLength: 14 }),
        fc.array(fc.nat(60), { maxLength: 6 }),
        fc.boolean(),
        (words, cuts, isSingle) => {
          const text = words.join("");
          const places = [0, ...cuts.filter((cut) => cut < text.length).toSorted((a, b) => a - b), text.length];
          const pieces = places.slice(1).map((end, i) => text.slice(places[i], end));
          expect(read(pieces, { isSingle })).toEqual(read([text], { isSingle }));
        },
      ),
      { numRuns: 2000, seed: 4 },
    );
  });

  it("that never ends its header is content, in time that grows with its length", () => {
    const long = "word ".repeat(30_000);
    for (const start of ["<|channel|>analysis ", `${THOUGHT}<|channel|>`, " ".repeat(20)]) {
      const text = `${start}${start.trim() === "" ? " ".repeat(150_000) : long}<|message|>x<|end|>${THOUGHT}`;
      const whole = read([text]).parts;
      expect(whole.map(({ kind }) => kind).slice(-2)).toEqual(["content", "reasoning"]);
      const startMs = computedMs();
      expect(read(text.match(/.{1,2}/gs)!).parts).toEqual(whole);
      // Reading the text again for each piece takes a minute.
      expect(computedMs() - startMs).toBeLessThan(5000);
    }
  });

  it("tells reasoning while it comes, and is complete after a single call", () => {
    const reader = new HarmonyReader({ ...OPTIONS, isSingle: true });
    reader.push("<|channel|>analysis<|message|>H");
    expect(reader.isReasoning).toBe(true);
    reader.push("<|end|>");
    expect(reader.isReasoning).toBe(false);
    reader.push(`<|start|>assistant${CALL}{}`);
    expect(reader.isComplete).toBe(false);
    reader.push("<|call|>");
    expect(reader.isComplete).toBe(true);
    expect(reader.push("<|start|>assistant<|channel|>final<|message|>x")).toEqual([]);
  });
});

it("the prompt says how far the first header is", () => {
  const before = "<|start|>user<|message|>Hi<|end|>";
  const openings = [
    [`${before}<|start|>assistant`, ""],
    [`${before}<|start|>assistant<|channel|>final<|message|>Yes, and`, "<|channel|>final<|message|>"],
    [`${before}<|start|>assistant<|channel|>commentary to=functions.`, "<|channel|>commentary to=functions."],
    [`${before}<|start|>assistant<|channel|>final<|message|>Yes<|end|>${before}`, ""],
    [before, ""],
  ] as const;
  for (const [prompt, opening] of openings) expect(harmonyOpening(prompt), prompt).toBe(opening);
  expect(openings.map(([prompt]) => awaitsChannel(prompt))).toEqual([true, false, false, false, false]);
  expect(speaksHarmony("<|start|>user<|message|>{{ x }}<|end|>")).toBe(false);
});
