/** Words that both questions have once must stand in the same order: A beats B is not B beats A. */
import type { Part } from "../text/form.js";
import type { Question } from "../text/question.js";
import type { Veto } from "./veto.js";

/** Words that occur once, with their positions. */
function once({ form }: Question): ReadonlyMap<string, number> {
  const places = new Map<string, number>();
  const repeated = new Set<string>();
  for (const [i, { text }] of (form.parts as readonly Part[]).entries()) {
    if (places.has(text)) repeated.add(text);
    places.set(text, i);
  }
  for (const text of repeated) places.delete(text);
  return places;
}

export const ORDER: Veto = {
  name: "order",
  objects(a, b) {
    const others = once(b);
    const places = [...once(a)].sort(([, i], [, j]) => i - j).flatMap(([text]) => others.get(text) ?? []);
    return places.some((place, i) => i > 0 && place < places[i - 1]!);
  },
};
