/** The template library's interpreter, with the methods of strings and dicts as Python has them where the library has others. */
import { Interpreter } from "@huggingface/jinja";

interface Statement {
  readonly type: string;
}

interface Value extends Statement {
  readonly value: unknown;
  readonly builtins: ReadonlyMap<string, Value | Callable>;
}

interface Callable {
  value(args: readonly Value[], scope: unknown): Value;
}

interface MethodCall extends Statement {
  readonly callee: { readonly object: Statement; readonly property: { readonly value: string } };
  readonly args: readonly Statement[];
}

/** What is used of it: the library's own types do not resolve. */
const LibraryInterpreter = Interpreter as unknown as new (
  scope: unknown,
) => {
  evaluate(statement: Statement | undefined, scope: unknown): Value;
  run(program: unknown): Value;
};

/** With characters to strip; the library strips white space whatever it is given. */
const STRIPS: ReadonlySet<unknown> = new Set(["strip", "lstrip", "rstrip"]);
/** Of a dict they are its methods even if it has keys of these names, as the parameters of tools may have; the library takes the key. */
const DICT_METHODS: ReadonlySet<unknown> = new Set(["items", "keys", "values", "get"]);

export class JinjaInterpreter extends LibraryInterpreter {
  override evaluate(statement: Statement | undefined, scope: unknown): Value {
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

/** Whatever of these characters stands at its ends goes, as in Python. */
function strip(text: string, characters: string, name: string): string {
  const stripped = new Set(characters);
  const all = [...text];
  const isOther = (character: string) => !stripped.has(character);
  const first = name === "rstrip" ? 0 : all.findIndex(isOther);
  const last = name === "lstrip" ? all.length - 1 : all.findLastIndex(isOther);
  return first < 0 ? "" : all.slice(first, last + 1).join("");
}
