/** A server's configuration as flags, and changes of it. */
import { MillraceError } from "../../core/errors.js";
import { optionError } from "../../core/option-error.js";

/** Flag without dashes → its value; "" for a flag without one. */
export type Configuration = Readonly<Record<string, string>>;

/**
 * Throws invalid_option for a word that is neither a flag nor the one value of a flag.
 *
 * @example parseFlags(["--threads", "1", "--no-enable-prefix-caching"])
 *   // { threads: "1", "no-enable-prefix-caching": "" }
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

/** Values to set; undefined removes the flag, so that the server's default holds. */
export type Edit = Readonly<Record<string, string | undefined>>;

export function edited(configuration: Configuration, edit: Edit): Configuration {
  const next: Record<string, string> = { ...configuration };
  for (const [name, value] of Object.entries(edit)) {
    if (value === undefined) delete next[name];
    else next[name] = value;
  }
  return Object.fromEntries(Object.entries(next).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Equal for equal configurations. */
export const keyOf = (configuration: Configuration): string => JSON.stringify(edited(configuration, {}));

/** The number of a flag; undefined where it is absent or no number. */
export function numberOf(configuration: Configuration, name: string): number | undefined {
  const value = Number(configuration[name]);
  return configuration[name] === undefined || configuration[name] === "" || Number.isNaN(value) ? undefined : value;
}

/** The flag of `millrace serve` for processes that share the machine. */
export const INSTANCES = "instances";

/** Throws invalid_option for a number of instances that is none. */
export function instancesOf({ [INSTANCES]: text }: Configuration): number {
  if (text === undefined) return 1;
  if (/^[1-9]\d{0,2}$/.test(text)) return Number(text);
  throw optionError("--server-args", "a number with --instances", text);
}
