/** The types of values in millrace.yaml, as zod schemas whose titles and examples appear in error messages. */
import { inspect } from "node:util";
import { z } from "zod";
import { parseByteSize, parseDurationMs } from "./quantities.js";

type Camel<S extends string> = S extends `${infer Head}-${infer Rest}` ? `${Head}${Capitalize<Camel<Rest>>}` : S;
type CamelKeys<T> = { readonly [K in keyof T as K extends string ? Camel<K> : K]: T[K] };

/** @example camelCase("max-num-seqs") // "maxNumSeqs" */
function camelCase(key: string): string {
  return key.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** A mapping of known keys: kebab-case in the file, camelCase in the program. */
export function section<Shape extends z.ZodRawShape>(shape: Shape) {
  return z
    .strictObject(shape)
    .transform(
      (value) =>
        Object.fromEntries(Object.entries(value).map(([key, each]) => [camelCase(key), each])) as CamelKeys<
          z.output<z.ZodObject<Shape>>
        >,
    );
}

export const text = (title = "text"): z.ZodString => z.string().min(1).meta({ title });

export const integer = (min: number, max: number): z.ZodNumber => z.number().int().min(min).max(max);

/** A value that only `reveal` returns; logs, JSON and errors never contain it. */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  equals(other: Secret): boolean {
    return this.#value === other.#value;
  }

  toJSON(): string {
    return "(secret)";
  }

  [inspect.custom](): string {
    return "(secret)";
  }
}

/** The variable named by `env:NAME`; undefined if the text is the value itself. */
function variableOf(written: string): string | undefined {
  return /^env:(.*)$/s.exec(written)?.[1];
}

/**
 * A secret, resolved when the file is read, so that a missing variable is reported before anything starts. `writeOnly`
 * is JSON Schema's mark of a secret, which messages and rendered files go by.
 */
export const secret = (environment: NodeJS.ProcessEnv) =>
  z
    .string()
    .min(1)
    .meta({
      title: "a key, or env:NAME with the environment variable that holds it",
      examples: ["env:MILLRACE_KEY"],
      writeOnly: true,
    })
    .transform((written, context) => {
      const variable = variableOf(written);
      const value = variable === undefined ? written : environment[variable];
      if (value !== undefined && value !== "" && !/\s/.test(value)) return new Secret(value);
      const expected = variable === undefined ? "a key without spaces" : "the environment variable to hold a key";
      context.addIssue({ code: "custom", message: expected, params: { variable } });
      return z.NEVER;
    });

/** A text that `parse` turns into a value; undefined marks an invalid one. */
export function parsed<T>(
  title: string,
  examples: readonly string[],
  pattern: RegExp,
  parse: (text: string) => T | undefined,
) {
  return z
    .string()
    .regex(pattern)
    .meta({ title, examples: [...examples] })
    .transform((written, context) => {
      const value = parse(written);
      if (value !== undefined) return value;
      context.addIssue({ code: "custom", message: title });
      return z.NEVER;
    });
}

const DURATIONS = ["250ms", "5s", "2m", "1h"];
const DURATION = /^\d+(\.\d+)?(ms|s|m|h)$/;

/** A duration in milliseconds. */
export const duration = () => parsed("a duration of at most 24 days", DURATIONS, DURATION, parseDurationMs);

/** A time limit in milliseconds. 0 is refused, since such a limit ends at once. */
export const timeLimit = () =>
  parsed("a duration above 0 and of at most 24 days", DURATIONS, DURATION, (written) => {
    const ms = parseDurationMs(written);
    return ms === 0 ? undefined : ms;
  });

/** A size in bytes. */
export const byteSize = () => parsed("a size", ["512MiB", "8GiB", "24G"], /^\d+(\.\d+)?\s*[A-Za-z]*$/, parseByteSize);

/** A sorted list of distinct CPU numbers. */
export const cpuList = () =>
  parsed("a list of CPUs", ["0-3", "0,2,4-7"], /^\d+(-\d+)?(,\d+(-\d+)?)*$/, (written) => {
    const cpus = new Set<number>();
    for (const part of written.split(",")) {
      const [first = Number.NaN, last = first] = part.split("-").map(Number);
      if (!(first <= last && last < 4096)) return undefined;
      for (let cpu = first; cpu <= last; cpu++) cpus.add(cpu);
    }
    return [...cpus].sort((a, b) => a - b);
  });
