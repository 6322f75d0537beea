import fc from "fast-check";
import { expect, test } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { isObligation, lastLineStart, protectedSpans, sentencesOf, withoutSentences } from "./prose.js";

const textsOf = (text: string, spans: readonly { start: number; end: number }[]): string[] =>
  spans.map(({ start, end }) => text.slice(start, end));

/** Pieces of texts, including hostile ones. */
const pieces = fc.constantFrom(
  ..."Dr. Mo came. |```js\nlet a = 1. B;\n```|```|\n|\n\n| |{name}|{{x}}|\"a. B\"|`f()`|17 days. |It's not so! |ß😀|[|{|e.g. |Ok. Fine. |'q. R'".split(
    "|",
  ),
);
const anyText = fc.array(pieces, { maxLength: 30 }).map((each) => each.join(""));

test("sentences cover the text", () => {
  fc.assert(
    fc.property(fc.oneof(anyText, fc.string()), (text) => {
      expect(textsOf(text, sentencesOf(text)).join("")).toBe(text);
      expect(withoutSentences(text, sentencesOf(text), () => false)).toBe(text);
    }),
  );
});

test("titles, initials and abbreviations end no sentence", () => {
  const text = "Ask Dr. Mokala, e.g. Monday. J. Smith knows. Is it far? Yes.";
  expect(textsOf(text, sentencesOf(text))).toEqual([
    "Ask Dr. Mokala, e.g. Monday. ",
    "J. Smith knows. ",
    "Is it far? ",
    "Yes.",
  ]);
});

test("code, JSON and headings are fixed", () => {
  const text = 'Do this. Then that.\n```\nx. Y\n```\n# Rules\n{"a": 1}\n"b": 2,\nEnd.';
  const fixed = sentencesOf(text).filter(({ isFixed }) => isFixed);
  expect(textsOf(text, fixed)).toEqual(["```\nx. Y\n```", "# Rules\n", '{"a": 1}\n', '"b": 2,\n']);
});

test("numbers, names, quotes, code and placeholders are protected", () => {
  const text = 'Send {item} to Bea Lind at 4 Rose Drive, say "see you" and run `ls`. The rest goes to iOS or a@b.c.';
  expect(textsOf(text, protectedSpans(text))).toEqual([
    "Send {item}".slice(5),
    "Bea",
    "Lind",
    "4",
    "Rose",
    "Drive",
    '"see you"',
    "`ls`",
    "iOS",
    "a@b.c",
  ]);
});

test.each([
  ["Never say so.", true],
  ["You mustn't.", true],
  ["It is not here.", true],
  ["The notes are nothing.", false],
])("%s obliges or denies: %s", (text, expected) => {
  expect(isObligation(text)).toBe(expected);
});

test("a line that loses its last sentence keeps its break", () => {
  const text = "One goes. Two stays. Three goes.\nFour goes.\n\nFive stays.";
  const left = withoutSentences(text, sentencesOf(text), ({ start, end }) => text.slice(start, end).includes("goes"));
  expect(left).toBe("Two stays. \n\nFive stays.");
});

test("the last line that says something", () => {
  expect(lastLineStart("a\nb\n\n")).toBe(2);
  expect(lastLineStart("a")).toBe(0);
  expect(lastLineStart("")).toBe(0);
});

test("long hostile texts take no long time", () => {
  for (const unit of ["[A", "{", "`", '"', "A. ", "```", "<a", "'", "n't ", "!", "\n", " "]) {
    const text = unit.repeat(Math.ceil(200_000 / unit.length));
    const startMs = computedMs();
    protectedSpans(text);
    isObligation(`${text}a`);
    expect(computedMs() - startMs, unit).toBeLessThan(5_000);
  }
});
