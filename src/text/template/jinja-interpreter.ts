/** The template library's interpreter, with Python's behaviour where the library follows JavaScript's. */
import { Environment, Interpreter } from "@huggingface/jinja";
import { type Callable, isEqual, isUndefined, type NumberText, pythonText, type Value } from "./jinja-values.js";

export interface Statement {
  readonly type: string;
}

interface MethodCall extends Statement {
  readonly callee: { readonly object: Statement; readonly property: { readonly value: string } };
  readonly args: readonly Statement[];
}

interface Operation extends Statement {
  readonly operator: { readonly value: string };
  readonly left: Statement;
  readonly right: Statement;
}

type Block = readonly Statement[];

interface Loop extends Statement {
  readonly iterable: Statement;
  readonly body: Block;
}

/** A filter's name, or a call with arguments. */
interface Filter extends Statement {
  readonly value?: unknown;
  readonly callee?: Filter;
  readonly args?: readonly Statement[];
}

/** The used part of the library, declared here because the library's own types do not resolve. */
const LibraryInterpreter = Interpreter as unknown as new (
  scope: unknown,
) => {
  evaluate(statement: Statement | undefined, scope: unknown): Value;
  evaluateBlock(statements: Block, scope: unknown): Value;
  evaluateFor(loop: Loop, scope: unknown): Value;
  evaluateBinaryExpression(operation: Operation, scope: unknown): Value;
  applyFilter(operand: Value, filter: Filter, scope: unknown): Value;
  run(program: unknown): Value;
};

/** An operand that has already been evaluated. */
class Evaluated implements Statement {
  readonly type = "Evaluated";

  constructor(readonly value: Value) {}
}

/** Carries `break` or `continue` to the enclosing loop. */
class LoopControl extends Error {
  /** The output of the iteration so far. */
  text = "";

  constructor(readonly isBreak: boolean) {
    super("expected a loop around break and continue, got none");
  }
}

/** Statements that output nothing. */
const SILENT: ReadonlySet<string> = new Set(["Set", "Macro", "Comment", "Break", "Continue"]);
/** Filters that handle undefined values themselves. */
const DEFINING_FILTERS: ReadonlySet<string> = new Set(["default", "tojson"]);
/** Filters that treat undefined as an empty list; the others treat it as an empty text. */
const LIST_FILTERS = /^(?:length|list|join|sort|unique|reverse|map|(?:select|reject)attr)$/;
/** Methods that take the characters to strip; the library ignores the argument and strips white space. */
const STRIPS: ReadonlySet<unknown> = new Set(["strip", "lstrip", "rstrip"]);
/** Methods of a dict that take precedence over keys of the same names, which parameters of tools may have; the library prefers the key. */
const DICT_METHODS: ReadonlySet<unknown> = new Set(["items", "keys", "values", "get"]);

export class JinjaInterpreter extends LibraryInterpreter {
  /** The active loops, the innermost last. */
  readonly #loops: { readonly body: Block; isOver: boolean }[] = [];

  override evaluate(statement: Statement | undefined, scope: unknown): Value {
    if (statement instanceof Evaluated) return statement.value;
    if (statement?.type === "Break" || statement?.type === "Continue")
      throw new LoopControl(statement.type === "Break");
    // The library's loops and filters do not accept tuples.
    if (statement?.type === "TupleLiteral") return super.evaluate({ ...statement, type: "ArrayLiteral" }, scope);
    if (!isMethodCall(statement)) return super.evaluate(statement, scope);
    const { callee, args } = statement;
    const object = this.evaluate(callee.object, scope);
    const name = callee.property.value;
    const values = args.map((argument) => this.evaluate(argument, scope));
    if (object.type === "StringValue" && STRIPS.has(name)) {
      const text = strip(String(object.value), String(values[0]!.value), name);
      return new (object.constructor as new (text: string) => Value)(text);
    }
    const method = object.builtins.get(name) as Callable | undefined;
    if (typeof method?.value !== "function") throw new Error(`${object.type} has no method ${name}`);
    return method.value(values, scope);
  }

