/** A schema piece whose complaint reads "expected …, got …". */
import { z } from "zod";
import { describeValue } from "./describe-value.js";

/**
 * A value for which `isValid` holds.
 * @param schema what a JSON schema can say of it, beside the words
 */
export function checked<T>(expected: string, isValid: (value: unknown) => boolean, schema: object = {}) {
  return z
    .custom<T>(isValid, { error: (issue) => `expected ${expected}, got ${describeValue(issue.input)}` })
    .meta({ description: expected, ...schema });
}
