import { MillraceError } from "../../core/errors.js";

/** The hint where the model's sizes are not those that the heads were trained with. */
export const FITS_ONE_MODEL = "Heads fit the model they were trained on only.";

/** The refusal of heads that do not fit the model or the method. */
export function refused(expected: string, got: string, details: { readonly hint: string }): MillraceError {
  return new MillraceError("invalid_option", `--speculative-config: expected ${expected}, got ${got}`, details);
}
