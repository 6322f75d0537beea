/**
 * Finds patterns in a text that comes in pieces: the same matches, wherever it is cut. A character matches as it is and
 * in its plain form, and invisible characters may stand anywhere in a match (spelling.ts). Overlapping matches count as
 * one, so that no part of them stays visible.
 */
import { isMember, type PatternSet } from "./pattern-set.js";
import { plainText, Speller } from "./spelling.js";

/**
 * Upper bound of a match, in UTF-16 units: of a longer match, only the end is found. A stream is held back by at most
 * this much.
 */
export const MAX_MATCH_LENGTH = 512;

interface Match {
  /** Offsets in the whole text, in UTF-16 units. */
  readonly start: number;
  readonly end: number;
  /** Name of the pattern whose match begins first. */
  readonly name: string;
  /** Whether it is the rest of a match whose beginning was taken before. */
  readonly isContinued: boolean;
}

/** A match that counts unless the next character belongs to the same word. */
interface Candidate {
  readonly start: number;
  readonly end: number;
  readonly pattern: number;
}

/** Whether a UTF-16 unit is a letter, a digit or _: 1 no, 2 yes, 0 not known yet. */
const WORD_UNITS = new Uint8Array(0x10000);

function isWordUnit(unit: number): boolean {
  const known = WORD_UNITS[unit]!;
  if (known !== 0) return known === 2;
  const isWord = /[\p{L}\p{N}_]/u.test(String.fromCharCode(unit));
  WORD_UNITS[unit] = isWord ? 2 : 1;
  return isWord;
}

export class PatternScan {
  /** The text from `#keptFrom` on, as far back as a match may reach. */
  #kept = "";
  #keptFrom = 0;
  #length = 0;
  /** For each live position, the start of the earliest match through it. */
  #active: number[] = [];
  #starts: Int32Array;
  #next: number[] = [];
  #nextStarts: Int32Array;
  #isWordBefore = false;
  #candidates: Candidate[] = [];
  readonly #matches: Match[] = [];
  #numSteps = 0;
  #speller = new Speller();

  constructor(private readonly patterns: PatternSet) {
    const { length } = patterns.positions;
    this.#starts = new Int32Array(length).fill(-1);
    this.#nextStarts = new Int32Array(length).fill(-1);
  }

  /** Cost of the scan so far, in steps of some nanoseconds. */
  get numSteps(): number {
    return this.#numSteps;
  }

