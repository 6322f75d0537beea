/**
 * The template library's interpreter, with Python's behaviour where the library follows JavaScript's, and with a work
 * budget.
 */

import { IterationScope } from "./iteration-scope.js";
import {
  A_LIST,
  A_TEXT,
  A_TRUTH,
  type Arguments,
  type Block,
  Evaluated,
  type Filter,
  LibraryInterpreter,
  type Loop,
  like,
  type Member,
  type MethodCall,
  NOTHING,
  numNodes,
  numTargets,
  type Operation,
  type Scope,
  type Statement,
  type Target,
  type Test,
} from "./jinja-library.js";
import { type Callable, isEqual, isUndefined, type NumberText, pythonText, type Value } from "./jinja-values.js";
import { hasWholeFloats, withMarkedFloats, withNumbers } from "./number-marks.js";
import { askNumbered, dictOf, isNumbered, keyOf, withTextKeys } from "./numbered-dicts.js";
import {
  CHARACTER_WORK,
  ELEMENT_WORK,
  ITERATION_WORK,
  LOOP_WORK,
  NODE_WORK,
  PARAMETER_WORK,
  type RenderBudget,
  SCOPE_WORK,
  VALUE_WORK,
} from "./render-budget.js";
import { chargeFilter, chargeMethod, chargeNamespace } from "./render-charges.js";

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
/** Filters that first print other values as Python would: a tool parameter's type may be a list of names. */
const TEXT_FILTERS: ReadonlySet<string> = new Set(["upper", "lower", "title", "capitalize", "trim"]);
/** Methods that take the characters to strip; the library ignores the argument and strips white space. */
const STRIPS: ReadonlySet<unknown> = new Set(["strip", "lstrip", "rstrip"]);
/** Tests that rewrite a text to compare it. */
const LETTER_CASES: ReadonlySet<string> = new Set(["lower", "upper"]);
/**
 * Methods of a dict that take precedence over keys of the same names, which parameters of tools may have; the library
 * prefers the key.
 */
const DICT_METHODS: ReadonlySet<unknown> = new Set(["items", "keys", "values", "get"]);

/** Charges the budget before each evaluation, and throws OverBudget when the budget is used up. */
export class JinjaInterpreter extends LibraryInterpreter {
  /** Whether a dict has number keys; most templates have none, and then JSON is printed without a copy. */
  #hasNumbered = false;

  constructor(
    scope: unknown,
    protected readonly budget: RenderBudget,
  ) {
    super(scope);
  }

  override evaluate(statement: Statement | undefined, scope: unknown): Value {
    if (statement instanceof Evaluated) return statement.value;
    this.budget.charge(NODE_WORK);
    switch (statement?.type) {
      case "Identifier":
        return this.#lookUp((statement as Target).value as string, scope as Scope);
      case "Break":
      case "Continue":
        this.budget.charge(ITERATION_WORK);
        throw new LoopControl(statement.type === "Break");
      case "TupleLiteral":
        // The library's loops and filters do not accept tuples.
        return super.evaluate({ ...statement, type: "ArrayLiteral" }, scope);
      case "ObjectLiteral":
        return this.#evaluateDict(statement as Target, scope);
      case "Set":
        this.budget.charge(numTargets((statement as Statement & { readonly assignee: Target }).assignee) * VALUE_WORK);
        break;
      case "Macro":
        // The library searches the body at each evaluation.
        this.budget.charge(numNodes(statement) * ELEMENT_WORK);
        break;
      case "CallStatement":
        this.budget.charge(numNodes(statement) * ELEMENT_WORK);
        return this.#charged(super.evaluate(statement, scope));
      case "CallExpression":
        return isMethodCall(statement)
          ? this.#callMethod(statement, scope)
          : this.#charged(super.evaluate(statement, scope));
    }
    return super.evaluate(statement, scope);
  }

  override evaluateArguments(args: readonly Statement[], scope: unknown): Arguments {
    const given = super.evaluateArguments(args, scope);
    this.budget.charge((given[0].length + given[1].size) * ELEMENT_WORK);
    return given;
  }

