/** Reads the query of a URL by a schema. */
import type { z } from "zod";
import { MillraceError } from "./errors.js";

/** Throws invalid_parameter, which names the first parameter that does not fit. */
export function readQuery<Schema extends z.ZodType>(
  schema: Schema,
  query: Readonly<Record<string, string>>,
): z.output<Schema> {
  const parsed = schema.safeParse(query);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const isUnknown = issue?.code === "unrecognized_keys";
  const param = String((isUnknown ? issue.keys[0] : issue?.path[0]) ?? "query");
  const reason = isUnknown ? "expected no such parameter" : (issue?.message ?? "expected another value");
  const message = `${param}: ${reason}, got ${JSON.stringify((query[param] ?? "").slice(0, 80))}`;
  throw new MillraceError("invalid_parameter", message, { param });
}
