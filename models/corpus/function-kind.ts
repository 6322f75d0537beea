/** What a small function is: in words, in TypeScript, in Python, and as a function that says what calls must give. */

export type Language = "typescript" | "python";

/** Constants of one function: numbers n < m, a short text t, one letter c. */
export interface Constants {
  readonly n: number;
  readonly m: number;
  readonly t: string;
  readonly c: string;
}

export type Argument = number | string | readonly number[] | readonly string[];

export interface FunctionKind {
  /** After "a function that"; `{n}` and the like are constants. */
  readonly does: string;
  /** Words of the name where the request leaves it open; `{n}` may occur. */
  readonly name: string;
  /** "a:number b:string[]": parameters by their usual names. */
  readonly parameters: string;
  readonly returns: string;
  /** Bodies, a line each, indented by tabs; parameters by their usual names in braces. */
  readonly typescript: string;
  readonly python: string;
  readonly run: (constants: Constants, ...values: never[]) => unknown;
}

type Run<T extends readonly unknown[]> = (constants: Constants, ...values: T) => unknown;

/** Makes the rows of a table of functions that take the same parameters. */
export const kindOf =
  <T extends readonly unknown[]>(parameters: string) =>
  (does: string, name: string, returns: string, typescript: string, python: string, run: Run<T>): FunctionKind => ({
    does,
    name,
    parameters,
    returns,
    typescript,
    python,
    run: run as unknown as FunctionKind["run"],
  });
