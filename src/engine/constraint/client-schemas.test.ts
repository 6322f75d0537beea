/**
 * Schemas as zod, pydantic and OpenAI's strict mode write them: taken, and whatever a random model writes under them is
 * valid, as is what a client would expect.
 */
import Ajv from "ajv";
import Ajv2020 from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ClientSchema, pydanticSchemas, zodSchemas } from "../../../test/helpers/client-schemas.js";
import { grammarMatcher } from "../../../test/helpers/grammar-matcher.js";
import { cases } from "../../../test/helpers/long.js";
import { RandomWriter } from "../../../test/helpers/random-writer.js";
import { grammarOfSchema } from "../../text/grammar/json-schema.js";

const OUTPUTS_PER_SCHEMA = cases(1, 3);

let accepts: Awaited<ReturnType<typeof grammarMatcher>>;
beforeAll(async () => {
  accepts = await grammarMatcher();
});
let writer: RandomWriter;
beforeAll(async () => {
  writer = await RandomWriter.create({ seed: 3, maxTokens: 500, biases: { '"': 5, "}": 5, "]": 5, ".": 2 } });
});
afterAll(() => writer[Symbol.asyncDispose]());

const options = { strict: false, multipleOfPrecision: 6, logger: false } as const;

function validatorOf({ schema, isValid }: ClientSchema): (value: unknown) => boolean {
  const isOldDraft = String(schema.$schema).includes("draft-07");
  const ajv = isOldDraft ? new Ajv.default(options) : new Ajv2020.default(options);
  const validate = ajv.compile(schema);
  return (value) => validate(value) === true && isValid?.(value) !== false;
}

describe.each([
  ["zod", zodSchemas()],
  ["pydantic", pydanticSchemas()],
])("schemas of %s", (_, schemas) => {
  test("leave what a client expects", async () => {
    const missed: string[] = [];
    for (const { name, schema, example } of schemas) {
      const text = JSON.stringify(example);
      if (!(await accepts(grammarOfSchema(schema, "json"), text))) missed.push(`${name}: ${text}`);
    }
    expect(missed).toEqual([]);
  });

  test("leave nothing that is invalid", async () => {
    const written = schemas.filter(({ isOpenApi }) => !isOpenApi);
    const tasks = written.flatMap(({ schema }) =>
      Array.from({ length: OUTPUTS_PER_SCHEMA }, (_, seed) => ({ grammar: grammarOfSchema(schema, "json"), seed })),
    );
    const texts = await writer.write(tasks);
    const invalid: string[] = [];
    texts.forEach(({ text, isCut }, i) => {
      const one = written[Math.floor(i / OUTPUTS_PER_SCHEMA)]!;
      if (!isCut && !validatorOf(one)(JSON.parse(text))) invalid.push(`${one.name}: ${text}`);
    });
    const numCut = texts.filter(({ isCut }) => isCut).length;
    console.log(`client schemas: ${JSON.stringify({ schemas: written.length, outputs: texts.length, numCut })}`);
    expect(invalid).toEqual([]);
    expect(numCut).toBeLessThan(texts.length / 4);
  }, 120_000);
});
