/** Reads the query of a URL by a schema. */
import type { z } from "zod";
import { MillraceError } from "./errors.js";
import { firstProblem } from "./schema-problem.js";

/** Throws invalid_parameter with the name of the first invalid parameter. */
export function readQuery<Schema extends z.ZodType>(
  schema: Schema,
  query: Readonly<Record<string, string>>,
): z.output<Schema> {
  const parsed = schema.safeParse(query);
  if (parsed.success) return parsed.data;
  const { param: path, reason } = firstProblem(parsed.error, query);
  const param = path === "" ? "query" : path;
  throw new MillraceError("invalid_parameter", `${param}: ${reason}`, { param });
}
