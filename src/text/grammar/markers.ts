/**
 * The texts that mark the parts of an answer, such as `<tool_call>`. If a marker is a special token of the model, a
 * grammar spells it as a byte that no text contains, followed by the token's text, so that no other token can spell it.
 */
import { EMPTY, type GrammarWriter, literal, oneOf, sequence } from "./ebnf.js";

/**
 * Precedes a special token's text in the vocabulary for grammars; ordinary tokens that contain this byte are left out
 * of that vocabulary.
 */
export const SPECIAL_BYTE = 0xff;

const hex = (byte: number): string => `\\x${byte.toString(16).padStart(2, "0")}`;

/** A class of one byte, written twice: XGrammar reads [\xe2] and [\xe2-\xe2] as the character U+00E2. */
const oneByte = (byte: number): string => `[${hex(byte)}${hex(byte)}]`;

const SPECIAL = oneByte(SPECIAL_BYTE);
/** Any text without a special token. */
export const ORDINARY_TEXT = "[\\x00-\\xfe]*";

export class Markers {
  /** @param specialTexts texts that are each a single special token */
  constructor(private readonly specialTexts: ReadonlySet<string>) {}

  /** The text as the model writes it, with special tokens for its markers. */
  spell(text: string): string {
    const [first] = [...this.specialTexts]
      .filter((marker) => text.includes(marker))
      .sort((a, b) => text.indexOf(a) - text.indexOf(b));
    if (first === undefined) return text === "" ? EMPTY : literal(text);
    const [before = "", ...rest] = text.split(first);
    return sequence(literal(before), SPECIAL, literal(first), this.spell(rest.join(first)));
  }

  /** Free text that may end anywhere; if the marker occurs, `then` must follow. */
  upTo(writer: GrammarWriter, marker: string, then: string): string {
    if (this.specialTexts.has(marker)) return `(${ORDINARY_TEXT} (${this.spell(marker)} ${then})?)`;
    const rule = writer.rule(then);
    const dispatch = `TagDispatch((${literal(marker)}, ${rule}), stop_eos=true, stop_str=(), loop_after_dispatch=false)`;
    return writer.rule(dispatch);
  }

  /** Text up to and including the first occurrence of the marker, followed by `then`. */
  through(writer: GrammarWriter, marker: string, then: string): string {
    if (this.specialTexts.has(marker)) return sequence(ORDINARY_TEXT, this.spell(marker), then);
    const rest = writer.rule(then);
    const bytes = Buffer.from(marker).toString("latin1");
    const distinct = [...new Set(bytes)];
    const others = bytesExcept(distinct);
    // One rule per number of the marker's bytes matched so far.
    const names = [...bytes].map(() => writer.reserve());
    for (const [count, name] of names.entries()) {
      const branches = distinct.map((byte) => {
        const next = overlap(bytes, bytes.slice(0, count) + byte);
        return sequence(oneByte(byte.charCodeAt(0)), names[next] ?? rest);
      });
      writer.define(name, oneOf([sequence(others, names[0]!), ...branches]));
    }
    return names[0]!;
  }
}

/** One byte of ordinary text except these. @param bytes as characters of Latin-1 */
function bytesExcept(bytes: readonly string[]): string {
  const codes = bytes.map((byte) => byte.charCodeAt(0)).sort((a, b) => a - b);
  const ends = [-1, ...codes].map((code, i) => [code + 1, (codes[i] ?? SPECIAL_BYTE) - 1] as const);
  return `[${ends.map(([first, last]) => (first > last ? "" : `${hex(first)}-${hex(last)}`)).join("")}]`;
}

/** The length of the longest prefix of the marker with which the text ends. */
function overlap(marker: string, text: string): number {
  let length = Math.min(marker.length, text.length);
  while (!text.endsWith(marker.slice(0, length))) length--;
  return length;
}
