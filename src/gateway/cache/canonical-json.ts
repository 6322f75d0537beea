/** One text for each JSON value, without white space. Equal texts mean equal values. */

interface Canonical {
  /** Undefined if the value's bytes may say more than the value: then equal texts need not mean equal requests. */
  readonly text: string | undefined;
  /** Commas, colons and opening brackets of the value, which its bytes have too unless a member occurs twice. */
  readonly numMarks: number;
}

/** JSON that was read nests less deeply (see MAX_JSON_DEPTH); the bound guards values from elsewhere. */
const MAX_DEPTH = 128;

/**
 * @param value parsed JSON; long lists of ids may be Int32Arrays
 * @param keepsOrder members stay in their order, as where a schema's decides what a model writes first; else they are
 * sorted
 * @returns no text where a number was rounded when it was parsed: an integer beyond 2⁵³, or one that became infinite
 */
export function canonicalJson(value: unknown, keepsOrder = false): Canonical {
  const writer = new Writer(keepsOrder);
  const text = writer.write(value, 0);
  return { text: writer.isExact ? text : undefined, numMarks: writer.numMarks };
}

class Writer {
  isExact = true;
  numMarks = 0;

  constructor(private readonly keepsOrder: boolean) {}

  write(value: unknown, depth: number): string {
    if (depth > MAX_DEPTH) this.isExact = false;
    if (typeof value === "number") return this.#number(value);
    if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
    if (!this.isExact) return "";
    if (value instanceof Int32Array) {
      this.numMarks += Math.max(value.length, 1);
      return `[${value.join(",")}]`;
    }
    if (Array.isArray(value)) {
      this.numMarks += Math.max(value.length, 1);
      return `[${value.map((each) => this.write(each, depth + 1)).join(",")}]`;
    }
    return this.#object(value as Readonly<Record<string, unknown>>, depth);
  }

  #number(value: number): string {
    if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) this.isExact = false;
    // −0 is 0 for JSON.stringify, and another bias for nobody.
    return JSON.stringify(value);
  }

  #object(value: Readonly<Record<string, unknown>>, depth: number): string {
    const names = Object.keys(value);
    if (!this.keepsOrder) names.sort();
    const members: string[] = [];
    for (const name of names) {
      const each = value[name];
      // Absent for JSON.
      if (each === undefined) continue;
      members.push(`${JSON.stringify(name)}:${this.write(each, depth + 1)}`);
    }
    this.numMarks += Math.max(members.length, 1) + members.length;
    return `{${members.join(",")}}`;
  }
}
