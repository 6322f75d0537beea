/** A schema piece whose complaint reads "expected …, got …". */
import { z } from "zod";
import { describeValue } from "./describe-value.js";

/** A value for which `isValid` holds. */
export function checked<T>(expected: string, isValid: (value: unknown) => boolean) {
  return z.custom<T>(isValid, { error: (issue) => `expected ${expected}, got ${describeValue(issue.input)}` });
}
