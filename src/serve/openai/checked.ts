/** A schema piece with an error message of the form "expected …, got …". */
import { z } from "zod";
import { describeValue } from "../../core/describe-value.js";

/**
 * A value for which `isValid` holds.
 * @param schema JSON Schema keywords for the API description, in addition to the text
 * @param describe names the fault of an invalid value
 */
export function checked<T>(
  expected: string,
  isValid: (value: unknown) => boolean,
  schema: object = {},
  describe = describeValue,
) {
  return z
    .custom<T>(isValid, { error: (issue) => `expected ${expected}, got ${describe(issue.input)}` })
    .meta({ description: expected, ...schema });
}
