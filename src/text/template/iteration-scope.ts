/**
 * The variables of one iteration of a loop. The library's own scope costs more than most loop bodies, and templates
 * nest loops over messages.
 */
import { A_DICT, A_TRUTH, AN_INTEGER, ENVIRONMENT, like, NOTHING, type Scope, type Target } from "./jinja-library.js";
import type { Value } from "./jinja-values.js";

interface Place {
  readonly items: readonly Value[];
  readonly index: number;
}

export class IterationScope implements Scope {
  readonly variables = new Map<string, Value>();
  readonly tests = ENVIRONMENT.tests;
  readonly #place: Place | undefined;

  /**
   * @param place undefined while the number of items is unknown. Throws Error for an item whose number of parts differs
   *   from the number of names.
   */
  constructor(
    readonly parent: Scope,
    names: Target,
    item: Value,
    place?: Place,
  ) {
    this.#place = place;
    if (names.type !== "TupleLiteral") {
      this.variables.set(names.value as string, item);
      return;
    }
    const targets = names.value as readonly Target[];
    const parts = item.value;
    if (!Array.isArray(parts) || parts.length !== targets.length) {
      const got = Array.isArray(parts) ? `${parts.length}` : item.type;
      throw new Error(`expected ${targets.length} values to give names to, got ${got}`);
    }
    for (const [index, { value }] of targets.entries()) this.variables.set(value as string, parts[index]);
  }

  get hasLoop(): boolean {
    return this.#place !== undefined;
  }

  setVariable(name: string, value: Value): Value {
    this.variables.set(name, value);
    return value;
  }

  /** The value of `loop`, created when a template reads it. */
  makeLoop(): Value {
    const { items, index } = this.#place!;
    const integer = (value: number): Value => like(AN_INTEGER, value);
    const rest = items.length - index;
    const fields: readonly (readonly [string, Value])[] = [
      ["index", integer(index + 1)],
      ["index0", integer(index)],
      ["revindex", integer(rest)],
      ["revindex0", integer(rest - 1)],
      ["first", like(A_TRUTH, index === 0)],
      ["last", like(A_TRUTH, rest === 1)],
      ["length", integer(items.length)],
      ["previtem", items[index - 1] ?? like(NOTHING, undefined)],
      ["nextitem", items[index + 1] ?? like(NOTHING, undefined)],
    ];
    return this.setVariable("loop", like(A_DICT, new Map(fields)));
  }
}
