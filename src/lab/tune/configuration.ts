/** A server's configuration as flags, and changes to it. */
import { MillraceError } from "../../core/errors.js";
import { optionError } from "../../core/option-error.js";

/** Maps each flag without its dashes to its value; "" for a flag without one. */
export type Configuration = Readonly<Record<string, string>>;

/**
 * Throws invalid_option for a word that is neither a flag nor a flag's single value.
 *
 * @example parseFlags(["--threads", "1", "--no-enable-prefix-caching"]) // { threads: "1", "no-enable-prefix-caching":
 *   "" }
 */
export function parseFlags(words: readonly string[]): Configuration {
  const flags: Record<string, string> = {};
  let open: string | undefined;
  for (const word of words) {
    const match = /^--([a-z][\w-]*)(?:=(.*))?$/s.exec(word);
    if (match !== null) {
      open = match[2] === undefined ? match[1]! : undefined;
      flags[match[1]!] = match[2] ?? "";
    } else if (open !== undefined) {
      flags[open] = word;
      open = undefined;
    } else {
      throw new MillraceError("invalid_option", `expected --flag or --flag value in --server-args, got ${word}`, {
        hint: "write long names with at most one value each: --max-num-seqs 4",
      });
    }
  }
  return flags;
}

export const flagWords = (configuration: Configuration): string[] =>
  Object.entries(configuration).flatMap(([name, value]) => (value === "" ? [`--${name}`] : [`--${name}`, value]));

/** Values to set; undefined removes the flag, which restores the server's default. */
export type Edit = Readonly<Record<string, string | undefined>>;

export function edited(configuration: Configuration, edit: Edit): Configuration {
  const next: Record<string, string> = { ...configuration };
  for (const [name, value] of Object.entries(edit)) {
    if (value === undefined) delete next[name];
    else next[name] = value;
  }
  return Object.fromEntries(Object.entries(next).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A key that is equal for equal configurations. */
export const keyOf = (configuration: Configuration): string => JSON.stringify(edited(configuration, {}));

/** The number of a flag; undefined if it is absent or not a number. */
export function numberOf(configuration: Configuration, name: string): number | undefined {
  const value = Number(configuration[name]);
  return configuration[name] === undefined || configuration[name] === "" || Number.isNaN(value) ? undefined : value;
}

/** The flag of `millrace serve` for processes that share the machine. */
export const INSTANCES = "instances";

/** Throws invalid_option for an invalid number of instances. */
export function instancesOf({ [INSTANCES]: text }: Configuration): number {
  if (text === undefined) return 1;
  if (/^[1-9]\d{0,2}$/.test(text)) return Number(text);
  throw optionError("--server-args", "a number with --instances", text);
}
