/** Translates our options to an engine's flags by a table, and reports the options that have no flag. */
import type { CommonEngineOptions, EngineName } from "../upstream/engine.js";

/**
 * Either the name of a flag that takes the value (objects as JSON), or a function that returns the arguments: [] where
 * the option is passed another way.
 */
type FlagFor<Value> = string | ((value: Value, options: CommonEngineOptions) => readonly string[]);

export type FlagTable = {
  readonly [Option in keyof CommonEngineOptions]?: FlagFor<NonNullable<CommonEngineOptions[Option]>>;
};

interface Flags {
  readonly args: readonly string[];
  readonly notices: readonly string[];
}

/** For options that reach the engine through its environment or a file. */
export const elsewhere = (): readonly string[] => [];

/** A flag without a value, passed only for one value of the option. */
export const onlyIf =
  (flag: string, when: boolean) =>
  (value: boolean): readonly string[] =>
    value === when ? [flag] : [];

/** A flag whose values have other names in this engine; values without an entry are passed unchanged. */
export const renamed =
  (flag: string, names: Readonly<Record<string, string>>) =>
  (value: string): readonly string[] => [flag, names[value] ?? value];

export function flagsFrom(engine: EngineName, options: CommonEngineOptions, table: FlagTable): Flags {
  const args: string[] = [];
  const notices: string[] = [];
  for (const [option, value] of Object.entries(options) as [keyof CommonEngineOptions, unknown][]) {
    if (value === undefined) continue;
    const flag = table[option] as FlagFor<unknown> | undefined;
    if (flag === undefined) notices.push(`${engine} has no flag for ${option}: it uses its own default`);
    else if (typeof flag === "function") args.push(...flag(value, options));
    else args.push(flag, typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  return { args, notices };
}

/** Environment variables of the options that have a value. */
export function envFrom(
  values: Readonly<Record<string, string | number | undefined>>,
): Readonly<Record<string, string>> {
  const given = Object.entries(values).filter((entry): entry is [string, string | number] => entry[1] !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
}
