/** A Jinja template over named values, for evaluation tasks: it keeps white space, and an absent value is an error. */
import { Environment } from "@huggingface/jinja";
import { MillraceError } from "../../core/errors.js";
import { JinjaInterpreter } from "./jinja-interpreter.js";
import type { Statement } from "./jinja-library.js";
import { type Callable, isEqual, isUndefined, type NumberText, pythonText, type Value } from "./jinja-values.js";
import { withNumbers } from "./number-marks.js";
import { parseTemplate, reasonOf } from "./parse-template.js";
import { range } from "./range.js";
import { CHARACTER_WORK, RenderBudget, VALUE_WORK } from "./render-budget.js";

/** Names that every template knows. */
const GLOBALS = { true: true, True: true, false: false, False: false, none: null, None: null, range };
/** Filters and tests that check whether a value is present. */
const ASKING = new Set<unknown>(["default", "defined", "undefined", "none"]);

/** @example new TextTemplate("Question: {{ question }}").render({ question: "2 + 2?" }) // "Question: 2 + 2?" */
export class TextTemplate {
  readonly #source: string;
  readonly #program: ReturnType<typeof parseTemplate>;

  /** Throws template_failed. */
  constructor(source: string) {
    this.#source = source;
    try {
      // The library drops one line feed at the end of a template.
      this.#program = parseTemplate(source.endsWith("\n") ? `${source}\n` : source);
    } catch (thrown) {
      throw this.#error("one that does not parse", thrown);
    }
  }

  /** @param numbers of the marks in the values. Throws template_failed. */
  render(values: Readonly<Record<string, unknown>>, numbers: ReadonlyMap<string, NumberText> = new Map()): string {
    const environment = new Environment();
    try {
      for (const [name, value] of Object.entries({ ...GLOBALS, ...values })) environment.set(name, value);
      const interpreter = new StrictInterpreter(environment, new RenderBudget(values));
      for (const name of numbers.size === 0 ? [] : Object.keys(values)) {
        const held = environment.lookupVariable(name) as unknown as Value;
        const restored = interpreter.restoreNumbers(held, numbers);
        if (restored !== held) environment.setVariable(name, restored as never);
      }
      return withNumbers(String(interpreter.run(this.#program).value), numbers);
    } catch (thrown) {
      throw this.#error("a failure", thrown);
    }
  }

  #error(got: string, cause: unknown): MillraceError {
    const shown = JSON.stringify(this.#source.slice(0, 200));
    return new MillraceError(
      "template_failed",
      `expected the template ${shown} to render, got ${got}: ${reasonOf(cause)}`,
      {
        cause,
      },
    );
  }
}

interface Member extends Statement {
  readonly object?: Statement;
  readonly computed?: boolean;
  readonly property?: Statement & { readonly value?: unknown };
}

interface Call extends Statement {
  readonly callee: Member;
  readonly args: readonly Statement[];
}

interface Asking extends Statement {
  readonly filter?: { readonly value?: unknown; readonly callee?: { readonly value?: unknown } };
  readonly test?: { readonly value?: unknown };
}

/** Python's methods that the library lacks or implements differently. */
const METHODS: Readonly<
  Record<string, (on: Value, args: readonly Value[], budget: RenderBudget) => string | number | undefined>
> = {
  index: (on, [wanted], budget) => {
    if (!Array.isArray(on.value) || wanted === undefined) return undefined;
    const found = (on.value as readonly Value[]).findIndex((element) => isEqual(element, wanted, budget));
    if (found < 0) throw new Error(`${pythonText(wanted, budget)} is not in the list`);
    return found;
  },
  join: (on, [parts], budget) => {
    if (typeof on.value !== "string" || !Array.isArray(parts?.value)) return undefined;
    budget.chargeAll(parts, { perValue: VALUE_WORK + on.value.length * CHARACTER_WORK });
    return (parts.value as readonly Value[]).map((part) => pythonText(part, budget)).join(on.value);
  },
  capitalize: ({ value }, _, budget) => {
    if (typeof value !== "string") return undefined;
    budget.charge(value.length * VALUE_WORK);
    const [first = "", ...rest] = value;
    return first.toUpperCase() + rest.join("").toLowerCase();
  },
};

class StrictInterpreter extends JinjaInterpreter {
  #numAsking = 0;

  override evaluate(statement: Statement | undefined, scope: unknown): Value {
    if (isAsking(statement)) {
      this.#numAsking++;
      try {
        return super.evaluate(statement, scope);
      } finally {
        this.#numAsking--;
      }
    }
    const value = this.#methodCall(statement, scope) ?? super.evaluate(this.#withNumber(statement, scope), scope);
    const isRead = statement?.type === "Identifier" || statement?.type === "MemberExpression";
    if (isRead && isUndefined(value) && this.#numAsking === 0) throw new Error(`${nameOf(statement)} is undefined`);
    return value;
  }

  /** In Python True is the number 1, also as an index. */
  #withNumber(statement: Statement | undefined, scope: unknown): Statement | undefined {
    const { type, computed, property } = (statement ?? {}) as Member;
    if (type !== "MemberExpression" || computed !== true || property?.type === "SliceExpression") return statement;
    const key = super.evaluate(property, scope);
    if (typeof key.value !== "boolean") return statement;
    return { ...statement, property: { type: "IntegerLiteral", value: Number(key.value) } } as Member;
  }

  #methodCall(statement: Statement | undefined, scope: unknown): Value | undefined {
    if (statement?.type !== "CallExpression") return undefined;
    const { callee, args } = statement as Call;
    const { object, property, computed } = callee;
    const name = property?.value;
    if (object === undefined || computed === true || typeof name !== "string") return undefined;
    if (!Object.hasOwn(METHODS, name)) return undefined;
    const on = super.evaluate(object, scope);
    const own = on.builtins.get(name) as Callable | undefined;
    const values = args.map((argument) => this.evaluate(argument, scope));
    const result = METHODS[name]?.(on, values, this.budget);
    if (result === undefined) return own?.value(values, scope);
    const type = typeof result === "number" ? "IntegerLiteral" : "StringLiteral";
    return super.evaluate({ type, value: result } as Statement, scope);
  }
}

function isAsking(statement: Statement | undefined): boolean {
  const { type, filter, test } = (statement ?? {}) as Asking;
  if (type === "FilterExpression") return ASKING.has(filter?.value ?? filter?.callee?.value);
  return type === "TestExpression" && ASKING.has(test?.value);
}

function nameOf(statement: Statement): string {
  const { value, property } = statement as {
    readonly value?: unknown;
    readonly property?: { readonly value?: unknown };
  };
  return String(value ?? property?.value ?? "a value");
}
