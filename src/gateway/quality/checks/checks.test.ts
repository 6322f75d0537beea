/** Each check finds its fault, passes answers without it, and does not apply if it cannot tell. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { computedMs } from "../../../../test/helpers/computed-ms.js";
import { CHECK_NAMES, type CheckName, judgeSample } from "./checks.js";
import { withoutLayout } from "./faithfulness.js";
import type { Sample, SampledAnswer } from "./sample.js";

const sample = (
  question: string,
  text: string,
  more: Partial<Sample> = {},
  answer: Partial<SampledAnswer> = {},
): Sample => ({
  messages: [{ role: "user", text: question }],
  isPlain: true,
  format: undefined,
  answer: { text, end: "stop", calls: [], logprobs: [], ...answer },
  ...more,
});

const verdictOf = (name: CheckName, it: Sample) => {
  const verdict = judgeSample(it, [name])[name];
  return verdict === undefined ? "silent" : verdict.isFailing ? "fails" : "passes";
};

const LONG = Array.from(
  { length: 40 },
  (_, i) => `The report of station ${i + 20} says that Mokala measured ${i * 7 + 100} units.`,
).join(" ");
const LOOP = "and then it goes on to say that ".repeat(8);
const WORDS = Array.from({ length: 300 }, (_, i) => `word${i}`).join(" ");
const SCHEMA = {
  type: "json_schema",
  json_schema: { schema: { type: "object", properties: { a: { type: "number" } }, required: ["a"] } },
};

const CASES: readonly (readonly [CheckName, "fails" | "passes" | "silent", string, Sample])[] = [
  ["refusal", "fails", "English", sample("Tell me", "I'm sorry, but I can't help with that.")],
  ["refusal", "fails", "German", sample("Sag", "Es tut mir leid, dabei kann ich nicht helfen.")],
  ["refusal", "fails", "French", sample("Dis", "Je ne peux pas répondre à cette question.")],
  ["refusal", "fails", "withheld", sample("Tell me", "", {}, { end: "refusal" })],
  ["refusal", "passes", "an apology inside", sample("Write a letter", "Dear Ann, I am sorry that I cannot come.")],
  [
    "language",
    "fails",
    "Chinese to English",
    sample("What is the capital of France, please?", "法国的首都是巴黎。这是一个很大的城市。"),
  ],
  [
    "language",
    "fails",
    "English to German",
    sample(
      "Was ist die Hauptstadt von Frankreich und wie groß ist sie?",
      "The capital of France is the city of Paris, and it is large.",
    ),
  ],
  [
    "language",
    "passes",
    "English to English",
    sample("What is the capital of France, please?", "The capital of France is Paris, and it is large."),
  ],
  [
    "language",
    "silent",
    "a translation",
    sample("Translate to French: what is the time now?", "Quelle est la heure et que fait le monde dans la rue?"),
  ],
  ["language", "silent", "a short answer", sample("What is the capital of France, please?", "Paris")],
  ["format", "fails", "no JSON", sample("Give JSON", "Sure: {a}", { format: { type: "json_object" } })],
  ["format", "fails", "another schema", sample("Give JSON", '{"b": 1}', { format: SCHEMA })],
  ["format", "passes", "the schema", sample("Give JSON", '{"a": 1}', { format: SCHEMA })],
  ["format", "fails", "an open fence", sample("Code", "Here:\n```js\nlet a = 1;\n")],
  ["format", "passes", "a closed fence", sample("Code", "Here:\n````js\n```\n````\n")],
  ["format", "fails", "arguments of a call", sample("Call", "", {}, { calls: ['{"a": '], end: "calls" })],
  [
    "format",
    "passes",
    "a call instead of JSON",
    sample("Call", "", { format: SCHEMA }, { calls: ['{"a": 1}'], end: "calls" }),
  ],
  ["format", "silent", "prose", sample("Hello", "Hi there")],
  ["repetition", "fails", "a sentence", sample("Write", `First. ${LOOP}`)],
  ["repetition", "fails", "a word", sample("Write", `go ${"ho ".repeat(30)}`)],
  [
    "repetition",
    "fails",
    "a passage in turns with others",
    sample("Write", Array.from({ length: 30 }, (_, i) => `${i} ${WORDS.slice(0, 150)}`).join(" ")),
  ],
  ["repetition", "passes", "distinct words", sample("Write", WORDS)],
  ["repetition", "passes", "a short list", sample("Write", "no no no yes")],
  ["length", "fails", "cut", sample("Write", "Once upon a", {}, { end: "length" })],
  ["length", "fails", "empty", sample("Write", " \n")],
  ["length", "passes", "a call without text", sample("Write", "", {}, { calls: ["{}"], end: "calls" })],
  ["uncertainty", "fails", "unlikely tokens", sample("a", "b", {}, { logprobs: [-3, -3, -3, -1, -1, -1, -1, -1] })],
  ["uncertainty", "passes", "likely tokens", sample("a", "b", {}, { logprobs: [-0.1, -3, 0, -1, -1, -1, -1, -1] })],
  ["uncertainty", "silent", "no log-probabilities", sample("a", "b")],
  ["relevance", "fails", "another subject", sample("How do volcanoes erupt under glaciers?", WORDS)],
  [
    "relevance",
    "passes",
    "the subject",
    sample(
      "How do volcanoes erupt under glaciers?",
      "A volcano below a glacier melts the ice first, and then it erupts.",
    ),
  ],
  ["relevance", "silent", "a short answer", sample("How do volcanoes erupt under glaciers?", "Melting.")],
  [
    "faithfulness",
    "fails",
    "made-up numbers and names",
    sample(`Sum up: ${LONG}`, "The head of it, Bertram Quill, measured 9431 units on 17 May 1931."),
  ],
  [
    "faithfulness",
    "passes",
    "what the prompt says",
    sample(`Sum up: ${LONG}`, "At station 25 the observer Mokala measured 135 units."),
  ],
  ["faithfulness", "silent", "a question alone", sample("Who led it?", "Bertram Quill led it in 1931.")],
];

const REFUSALS = [
  "I apologize, but I am unable to help with that.",
  "I regret that I cannot share this.",
  "I must decline.",
  "Leider kann ich dir bei dieser Frage nicht helfen.",
  "Das kann ich leider nicht beantworten.",
  "Ich darf dazu keine Auskunft geben.",
  "Es tut mir leid. Ich kann das nicht tun.",
  "Es tut mir leid, dass ich Ihnen dabei nicht helfen kann.",
  "Je suis désolé, mais je ne peux pas vous aider.",
  "Malheureusement, je n'ai pas accès à ces données.",
  "Je ne suis pas en mesure de répondre.",
  "Lo siento, no puedo ayudarte con eso.",
  "Lamento no poder ayudarle.",
  "Mi dispiace, ma non posso aiutarti.",
  "Purtroppo non sono in grado di rispondere.",
  "Desculpe, mas não posso ajudar com isso.",
  "Infelizmente, não tenho acesso a esses dados.",
  "Het spijt me, maar ik kan je daar niet mee helpen.",
  "Sorry, dat kan ik niet doen.",
  "Helaas mag ik geen medisch advies geven.",
];
const ANSWERS = [
  "Malheureusement, il pleut aujourd'hui à Paris.",
  "Je ne suis pas sûr, mais je crois que c'est Lyon.",
  "Je ne peux que vous féliciter.",
  "Ich darf Ihnen gratulieren, denn Sie haben nicht verloren.",
  "Leider regnet es heute nicht.",
  "Ich kann Ihnen nicht genug danken!",
  "Lamento informar que el tren sale con retraso.",
  "Lo siento mucho por tu pérdida.",
  "Purtroppo il museo è chiuso il lunedì.",
  "Infelizmente, o museu está fechado.",
  "Sorry! is a popular board game for two to four players.",
  "Helaas is het museum vandaag gesloten.",
  "I regret nothing, said the old man, and the crew could not help but laugh.",
  "Das ist ein Satz über Wale. Ich kann nicht schwimmen, sagt der Stein.",
];

test("refusals of each language fail, and openings that decline nothing pass", () => {
  const failing = (text: string): boolean => verdictOf("refusal", sample("Hello", text)) === "fails";
  expect(REFUSALS.filter((text) => !failing(text))).toEqual([]);
  expect(ANSWERS.filter(failing)).toEqual([]);
});

test.each(CASES.map(([name, expected, what, it]) => ({ name, expected, what, it })))("$name $expected: $what", ({
  name,
  expected,
  it,
}) => {
  expect(verdictOf(name, it)).toBe(expected);
});

test("layout is left out, and line breaks alone take no time", () => {
  expect(withoutLayout("  # 2031\n\n  12. Anna: 7\n\t- **Sum:** 9").replace(/\s+/g, " ").trim()).toBe("Anna: 7 9");
  const startMs = computedMs();
  for (const lineBreak of ["\n", "\r", "\u2028", " ", "\n  "]) {
    const text = lineBreak.repeat(64 * 1024);
    expect(withoutLayout(text)).toHaveLength(text.length);
  }
  // A pattern that reads the rest of the text at every line takes tens of seconds.
  expect(computedMs() - startMs).toBeLessThan(5000);
});

describe("any text", () => {
  const text = fc.oneof(
    fc.string({ maxLength: 300, unit: "binary" }),
    fc
      .array(fc.constantFrom("```", "`", "\n", "a", "12", "'", '"', "#", "**", "- ", "(", "http://", "é", "的"), {
        maxLength: 200,
      })
      .map((all) => all.join("")),
  );
  test("gets verdicts in range, without the text in their notes", () => {
    fc.assert(
      fc.property(
        text,
        text,
        fc.array(fc.double({ min: -100, max: 0, noNaN: true }), { maxLength: 20 }),
        (question, answer, logprobs) => {
          const verdicts = judgeSample(sample(`${LONG} ${question}`, answer, {}, { logprobs }));
          for (const name of CHECK_NAMES) {
            const verdict = verdicts[name];
            if (verdict === undefined) continue;
            expect(verdict.badness).toBeGreaterThanOrEqual(0);
            expect(verdict.badness).toBeLessThanOrEqual(1);
            expect(verdict.note !== undefined && !verdict.isFailing).toBe(false);
          }
        },
      ),
    );
  });
});
