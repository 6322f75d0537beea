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
/** Characters that are written without escapes. U+FFFD is left out, because broken text decodes to it. */
export const PLAIN = complement(characterSet([...CONTROLS, ...QUOTES, [0x7f, 0x7f], [0xfffd, 0xfffd]]));

/** Spells characters between quotes: escaped if JSON requires it, otherwise plain. */
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

/**
 * One character of a string in any spelling except a lone surrogate. It has no groups, because the engine turns groups
 * into rules, which slow down its masks.
 */
function anyCharacter(writer: GrammarWriter): string {
  const other = `"\\\\u" [0-9a-cA-Ce-fE-F] ${HEX} ${HEX} ${HEX} | "\\\\u" [dD] [0-7] ${HEX} ${HEX}`;
  return writer.rule(`${bytesOfSet(PLAIN)} | "\\\\" ["\\\\/bfnrt] | ${other}`);
}

/**
 * Any number of these characters and the closing quote. A rule that ends with the quote lets the engine decide in
 * advance for nearly every token whether it fits; with `(…)* "\""` it would have to try thousands of tokens at every
 * position.
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

/** A string that differs from all `names`, spelled without escapes. */
export function stringExcept(writer: GrammarWriter, names: readonly string[]): string {
  const rest = restOfString(writer, writer.rule(bytesOfSet(PLAIN)));
  return writer.rule(sequence(QUOTE, unlike(writer, rest, treeOf(names))));
}

const codePointOf = (character: string): number => character.codePointAt(0)!;

/** A tree of names with one level per character. */
interface NameTree {
  readonly next: Map<string, NameTree>;
  /** A name ends here. */
  isEnd: boolean;
}

/** Each level becomes a rule of at least 16 characters, so more levels would exceed the limit for a grammar. */
const MAX_LEVELS = MAX_GRAMMAR_LENGTH / 16;

/** The tree of the names that can be spelled without escapes. */
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

/** The rest of a string that must differ from all names in this subtree. */
function unlike(writer: GrammarWriter, rest: string, { next, isEnd }: NameTree): string {
  if (next.size === 0 && !isEnd) return rest;
  const known = characterSet([...next.keys()].map((c) => [codePointOf(c), codePointOf(c)]));
  const others = intersection(PLAIN, complement(known));
  const branches = [...next].map(([character, tree]) => sequence(literal(character), unlike(writer, rest, tree)));
  return writer.rule(oneOf([sequence(`(${bytesOfSet(others)})`, rest), ...branches, ...(isEnd ? [] : [QUOTE])]));
}
