/** References of a schema that lead back to themselves before anything is written: no value is under them. Each is followed once, however many ways lead to it. */
import { resolvePointer } from "./json-pointer.js";
import { isSchema } from "./schema-keywords.js";

export class ReferenceCircles {
  /** JSON pointers that are known to lead to no circle. */
  readonly #straight = new Set<string>();

  constructor(private readonly root: unknown) {}

  /** Whether the reference leads to itself, or to another that does. */
  isOnTheWayOf(pointer: string): boolean {
    if (this.#straight.has(pointer)) return false;
    const entered = new Set<string>();
    const open: { readonly pointer: string; readonly next: string[] }[] = [];
    const enter = (each: string) => {
      entered.add(each);
      open.push({ pointer: each, next: referencesIn(resolvePointer(this.root, each)) });
    };
    enter(pointer);
    for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
      const next = top.next.pop();
      if (next === undefined) {
        this.#straight.add(top.pointer);
        open.pop();
      } else if (!this.#straight.has(next)) {
        // Entered and not yet left: it is on the way here.
        if (entered.has(next)) return true;
        enter(next);
      }
    }
    return false;
  }
}

/** Where a schema may lead without anything being written between: its own reference, or those of its alternatives. */
function referencesIn(schema: unknown): string[] {
  const found = new Set<string>();
  const open = [schema];
  for (const each of open) {
    if (!isSchema(each)) continue;
    if (typeof each.$ref === "string") found.add(each.$ref);
    for (const alternative of [each.anyOf, each.oneOf, each.allOf].flat()) open.push(alternative);
  }
  return [...found];
}
