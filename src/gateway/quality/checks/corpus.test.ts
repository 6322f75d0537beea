/** The checks on the corpus of the bundled models: they pass right answers, and find damage. */
import { expect, test } from "vitest";
import { chatAt, families, readMixture } from "../../../../models/corpus/families.js";
import { CHECK_NAMES, type CheckName, judgeSample } from "./checks.js";
import type { Sample, SampledAnswer } from "./sample.js";

const SEED = 1_000_001;
const NUM_CHATS = 200;

const samplesOf = (family: string): readonly Sample[] => {
  const mixture = readMixture(family);
  return Array.from({ length: NUM_CHATS }, (_, index) => {
    const all = chatAt(SEED, index, mixture).messages.map(({ role, content }) => ({ role, text: content }));
    const answer = { text: all.at(-1)!.text, end: "stop" as const, calls: [], logprobs: [] };
    return { messages: all.slice(0, -1), isPlain: true, format: undefined, answer };
  });
};

const byFamily = new Map(families.map(({ name }) => [name, samplesOf(name)]));

interface Result {
  readonly judged: number;
  readonly failing: number;
  readonly badness: number;
}

function resultOf(name: CheckName, samples: readonly Sample[]): Result {
  const verdicts = samples.flatMap((sample) => judgeSample(sample, [name])[name] ?? []);
  return {
    judged: verdicts.length,
    failing: verdicts.filter(({ isFailing }) => isFailing).length / Math.max(1, verdicts.length),
    badness: verdicts.reduce((sum, { badness }) => sum + badness, 0) / Math.max(1, verdicts.length),
  };
}

/** The small model says that it does not know or cannot do things, which are refusals too. */
const MOST: Readonly<Partial<Record<CheckName, number>>> = { refusal: 0.01 };

test.each(CHECK_NAMES.map((name) => ({ name })))("right answers pass: $name", ({ name }) => {
  const { failing, judged } = resultOf(name, [...byFamily.values()].flat());
  expect(failing).toBeLessThanOrEqual(MOST[name] ?? 0.005);
  if (!["uncertainty", "format"].includes(name)) expect(judged).toBeGreaterThan(200);
});

type Damage = (answer: string, index: number, samples: readonly Sample[]) => Partial<SampledAnswer>;

const another: Damage = (_, index, samples) => ({ text: samples[(index + 1) % samples.length]!.answer.text });
const DAMAGES: readonly (readonly [
  what: string,
  name: CheckName,
  families: readonly string[],
  damage: Damage,
  least: number,
])[] = [
  ["the answer to another text", "faithfulness", ["summary"], another, 0.8],
  ["cut in the middle", "length", ["story"], (answer) => ({ text: answer.slice(0, 60), end: "length" }), 1],
  [
    "a loop at the end",
    "repetition",
    ["story", "summary"],
    (answer) => ({ text: `${answer} ${"over and over and ".repeat(9)}` }),
    1,
  ],
  [
    "another language",
    "language",
    ["story"],
    () => ({ text: "Es war einmal ein Fuchs, der nicht in den Wald gehen und mit dem Bären sprechen wollte." }),
    1,
  ],
  ["declined", "refusal", ["fact", "story"], (answer) => ({ text: `I'm sorry, but I can't do that. ${answer}` }), 1],
];

test.each(DAMAGES.map(([what, name, of, damage, least]) => ({ what, name, of, damage, least })))("$name finds $what", ({
  name,
  of,
  damage,
  least,
}) => {
  const samples = of.flatMap((family) => byFamily.get(family)!);
  const damaged = samples.map((sample, index) => {
    return { ...sample, answer: { ...sample.answer, ...damage(sample.answer.text, index, samples) } };
  });
  const [before, after] = [resultOf(name, samples), resultOf(name, damaged)];
  expect(after.judged).toBeGreaterThan(50);
  expect(after.failing).toBeGreaterThanOrEqual(least);
  expect(after.badness).toBeGreaterThan(before.badness + 0.2);
});

test("the mean of relevance tells answers to other questions, though few fail alone", () => {
  const samples = byFamily.get("summary")!;
  const swapped = samples.map((sample, index) => ({
    ...sample,
    answer: { ...sample.answer, ...another("", index, samples) },
  }));
  expect(resultOf("relevance", swapped).badness).toBeGreaterThan(resultOf("relevance", samples).badness + 0.05);
});
