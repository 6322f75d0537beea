/**
 * The texts that contain a match of a pattern, as a language: look-aheads become intersections, negative ones
 * complements.
 */
import type { Language, Languages } from "./language.js";
import { RegexError, type RegexTree, regexTree } from "./regex.js";

/** The limit for the parts of a pattern, because derivatives recurse into them. */
const MAX_PARTS = 3000;
/** The limit for repetitions that contain assertions, because each round is expanded. */
const MAX_ROUNDS = 16;

/**
 * @param isSearch whether a match anywhere in the text suffices
 * @param mostRounds an upper limit for unbounded repetitions, if a subset of the texts suffices
 */
export function patternLanguage(
  languages: Languages,
  pattern: string,
  isSearch: boolean,
  mostRounds = Number.POSITIVE_INFINITY,
): Language {
  return new PatternReader(languages, pattern, mostRounds).read(isSearch);
}

/** Whether any text precedes a position. */
type Before = "nothing" | "something" | "maybe";

class PatternReader {
  readonly #tree: RegexTree;
  #numParts = 0;

  constructor(
    private readonly languages: Languages,
    pattern: string,
    private readonly mostRounds: number,
  ) {
    this.#tree = regexTree(pattern);
  }

  read(isSearch: boolean): Language {
    const { anyCharacter, empty } = this.languages;
    const anything = this.languages.repeat(anyCharacter, 0, this.mostRounds);
    if (!isSearch) return this.#then(this.#tree, empty, "nothing");
    const later = this.languages.sequence(anything, anyCharacter, this.#then(this.#tree, anything, "something"));
    return this.languages.either(this.#then(this.#tree, anything, "nothing"), later);
  }

  /** The language of the tree followed by `rest`. */
  #then(tree: RegexTree, rest: Language, before: Before): Language {
    if (++this.#numParts > MAX_PARTS) {
      throw new RegexError(`expected a pattern of at most ${MAX_PARTS} parts where others hold too, got more`);
    }
    const { languages } = this;
    switch (tree.kind) {
      case "set":
        return languages.sequence(languages.set(tree.set), rest);
      case "alternatives": {
        if (hasAssertion(tree)) return languages.either(...tree.parts.map((part) => this.#then(part, rest, before)));
        const ways = tree.parts.map((part) => this.#then(part, languages.empty, before));
        return languages.sequence(languages.either(...ways), rest);
      }
      case "sequence":
        return this.#sequence(tree.parts, rest, before);
      case "repeat":
        return this.#repeat(tree, rest, before);
      case "start":
        if (before === "maybe")
          throw new RegexError("expected ^ where something stands before it or nothing, got both");
        return before === "nothing" ? rest : languages.never;
      case "end":
        return languages.both(rest, languages.empty);
      case "ahead": {
        const ahead = this.#then(tree.part, languages.anything, before);
        return languages.both(tree.isNegated ? languages.not(ahead) : ahead, rest);
      }
    }
  }

  #sequence(parts: readonly RegexTree[], rest: Language, before: Before): Language {
    const befores: Before[] = [];
    let place = before;
    for (const part of parts) {
      befores.push(place);
      place = behind(place, part);
    }
    let after = rest;
    for (let i = parts.length - 1; i >= 0; i--) after = this.#then(parts[i]!, after, befores[i]!);
    return after;
  }

  #repeat(tree: RegexTree & { readonly kind: "repeat" }, rest: Language, before: Before): Language {
    const { part, min, max } = tree;
    const { languages } = this;
    if (!hasAssertion(part)) {
      const once = this.#then(part, languages.empty, before);
      return languages.sequence(languages.repeat(once, min, max ?? Math.max(min, this.mostRounds)), rest);
    }
    if (max === undefined || max > MAX_ROUNDS) {
      throw new RegexError(`expected ^, $ and lookahead to be repeated at most ${MAX_ROUNDS} times, got more`);
    }
    let after = rest;
    for (let round = max; round > 0; round--) {
      const once = this.#then(part, after, round === 1 ? before : behind(before, part));
      after = round > min ? languages.either(once, rest) : once;
    }
    return after;
  }
}

function behind(before: Before, tree: RegexTree): Before {
  if (before === "something" || isAlwaysEmpty(tree)) return before;
  return mayBeEmpty(tree) ? "maybe" : "something";
}

const isAlwaysEmpty = ({ kind }: RegexTree): boolean => kind === "start" || kind === "end" || kind === "ahead";

function mayBeEmpty(tree: RegexTree): boolean {
  if (tree.kind === "sequence") return tree.parts.every(mayBeEmpty);
  if (tree.kind === "alternatives") return tree.parts.some(mayBeEmpty);
  return tree.kind === "repeat" ? tree.min === 0 || mayBeEmpty(tree.part) : tree.kind !== "set";
}

function hasAssertion(tree: RegexTree): boolean {
  if (tree.kind === "sequence" || tree.kind === "alternatives") return tree.parts.some(hasAssertion);
  return tree.kind === "repeat" ? hasAssertion(tree.part) : tree.kind !== "set";
}
