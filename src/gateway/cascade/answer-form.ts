/** Whether an answer has the form that its request asks for. */
import { z } from "zod";
import type { RequestBody } from "../request.js";

/** A client's schema is compiled for one answer, so it must be small. */
const MAX_SCHEMA_CHARACTERS = 64 * 1024;

/** What is wrong with the form; undefined if it is right, or if the request asks for none. */
export function formProblem(body: RequestBody, text: string): string | undefined {
  const format = body.response_format as { type?: unknown; json_schema?: { schema?: unknown } } | null | undefined;
  if (format?.type !== "json_object" && format?.type !== "json_schema") return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "no JSON";
  }
  const schema = format.type === "json_schema" ? format.json_schema?.schema : undefined;
  return schema === undefined || fits(schema, value) ? undefined : "not of the schema";
}

/** A schema that cannot be checked here counts as fulfilled: the engine has constrained the answer, or the audit finds the loss. */
function fits(schema: unknown, value: unknown): boolean {
  const text = JSON.stringify(schema);
  // A client's pattern could take for ever.
  if (text.length > MAX_SCHEMA_CHARACTERS || /"pattern(?:Properties)?":/.test(text)) return true;
  try {
    return z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]).safeParse(value).success;
  } catch {
    return true;
  }
}
