/** How large a grammar becomes once its repetitions are written out, which is what compiling it costs: counted from its text, before anything is compiled. */
import { MillraceError } from "../../core/errors.js";

/** As many as the longest grammar without repetitions has characters. */
export const MAX_ELEMENTS = 256 * 1024;
/** The grammar engine's reader calls itself for each group. */
export const MAX_GROUPS = 512;

/** Throws invalid_grammar where repetitions written out, or groups inside groups, are too many. */
export function assertCompilable(grammar: string): void {
  new SizeReader(grammar).read();
}

/** A literal, a class, a reference, a group or an operator with its repetition. Malformed grammars may pass: the grammar engine names their fault. */
const PIECE =
  /"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|#[^\n]*|[()]|\{\s*(\d*)\s*(,?)\s*(\d*)\s*\}|[A-Za-z_][\w.-]*|./gsu;

class SizeReader {
  /** Elements of the groups that are open, the innermost last. */
  readonly #open: number[] = [];
  /** Of the rules so far, or of the innermost group. */
  #numElements = 0;
  /** The last item, which a repetition would repeat. */
  #last = 0;

  constructor(private readonly grammar: string) {}

  read(): void {
    for (const [piece, least, comma, most] of this.grammar.matchAll(PIECE)) {
      const first = piece[0]!;
      if (first === '"') this.#add(Math.max(1, piece.length - 2));
      else if (first === "[" || /[A-Za-z_]/.test(first)) this.#add(1);
      else if (first === "(") this.#enter();
      else if (first === ")") this.#leave();
      else if (least !== undefined) this.#repeat(Number(most === "" || comma === "" ? least : most));
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
