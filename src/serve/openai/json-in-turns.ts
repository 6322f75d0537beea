/** Writes an answer of many choices without keeping other requests from their turn: a choice may have a hundred thousand log-probabilities. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { AppContext } from "../http/context.js";

/** Time after which others have their turn. */
const TURN_MS = 5;

/**
 * @param before fields before `choices`, at least one
 * @param choices each makes one choice
 * @param after fields after them, at least one
 */
export async function jsonInTurns(
  c: AppContext,
  before: object,
  choices: readonly (() => object)[],
  after: () => object,
): Promise<Response> {
  const written: string[] = [];
  let startMs = performance.now();
  for (const make of choices) {
    if (performance.now() - startMs > TURN_MS) {
      await nextTurn();
      startMs = performance.now();
    }
    written.push(JSON.stringify(make()));
  }
  const body = `${JSON.stringify(before).slice(0, -1)},"choices":[${written.join(",")}],${JSON.stringify(after()).slice(1)}`;
  return c.body(body, 200, { "Content-Type": "application/json" });
}
