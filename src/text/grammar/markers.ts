/**
 * The texts that mark the parts of an answer, such as `<tool_call>`. Where one is a special token of the model, a grammar names that token by a byte that no
 * text has and the token's own text, so that nothing else can spell it.
 */
import { EMPTY, type GrammarWriter, literal, oneOf, sequence } from "./ebnf.js";

/** Stands before a special token's text in the vocabulary that grammars see; ordinary tokens that have it are left out of that. */
export const SPECIAL_BYTE = 0xff;

const SPECIAL = "[\\xff\\xff]";
const ORDINARY_TEXT = "[\\x00-\\xfe]*";

export class Markers {
  /** @param specialTexts texts that are one special token each */
  constructor(private readonly specialTexts: ReadonlySet<string>) {}

  /** The text as the model writes it: with special tokens for the parts that have one. */
  spell(text: string): string {
    const [first] = [...this.specialTexts]
      .filter((marker) => text.includes(marker))
      .sort((a, b) => text.indexOf(a) - text.indexOf(b));
    if (first === undefined) return text === "" ? EMPTY : literal(text);
    const [before = "", ...rest] = text.split(first);
    return sequence(literal(before), SPECIAL, literal(first), this.spell(rest.join(first)));
  }

  /** Text that may end anywhere without the marker; once the marker has come, what follows is `then`. */
  upTo(writer: GrammarWriter, marker: string, then: string): string {
    if (this.specialTexts.has(marker)) return `(${ORDINARY_TEXT} (${this.spell(marker)} ${then})?)`;
    const rule = writer.rule(then);
    const dispatch = `TagDispatch((${literal(marker)}, ${rule}), stop_eos=true, stop_str=(), loop_after_dispatch=false)`;
    return writer.rule(dispatch);
  }

  /** Text that ends with the marker's first coming, and then what follows it. */
  through(writer: GrammarWriter, marker: string, then: string): string {
    if (this.specialTexts.has(marker)) return sequence(ORDINARY_TEXT, this.spell(marker), then);
    const rest = writer.rule(then);
    const letters = [...new Set(marker)];
    const others = bytesExcept(letters);
    // One rule for each number of the marker's letters that have just come.
    const names = [...marker].map(() => writer.reserve());
    for (const [count, name] of names.entries()) {
      const branches = letters.map((letter) => {
        const next = overlap(marker, marker.slice(0, count) + letter);
        return sequence(literal(letter), names[next] ?? rest);
      });
      writer.define(name, oneOf([sequence(others, names[0]!), ...branches]));
    }
    return names[0]!;
  }
}

/** One byte of ordinary text, and none of these letters. */
function bytesExcept(letters: readonly string[]): string {
  const codes = letters.map((letter) => letter.charCodeAt(0)).sort((a, b) => a - b);
  const hex = (byte: number) => `\\x${byte.toString(16).padStart(2, "0")}`;
  const ends = [-1, ...codes].map((code, i) => [code + 1, (codes[i] ?? SPECIAL_BYTE) - 1] as const);
  return `[${ends.map(([first, last]) => (first > last ? "" : `${hex(first)}-${hex(last)}`)).join("")}]`;
}

/** How many of the marker's first letters the text ends with. */
function overlap(marker: string, text: string): number {
  let length = Math.min(marker.length, text.length);
  while (!text.endsWith(marker.slice(0, length))) length--;
  return length;
}
