/** Finds stop strings in text that arrives in pieces, and holds back text that may be the start of one. */

import { MillraceError } from "../core/errors.js";

interface StopStringOptions {
  /** Whether the stop string stays in the text. */
  readonly includeStop?: boolean;
}

interface StopStringResult {
  /** Text that can be shown now. */
  readonly text: string;
  /** The stop string that ended the text. */
  readonly matched: string | undefined;
}

/**
 * The stop string that is complete first wins, however the text is cut into pieces; of several that end at the same
 * character, the longest wins. All text after it is discarded.
 *
 * @example const matcher = new StopStringMatcher(["\n\n"]); matcher.push("a\n"); // { text: "a", matched: undefined }
 */
export class StopStringMatcher {
  readonly #automata: readonly StopAutomaton[];
  readonly #includesStop: boolean;
  #held = "";
  #matched: string | undefined;

  constructor(stops: readonly string[], options: StopStringOptions = {}) {
    if (stops.includes("")) {
      throw new MillraceError(
        "invalid_parameter",
        "expected stop strings of at least one character, got an empty one",
        {
          param: "stop",
          hint: "Leave the empty string out.",
        },
      );
    }
    this.#automata = stops.map((stop) => new StopAutomaton(stop));
    this.#includesStop = options.includeStop === true;
  }

  push(text: string): StopStringResult {
    if (this.#matched !== undefined) return { text: "", matched: this.#matched };
    if (this.#automata.length === 0) return { text, matched: undefined };
    const heldLength = this.#held.length;
    const buffer = this.#held + text;
    for (let i = 0; i < text.length; i++) {
      const stop = this.#advance(text.charCodeAt(i));
      if (stop === undefined) continue;
      this.#matched = stop;
      this.#held = "";
      const end = heldLength + i + 1;
      return { text: buffer.slice(0, this.#includesStop ? end : end - stop.length), matched: stop };
    }
    let numHeld = 0;
    for (const automaton of this.#automata) numHeld = Math.max(numHeld, automaton.numMatched);
    this.#held = buffer.slice(buffer.length - numHeld);
    return { text: buffer.slice(0, buffer.length - numHeld), matched: undefined };
  }

  /** The text still held back; at the end of the text it can no longer become a stop string. */
  flush(): string {
    const text = this.#held;
    this.#held = "";
    return text;
  }

  #advance(unit: number): string | undefined {
    let longest: string | undefined;
    for (const automaton of this.#automata) {
      if (automaton.advance(unit) && automaton.stop.length > (longest?.length ?? 0)) longest = automaton.stop;
    }
    return longest;
  }
}

/**
 * Knuth, Morris and Pratt's automaton over UTF-16 units; its state is the length of the stop string's prefix that ends
 * the text.
 */
class StopAutomaton {
  readonly stop: string;
  /** Length of the longest proper prefix of the stop string that the text ends with (all of it after a match). */
  numMatched = 0;
  /** borders[n]: length of the longest proper prefix of the first n units that is also their suffix. */
  readonly #borders: Int32Array;

  constructor(stop: string) {
    this.stop = stop;
    this.#borders = new Int32Array(stop.length + 1);
    for (let n = 1, border = 0; n < stop.length; n++) {
      while (border > 0 && stop[n] !== stop[border]) border = this.#borders[border]!;
      if (stop[n] === stop[border]) border++;
      this.#borders[n + 1] = border;
    }
  }

  /** True when the stop string is complete. */
  advance(unit: number): boolean {
    if (this.numMatched === this.stop.length) this.numMatched = this.#borders[this.numMatched]!;
    while (this.numMatched > 0 && this.stop.charCodeAt(this.numMatched) !== unit) {
      this.numMatched = this.#borders[this.numMatched]!;
    }
    if (this.stop.charCodeAt(this.numMatched) === unit) this.numMatched++;
    return this.numMatched === this.stop.length;
  }
}
