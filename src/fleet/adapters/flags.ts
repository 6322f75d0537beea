/** Turns our options into an engine's flags by a table, and says which options it has no flag for. */
import type { CommonEngineOptions, EngineName } from "../upstream/engine.js";

/** A flag's name, which takes the value (objects as JSON), or what to pass for it: [] where it travels another way. */
type FlagFor<Value> = string | ((value: Value, options: CommonEngineOptions) => readonly string[]);

export type FlagTable = {
  readonly [Option in keyof CommonEngineOptions]?: FlagFor<NonNullable<CommonEngineOptions[Option]>>;
};

interface Flags {
  readonly args: readonly string[];
  readonly notices: readonly string[];
}

/** The option is passed on in the environment or in a file. */
export const elsewhere = (): readonly string[] => [];

/** A flag without a value, given or not. */
export const onlyIf =
  (flag: string, when: boolean) =>
  (value: boolean): readonly string[] =>
    value === when ? [flag] : [];

/** One flag of several, by value; another value is passed on under `otherwise`. */
export const renamed =
  (flag: string, names: Readonly<Record<string, string>>) =>
  (value: string): readonly string[] => [flag, names[value] ?? value];

export function flagsFrom(engine: EngineName, options: CommonEngineOptions, table: FlagTable): Flags {
  const args: string[] = [];
  const notices: string[] = [];
  for (const [option, value] of Object.entries(options) as [keyof CommonEngineOptions, unknown][]) {
    if (value === undefined) continue;
    const flag = table[option] as FlagFor<unknown> | undefined;
    if (flag === undefined) notices.push(`${engine} has no flag for ${option}: it starts with its own default`);
    else if (typeof flag === "function") args.push(...flag(value, options));
    else args.push(flag, typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  return { args, notices };
}

/** Variables for the options that are given. */
export function envFrom(
  values: Readonly<Record<string, string | number | undefined>>,
): Readonly<Record<string, string>> {
  const given = Object.entries(values).filter((entry): entry is [string, string | number] => entry[1] !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
}
