/** The error of an option whose value is refused. */
import { MillraceError } from "./errors.js";

/** @param flag such as `--steps` */
export function optionError(flag: string, expected: string, got: string): MillraceError {
  return new MillraceError("invalid_option", `expected ${flag} to be ${expected}, got ${JSON.stringify(got)}`, {
    hint: "run the command with --help to see its options",
  });
}