  override bindMacroArguments(name: string, parameters: readonly unknown[], ...rest: readonly unknown[]): void {
    this.budget.charge((1 + parameters.length) * PARAMETER_WORK);
    super.bindMacroArguments(name, parameters, ...rest);
  }

  override evaluateMemberExpression(member: Member, scope: unknown): Value {
    const { property, computed } = member;
    const object = this.evaluate(member.object, scope);
    if (computed && property.type === "SliceExpression") return this.evaluateSliceExpression(object, property, scope);
    const isLiteral = !computed || property.type === "StringLiteral" || property.type === "IntegerLiteral";
    const key = isLiteral ? undefined : this.evaluate(property, scope);
    if (key !== undefined) this.budget.chargeElements(key);
    const name = key === undefined ? property.value : key.value;
    const own: Value | undefined = object.value instanceof Map ? object.value.get(name) : undefined;
    if (own !== undefined) return own;
    const isIndexed = Array.isArray(object.value) || typeof object.value === "string";
    const isIndex = isIndexed && (key?.type ?? property.type).startsWith("Integer");
    // As in Python, a key of another type finds nothing: an undefined type that a schema omits, or an object.
    if (typeof name !== "string" && !isIndex && !isUndefined(object)) return like(NOTHING, undefined);
    if (computed && typeof object.value === "string") this.budget.chargeElements(object);
    const given = {
      ...member,
      object: new Evaluated(object),
      property: key === undefined ? property : new Evaluated(key),
    };
    const found = super.evaluateMemberExpression(given, scope);
    if (found.type !== "FunctionValue") return found;
    // A template may keep a method and call it later, so the charge is part of the method.
    return like(found, (args: readonly Value[], calledIn: unknown) => {
      chargeMethod(this.budget, object, String(name), args);
      return (found as unknown as Callable).value(args, calledIn);
    });
  }

  override evaluateSliceExpression(object: Value, slice: Statement, scope: unknown): Value {
    const { value } = object;
    if (typeof value === "string") this.budget.chargeLetters(value);
    else if (Array.isArray(value)) this.budget.charge(value.length * ELEMENT_WORK);
    return super.evaluateSliceExpression(object, slice, scope);
  }

  override evaluateTestExpression(test: Test, scope: unknown): Value {
    if (!LETTER_CASES.has(test.test.value)) return super.evaluateTestExpression(test, scope);
    const operand = this.evaluate(test.operand, scope);
    this.budget.chargeElements(operand);
    return super.evaluateTestExpression({ ...test, operand: new Evaluated(operand) }, scope);
  }

  /** Variables set in one iteration do not exist in the next; the output before `break` or `continue` is kept. */
  override evaluateFor(loop: Loop, scope: unknown): Value {
    const { iterable, loopvar, body, defaultBlock } = loop;
    const all = this.#itemsOf(this.evaluate(iterable.lhs ?? iterable, scope));
    this.budget.charge(all.length * (ITERATION_WORK + numTargets(loopvar) * VALUE_WORK));
    const { test } = iterable;
    const isWanted = (item: Value): boolean =>
      this.evaluate(test, new IterationScope(scope as Scope, loopvar, item)).__bool__().value;
    const items = test === undefined ? all : all.filter(isWanted);
    if (items.length === 0) return this.evaluateBlock(defaultBlock, scope);
    let text = "";
    for (const [index, item] of items.entries()) {
      try {
        text += this.#print(body, new IterationScope(scope as Scope, loopvar, item, { items, index }));
      } catch (thrown) {
        if (!(thrown instanceof LoopControl)) throw thrown;
        text += thrown.text;
        if (thrown.isBreak) break;
      }
    }
    return like(A_TEXT, text);
  }