  /**
   * Every match that begins before this offset of the whole text is known, to its end. Lags behind by a bounded length.
   */
  get settledUntil(): number {
    // A match may begin with the character whose second unit is to come.
    let until = this.#length - (this.#speller.isWithinPair ? 1 : 0);
    for (const position of this.#active) until = Math.min(until, this.#starts[position]!);
    for (const { start } of this.#candidates) until = Math.min(until, start);
    for (let i = this.#matches.length - 1; i >= 0 && this.#matches[i]!.end > until; i--) {
      until = Math.min(until, this.#matches[i]!.start);
    }
    // Only overlapping matches in a chain are longer: they are taken in parts.
    return Math.max(until, this.#length - 2 * MAX_MATCH_LENGTH);
  }

  push(text: string): void {
    this.#kept += text;
    const offset = this.#length;
    for (let i = 0; i < text.length; i++) this.#step(text.charCodeAt(i), offset + i);
    this.#length += text.length;
    this.#forgetText();
  }

  /** Ends the text. */
  end(): void {
    this.#settle(false);
    this.#speller = new Speller();
    for (const position of this.#active) this.#starts[position] = -1;
    this.#active = [];
  }

  /**
   * Takes the matches before an offset, of at most `settledUntil`, in order. A match across the offset is cut there,
   * and its rest follows later.
   */
  take(until: number): readonly Match[] {
    const count = this.#matches.findIndex(({ start }) => start >= until);
    const taken = this.#matches.splice(0, count < 0 ? this.#matches.length : count);
    const last = taken.at(-1);
    if (last === undefined || last.end <= until) return taken;
    this.#matches.unshift({ ...last, start: until, isContinued: true });
    taken[taken.length - 1] = { ...last, end: until };
    return taken;
  }

  #step(unit: number, at: number): void {
    const speller = this.#speller;
    speller.push(unit);
    const isWord = isWordUnit(speller.plain);
    if (this.#candidates.length > 0) this.#settle(isWord);
    const { positions, firstByAscii, first } = this.patterns;
    const beginnings = unit < 128 ? firstByAscii[unit]! : first;
    this.#numSteps += 1 + (unit < 128 ? 0 : beginnings.length);
    if (this.#active.length === 0 && beginnings.length === 0) {
      this.#isWordBefore = isWord;
      return;
    }
    const oldest = at + 1 - MAX_MATCH_LENGTH;
    // Loops over indexes: these loops are most of a text's cost.
    for (let i = 0; i < this.#active.length; i++) {
      const from = this.#active[i]!;
      const start = Math.max(this.#starts[from]!, oldest);
      const { follow } = positions[from]!;
      this.#numSteps += follow.length;
      for (let k = 0; k < follow.length; k++) this.#enter(follow[k]!, start, unit);
      if (speller.isSilent) this.#stay(from, start);
      this.#starts[from] = -1;
    }
    const isWithinWord = isWord && this.#isWordBefore;
    for (let i = 0; i < beginnings.length; i++) {
      const position = beginnings[i]!;
      if (!(isWithinWord && positions[position]!.isWholeWord)) this.#enter(position, at + 1 - speller.numUnits, unit);
    }
    [this.#active, this.#next] = [this.#next, this.#active];
    [this.#starts, this.#nextStarts] = [this.#nextStarts, this.#starts];
    this.#next.length = 0;
    for (let i = 0; i < this.#active.length; i++) {
      const position = this.#active[i]!;
      const { isLast, pattern } = positions[position]!;
      // A match ends with an invisible character, or within a pair, only if the pattern names that.
      const ends = isLast && !(speller.isSilent && !isMember(positions[position]!, unit));
      if (ends) this.#candidates.push({ start: this.#starts[position]!, end: at + 1, pattern });
    }
    this.#isWordBefore = isWord;
  }

  #enter(position: number, start: number, unit: number): void {
    if (this.#nextStarts[position]! >= 0) {
      this.#stay(position, start);
      return;
    }
    const { plain } = this.#speller;
    const found = this.patterns.positions[position]!;
    if (isMember(found, unit) || (plain !== unit && isMember(found, plain))) this.#stay(position, start);
  }

  /** The position is live after this unit. */
  #stay(position: number, start: number): void {
    const known = this.#nextStarts[position]!;
    if (known < 0) this.#next.push(position);
    if (known < 0 || start < known) this.#nextStarts[position] = start;
  }

  /** @param isWordNext whether the character after the candidates belongs to a word */
  #settle(isWordNext: boolean): void {
    for (const { start, end, pattern } of this.#candidates) {
      const { name, isWholeWord = false, accepts } = this.patterns.sources[pattern]!;
      if (isWholeWord && isWordNext && this.#isWordBefore) continue;
      if (accepts !== undefined && !accepts(plainText(this.#textOf(start, end)))) continue;
      this.#add(start, end, name);
    }
    this.#candidates = [];
  }

  #textOf(start: number, end: number): string {
    return this.#kept.slice(start - this.#keptFrom, end - this.#keptFrom);
  }

  /** Ends only grow, so overlapping matches are at the end of the list. */
  #add(start: number, end: number, name: string): void {
    let merged: Match = { start, end, name, isContinued: false };
    for (let last = this.#matches.at(-1); last !== undefined && last.end > start; last = this.#matches.at(-1)) {
      this.#matches.pop();
      const first = last.start <= merged.start || last.isContinued ? last : merged;
      merged = { ...first, start: Math.min(last.start, merged.start), end: Math.max(last.end, merged.end) };
    }
    this.#matches.push(merged);
  }

  #forgetText(): void {
    const from = this.#length - MAX_MATCH_LENGTH - 1;
    if (from - this.#keptFrom < MAX_MATCH_LENGTH) return;
    this.#kept = this.#kept.slice(from - this.#keptFrom);
    this.#keptFrom = from;
  }
}
