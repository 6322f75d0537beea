/** JSON strings as expressions: from the characters of a text to their spellings between quotes. */
import { bytesOfSet, type CharacterSet, characterSet, complement, includes, intersection } from "./character-set.js";
import { type GrammarWriter, literal, MAX_GRAMMAR_LENGTH, oneOf, sequence, tooLong } from "./ebnf.js";
import { type CharacterRun, RegexError, type SpellSet } from "./regex.js";
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
  if (plain.length === 0 && escaped.length === 0) throw new RegexError("expected characters that an answer can have");
  return oneOf([...(plain.length === 0 ? [] : [`(${bytesOfSet(plain)})`]), ...escaped]);
};

function* codePointsOf(set: CharacterSet): Iterable<number> {
  for (const [first, last] of set) for (let codePoint = first; codePoint <= last; codePoint++) yield codePoint;
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
  return writer.rule(sequence(QUOTE, unlike(writer, rest, treeOf(names))));
}

const codePointOf = (character: string): number => character.codePointAt(0)!;

/** Names by their characters, one level a character. */
interface NameTree {
  readonly next: Map<string, NameTree>;
  /** A name ends here. */
  isEnd: boolean;
}

/** Each level of a name becomes a rule of so many characters at least: with more of them no grammar could be written. */
const MAX_LEVELS = MAX_GRAMMAR_LENGTH / 16;

/** Of the names that can be spelled without escapes. */
function treeOf(names: readonly string[]): NameTree {
  const root: NameTree = { next: new Map(), isEnd: false };
  let numLevels = 0;
  for (const name of names) {
    const characters = [...name];
    if (!characters.every((character) => includes(PLAIN, codePointOf(character)))) continue;
    let tree = root;
    for (const character of characters) {
      let next = tree.next.get(character);
      if (next === undefined) {
        if (++numLevels > MAX_LEVELS) throw tooLong();
        next = { next: new Map(), isEnd: false };
        tree.next.set(character, next);
      }
      tree = next;
    }
    tree.isEnd = true;
  }
  return root;
}

/** The rest of a string that is none of the names below. */
function unlike(writer: GrammarWriter, rest: string, { next, isEnd }: NameTree): string {
  if (next.size === 0 && !isEnd) return rest;
  const known = characterSet([...next.keys()].map((c) => [codePointOf(c), codePointOf(c)]));
  const others = intersection(PLAIN, complement(known));
  const branches = [...next].map(([character, tree]) => sequence(literal(character), unlike(writer, rest, tree)));
  return writer.rule(oneOf([sequence(`(${bytesOfSet(others)})`, rest), ...branches, ...(isEnd ? [] : [QUOTE])]));
}
