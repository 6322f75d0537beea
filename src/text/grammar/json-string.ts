/** JSON strings as expressions: what the text says is one thing, how it is spelled between quotes another. */
import { bytesOfSet, type CharacterSet, characterSet, complement, includes, intersection } from "./character-set.js";
import { type GrammarWriter, literal, oneOf, sequence } from "./ebnf.js";
import type { CharacterRun, SpellSet } from "./regex.js";
import { MAX_COUNTED_LENGTH, MAX_COUNTED_MINIMUM, signalsOf } from "./string-length.js";

const QUOTE = literal('"');
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
  return oneOf([...(plain.length === 0 ? [] : [`(${bytesOfSet(plain)})`]), ...escaped]);
};

function* codePointsOf(set: CharacterSet): Iterable<number> {
  for (const [first, last] of set) for (let codePoint = first; codePoint <= last; codePoint++) yield codePoint;
}

export function quoted(content: string): string {
  return sequence(QUOTE, content, QUOTE);
}

const HEX = "[0-9a-fA-F]";

/** One character of a string, in any spelling but a lone surrogate's. No groups: of those the engine would make rules, which slow down its masks. */
function anyCharacter(writer: GrammarWriter): string {
  const other = `"\\\\u" [0-9a-cA-Ce-fE-F] ${HEX} ${HEX} ${HEX} | "\\\\u" [dD] [0-7] ${HEX} ${HEX}`;
  return writer.rule(`${bytesOfSet(PLAIN)} | "\\\\" ["\\\\/bfnrt] | ${other}`);
}

/**
 * Any number of these characters and the closing quote. As a rule that ends with the quote, and with nothing else, it lets the engine say of nearly every
 * token beforehand whether it fits; in `(…)* "\""` it would have to try thousands of them at every position.
 */
function restOfString(writer: GrammarWriter, character: string, signals: readonly string[] = []): string {
  const key = `rest of a string of ${character} with ${signals.join(" and ")}`;
  return writer.recursiveRule(key, (self) => oneOf([QUOTE, sequence(character, self), ...signals]));
}

export function anyString(writer: GrammarWriter, min = 0, max?: number): string {
  return stringOf(writer, anyCharacter(writer), min, max);
}

export function stringOfRun(writer: GrammarWriter, { set, min, max }: CharacterRun): string {
  return stringOf(writer, writer.rule(spellInJson(set)), min, max);
}

function stringOf(writer: GrammarWriter, character: string, min: number, max: number | undefined): string {
  const isCounted = max !== undefined && max <= MAX_COUNTED_LENGTH;
  const signals = isCounted ? [] : signalsOf({ min, max });
  let rest = isCounted ? QUOTE : restOfString(writer, character, signals);
  for (let count = isCounted ? max : Math.min(min, MAX_COUNTED_MINIMUM); count > 0; count--) {
    const end = count > min ? [QUOTE] : [];
    rest = writer.rule(oneOf([...end, sequence(character, rest), ...signals]));
  }
  return writer.rule(sequence(QUOTE, rest));
}

/** A string, spelled without escapes, that is none of `names`. */
export function stringExcept(writer: GrammarWriter, names: readonly string[]): string {
  const rest = restOfString(writer, writer.rule(bytesOfSet(PLAIN)));
  const spellable = names.filter((name) => [...name].every((c) => includes(PLAIN, c.codePointAt(0)!)));
  return writer.rule(sequence(QUOTE, unlike(writer, rest, spellable)));
}

/** The rest of a string that is none of `names`, all of which go on from here. */
function unlike(writer: GrammarWriter, rest: string, names: readonly string[]): string {
  if (names.length === 0) return rest;
  const byFirst = new Map<string, string[]>();
  for (const [first, ...others] of names.map((name) => [...name])) {
    if (first === undefined) continue;
    byFirst.set(first, [...(byFirst.get(first) ?? []), others.join("")]);
  }
  const known = characterSet([...byFirst.keys()].map((c) => [c.codePointAt(0)!, c.codePointAt(0)!]));
  const others = intersection(PLAIN, complement(known));
  const branches = [...byFirst].map(([first, rests]) => sequence(literal(first), unlike(writer, rest, rests)));
  const end = names.includes("") ? [] : [QUOTE];
  return writer.rule(oneOf([sequence(`(${bytesOfSet(others)})`, rest), ...branches, ...end]));
}
