/** `millrace bench grammars`: compile times and times per mask of typical schemas on a model's vocabulary. */

import { Command } from "commander";
import type { GrammarBenchReport, GrammarCase } from "../../bench/engine/grammar-bench.js";
import { locateModel } from "../../formats/locate-model.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";

interface BenchFlags {
  readonly model?: string;
  readonly rounds: number;
  readonly json?: boolean;
}

export function benchGrammarsCommand(): Command {
  return new Command("grammars")
    .description(
      "Measure the compiling of typical schemas, and the masks of answers under them, on a model's vocabulary.",
    )
    .addOption(modelOption())
    .option("--rounds <n>", "measured rounds", integerIn("--rounds", 1, 100), 3)
    .option("--json", "print one JSON object instead of a table")
    .action(runBenchGrammars);
}

const PERSON = {
  name: "Ada Lovelace of London",
  age: 36,
  email: "ada.lovelace@example.org",
  tags: ["math", "poetry and science"],
  address: { street: "12 St James's Square", city: "London", zip: "12345" },
  kind: "b",
  score: 99.5,
};

const text = (rest: object = {}) => ({ type: "string", ...rest });

function objectOf(properties: object): object {
  return { type: "object", properties, required: Object.keys(properties), additionalProperties: false };
}

const PERSON_SCHEMA = objectOf({
  name: text(),
  age: { type: "integer", minimum: 0, maximum: 150 },
  email: text({ format: "email" }),
  tags: { type: "array", items: text(), maxItems: 10 },
  address: objectOf({ street: text(), city: text(), zip: text({ pattern: "^[0-9]{5}$" }) }),
  kind: { enum: ["a", "b", "c"] },
  score: { type: "number" },
});

const SENTENCE = "A sentence of some words, as they are written into JSON: nothing out of the ordinary.";

/** [name, schema, a value of it] */
const SCHEMAS: readonly (readonly [name: string, schema: object, value: unknown])[] = [
  ["a person", PERSON_SCHEMA, PERSON],
  ["any object", { type: "object" }, { a: [1, 2.5, { b: SENTENCE }], c: null }],
  ["text", objectOf({ text: text() }), { text: SENTENCE }],
  ["text of 1 to 200", objectOf({ text: text({ minLength: 1, maxLength: 200 }) }), { text: SENTENCE }],
  ["an e-mail address", objectOf({ email: text({ format: "email" }) }), { email: PERSON.email }],
  ["a list of numbers", objectOf({ list: { type: "array", items: { type: "number" } } }), { list: [1, 2.5, -3] }],
];

async function runBenchGrammars(flags: BenchFlags): Promise<void> {
  const { path, name } = await locateModel(flags.model, stagesTo(process.stderr));
  const [{ benchGrammars }, { recipeText }, { machineInfo, versions }] = await Promise.all([
    import("../../bench/engine/grammar-bench.js"),
    import("../../text/answer/answer-recipe.js"),
    import("../../bench/results/machine.js"),
  ]);
  const cases = SCHEMAS.map(
    ([caseName, schema, value]): GrammarCase => ({
      name: caseName,
      recipeOf: (round) => recipeText({ kind: "schema", schema, param: `schema ${round}` }),
      answer: JSON.stringify(value),
    }),
  );
  const report = benchGrammars(path, recipeText({ kind: "choice", choices: ["a"] }), cases, flags.rounds);
  const whole = { ...report, model: { name }, machine: machineInfo(), versions: versions() };
  process.stdout.write(flags.json ? `${jsonText(whole)}\n` : `${tableOf(report)}\n`);
}

function tableOf({ vocabSize, startMs, results }: GrammarBenchReport): string {
  const header = ["schema", "compile ms", "tokens", "mask ms, median", "p90", "max"];
  const rows = results.map(({ name, compileMs, numTokens, maskMs }) => [
    name,
    compileMs.median.toFixed(0),
    String(numTokens),
    ...[maskMs.median, maskMs.p90, maskMs.max].map((ms) => ms.toFixed(2)),
  ]);
  return `${vocabSize} tokens; start ${startMs.toFixed(0)} ms\n${formatTable([header, ...rows])}`;
}
