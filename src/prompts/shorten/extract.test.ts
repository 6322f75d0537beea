import fc from "fast-check";
import { expect, test } from "vitest";
import { type PromptRequest, plainRequest } from "../requests.js";
import {
  extractionCandidates,
  type TokenSurprise,
  withoutPredictedSentences,
  withoutPredictedWords,
} from "./extract.js";
import { isObligation, lastLineStart, protectedSpans } from "./prose.js";

/** One token per word, with the white space before it. @param natsOf the nats of a word */
function surpriseOf(text: string, natsOf: (word: string) => number): TokenSurprise {
  const words = [...text.matchAll(/\s*\S+\s*$|\s*\S+/g)];
  return {
    ends: words.map(({ index, 0: word }) => index + word.length),
    nats: words.map(({ 0: word }) => natsOf(word.trim())),
  };
}

const words = fc.constantFrom(...'the|a|quick|brown|runs|and|then|Bea|Lind|17|{name}|"so it is"|`x`|\n'.split("|"));
/** Short sentences, some of which oblige or negate. */
const sentence = fc
  .tuple(fc.array(words, { maxLength: 5 }), fc.constantFrom("here", "there", "here", "there", "not", "never", "must"))
  .map(([middle, last]) => ["It", ...middle, `${last}.`].join(" "));
const texts = fc.array(sentence, { minLength: 1, maxLength: 20 }).map((each) => each.join(" "));
const count = (text: string, part: string): number => text.split(part).length - 1;

test("sentences: every protected span stays in a place, and every sentence that obliges", () => {
  fc.assert(
    fc.property(texts, fc.double({ min: 0, max: 1, noNaN: true }), fc.integer(), (text, share, seed) => {
      const tokens = surpriseOf(text, (word) => Math.abs(Math.sin(seed + word.length)) * 5);
      const left = withoutPredictedSentences(text, tokens, text.length, share);
      for (const { start, end } of protectedSpans(text)) expect(left).toContain(text.slice(start, end));
      for (const word of ["not", "never", "must"]) expect(count(left, word)).toBe(count(text, word));
    }),
    // A fixed line whose final blank is removed with the sentence after it.
    { examples: [["It \n {name} here. It \n here. It here.", 0.5714285714285714, 0]] },
  );
});

test("words: protected spans, obligations and line breaks stay, and no more goes than the share", () => {
  fc.assert(
    fc.property(texts, fc.double({ min: 0, max: 1, noNaN: true }), fc.integer(), (text, share, seed) => {
      const tokens = surpriseOf(text, (word) => Math.abs(Math.sin(seed + word.length)) * 5);
      const left = withoutPredictedWords(text, tokens, text.length, share);
      for (const { start, end } of protectedSpans(text)) expect(left).toContain(text.slice(start, end));
      for (const part of ["not", "never", "must", "\n"]) expect(count(left, part)).toBe(count(text, part));
      const lost = text.split(/\s+/).length - left.split(/\s+/).length;
      expect(lost).toBeLessThanOrEqual(share * tokens.ends.length + 1);
    }),
  );
});

test("what is predicted goes first, and the last line stays", () => {
  const text = "The mill is old. Water drives the wheel. People like it here.\nWater drives what?";
  const tokens = surpriseOf(text, (word) => (/Water|drives|wheel/.test(word) ? 9 : 1));
  const end = lastLineStart(text);
  expect(withoutPredictedSentences(text, tokens, end, 0.3)).toBe(
    "Water drives the wheel. People like it here.\nWater drives what?",
  );
  expect(withoutPredictedWords(text, tokens, end, 0.2)).toContain("\nWater drives what?");
  expect(isObligation(text)).toBe(false);
});

test("a shared prompt is cut alike in every request, and texts of requests apart from it", async () => {
  const shared =
    "The office is near the river. It has a band. It has a garden. It has a cellar with maps of all the towns and villages around here.";
  const requests = Array.from({ length: 20 }, (_, i) =>
    plainRequest(
      [
        { role: "system", content: shared },
        {
          role: "user",
          content: `Order ${i} was sent to a shop by the sea where nobody goes in winter. It was blue. It was big. It was late. It was dear.\nWhich order?`,
        },
      ],
      String(i),
    ),
  );
  const asked: string[] = [];
  const candidates = extractionCandidates(async (all) => {
    asked.push(...all);
    return all.map((text) => surpriseOf(text, (word) => word.length));
  });
  const contents = (all: readonly PromptRequest[], at: number) =>
    new Set(all.map(({ messages }) => messages[at]!.content));
  const ofPrompt = candidates.find(({ name }) => name === "sentences of the prompt, 50 %")!;
  const ofRequest = candidates.find(({ name }) => name === "sentences of the request, 50 %")!;
  const first = await ofPrompt.apply(requests);
  expect(asked).toEqual([shared]);
  expect(contents(first, 0).size).toBe(1);
  expect([...contents(first, 0)][0]!.length).toBeLessThan(shared.length);
  expect(contents(first, 1)).toEqual(contents(requests, 1));
  const second = await ofRequest.apply(first);
  expect(contents(second, 0)).toEqual(contents(first, 0));
  for (const [index, text] of [...contents(second, 1)].entries()) {
    expect(text).toContain(`Order ${index} `);
    expect(text).toContain("\nWhich order?");
    expect(text.length).toBeLessThan(requests[0]!.messages[1]!.content.length);
  }
});
