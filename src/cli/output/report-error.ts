/** Turns a failed command into text on stderr and an exit code. */
import { CommanderError } from "commander";
import { errorToRecord, MillraceError, toMillraceError } from "../../core/errors.js";

const EXIT_FAILURE = 1;
const EXIT_USAGE = 2;
/** EX_CONFIG of sysexits.h: with this code, the service of a machine image does not restart. */
const EXIT_MACHINE = 78;

/** Commander's error code → a pattern of its message, and our words, with $1 for the pattern's first group. */
const USAGE: Readonly<Record<string, readonly [words: RegExp, expected: string, got: string]>> = {
  "commander.unknownOption": [/^unknown option '(.+)'$/, "an option of this command", "$1"],
  "commander.unknownCommand": [/^unknown command '(.+)'$/, "one of the commands", "$1"],
  "commander.missingArgument": [/^missing required argument '(.+)'$/, "<$1>", "nothing"],
  "commander.optionMissingArgument": [/^option '(.+)' argument missing$/, "a value behind $1", "none"],
  "commander.missingMandatoryOptionValue": [/^required option '(.+)' not specified$/, "the option $1", "none"],
  "commander.conflictingOption": [/^option '(.+)' cannot be used with option '(.+)'$/, "$1 or $2", "both"],
  "commander.excessArguments": [
    /^too many arguments(?: for '.+')?\. Expected (\d+) arguments? but got (\d+)\.$/,
    "at most $1 arguments",
    "$2",
  ],
  "commander.invalidArgument": [
    /^option '(.+)' argument '(.*)' is invalid\. Allowed choices are (.+)\.$/,
    "$1 to be one of $3",
    '"$2"',
  ],
};

/** Commander's errors are usage errors, in our words; its suggestion becomes the hint. */
function fromCommander(error: CommanderError): MillraceError {
  const [message = "", suggestion] = error.message.replace(/^error: /, "").split("\n");
  const [words, expected, got] = USAGE[error.code] ?? [];
  const found = words?.exec(message);
  const filled = (text = ""): string => text.replace(/\$(\d)/g, (_, index: string) => found?.[Number(index)] ?? "");
  const shown = found == null ? message : `expected ${filled(expected)}, got ${filled(got)}`;
  const hint = suggestion?.replace(/^\(|\)$/g, "") ?? "run millrace --help, or the command with --help";
  return new MillraceError("invalid_option", shown, { hint });
}

function normalize(thrown: unknown): MillraceError {
  return thrown instanceof CommanderError ? fromCommander(thrown) : toMillraceError(thrown);
}

/**
 * @returns the exit code: 2 for usage, 78 for a machine without its GPU, 0 if commander showed help or a version,
 * otherwise 1
 */
export function reportError(thrown: unknown, options: { readonly json: boolean }): number {
  if (thrown instanceof CommanderError && (thrown.exitCode === 0 || thrown.code === "commander.help")) return 0;
  const error = normalize(thrown);
  const lines = [`error [${error.code}]: ${error.message}`];
  if (error.hint !== undefined) lines.push(`hint: ${error.hint}`);
  // Any other error is a bug, and its stack is the only clue.
  if (error.code === "internal_error" && error.cause instanceof Error) lines.push(error.cause.stack ?? "");
  const text = options.json ? JSON.stringify({ error: errorToRecord(error) }) : lines.join("\n");
  process.stderr.write(`${text}\n`);
  if (error.code === "gpu_missing") return EXIT_MACHINE;
  return error.code === "invalid_option" ? EXIT_USAGE : EXIT_FAILURE;
}
