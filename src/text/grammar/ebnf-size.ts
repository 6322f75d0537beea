/**
 * The size of a grammar after its repetitions are expanded, which determines the cost of compiling it; counted from its
 * text, before compiling.
 */
import { MillraceError } from "../../core/errors.js";

/** Equal to the limit in characters of a grammar without repetitions. */
export const MAX_ELEMENTS = 256 * 1024;
/** The grammar engine's reader recurses for each group. */
export const MAX_GROUPS = 512;

/** Throws `invalid_grammar` if the expanded repetitions are too many or groups are nested too deep. */
export function assertCompilable(grammar: string): void {
  new SizeReader(grammar).read();
}

/**
 * A literal, a class, a reference, a group or an operator with its repetition. Malformed grammars may pass: the grammar
 * engine names their fault. An unterminated literal or class is one piece to the end of the text, and no two parts of a
 * repetition match the same spaces, so the time is linear in the length also for hostile grammars.
 */
const PIECE =
  /"(?:[^"\\]|\\.)*"?|\[(?:[^\]\\]|\\.)*\]?|#[^\n]*|[()]|(?<repetition>\{\s*(?:(?<least>\d+)\s*)?(?:,\s*(?:(?<most>\d+)\s*)?)?\})|[A-Za-z_][\w.-]*|./gsu;

class SizeReader {
  /** Elements of the open groups, innermost last. */
  readonly #open: number[] = [];
  /** Elements of the rules so far or, inside a group, of the innermost group. */
  #numElements = 0;
  /** Elements of the last item; a repetition that follows multiplies them. */
  #last = 0;

  constructor(private readonly grammar: string) {}

  read(): void {
    for (const { 0: piece, groups } of this.grammar.matchAll(PIECE)) {
      const first = piece[0]!;
      if (first === '"') this.#add(Math.max(1, piece.length - 2));
      else if (first === "[" || /[A-Za-z_]/.test(first)) this.#add(1);
      else if (first === "(") this.#enter();
      else if (first === ")") this.#leave();
      else if (groups?.repetition !== undefined) this.#repeat(Number(groups.most ?? groups.least ?? 0));
    }
  }

  #add(numElements: number): void {
    this.#last = numElements;
    this.#numElements += numElements;
    if (this.#numElements > MAX_ELEMENTS) {
      throw refusal(`at most ${MAX_ELEMENTS} elements once its repetitions are written out`);
    }
  }

  #repeat(count: number): void {
    const once = this.#last;
    this.#numElements -= once;
    this.#add(once * Math.max(1, count));
  }

  #enter(): void {
    this.#open.push(this.#numElements);
    this.#numElements = 0;
    if (this.#open.length > MAX_GROUPS) throw refusal(`groups nested at most ${MAX_GROUPS} deep`);
  }

  #leave(): void {
    const inside = this.#numElements;
    this.#numElements = this.#open.pop() ?? 0;
    this.#add(inside);
  }
}

function refusal(expected: string): MillraceError {
  return new MillraceError("invalid_grammar", `expected a grammar of ${expected}, got more`, {
    hint: "Use smaller repetition counts, fewer alternatives, or fewer groups inside groups.",
  });
}
