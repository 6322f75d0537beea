/** The field `text` of /v1/responses: what form the answer has. */
import { z } from "zod";
import { grammarOfSchema } from "../../text/grammar/json-schema.js";
import { grammarOfAnyObject, schemaField } from "./constraint.js";

const formatField = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text") }),
  z.strictObject({ type: z.literal("json_object") }),
  z.strictObject({
    type: z.literal("json_schema"),
    name: z.string(),
    description: z.string().nullish(),
    schema: schemaField,
    // A schema is kept to either way.
    strict: z.boolean().nullish(),
  }),
]);

export const textField = z.strictObject({
  format: formatField.nullish(),
  // Nothing that a model here could be told.
  verbosity: z.unknown().optional(),
});

export function isFormPrescribed(text: z.output<typeof textField> | undefined): boolean {
  return text?.format != null && text.format.type !== "text";
}

/** In EBNF; undefined: the answer is free. */
export function grammarOfText(text: z.output<typeof textField> | undefined): string | undefined {
  const format = text?.format;
  if (format == null || format.type === "text") return undefined;
  if (format.type === "json_object") return grammarOfAnyObject("text.format");
  return grammarOfSchema(format.schema, "text.format.schema");
}