  /** Variables set in one iteration do not exist in the next; the output before `break` or `continue` is kept. */
  override evaluateFor(loop: Loop, scope: unknown): Value {
    const { iterable } = loop;
    // The library itself evaluates "for x in y if z", with the scope of the loop.
    const over = iterable.type === "SelectExpression" ? undefined : this.evaluate(iterable, scope);
    const letters =
      over?.type === "StringValue" ? [...(over.value as string)].map((letter) => this.#text(letter)) : undefined;
    const elements = over !== undefined && isUndefined(over) ? [] : letters;
    const given = elements === undefined ? over : this.#list(elements);
    this.#loops.push({ body: loop.body, isOver: false });
    try {
      return super.evaluateFor(given === undefined ? loop : { ...loop, iterable: new Evaluated(given) }, scope);
    } finally {
      this.#loops.pop();
    }
  }

  override evaluateBlock(statements: Block, scope: unknown): Value {
    const loop = this.#loops.at(-1);
    if (loop?.body !== statements) return this.#text(this.#print(statements, scope));
    if (loop.isOver) return this.#text("");
    try {
      return this.#text(this.#print(statements, new Environment(scope as Environment)));
    } catch (thrown) {
      if (!(thrown instanceof LoopControl)) throw thrown;
      loop.isOver = thrown.isBreak;
      return this.#text(thrown.text);
    }
  }

  override evaluateBinaryExpression(operation: Operation, scope: unknown): Value {
    const operator = operation.operator.value;
    if (operator === "and" || operator === "or") return super.evaluateBinaryExpression(operation, scope);
    const [left, right] = [this.evaluate(operation.left, scope), this.evaluate(operation.right, scope)];
    const given = { ...operation, left: new Evaluated(left), right: new Evaluated(right) };
    /** Creates a value of the same library class as the sample. */
    const like = (sample: Value, value: unknown): Value =>
      new (sample.constructor as new (value: unknown) => Value)(value);
    const truth = (isTrue: boolean): Value =>
      like(super.evaluateBinaryExpression({ ...given, operator: { value: "==" } }, scope), isTrue);
    if (operator === "==" || operator === "!=") return truth(isEqual(left, right) === (operator === "=="));
    if (Array.isArray(right.value) && /^(?:not )?in$/.test(operator)) {
      return truth(right.value.some((element) => isEqual(element, left)) === (operator === "in"));
    }
    if (operator === "~") return this.#text(pythonText(left) + pythonText(right));
    if (operator === "+" && (left.type === "StringValue") !== (right.type === "StringValue")) {
      throw new Error(`expected two texts around +, got ${left.type} and ${right.type}`);
    }
    const result = super.evaluateBinaryExpression(given, scope);
    // In Python the result has the divisor's sign.
    const [rest, divisor] = [Number(result.value), Number(right.value)];
    return operator === "%" && rest * divisor < 0 ? like(result, rest + divisor) : result;
  }

  override applyFilter(operand: Value, filter: Filter, scope: unknown): Value {
    // "x | trim()" means the same as "x | trim".
    const plain = filter.callee !== undefined && filter.args?.length === 0 ? filter.callee : filter;
    const name = String((plain.callee ?? plain).value);
    if (/^(?:first|last)$/.test(name) && (isUndefined(operand) || (operand.value as unknown[])?.length === 0)) {
      return super.evaluate(undefined, scope);
    }
    if (name === "string") return this.#text(pythonText(operand));
    if (!isUndefined(operand) || DEFINING_FILTERS.has(name)) return super.applyFilter(operand, plain, scope);
    return super.applyFilter(LIST_FILTERS.test(name) ? this.#list([]) : this.#text(""), plain, scope);
  }

  /** Replaces the marks in `value` with their numbers. */
  restoreNumbers(value: Value, numbers: ReadonlyMap<string, NumberText>): Value {
    const held = value.value as unknown;
    const number = typeof held === "string" ? numbers.get(held) : undefined;
    if (number !== undefined) {
      const type = /^-?\d+$/.test(number.text) ? "IntegerLiteral" : "FloatLiteral";
      return super.evaluate({ type, value: number } as Statement, undefined);
    }
    const entries = Array.isArray(held) ? held.entries() : held instanceof Map ? held.entries() : [];
    for (const [key, inner] of entries) {
      const restored = this.restoreNumbers(inner, numbers);
      if (Array.isArray(held)) held[key] = restored;
      else (held as Map<unknown, Value>).set(key, restored);
    }
    return value;
  }

  #print(statements: Block, scope: unknown): string {
    let text = "";
    try {
      for (const statement of statements) {
        const value = this.evaluate(statement, scope);
        if (!SILENT.has(statement.type)) text += pythonText(value);
      }
    } catch (thrown) {
      if (thrown instanceof LoopControl) thrown.text = text + thrown.text;
      throw thrown;
    }
    return text;
  }

  #list(elements: readonly Value[]): Value {
    return super.evaluate(
      { type: "ArrayLiteral", value: elements.map((element) => new Evaluated(element)) } as Statement,
      undefined,
    );
  }

  #text(text: string): Value {
    return super.evaluate({ type: "StringLiteral", value: text } as Statement, undefined);
  }
}

function isMethodCall(statement: Statement | undefined): statement is MethodCall {
  if (statement?.type !== "CallExpression") return false;
  const { callee, args } = statement as Statement & {
    readonly callee: Statement & { readonly computed?: boolean; readonly property?: { readonly value?: unknown } };
    readonly args: readonly Statement[];
  };
  if (callee.type !== "MemberExpression" || callee.computed === true) return false;
  const name = callee.property?.value;
  const isPlain = args.every(({ type }) => !/Keyword|Spread/.test(type));
  return isPlain && (DICT_METHODS.has(name) || (STRIPS.has(name) && args.length === 1));
}

/** Removes any of these characters from the ends of the text, as in Python. */
function strip(text: string, characters: string, name: string): string {
  const stripped = new Set(characters);
  const all = [...text];
  const isOther = (character: string) => !stripped.has(character);
  const first = name === "rstrip" ? 0 : all.findIndex(isOther);
  const last = name === "lstrip" ? all.length - 1 : all.findLastIndex(isOther);
  return first < 0 ? "" : all.slice(first, last + 1).join("");
}
