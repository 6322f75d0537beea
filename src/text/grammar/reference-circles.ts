/**
 * Finds references of a schema that lead back to themselves without an enclosing property or item: no value can satisfy
 * them. Each reference is followed once, however many paths lead to it.
 */
import { resolvePointer } from "./json-pointer.js";
import { isSchema } from "./schema-keywords.js";

export class ReferenceCircles {
  /** JSON pointers that are known not to lead to a cycle. */
  readonly #straight = new Set<string>();

  constructor(private readonly root: unknown) {}

  /** Whether the reference leads to itself or to another one that does. */
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
        // A reference that was entered and not left is on the current path.
        if (entered.has(next)) return true;
        enter(next);
      }
    }
    return false;
  }
}

/** The references that a schema follows directly: its own, and those of its conjunctions and alternatives. */
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
