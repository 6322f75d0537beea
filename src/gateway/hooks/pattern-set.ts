/**
 * Patterns as one automaton (Glushkov's: a position for each character of a pattern) that reads each character once.
 * Whatever the patterns and the text, the time is at most their product; a backtracking engine can take for ever on
 * either.
 */
import { type CharacterSet, includes } from "../../text/grammar/character-set.js";
import { RegexError, type RegexTree, regexTree } from "../../text/grammar/regex.js";

export interface PatternSource {
  /** Shown in errors and in place of redacted text. */
  readonly name: string;
  /** In JavaScript's syntax, without look-around, back-references, ^ and $. */
  readonly regex: string;
  /** A match neither follows nor precedes a letter, a digit or _. */
  readonly isWholeWord?: boolean;
  readonly ignoresCase?: boolean;
  /** Checks a match of the expression. Absent: every match counts. */
  readonly accepts?: (text: string) => boolean;
}

/** Upper bound for all patterns of a set together. */
const MAX_POSITIONS = 4000;
const MAX_EDGES = 100_000;
const NUM_ASCII = 128;
/** Code units of characters beyond the first plane are members where such characters are. */
const BEYOND_FIRST_PLANE = 0x1f600;

interface Position {
  readonly set: CharacterSet;
  readonly ascii: Uint8Array;
  readonly pattern: number;
  readonly ignoresCase: boolean;
  readonly isWholeWord: boolean;
  /** Positions that may come next. */
  follow: Int32Array;
  isLast: boolean;
}

export interface PatternSet {
  readonly sources: readonly PatternSource[];
  readonly positions: readonly Position[];
  /** Positions that a match may begin with, by ASCII character. */
  readonly firstByAscii: readonly (readonly number[])[];
  /** The same for all other characters, to be checked one by one. */
  readonly first: readonly number[];
}

/**
 * Throws a RegexError for an expression that cannot be searched for in linear time, matches the empty text, or is too
 * large.
 */
export function compilePatterns(sources: readonly PatternSource[]): PatternSet {
  const builder = new Builder();
  const first: number[] = [];
  for (const [index, source] of sources.entries()) {
    const part = builder.build(regexTree(source.regex), { index, source });
    if (part.isNullable)
      throw new RegexError(`expected a pattern that matches some text, got ${source.name}, which matches none`);
    for (const position of part.first) first.push(position);
    for (const position of part.last) builder.positions[position]!.isLast = true;
  }
  const positions = builder.finish();
  const firstByAscii = Array.from({ length: NUM_ASCII }, (_, code) =>
    first.filter((each) => positions[each]!.ascii[code] === 1),
  );
  return { sources, positions, firstByAscii, first };
}

/** @param unit UTF-16 code unit */
export function isMember({ ascii, set, ignoresCase }: Position, unit: number): boolean {
  if (unit < NUM_ASCII) return ascii[unit] === 1;
  if (unit >= 0xd800 && unit <= 0xdfff) return includes(set, BEYOND_FIRST_PLANE);
  if (includes(set, unit)) return true;
  if (!ignoresCase) return false;
  const text = String.fromCharCode(unit);
  return includes(set, text.toLowerCase().charCodeAt(0)) || includes(set, text.toUpperCase().charCodeAt(0));
}

interface Part {
  readonly isNullable: boolean;
  readonly first: readonly number[];
  readonly last: readonly number[];
}

const EMPTY: Part = { isNullable: true, first: [], last: [] };

interface Indexed {
  readonly index: number;
  readonly source: PatternSource;
}

class Builder {
  readonly positions: Position[] = [];
  readonly #follow: Set<number>[] = [];
  #numEdges = 0;

  build(tree: RegexTree, pattern: Indexed): Part {
    switch (tree.kind) {
      case "set":
        return this.#position(tree.set, pattern);
      case "sequence":
        return tree.parts.reduce<Part>((before, part) => this.#join(before, this.build(part, pattern)), EMPTY);
      case "alternatives":
        return either(tree.parts.map((part) => this.build(part, pattern)));
      case "repeat":
        return this.#repeat(tree, pattern);
      case "ahead":
        throw new RegexError(`expected no look-ahead in a pattern, got one at character ${tree.at}`);
      default:
        throw new RegexError(`expected no ^ and $ in a pattern, got one at character ${tree.at}`);
    }
  }

  finish(): readonly Position[] {
    for (const [index, position] of this.positions.entries()) position.follow = Int32Array.from(this.#follow[index]!);
    return this.positions;
  }

  #position(set: CharacterSet, { index, source: { ignoresCase = false, isWholeWord = false } }: Indexed): Part {
    const position = this.positions.length;
    if (position >= MAX_POSITIONS)
      throw new RegexError(`expected patterns of at most ${MAX_POSITIONS} characters with their repetitions, got more`);
    const ascii = Uint8Array.from({ length: NUM_ASCII }, (_, code) => {
      const other = ignoresCase ? swappedCase(code) : code;
      return includes(set, code) || includes(set, other) ? 1 : 0;
    });
    this.positions.push({
      set,
      ascii,
      pattern: index,
      ignoresCase,
      isWholeWord,
      follow: new Int32Array(0),
      isLast: false,
    });
    this.#follow.push(new Set());
    return { isNullable: false, first: [position], last: [position] };
  }

  #join(before: Part, after: Part): Part {
    this.#connect(before.last, after.first);
    return {
      isNullable: before.isNullable && after.isNullable,
      first: before.isNullable ? before.first.concat(after.first) : before.first,
      last: after.isNullable ? after.last.concat(before.last) : after.last,
    };
  }

  #repeat({ part, min, max }: RegexTree & { readonly kind: "repeat" }, pattern: Indexed): Part {
    let all = EMPTY;
    const copy = () => this.build(part, pattern);
    const numCopies = max ?? Math.max(min, 1);
    for (let i = 0; i < numCopies; i++) {
      let next = copy();
      if (max === undefined && i === numCopies - 1) this.#connect(next.last, next.first);
      if (i >= min) next = { ...next, isNullable: true };
      all = this.#join(all, next);
    }
    return all;
  }

  #connect(from: readonly number[], to: readonly number[]): void {
    for (const position of from) {
      const follow = this.#follow[position]!;
      const before = follow.size;
      for (const next of to) follow.add(next);
      this.#numEdges += follow.size - before;
    }
    if (this.#numEdges > MAX_EDGES)
      throw new RegexError(`expected simpler repetitions in the patterns, got more than ${MAX_EDGES} ways to go on`);
  }
}

function either(parts: readonly Part[]): Part {
  return {
    isNullable: parts.some(({ isNullable }) => isNullable),
    first: parts.flatMap(({ first }) => first),
    last: parts.flatMap(({ last }) => last),
  };
}

function swappedCase(code: number): number {
  const text = String.fromCharCode(code);
  const lower = text.toLowerCase();
  return (lower === text ? text.toUpperCase() : lower).charCodeAt(0);
}
