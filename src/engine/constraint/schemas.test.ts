/**
 * Random schemas: whatever a random model writes under them at temperature 1 is valid, by a validator that
 * is not ours.
 */
import Ajv2020 from "ajv/dist/2020.js";
import { expect, test } from "vitest";
import { cases } from "../../../test/helpers/long.js";
import { randomSchema } from "../../../test/helpers/random-schema.js";
import { RandomWriter } from "../../../test/helpers/random-writer.js";
import { TestRng } from "../../../test/helpers/rng.js";
import { grammarOfSchema } from "../../text/grammar/json-schema.js";

const NUM_SCHEMAS = cases(50, 200);
const OUTPUTS_PER_SCHEMA = 3;
/** Such as open, close or cross strings, or leave an escape unfinished. */
const AWKWARD_TOKENS = [
  '":"abc',
  '","',
  '"":',
  '": "',
  '"name"',
  '"abcdefghijkl',
  "aaaaaaaaaaaa",
  "aaaaaaaaaaaaaaaaaaaaaaaaa",
  'x"',
  '\\"x',
  "\\n\\",
  "\\u00",
  "e9aaaa",
  '\\\\"',
  "éé",
  "日本語",
  'abcdefghi"',
];

test("random outputs under random schemas are valid", async () => {
  const markers = { texts: AWKWARD_TOKENS, areSpecial: false };
  await using writer = await RandomWriter.create({
    seed: 3,
    maxTokens: 700,
    markers,
    biases: { '"': 5, "}": 5, "]": 5 },
  });
  const rng = new TestRng(11);
  const schemas = Array.from({ length: NUM_SCHEMAS }, () => randomSchema(rng));
  const tasks = schemas.flatMap((schema) =>
    Array.from({ length: OUTPUTS_PER_SCHEMA }, (_, seed) => ({ grammar: grammarOfSchema(schema, "json"), seed })),
  );
  const texts = await writer.write(tasks);
  const ajv = new Ajv2020.default({ strict: false });
  texts.forEach(({ text, isCut }, i) => {
    if (isCut) return;
    expect(text).not.toContain("\ufffd");
    const schema = schemas[Math.floor(i / OUTPUTS_PER_SCHEMA)]!;
    expect(ajv.validate(schema, JSON.parse(text)), `${JSON.stringify(schema)}\n${text}`).toBe(true);
  });
  const numCut = texts.filter(({ isCut }) => isCut).length;
  console.log(`schemas: ${JSON.stringify({ outputs: texts.length, numCut, ...writer.core.stats().constraints })}`);
  expect(numCut).toBeLessThanOrEqual(texts.length / 10);
}, 240_000);
