/** Prompts are read into words, quantities and the form of their question, whatever they contain. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { inflectionOf, isRegularPast } from "./inflection.js";
import { questionOf } from "./question.js";
import { tokensOf } from "./tokens.js";

const formText = (text: string): string => {
  const { kind, cues, parts } = questionOf(text).form;
  return [kind, ...cues.map((cue) => `+${cue}`), ...parts.map((part) => part.text)].join(" ");
};

test.each([
  ["Run `git push -f` in /etc/x, then foo_bar() for a@b.co", ["`git push -f`", "/etc/x", "foo_bar()", "a@b.co"]],
  ["see https://x.org/a?b=1 and src/a.ts --max-cost=3", ["https://x.org/a?b=1", "src/a.ts", "--max-cost=3"]],
])("code is taken whole from %s", (text, expected) => {
  expect(
    tokensOf(text)
      .filter(({ kind }) => kind === "code")
      .map((token) => token.text),
  ).toEqual(expected);
});

test.each([
  ["5 km", "5 km"],
  ["5km", "5 km"],
  ["five kilometres", "5 km"],
  ["twenty-five percent", "25 %"],
  ["25%", "25 %"],
  ["$1,500.50", "1500.5 $"],
  ["$2m", "2000000 $"],
  ["two hundred and five", "205"],
  ["three million", "3000000"],
  ["20k", "20000"],
  ["3 pm", "15:00"],
  ["3:00 p.m.", "15:00"],
  ["15:00", "15:00"],
  ["12 am", "0:00"],
  ["noon", "12:00"],
  ["the 3rd", "3 th"],
  ["the third", "3 th"],
  ["1.000", "1.000"],
  ["2024-05-01", "2024-05-01"],
  ["v1.2.3", "v1.2.3"],
  ["zwölf", "12"],
  ["on Mondays", "monday"],
  ["-", ""],
])("%s is the quantity %s", (text, expected) => {
  expect(
    questionOf(`x ${text}`)
      .units.flatMap(({ quantity }) => quantity ?? [])
      .join("; "),
  ).toBe(expected);
});

test("may and march are months only beside a number", () => {
  const months = (text: string) => questionOf(text).units.flatMap(({ quantity }) => quantity ?? []);
  expect(months("You may go")).toEqual([]);
  expect(months("on May 3")).toEqual(["month 5", "3"]);
  expect(months("on 3 March")).toEqual(["3", "month 3"]);
});

describe("forms", () => {
  test.each([
    ["Could you please tell me what the capital of France is?", "WHAT capital france"],
    ["Hi! What's France's capital? Thanks in advance!", "WHAT capital france"],
    ["In Python, how do I sort a list?", "HOWTO sort list in python"],
    ["What's the best way to sort a list in Python?", "HOWTO sort list in python"],
    ["How do I travel to Rome from Paris?", "HOWTO travel from paris to rome"],
    ["What does a panda like?", "WHAT panda like"],
    ["What is a panda like?", "WHAT +be panda like"],
    ["What does a lawyer do?", "WHAT lawyer do"],
    ["Was Brutus killed by Caesar?", "YESNO +was brutus killed by caesar"],
    ["Who is called?", "WHO +be called"],
    ["What's the difference between tea and chai?", "WHAT difference between chai and tea"],
    ["Wie heißt du?", "OTHER wie heißt du"],
  ])("%s", (text, expected) => expect(formText(text)).toBe(expected));
});

test("possessives go only where they belong to whoever asks how to", () => {
  expect(formText("How do I call my doctor?")).toBe("HOWTO call doctor");
  expect(formText("How do I call your doctor?")).toBe("HOWTO call your doctor");
});

test("plurals, third persons and -ing are forms of one word; other endings are not", () => {
  const forms = [
    ["list", "lists", "s"],
    ["city", "cities", "s"],
    ["box", "boxes", "s"],
    ["reset", "resetting", "ing"],
    ["make", "making", "ing"],
    ["build", "building", undefined],
    ["new", "news", undefined],
    ["kill", "killed", undefined],
    ["str", "string", undefined],
  ] as const;
  for (const [one, other, expected] of forms) {
    expect(inflectionOf(one, other)).toBe(expected);
    expect(inflectionOf(other, one)).toBe(expected);
  }
  expect(isRegularPast("stop", "stopped") && isRegularPast("end", "ended") && !isRegularPast("end", "end")).toBe(true);
});

const hostile = fc.oneof(
  fc.string({ unit: "binary", maxLength: 200 }),
  fc
    .array(
      fc.constantFrom(
        "'",
        '"',
        "`",
        "```",
        "a.b",
        "1,0",
        "U.S.",
        "\n",
        "的",
        "--x",
        "😀",
        "’s",
        "$",
        "/",
        " ",
        "0".repeat(40),
      ),
      {
        maxLength: 60,
      },
    )
    .map((pieces) => pieces.join("")),
);

test("any text is read, and only spaces and the marks of prose are lost", () => {
  fc.assert(
    fc.property(hostile, (text) => {
      // A possessor's apostrophe gets an s, and a text of capitals is read as small letters.
      const letters = (all: string) =>
        all
          .normalize("NFC")
          .toLowerCase()
          .replace(/[^\p{L}\p{N}]|s/gu, "");
      expect(
        letters(
          questionOf(text)
            .tokens.map((token) => token.text)
            .join(""),
        ),
      ).toBe(letters(text));
    }),
  );
});

test.each([
  "a'".repeat(1000),
  "'a ".repeat(700),
  "a.".repeat(1000),
  "1,".repeat(1000),
  "`".repeat(2000),
  "[@".repeat(1000),
  "please ".repeat(290),
])("the longest question takes no longer than its length asks for: %#", (text) => {
  // The fastest of several runs, in this process's time: a busy machine slows some runs, a quadratic cost all.
  const times = Array.from({ length: 5 }, () => {
    const began = process.cpuUsage();
    questionOf(text);
    const { user, system } = process.cpuUsage(began);
    return user + system;
  });
  expect(Math.min(...times)).toBeLessThan(200_000);
});
