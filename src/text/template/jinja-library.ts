/**
 * The parts of the template library that the interpreter extends; the library's own types do not resolve, or are
 * private.
 */
import { Environment, Interpreter } from "@huggingface/jinja";
import type { Value } from "./jinja-values.js";

export interface Statement {
  readonly type: string;
}

export interface MethodCall extends Statement {
  readonly callee: { readonly object: Statement; readonly property: { readonly value: string } };
  readonly args: readonly Statement[];
}

export interface Operation extends Statement {
  readonly operator: { readonly value: string };
  readonly left: Statement;
  readonly right: Statement;
}

export type Block = readonly Statement[];

export interface Loop extends Statement {
  readonly loopvar: Target;
  /** Has `lhs` and `test` in "for x in y if z". */
  readonly iterable: Statement & { readonly lhs?: Statement; readonly test?: Statement };
  readonly body: Block;
  /** The block after `else`. */
  readonly defaultBlock: Block;
}

/** The target of an assignment: a name, or a tuple of names. */
export interface Target extends Statement {
  readonly value?: unknown;
}

export interface Member extends Statement {
  readonly object: Statement;
  readonly property: Statement & { readonly value?: unknown };
  readonly computed: boolean;
}

/** A filter's name, or a call with arguments. */
export interface Filter extends Statement {
  readonly value?: unknown;
  readonly callee?: Filter;
  readonly args?: readonly Statement[];
}

export interface Test extends Statement {
  readonly operand: Statement;
  readonly test: { readonly value: string };
}

/** A call's positional arguments, and its named ones by name. */
export type Arguments = readonly [readonly Value[], ReadonlyMap<string, Value>];

export interface Scope {
  readonly variables: ReadonlyMap<string, Value>;
  readonly parent?: Scope;
}

export const LibraryInterpreter = Interpreter as unknown as new (
  scope: unknown,
) => {
  evaluate(statement: Statement | undefined, scope: unknown): Value;
  evaluateBlock(statements: Block, scope: unknown): Value;
  evaluateFor(loop: Loop, scope: unknown): Value;
  evaluateBinaryExpression(operation: Operation, scope: unknown): Value;
  evaluateMemberExpression(member: Member, scope: unknown): Value;
  evaluateSliceExpression(object: Value, slice: Statement, scope: unknown): Value;
  evaluateTestExpression(test: Test, scope: unknown): Value;
  evaluateArguments(args: readonly Statement[], scope: unknown): Arguments;
  bindMacroArguments(name: string, parameters: readonly unknown[], ...rest: readonly unknown[]): void;
  applyFilter(operand: Value, filter: Filter, scope: unknown): Value;
  run(program: unknown): Value;
};

/** An operand that has already been evaluated. */
export class Evaluated implements Statement {
  readonly type = "Evaluated";

  constructor(readonly value: Value) {}
}

/** Creates a value of the same library class as the sample. */
export const like = (sample: Value, value: unknown): Value =>
  new (sample.constructor as new (value: unknown) => Value)(value);
/** The library's environment without variables. */
export const ENVIRONMENT = new Environment();
const sampleOf = (value: unknown) => new Environment().set("sample", value) as unknown as Value;
export const [A_TEXT, A_TRUTH, AN_INTEGER, A_LIST, A_DICT] = [
  sampleOf(""),
  sampleOf(true),
  sampleOf(0),
  sampleOf([]),
  sampleOf({}),
];
export const NOTHING = sampleOf(undefined);
export const NONE = sampleOf(null);

export const numTargets = ({ type, value }: Target): number => (type === "TupleLiteral" ? (value as Block).length : 1);

/** Number of nodes, by the objects of parsed templates. */
const sizes = new WeakMap<object, number>();

/** The nodes within this part of a parsed template. */
export function numNodes(part: unknown): number {
  if (typeof part !== "object" || part === null) return 0;
  let size = sizes.get(part);
  if (size === undefined) {
    const children: Iterable<unknown> = part instanceof Map ? [...part].flat() : Object.values(part);
    size = 1;
    for (const child of children) size += numNodes(child);
    sizes.set(part, size);
  }
  return size;
}
