/** What a passage can state of a thing, and the values that several kinds of things share. */
import { withArticle } from "./phrase.js";
import type { Random } from "./random.js";
import { colours, objects } from "./words.js";

/** Slots: `{e}` the thing told of, `{v}` the value. Each is one template of alternatives. */
export interface Relation {
  readonly name: string;
  readonly makeValue: (random: Random) => string;
  readonly says: string;
  readonly asks: string;
  /** Asks for the thing by the value. */
  readonly asksBack?: string;
}

type MakeValue = Relation["makeValue"];

export const wholeNumber =
  (min: number, max: number): MakeValue =>
  (random) =>
    String(random.int(min, max));
export const year = wholeNumber(1480, 2024);
export const colouredThing: MakeValue = (random) => `${withArticle(random.pick(colours))} ${random.pick(objects)}`;
export const oneOf =
  (items: readonly string[]): MakeValue =>
  (random) =>
    random.pick(items);
