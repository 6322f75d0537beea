/**
 * Regular languages over Unicode characters, with intersection and complement. A language is the set of texts that may
 * still follow; its derivative (Brzozowski) is the language after one more character. An automaton is therefore built
 * state by state, with reachable states only.
 */
import { type CharacterSet, characterSet, complement } from "./character-set.js";
import { RegexError } from "./regex.js";

/** Structurally equal languages of one algebra are the same object. */
export interface Language {
  readonly id: number;
  readonly kind: "never" | "set" | "sequence" | "either" | "both" | "not" | "repeat" | "empty";
  /** Whether the language contains the empty text. */
  readonly isNullable: boolean;
  readonly parts: readonly Language[];
  readonly set: CharacterSet;
  readonly min: number;
  readonly max: number;
}

/**
 * The limit for all schemas of one request. Intersections of long repetitions have a language for each pair of counts.
 */
const MAX_LANGUAGES = 50_000;
/** The limit for computing derivatives; each costs as many steps as it has parts. */
const MAX_STEPS = 300_000;

const NOTHING: CharacterSet = [];
const EVERYTHING = complement(NOTHING);

export class Languages {
  /** @param maxSteps the budget of steps for all languages together */
  constructor(private readonly maxSteps = MAX_STEPS) {}

  readonly #byKey = new Map<string, Language>();
  readonly #derivatives = new Map<string, Language>();
  #numSteps = 0;

  readonly never = this.#make("never", "", { isNullable: false });
  readonly empty = this.#make("empty", "", { isNullable: true });
  readonly anyCharacter = this.set(EVERYTHING);
  /** Every text. */
  readonly anything = this.repeat(this.anyCharacter, 0, Number.POSITIVE_INFINITY);

  set(set: CharacterSet): Language {
    return set.length === 0 ? this.never : this.#make("set", set.join(";"), { isNullable: false, set });
  }

  text(text: string): Language {
    const characters = [...text].map((each) => this.set(characterSet([[each.codePointAt(0)!, each.codePointAt(0)!]])));
    return this.sequence(...characters);
  }

  sequence(...parts: readonly Language[]): Language {
    let rest = this.empty;
    for (const part of parts.toReversed()) rest = this.#pair(part, rest);
    return rest;
  }

  #pair(first: Language, rest: Language): Language {
    if (first === this.never || rest === this.never) return this.never;
    if (first === this.empty) return rest;
    if (rest === this.empty) return first;
    if (first.kind === "sequence") return this.#pair(first.parts[0]!, this.#pair(first.parts[1]!, rest));
    const isNullable = first.isNullable && rest.isNullable;
    return this.#make("sequence", `${first.id},${rest.id}`, { isNullable, parts: [first, rest] });
  }

  either(...parts: readonly Language[]): Language {
    const distinct = this.#distinct("either", parts).filter((part) => part !== this.never);
    if (distinct.includes(this.anything)) return this.anything;
    if (distinct.length <= 1) return distinct[0] ?? this.never;
    return this.#make("either", idsOf(distinct), { isNullable: distinct.some(isNullable), parts: distinct });
  }

  both(...parts: readonly Language[]): Language {
    const distinct = this.#distinct("both", parts).filter((part) => part !== this.anything);
    if (distinct.includes(this.never)) return this.never;
    if (distinct.length <= 1) return distinct[0] ?? this.anything;
    return this.#make("both", idsOf(distinct), { isNullable: distinct.every(isNullable), parts: distinct });
  }

  not(part: Language): Language {
    if (part.kind === "not") return part.parts[0]!;
    if (part === this.never) return this.anything;
    if (part === this.anything) return this.never;
    return this.#make("not", `${part.id}`, { isNullable: !part.isNullable, parts: [part] });
  }

  repeat(part: Language, min: number, max: number): Language {
    if (max === 0 || part === this.empty) return this.empty;
    if (part === this.never) return min === 0 ? this.empty : this.never;
    if (min === 1 && max === 1) return part;
    const isAny = part.kind === "repeat" && part.min === 0 && part.max === Number.POSITIVE_INFINITY;
    if (isAny) return part;
    // If the part may be empty, fewer repetitions give the same texts as `min`.
    const least = part.isNullable ? 0 : min;
    const key = `${part.id},${least},${max}`;
    return this.#make("repeat", key, { isNullable: least === 0, parts: [part], min: least, max });
  }

  /** Clears the derivatives before character classes are renumbered. */
  forgetClasses(): void {
    this.#derivatives.clear();
  }

  /**
   * The derivative: the texts that may follow a character of the class.
   * @param holds whether a set contains the class's characters (all of them or none)
   */
  derivative(language: Language, classId: number, holds: (set: Language) => boolean): Language {
    if (language.kind === "set") return holds(language) ? this.empty : this.never;
    if (language.kind === "empty" || language.kind === "never") return this.never;
    const key = `${language.id}:${classId}`;
    let known = this.#derivatives.get(key);
    if (known === undefined) {
      this.#spend(1);
      known = this.#derive(language, (part) => this.derivative(part, classId, holds));
      this.#derivatives.set(key, known);
    }
    return known;
  }

  #derive({ kind, parts, min, max }: Language, derive: (part: Language) => Language): Language {
    const [first, rest] = parts as [Language, Language];
    switch (kind) {
      case "sequence": {
        const begun = this.sequence(derive(first), rest);
        return first.isNullable ? this.either(begun, derive(rest)) : begun;
      }
      case "either":
        return this.either(...parts.map(derive));
      case "both":
        return this.both(...parts.map(derive));
      case "not":
        return this.not(derive(first));
      default:
        return this.sequence(derive(first), this.repeat(first, Math.max(0, min - 1), max - 1));
    }
  }

  /** The parts in a fixed order and without duplicates; parts of the same kind are flattened. */
  #distinct(kind: "either" | "both", parts: readonly Language[]): readonly Language[] {
    this.#spend(parts.length);
    const flat = new Set(parts.flatMap((part) => (part.kind === kind ? part.parts : [part])));
    this.#spend(flat.size);
    return [...flat].sort((a, b) => a.id - b.id);
  }

  #spend(numSteps: number): void {
    this.#numSteps += numSteps;
    if (this.#numSteps > this.maxSteps) throw tooMany();
  }

  #make(
    kind: Language["kind"],
    detail: string,
    { isNullable, parts = [], set = NOTHING, min = 0, max = 0 }: Partial<Language> & Pick<Language, "isNullable">,
  ): Language {
    const key = `${kind}:${detail}`;
    const known = this.#byKey.get(key);
    if (known !== undefined) return known;
    if (this.#byKey.size >= MAX_LANGUAGES) throw tooMany();
    const made: Language = { id: this.#byKey.size, kind, isNullable, parts, set, min, max };
    this.#byKey.set(key, made);
    return made;
  }
}

const isNullable = (language: Language): boolean => language.isNullable;
const idsOf = (parts: readonly Language[]): string => parts.map(({ id }) => id).join(",");
const tooMany = (): RegexError =>
  new RegexError(`expected patterns, formats and lengths that are kept together in ${MAX_STEPS} steps, got more`);
