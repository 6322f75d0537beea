/** The field `text` of /v1/responses: the required form of the answer. */
import { z } from "zod";
import type { AnswerForm } from "../../text/grammar/answer-form.js";
import { invalidParameter } from "../http/invalid-parameter.js";
import { anyObjectForm, type constraintShape, formOf, schemaField } from "./constraint.js";

const formatField = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text") }),
  z.strictObject({ type: z.literal("json_object") }),
  z.strictObject({
    type: z.literal("json_schema"),
    name: z.string(),
    description: z.string().nullish(),
    schema: schemaField,
    // Ignored: the schema is always enforced.
    strict: z.boolean().nullish(),
  }),
]);

export const textField = z.strictObject({
  format: formatField.nullish(),
  // Ignored: models here accept no verbosity.
  verbosity: z.unknown().optional(),
});

interface FormFields {
  readonly text?: z.output<typeof textField> | undefined;
  /** vLLM's field. */
  readonly structured_outputs?: z.output<(typeof constraintShape)["structured_outputs"]>;
}

export function isFormPrescribed({ text, structured_outputs: structured }: FormFields): boolean {
  return structured !== undefined || (text?.format != null && text.format.type !== "text");
}

/** Undefined: the answer's form is free. */
export function formOfResponse({ text, structured_outputs }: FormFields): AnswerForm | undefined {
  const format = text?.format;
  if (format == null || format.type === "text") return formOf({ structured_outputs });
  if (structured_outputs !== undefined)
    throw invalidParameter("structured_outputs", "expected nothing beside text.format, got both");
  if (format.type === "json_object") return anyObjectForm("text.format");
  return { kind: "schema", schema: format.schema, param: "text.format.schema" };
}
