/**
 * Limits the work of one render. A chat template is a stranger's program, and it runs on the thread that serves all
 * requests. The budget counts work instead of time, so a template and its input have the same outcome on every machine.
 */

/**
 * One unit of work takes some nanoseconds. Published templates use a sixtieth of it for a short conversation with
 * tools.
 */
const BASE_WORK = 64_000_000;
/**
 * The input adds work for its characters and its values (texts, numbers, lists, objects), each of which a template may
 * meet in nested loops.
 */
const WORK_PER_INPUT_CHARACTER = 512;
const WORK_PER_INPUT_VALUE = 524_288;
const MOST_WORK = 4_000_000_000;

/**
 * The prices of the library's work. Those of values and characters also cover their memory: all values of one render
 * fit into a process.
 */
export const NODE_WORK = 300;
export const ITERATION_WORK = 1200;
/** Price of the value of `loop`. */
export const LOOP_WORK = 2000;
export const PARAMETER_WORK = 2000;
/** Price of creating a value, besides its characters. */
export const VALUE_WORK = 800;
/**
 * Price of a filter or a method: each text that the library creates carries its methods, which takes longer than most
 * templates' loops.
 */
export const CALL_WORK = 10_000;
/** Price of visiting a value, or of copying it from list to list. */
export const ELEMENT_WORK = 100;
export const CHARACTER_WORK = 8;
/** Price of a character that becomes an element of a list. */
const LETTER_WORK = 20;
/** A longer list of letters may end the process. */
const MOST_LETTERS = 33_554_432;
/** Price of a scope in which a name is looked up. */
export const SCOPE_WORK = 40;

/** A value of the template library. */
interface Value {
  readonly value: unknown;
}

/** Ends a render that asks for more work than its budget has. */
export class OverBudget extends Error {
  constructor() {
    super("more work than an input of this size may take");
  }
}

/** The cost of a visit to every value within another, in units of work. */
interface Visit {
  readonly perCharacter?: number;
  readonly perValue?: number;
  /** Additional work for each value, per level of its depth. */
  readonly perLevel?: number;
}

export class RenderBudget {
  #left = BASE_WORK;
  #isExtended = false;

  /** @param input JSON with which the template is rendered; it is measured only when the base is used up */
  constructor(private readonly input: unknown) {}

  /** Call this before doing the work. Throws OverBudget. */
  charge(work: number): void {
    this.#left -= work;
    // The comparison also fails for NaN, which hostile numbers can lead to.
    if (!(this.#left >= 0)) this.#extend();
  }

  /** Charges for a text, or for a list's or dict's own elements, without the values inside them. */
  chargeElements(value: Value): void {
    const held = value.value;
    if (typeof held === "string") this.charge(held.length * CHARACTER_WORK);
    else if (held instanceof Map) this.charge(held.size * VALUE_WORK);
    else if (Array.isArray(held)) {
      this.charge(held.length * ELEMENT_WORK);
      for (const { value: element } of held as readonly Value[]) {
        if (typeof element === "string") this.charge(element.length * CHARACTER_WORK);
      }
    }
  }

  /** Charges for a list of the text's letters, which the library creates for slices. */
  chargeLetters(text: string): void {
    this.charge(text.length > MOST_LETTERS ? Number.POSITIVE_INFINITY : text.length * LETTER_WORK);
  }

  /**
   * Charges for everything within the value, as often as a visit reaches it: sixty lists that each contain the previous
   * one twice have 2^60 elements.
   */
  chargeAll(value: Value, visit: Visit = {}, depth = 0): void {
    const { perCharacter = CHARACTER_WORK, perValue = ELEMENT_WORK, perLevel = 0 } = visit;
    this.charge(perValue + depth * perLevel);
    const held = value.value;
    if (typeof held === "string") this.charge(held.length * perCharacter);
    else if (Array.isArray(held))
      for (const element of held as readonly Value[]) this.chargeAll(element, visit, depth + 1);
    else if (held instanceof Map) {
      for (const [key, element] of held) {
        this.charge(String(key).length * perCharacter);
        this.chargeAll(element, visit, depth + 1);
      }
    }
  }

  /** Charges for a search that may compare much of the part at every character of the text. */
  chargeSearch(text: string, part: string): void {
    this.charge(text.length * (CHARACTER_WORK + part.length / 8));
  }

  #extend(): void {
    if (!this.#isExtended) {
      this.#isExtended = true;
      this.#left += Math.min(workFor(this.input), MOST_WORK - BASE_WORK);
    }
    if (!(this.#left >= 0)) throw new OverBudget();
  }
}

function workFor(input: unknown): number {
  if (typeof input === "string") return WORK_PER_INPUT_VALUE + input.length * WORK_PER_INPUT_CHARACTER;
  if (typeof input !== "object" || input === null) return WORK_PER_INPUT_VALUE;
  let work = WORK_PER_INPUT_VALUE;
  for (const [key, value] of Object.entries(input)) work += key.length * WORK_PER_INPUT_CHARACTER + workFor(value);
  return work;
}