  override evaluateBlock(statements: Block, scope: unknown): Value {
    return like(A_TEXT, this.#print(statements, scope));
  }

  override evaluateBinaryExpression(operation: Operation, scope: unknown): Value {
    const operator = operation.operator.value;
    if (operator === "and" || operator === "or") return super.evaluateBinaryExpression(operation, scope);
    const [left, right] = [this.evaluate(operation.left, scope), this.evaluate(operation.right, scope)];
    const truth = (isTrue: boolean): Value => like(A_TRUTH, isTrue);
    if (operator === "==" || operator === "!=") return truth(isEqual(left, right, this.budget) === (operator === "=="));
    const [a, b] = [left.value, right.value];
    if (operator === "in" || operator === "not in") {
      if (Array.isArray(b)) {
        return truth(b.some((element) => isEqual(element, left, this.budget)) === (operator === "in"));
      }
      if (typeof a === "string" && typeof b === "string") this.budget.chargeSearch(b, a);
      else this.budget.chargeElements(left);
      if (isNumbered(b)) return truth(b.has(a) === (operator === "in"));
    }
    if (operator === "~") return this.#joined(pythonText(left, this.budget), pythonText(right, this.budget));
    if (operator === "+" && (typeof a === "string" || typeof b === "string")) {
      if (typeof a === "string" && typeof b === "string") return this.#joined(a, b);
      throw new Error(`expected two texts around +, got ${left.type} and ${right.type}`);
    }
    if (Array.isArray(a) && Array.isArray(b)) this.budget.charge((a.length + b.length) * ELEMENT_WORK);
    const given = { ...operation, left: new Evaluated(left), right: new Evaluated(right) };
    const result = super.evaluateBinaryExpression(given, scope);
    if (operator !== "%") return result;
    // In Python the result has the divisor's sign.
    const [rest, divisor] = [Number(result.value), Number(b)];
    return rest * divisor < 0 ? like(result, rest + divisor) : result;
  }

  override applyFilter(operand: Value, filter: Filter, scope: unknown): Value {
    // "x | trim()" means the same as "x | trim".
    const plain = filter.callee !== undefined && filter.args?.length === 0 ? filter.callee : filter;
    const name = String((plain.callee ?? plain).value);
    if (/^(?:first|last)$/.test(name) && (isUndefined(operand) || (operand.value as unknown[])?.length === 0)) {
      return like(NOTHING, undefined);
    }
    if (name === "string") return like(A_TEXT, pythonText(operand, this.budget));
    const empty = LIST_FILTERS.test(name) ? like(A_LIST, []) : like(A_TEXT, "");
    const isPrinted = TEXT_FILTERS.has(name) && operand.type !== "NullValue" && !isUndefined(operand);
    const printed = isPrinted ? like(A_TEXT, pythonText(operand, this.budget)) : operand;
    let given = isUndefined(operand) && !DEFINING_FILTERS.has(name) ? empty : printed;
    const [args, named] = this.evaluateArguments(plain.args ?? [], scope);
    chargeFilter(this.budget, name, given, args, named);
    if (name === "tojson" && this.#hasNumbered) {
      this.budget.chargeAll(given, { perValue: VALUE_WORK });
      given = withTextKeys(given, named.get("sort_keys")?.value === true);
    }
    if (name === "tojson" && hasWholeFloats(given)) {
      this.budget.chargeAll(given, { perValue: VALUE_WORK });
      const floats = new Map<string, NumberText>();
      const json = this.applyFilter(withMarkedFloats(given, floats), filter, scope);
      return like(json, withNumbers(json.value as string, floats));
    }
    if (name === "join" && Array.isArray(given.value)) {
      given = like(
        given,
        given.value.map((each: Value) => like(A_TEXT, pythonText(each, this.budget))),
      );
    }
    const numbered = isNumbered(given.value)
      ? askNumbered(given.value, name, named.size > 0 ? [...named.values()] : args)
      : undefined;
    if (numbered !== undefined) return this.#charged(numbered);
    // The library's `map` only reads attributes.
    if (name === "map" && args.length === 1 && Array.isArray(given.value)) {
      const each = { type: "Identifier", value: args[0]!.value };
      return like(
        A_LIST,
        given.value.map((element: Value) => this.applyFilter(element, each, scope)),
      );
    }
    // The library requires literal texts as these filters' arguments.
    if (plain.args === undefined || /attr$/.test(name)) return super.applyFilter(given, plain, scope);
    const keyword = ([key, value]: readonly [string, Value]) => ({
      type: "KeywordArgumentExpression",
      key: { value: key },
      value: new Evaluated(value),
    });
    const evaluated = [...args.map((value) => new Evaluated(value)), ...[...named].map(keyword)];
    return super.applyFilter(given, { ...plain, args: evaluated }, scope);
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
        if (SILENT.has(statement.type)) continue;
        const printed = pythonText(value, this.budget);
        this.budget.charge(printed.length * CHARACTER_WORK);
        text += printed;
      }
    } catch (thrown) {
      if (thrown instanceof LoopControl) thrown.text = text + thrown.text;
      throw thrown;
    }
    return text;
  }

  /** The library's own look-up throws and catches an error for every unknown name. */
  #lookUp(name: string, scope: Scope): Value {
    for (let at: Scope | undefined = scope; at !== undefined; at = at.parent) {
      const found = at.variables.get(name);
      if (found !== undefined) return name === "namespace" ? this.#guardedNamespace(found) : found;
      if (name === "loop" && at instanceof IterationScope && at.hasLoop) {
        this.budget.charge(LOOP_WORK);
        return at.makeLoop();
      }
      this.budget.charge(SCOPE_WORK);
    }
    return like(NOTHING, undefined);
  }

  #guardedNamespace(found: Value): Value {
    if (found.type !== "FunctionValue") return found;
    return like(found, (args: readonly Value[], calledIn: unknown) => {
      chargeNamespace(this.budget, args);
      return (found as unknown as Callable).value(args, calledIn);
    });
  }

  #callMethod({ callee, args }: MethodCall, scope: unknown): Value {
    const object = this.evaluate(callee.object, scope);
    const name = callee.property.value;
    const [values] = this.evaluateArguments(args, scope);
    const method = object.builtins.get(name) as Callable | undefined;
    if (typeof method?.value !== "function") throw new Error(`${object.type} has no method ${name}`);
    chargeMethod(this.budget, object, name, values);
    const numbered = isNumbered(object.value) ? askNumbered(object.value, name, values) : undefined;
    if (numbered !== undefined) return this.#charged(numbered);
    const [text, characters] = [object.value, values[0]?.value];
    if (typeof text === "string" && typeof characters === "string" && STRIPS.has(name)) {
      return like(object, strip(text, characters, name));
    }
    return method.value(values, scope);
  }

  /** A dict literal: inserting a key reads the whole key, so each key is charged first. */
  #evaluateDict(literal: Target, scope: unknown): Value {
    const entries = [...(literal.value as ReadonlyMap<Statement, Statement>)].map(([key, value]) => {
      const evaluated = this.evaluate(key, scope);
      this.budget.chargeElements(evaluated);
      return [evaluated, this.evaluate(value, scope)] as const;
    });
    const dict = dictOf(entries);
    this.#hasNumbered ||= isNumbered(dict.value);
    return dict;
  }

  /** Charges for a call's result: range() and a dict's methods create lists. */
  #charged(result: Value): Value {
    if (Array.isArray(result.value)) this.budget.charge(result.value.length * VALUE_WORK);
    return result;
  }

  #itemsOf(over: Value): readonly Value[] {
    const { value } = over;
    if (Array.isArray(value)) return value;
    if (isUndefined(over)) return [];
    if (typeof value !== "string" && !(value instanceof Map && over.type === "ObjectValue")) {
      throw new Error(`expected something to loop over, got ${over.type}`);
    }
    const parts = typeof value === "string" ? value : [...value.keys()];
    this.budget.charge(parts.length * VALUE_WORK);
    return Array.from(parts, keyOf);
  }

  /** A concatenation shares memory with the longer text, so only the shorter one is charged. */
  #joined(left: string, right: string): Value {
    this.budget.charge(Math.min(left.length, right.length) * CHARACTER_WORK);
    return like(A_TEXT, left + right);
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
  let [start, end] = [0, text.length];
  if (name !== "rstrip") {
    for (const letter of text) {
      if (!stripped.has(letter)) break;
      start += letter.length;
    }
  }
  if (name === "lstrip") return text.slice(start);
  // A letter may have two units.
  for (let last = lastLetter(text, end); end > start && stripped.has(last); last = lastLetter(text, end))
    end -= last.length;
  return text.slice(start, end);
}

const lastLetter = (text: string, end: number): string => [...text.slice(Math.max(0, end - 2), end)].at(-1) ?? "";
