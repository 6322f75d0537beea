/**
 * Replaces the matches of patterns in a text that comes in pieces. Text that may belong to a match is held back until
 * that is known.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { MillraceError } from "../../core/errors.js";
import { PatternScan } from "./pattern-scan.js";
import type { PatternSet } from "./pattern-set.js";

const MIN_PIECE_LENGTH = 16;
const MAX_PIECE_LENGTH = 4096;
/** About a millisecond. */
const STEPS_PER_TURN = 100_000;
/** About three seconds. Ordinary text takes less than two steps a character, so this is out of reach for it. */
const MAX_STEPS = 300_000_000;

/** The text that replaces a match. @example labelOf("email") // "[email]" */
const labelOf = (name: string): string => `[${name}]`;

export class TextRedactor {
  readonly #scan: PatternScan;
  #held = "";
  #heldFrom = 0;

  /** @param found gets the name of each match @param cut gets the ends of each replaced text, and its replacement */
  constructor(
    patterns: PatternSet,
    private readonly found: (name: string) => void,
    private readonly cut?: (start: number, end: number, label: string) => void,
  ) {
    this.#scan = new PatternScan(patterns);
  }

  get numSteps(): number {
    return this.#scan.numSteps;
  }

  /** Length of the text that is held back. */
  get numHeld(): number {
    return this.#held.length;
  }

  /** @returns the text to pass on now. Throws guardrail_failed for a text that costs too much */
  push(text: string): string {
    this.#held += text;
    this.#scan.push(text);
    if (this.#scan.numSteps > MAX_STEPS) {
      throw new MillraceError(
        "guardrail_failed",
        "expected a text that patterns can be searched in, got one that takes too long",
      );
    }
    return this.#release();
  }

  /** @returns the rest, at the end of the text */
  end(): string {
    this.#scan.end();
    return this.#release();
  }

  #release(): string {
    const until = Math.max(this.#scan.settledUntil, this.#heldFrom);
    let text = "";
    let from = this.#heldFrom;
    for (const { start, end, name, isContinued } of this.#scan.take(until)) {
      // Part of a chain of matches may already be replaced.
      const label = isContinued ? "" : labelOf(name);
      text += this.#held.slice(from - this.#heldFrom, Math.max(start, from) - this.#heldFrom) + label;
      this.cut?.(Math.max(start, from), Math.max(end, from), label);
      from = Math.max(end, from);
      if (!isContinued) this.found(name);
    }
    text += this.#held.slice(from - this.#heldFrom, until - this.#heldFrom);
    this.#held = this.#held.slice(until - this.#heldFrom);
    this.#heldFrom = until;
    return text;
  }
}

/**
 * Redacts texts that follow each other without a gap: a match across several texts is replaced in the first. Long texts
 * are read in turns of the event loop.
 */
export async function redactTexts(
  patterns: PatternSet,
  texts: readonly string[],
  found: (name: string) => void,
): Promise<readonly string[]> {
  const text = texts.length === 1 ? texts[0]! : texts.join("");
  const cuts: Cut[] = [];
  const redactor = new TextRedactor(patterns, found, (start, end, label) => cuts.push({ start, end, label }));
  let pieceLength = MIN_PIECE_LENGTH;
  let paidSteps = 0;
  for (let at = 0; at < text.length; ) {
    redactor.push(text.slice(at, at + pieceLength));
    at += pieceLength;
    const stepsPerUnit = redactor.numSteps / Math.min(at, text.length);
    pieceLength = Math.min(MAX_PIECE_LENGTH, Math.max(MIN_PIECE_LENGTH, Math.floor(STEPS_PER_TURN / stepsPerUnit)));
    if (redactor.numSteps - paidSteps < STEPS_PER_TURN) continue;
    paidSteps = redactor.numSteps;
    await nextTurn();
  }
  redactor.end();
  return cuts.length === 0 ? texts : cutTexts(texts, cuts);
}

interface Cut {
  readonly start: number;
  readonly end: number;
  readonly label: string;
}

/** @param cuts in order, with offsets in the joined texts */
function cutTexts(texts: readonly string[], cuts: readonly Cut[]): readonly string[] {
  let textStart = 0;
  let next = 0;
  return texts.map((text) => {
    const textEnd = textStart + text.length;
    let shown = "";
    let from = textStart;
    for (; next < cuts.length && cuts[next]!.start < textEnd; next++) {
      const { start, end, label } = cuts[next]!;
      // The label stands where the match begins.
      if (start >= from) shown += text.slice(from - textStart, start - textStart) + label;
      from = Math.max(from, Math.min(end, textEnd));
      if (end > textEnd) break;
    }
    shown += text.slice(from - textStart);
    textStart = textEnd;
    // Some APIs refuse an empty text.
    return shown === "" && text !== "" ? " " : shown;
  });
}
