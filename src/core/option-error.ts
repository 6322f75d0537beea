/** The error for a refused option value. */
import { MillraceError } from "./errors.js";

/** @param flag name such as `--steps` */
export function optionError(flag: string, expected: string, got: string): MillraceError {
  return new MillraceError("invalid_option", `expected ${flag} to be ${expected}, got ${JSON.stringify(got)}`, {
    hint: "run the command with --help to see its options",
  });
}
