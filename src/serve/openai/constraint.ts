/**
 * The required form of an answer, as a grammar: OpenAI's `response_format`, vLLM's `structured_outputs`, llama-server's
 * `grammar` and `json_schema`.
 */

import { z } from "zod";
import { isPlainObject } from "../../core/is-plain-object.js";
import type { AnswerForm } from "../../text/grammar/answer-form.js";
import { MAX_PATTERN_LENGTH } from "../../text/grammar/regex.js";
import { invalidParameter } from "../http/invalid-parameter.js";
import { checked } from "./checked.js";

const MAX_CHOICES = 1024;
const MAX_TEXT_LENGTH = MAX_PATTERN_LENGTH;

const boundedText = checked<string>(
  `a string of 1 to ${MAX_TEXT_LENGTH} characters`,
  (value) => typeof value === "string" && value !== "" && value.length <= MAX_TEXT_LENGTH,
);

export const schemaField = checked<boolean | object>(
  "a JSON schema",
  (value) => typeof value === "boolean" || isPlainObject(value),
);

const responseFormatField = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text") }),
  // llama-server's clients send a schema in this form; Hugging Face's use other names for both fields.
  z
    .strictObject({
      type: z.enum(["json_object", "json"]),
      schema: schemaField.nullish(),
      value: schemaField.nullish(),
    })
    .refine(({ schema, value }) => schema == null || value == null, "expected schema or value, got both"),
  z.strictObject({
    type: z.literal("json_schema"),
    json_schema: z.strictObject({
      // Ignored, and absent in llama-server's requests.
      name: z.string().nullish(),
      description: z.string().nullish(),
      schema: schemaField,
      // Ignored: the schema is always enforced.
      strict: z.boolean().nullish(),
    }),
  }),
]);

const structuredOutputsField = z.strictObject({
  json: checked<string | object>(
    "a JSON schema, as an object or as text",
    (value) => typeof value === "string" || isPlainObject(value),
  ).nullish(),
  regex: boundedText.nullish(),
  choice: checked<string[]>(
    `1 to ${MAX_CHOICES} non-empty strings`,
    (value) =>
      Array.isArray(value) &&
      value.length > 0 &&
      value.length <= MAX_CHOICES &&
      value.every((each) => typeof each === "string" && each !== ""),
  ).nullish(),
  grammar: boundedText.nullish(),
  json_object: z.literal(true).nullish(),
});

export const constraintShape = {
  response_format: responseFormatField.optional(),
  structured_outputs: structuredOutputsField.optional(),
  // llama-server's clients send an empty grammar instead of none.
  grammar: checked<string>(
    `a string of up to ${MAX_TEXT_LENGTH} characters`,
    (value) => typeof value === "string" && value.length <= MAX_TEXT_LENGTH,
  ).optional(),
  json_schema: schemaField.optional(),
} as const;

type ConstraintFields = z.output<z.ZodObject<typeof constraintShape>>;

const ANY_OBJECT = { type: "object" };

/** The request's fields that prescribe a form. */
function constrainingFields(fields: ConstraintFields): readonly (keyof ConstraintFields)[] {
  const { response_format: format, structured_outputs: structured, grammar = "", json_schema: schema } = fields;
  const isGiven = {
    response_format: format !== undefined && format.type !== "text",
    json_schema: schema !== undefined,
    grammar: grammar !== "",
    structured_outputs: structured !== undefined,
  };
  return (Object.keys(isGiven) as (keyof ConstraintFields)[]).filter((name) => isGiven[name]);
}

export const isConstrained = (fields: ConstraintFields): boolean => constrainingFields(fields).length > 0;

/** @param param the request's field that requires an object */
export const anyObjectForm = (param: string): AnswerForm => ({ kind: "schema", schema: ANY_OBJECT, param });

/** Undefined: the answer's form is free. */
export function formOf(fields: ConstraintFields): AnswerForm | undefined {
  const [name, second] = constrainingFields(fields);
  if (second !== undefined) throw invalidParameter(second, `expected nothing beside ${name}, got both`);
  switch (name) {
    case undefined:
      return undefined;
    case "structured_outputs":
      return formOfStructured(fields.structured_outputs!);
    case "grammar":
      return { kind: "grammar", text: fields.grammar!, param: name };
    case "json_schema":
      return { kind: "schema", schema: fields.json_schema!, param: name };
    case "response_format":
      return formOfFormat(fields.response_format!);
  }
}

function formOfFormat(format: NonNullable<ConstraintFields["response_format"]>): AnswerForm {
  if (format.type === "json_schema")
    return { kind: "schema", schema: format.json_schema.schema, param: "response_format.json_schema.schema" };
  if (format.type === "text") return anyObjectForm("response_format");
  const { schema, value } = format;
  if (schema != null) return { kind: "schema", schema, param: "response_format.schema" };
  return value == null
    ? anyObjectForm("response_format")
    : { kind: "schema", schema: value, param: "response_format.value" };
}

function formOfStructured(structured: NonNullable<ConstraintFields["structured_outputs"]>): AnswerForm {
  const given = Object.entries(structured).filter(([, value]) => value !== undefined && value !== null);
  if (given.length !== 1) {
    throw invalidParameter(
      "structured_outputs",
      `expected one of json, regex, choice, grammar, json_object, got ${given.length}`,
    );
  }
  const { json, regex, choice, grammar } = structured;
  if (choice) return { kind: "choice", choices: choice };
  if (regex) return { kind: "regex", pattern: regex, param: "structured_outputs.regex" };
  if (grammar) return { kind: "grammar", text: grammar, param: "structured_outputs.grammar" };
  if (!json) return anyObjectForm("structured_outputs.json_object");
  const param = "structured_outputs.json";
  return typeof json === "string" ? { kind: "schemaText", text: json, param } : { kind: "schema", schema: json, param };
}
