import { MillraceError } from "../../core/errors.js";

/** The refusal of heads that do not fit the model or the method. */
export function refused(expected: string, got: string, details: { readonly hint: string }): MillraceError {
  return new MillraceError("invalid_option", `--speculative-config: expected ${expected}, got ${got}`, details);
}
