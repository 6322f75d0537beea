/** JSON strings as expressions: what the text says is one thing, how it is spelled between quotes another. */
import { bytesOfSet, type CharacterSet, characterSet, complement, includes, intersection } from "./character-set.js";
import { EMPTY, type GrammarWriter, literal, oneOf, repeat, sequence } from "./ebnf.js";
import type { SpellSet } from "./regex.js";

const CONTROLS = characterSet([[0, 0x1f]]);
const QUOTES = characterSet([
  [0x22, 0x22],
  [0x5c, 0x5c],
]);
/** Characters that stand for themselves. U+FFFD is what broken text decodes to, so it is left out. */
export const PLAIN = complement(characterSet([...CONTROLS, ...QUOTES, [0x7f, 0x7f], [0xfffd, 0xfffd]]));

/** Spells characters as they are between quotes: escaped where JSON wants it, else plainly. */
export const spellInJson: SpellSet = (set) => {
  const escaped = [...codePointsOf(intersection(set, characterSet([...CONTROLS, ...QUOTES, [0x7f, 0x7f]])))].map(
    (codePoint) => literal(JSON.stringify(String.fromCodePoint(codePoint)).slice(1, -1)),
  );
  const plain = intersection(set, PLAIN);
  return oneOf(...(plain.length === 0 ? [] : [`(${bytesOfSet(plain)})`]), ...escaped);
};

function* codePointsOf(set: CharacterSet): Iterable<number> {
  for (const [first, last] of set) for (let codePoint = first; codePoint <= last; codePoint++) yield codePoint;
}

export function quoted(content: string): string {
  return sequence(literal('"'), content, literal('"'));
}

/** One character of a string, in any spelling but a lone surrogate's. */
export function anyCharacter(writer: GrammarWriter): string {
  const hex = "[0-9a-fA-F]";
  const unicode = `"\\\\u" ([0-9a-cA-Ce-fE-F] ${hex} | [dD] [0-7]) ${hex} ${hex}`;
  return writer.rule(`${bytesOfSet(PLAIN)} | "\\\\" ["\\\\/bfnrt] | ${unicode}`);
}

export function anyString(writer: GrammarWriter, min = 0, max?: number): string {
  return writer.rule(quoted(repeat(anyCharacter(writer), min, max)));
}

/** A string, spelled without escapes, that is none of `names`. */
export function stringExcept(writer: GrammarWriter, names: readonly string[]): string {
  const plain = writer.rule(bytesOfSet(PLAIN));
  const spellable = names.filter((name) => [...name].every((c) => includes(PLAIN, c.codePointAt(0)!)));
  return writer.rule(quoted(unlike(writer, plain, spellable)));
}

/** Texts that are none of `names`, all of which go on from here. */
function unlike(writer: GrammarWriter, plain: string, names: readonly string[]): string {
  if (names.length === 0) return repeat(plain, 0, undefined);
  const byFirst = new Map<string, string[]>();
  for (const [first, ...rest] of names.map((name) => [...name])) {
    if (first === undefined) continue;
    byFirst.set(first, [...(byFirst.get(first) ?? []), rest.join("")]);
  }
  const known = characterSet([...byFirst.keys()].map((c) => [c.codePointAt(0)!, c.codePointAt(0)!]));
  const others = intersection(PLAIN, complement(known));
  const branches = [...byFirst].map(([first, rests]) => sequence(literal(first), unlike(writer, plain, rests)));
  const end = names.includes("") ? [] : [EMPTY];
  return writer.rule(oneOf(sequence(`(${bytesOfSet(others)})`, repeat(plain, 0, undefined)), ...branches, ...end));
}
