/** Reads the form that a request wants its answer to have, from the field of any API. */
import { isPlainObject } from "../../core/is-plain-object.js";
import type { JsonObject } from "../../core/json-body.js";

type AskedForm =
  | { readonly type: "json_object" }
  | { readonly type: "json_schema"; readonly schema: Readonly<Record<string, unknown>> };

/**
 * Chats, Responses and Messages name the field differently and mean the same; llama-server's clients send `json_schema`
 * alone. Plain text is not a form.
 */
export function askedForm(body: JsonObject): AskedForm | undefined {
  const { response_format: chat, text, output_format: messages, output_config: config, json_schema: llama } = body;
  const nested = [text, config].flatMap((each) => (isPlainObject(each) ? [each.format] : []));
  const format = [chat, messages, ...nested].find(isPlainObject);
  // Hugging Face's clients have other names for an object and its schema.
  const type = format?.type === "json" ? "json_object" : format?.type;
  if (type !== "json_object" && type !== "json_schema") {
    return isPlainObject(llama) ? { type: "json_schema", schema: llama } : undefined;
  }
  const schema = isPlainObject(format?.json_schema) ? format.json_schema.schema : (format?.schema ?? format?.value);
  if (isPlainObject(schema)) return { type: "json_schema", schema };
  // A schema that is not an object allows any value.
  return type === "json_schema" ? { type, schema: {} } : { type };
}
