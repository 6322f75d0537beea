/** Follows one JSON value (RFC 8259) character by character and says whether the text so far can still become one. */

type State =
  | "value"
  | "firstElement"
  | "firstKey"
  | "key"
  | "colon"
  | "afterValue"
  | "string"
  | "escape"
  | "hex"
  | "number"
  | "literal"
  | "end";

type NumberPart = "minus" | "zero" | "integer" | "point" | "fraction" | "exponent" | "sign" | "digits";

const WHOLE_NUMBER_PARTS: ReadonlySet<NumberPart> = new Set(["zero", "integer", "fraction", "digits"]);
const LITERALS: Readonly<Record<string, string>> = { t: "rue", f: "alse", n: "ull" };
const NUM_HEX_DIGITS = 4;

export function isJsonSpace(char: string): boolean {
  return char === " " || char === "\n" || char === "\t" || char === "\r";
}

function isDigit(char: string): boolean {
  return char >= "0" && char <= "9";
}

/** The part of the number that `char` belongs to; undefined if `char` cannot continue the number. */
function nextNumberPart(part: NumberPart, char: string): NumberPart | undefined {
  const isExponent = char === "e" || char === "E";
  switch (part) {
    case "minus":
      return char === "0" ? "zero" : isDigit(char) ? "integer" : undefined;
    case "zero":
    case "integer":
      if (isDigit(char)) return part === "integer" ? part : undefined;
      return char === "." ? "point" : isExponent ? "exponent" : undefined;
    case "point":
      return isDigit(char) ? "fraction" : undefined;
    case "fraction":
      return isDigit(char) ? part : isExponent ? "exponent" : undefined;
    case "exponent":
      return isDigit(char) ? "digits" : char === "+" || char === "-" ? "sign" : undefined;
    case "sign":
    case "digits":
      return isDigit(char) ? "digits" : undefined;
  }
}

/**
 * @example const scanner = new JsonScanner(); [...'{"a":1}'].every((char) => scanner.push(char)) && scanner.isComplete
 */
export class JsonScanner {
  #state: State = "value";
  /** Open brackets, innermost last. */
  readonly #open: ("{" | "[")[] = [];
  #isKey = false;
  #numberPart: NumberPart = "minus";
  #literalRest = "";
  #numHexDigits = 0;

  /** The text so far is a complete value; a number may still continue. */
  get isComplete(): boolean {
    if (this.#state === "end") return true;
    return this.#state === "number" && this.#open.length === 0 && WHOLE_NUMBER_PARTS.has(this.#numberPart);
  }

  /** The text so far is a complete value that no further character can continue. */
  get isClosed(): boolean {
    return this.#state === "end";
  }

  /** The text so far ends inside a string. */
  get isInString(): boolean {
    return this.#state === "string" || this.#state === "escape" || this.#state === "hex";
  }

  /** Returns false if `char` (one UTF-16 unit) cannot follow. After that only `isComplete` remains meaningful. */
  push(char: string): boolean {
    switch (this.#state) {
      case "string":
        return this.#readString(char);
      case "escape":
        return this.#readEscape(char);
      case "hex":
        if (!/^[0-9a-fA-F]$/.test(char)) return false;
        if (++this.#numHexDigits === NUM_HEX_DIGITS) this.#state = "string";
        return true;
      case "number":
        return this.#readNumber(char);
      case "literal":
        if (char !== this.#literalRest[0]) return false;
        this.#literalRest = this.#literalRest.slice(1);
        if (this.#literalRest === "") this.#endValue();
        return true;
      case "end":
        return false;
      default:
        return isJsonSpace(char) || this.#readStructure(char);
    }
  }

  #readString(char: string): boolean {
    if (char === "\\") this.#state = "escape";
    else if (char === '"') {
      if (this.#isKey) this.#state = "colon";
      else this.#endValue();
    }
    return char >= " ";
  }

  #readEscape(char: string): boolean {
    this.#numHexDigits = 0;
    this.#state = char === "u" ? "hex" : "string";
    return '"\\/bfnrtu'.includes(char);
  }

  #readNumber(char: string): boolean {
    const next = nextNumberPart(this.#numberPart, char);
    if (next !== undefined) {
      this.#numberPart = next;
      return true;
    }
    if (!WHOLE_NUMBER_PARTS.has(this.#numberPart) || this.#open.length === 0) return false;
    this.#state = "afterValue";
    return this.push(char);
  }

  #readStructure(char: string): boolean {
    switch (this.#state) {
      case "firstElement":
        return char === "]" ? this.#close("[") : this.#startValue(char);
      case "firstKey":
        return char === "}" ? this.#close("{") : this.#startKey(char);
      case "key":
        return this.#startKey(char);
      case "colon":
        this.#state = "value";
        return char === ":";
      case "afterValue":
        if (char === ",") {
          this.#state = this.#open.at(-1) === "{" ? "key" : "value";
          return true;
        }
        return (char === "}" && this.#close("{")) || (char === "]" && this.#close("["));
      default:
        return this.#startValue(char);
    }
  }

  #startKey(char: string): boolean {
    this.#state = "string";
    this.#isKey = true;
    return char === '"';
  }

  #startValue(char: string): boolean {
    const literalRest = LITERALS[char];
    if (char === "{" || char === "[") {
      this.#open.push(char);
      this.#state = char === "{" ? "firstKey" : "firstElement";
    } else if (char === '"') {
      this.#state = "string";
      this.#isKey = false;
    } else if (char === "-" || isDigit(char)) {
      this.#state = "number";
      this.#numberPart = char === "-" ? "minus" : char === "0" ? "zero" : "integer";
    } else if (literalRest !== undefined) {
      this.#state = "literal";
      this.#literalRest = literalRest;
    } else return false;
    return true;
  }

  #close(bracket: "{" | "["): boolean {
    if (this.#open.at(-1) !== bracket) return false;
    this.#open.pop();
    this.#endValue();
    return true;
  }

  #endValue(): void {
    this.#state = this.#open.length === 0 ? "end" : "afterValue";
  }
}
