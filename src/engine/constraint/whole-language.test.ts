/**
 * Grammars leave exactly the texts that they are meant to, in the grammar engine's own reading: all short texts are
 * tried.
 */
import { beforeAll, expect, test } from "vitest";
import { grammarMatcher } from "../../../test/helpers/grammar-matcher.js";
import { cases } from "../../../test/helpers/long.js";
import { TestRng } from "../../../test/helpers/rng.js";
import { grammarOfChoices } from "../../text/grammar/ebnf.js";
import { grammarOfSchema } from "../../text/grammar/json-schema.js";
import { grammarOfRegex } from "../../text/grammar/pattern-expression.js";

let accepts: Awaited<ReturnType<typeof grammarMatcher>>;
beforeAll(async () => {
  accepts = await grammarMatcher();
});

function textsOf(letters: string, length: number): string[] {
  let last = [""];
  const texts: string[] = [""];
  for (let i = 0; i < length; i++) {
    last = last.flatMap((text) => [...letters].map((letter) => text + letter));
    texts.push(...last);
  }
  return texts;
}

/** The texts for which the grammar is wrong. */
async function mistakes(grammar: string, texts: readonly string[], isIn: (text: string) => boolean) {
  const wrong: string[] = [];
  for (const text of texts) if ((await accepts(grammar, text)) !== isIn(text)) wrong.push(text);
  return wrong.slice(0, 5);
}

const SHORT = textsOf("abc", 5);

test("choices", async () => {
  const rng = new TestRng(3);
  const word = () => Array.from({ length: rng.int(1, 5) }, () => rng.pick(["a", "b", "c"])).join("");
  const lists = Array.from({ length: cases(15, 100) }, () => Array.from({ length: rng.int(2, 6) }, word));
  for (const choices of [...lists, ["cbbc", "ccba", "cba", "b"], ["accaa", "bccbc", "aac", "aab", "cbca", "baca"]]) {
    const wrong = await mistakes(grammarOfChoices(choices), SHORT, (text) => choices.includes(text));
    expect(wrong, choices.join(" ")).toEqual([]);
  }
  const numbers = [0.25, 0.5, 0.75];
  const wrong = await mistakes(
    grammarOfSchema({ enum: numbers }, "json"),
    ["0.5", "0.225", "0.275"],
    (text) => text === "0.5",
  );
  expect(wrong).toEqual([]);
}, 60_000);

test("patterns", async () => {
  const rng = new TestRng(4);
  const word = () =>
    Array.from({ length: rng.int(1, 4) }, () => rng.pick(["a", "b", "c", "[ab]", "b?", "c*"])).join("");
  const random = Array.from({ length: cases(12, 80) }, () => Array.from({ length: rng.int(2, 6) }, word).join("|"));
  for (const pattern of ["cbbc|ccba|cba|b", "accaa|bccbc|aac|aab|cbca|baca", "a(?:ba|bca|a)", ...random]) {
    const expected = new RegExp(`^(?:${pattern})$`, "u");
    const plain = await mistakes(grammarOfRegex(pattern), SHORT, (text) => expected.test(text));
    expect(plain, pattern).toEqual([]);
    const schema = { type: "string", pattern: `^(${pattern})$` };
    const quoted = SHORT.map((text) => `"${text}"`);
    const inJson = await mistakes(grammarOfSchema(schema, "json"), quoted, (text) => expected.test(text.slice(1, -1)));
    expect(inJson, pattern).toEqual([]);
  }
}, 60_000);

test("integers within bounds", async () => {
  const rng = new TestRng(5);
  const texts = Array.from({ length: 2600 }, (_, i) => String(i - 1300)).concat("-0", "00", "01", "1.0", "");
  for (let round = 0; round < cases(8, 40); round++) {
    const minimum = rng.int(-1200, 1200);
    const maximum = minimum + rng.int(0, rng.pick([3, 40, 900]));
    const isIn = (text: string) => /^(0|-?[1-9]\d*)$/.test(text) && Number(text) >= minimum && Number(text) <= maximum;
    const grammar = grammarOfSchema({ type: "integer", minimum, maximum }, "json");
    expect(await mistakes(grammar, texts, isIn), `${minimum} ${maximum}`).toEqual([]);
  }
}, 60_000);

test("decimals within bounds", async () => {
  const rng = new TestRng(6);
  const digits = Array.from({ length: 4000 }, (_, i) => `${Math.floor(i / 1000)}.${String(i % 1000).padStart(3, "0")}`);
  const texts = digits.flatMap((text) => [text, `-${text}`, text.slice(0, -1), text.slice(0, -2)]);
  for (let round = 0; round < cases(5, 20); round++) {
    const minimum = rng.int(-3000, 3000) / rng.pick([10, 100, 1000]);
    const maximum = Number((minimum + rng.int(1, 2000) / rng.pick([10, 100, 1000])).toFixed(3));
    const isIn = (text: string) => Number(text) >= minimum && Number(text) <= maximum;
    const grammar = grammarOfSchema({ type: "number", minimum, maximum }, "json");
    const wrong = await mistakes(grammar, texts, isIn);
    // Zero with a sign may be left out.
    expect(
      wrong.filter((text) => Number(text) !== 0),
      `${minimum} ${maximum}`,
    ).toEqual([]);
  }
}, 60_000);

test("multiples within bounds", async () => {
  const rng = new TestRng(7);
  const texts = Array.from({ length: 4000 }, (_, i) => String((i - 2000) / 2)).concat("-0", "00", "01");
  for (let round = 0; round < cases(8, 40); round++) {
    const multipleOf = rng.pick([2, 3, 7, 12, 40, 0.5, 1.5, 2.5]);
    const minimum = rng.chance(0.3) ? undefined : rng.int(-1200, 900);
    const maximum = rng.chance(0.3) ? undefined : (minimum ?? -100) + rng.int(0, rng.pick([30, 2000]));
    const schema = {
      type: "number",
      multipleOf,
      ...(minimum === undefined ? {} : { minimum }),
      ...(maximum === undefined ? {} : { maximum }),
    };
    const isIn = (text: string) => {
      const value = Number(text);
      const isWithin = value >= (minimum ?? value) && value <= (maximum ?? value);
      return /^(0|-?[1-9]\d*|-?\d\.5|-?[1-9]\d+\.5)$/.test(text) && isWithin && Number.isInteger(value / multipleOf);
    };
    if (!texts.some(isIn)) continue;
    expect(await mistakes(grammarOfSchema(schema, "json"), texts, isIn), JSON.stringify(schema)).toEqual([]);
  }
}, 60_000);
