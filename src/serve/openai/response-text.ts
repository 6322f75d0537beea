/** The field `text` of /v1/responses: the required form of the answer. */
import { z } from "zod";
import type { AnswerForm } from "../../text/grammar/answer-form.js";
import { anyObjectForm, schemaField } from "./constraint.js";

const formatField = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text") }),
  z.strictObject({ type: z.literal("json_object") }),
  z.strictObject({
    type: z.literal("json_schema"),
    name: z.string(),
    description: z.string().nullish(),
    schema: schemaField,
    // Ignored: the schema is enforced in either case.
    strict: z.boolean().nullish(),
  }),
]);

export const textField = z.strictObject({
  format: formatField.nullish(),
  // Ignored, because models here accept no verbosity.
  verbosity: z.unknown().optional(),
});

export function isFormPrescribed(text: z.output<typeof textField> | undefined): boolean {
  return text?.format != null && text.format.type !== "text";
}

/** Undefined: the answer has no required form. */
export function formOfText(text: z.output<typeof textField> | undefined): AnswerForm | undefined {
  const format = text?.format;
  if (format == null || format.type === "text") return undefined;
  if (format.type === "json_object") return anyObjectForm("text.format");
  return { kind: "schema", schema: format.schema, param: "text.format.schema" };
}
