/**
 * Writes an answer that is a long list in turns, so that other requests continue: a choice may have a hundred thousand
 * log-probabilities, and a request two thousand vectors.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { AppContext } from "../http/context.js";

/** Length of a turn; other requests run in between. */
const TURN_MS = 5;

/** The JSON of a list, without its brackets. @param items a function that creates each item */
export async function listInTurns(items: readonly (() => object | string)[]): Promise<string> {
  const written: string[] = [];
  let startMs = performance.now();
  for (const make of items) {
    if (performance.now() - startMs > TURN_MS) {
      await nextTurn();
      startMs = performance.now();
    }
    written.push(JSON.stringify(make()));
  }
  return written.join(",");
}

/**
 * @param before fields before the list, at least one
 * @param list the list's name, and a function that creates each item
 * @param after fields after the list, at least one
 */
export async function jsonInTurns(
  c: AppContext,
  before: object,
  [name, items]: readonly [name: string, items: readonly (() => object)[]],
  after: () => object,
): Promise<Response> {
  const list = await listInTurns(items);
  const body = `${JSON.stringify(before).slice(0, -1)},"${name}":[${list}],${JSON.stringify(after()).slice(1)}`;
  return c.body(body, 200, { "Content-Type": "application/json" });
}
