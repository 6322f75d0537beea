/**
 * Follows one Python literal character by character and converts it to JSON: constant names, numbers, strings in either
 * quotes, lists, tuples and dictionaries. A JSON value is also such a literal.
 */
import { isJsonSpace, JsonScanner } from "./json-scanner.js";

type State =
  | "value"
  | "firstValue"
  | "key"
  | "firstKey"
  | "colon"
  | "after"
  | "string"
  | "escape"
  | "hex"
  | "word"
  | "end";

const CONSTANTS: ReadonlyMap<string, string> = new Map([
  ["None", "null"],
  ["True", "true"],
  ["False", "false"],
  ["null", "null"],
  ["true", "true"],
  ["false", "false"],
]);
const ESCAPES: Readonly<Record<string, string>> = {
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  "\n": "",
  "\\": "\\",
  "'": "'",
  '"': '"',
  "/": "/",
};
const NUM_HEX_DIGITS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };
const CLOSERS: Readonly<Record<string, string>> = { "[": "]", "(": ")", "{": "}" };
/**
 * Exceeds every constant's name and every number in use; the limit keeps a long word from being read again and again.
 */
const MAX_WORD_LENGTH = 400;

/** One UTF-16 unit as it appears inside a JSON string. */
export function jsonUnit(unit: string): string {
  return unit < " " || unit === '"' || unit === "\\" ? JSON.stringify(unit).slice(1, -1) : unit;
}

/** Whether the text is one JSON value. */
export function isJson(text: string): boolean {
  const scanner = new JsonScanner();
  for (let i = 0; i < text.length; i++) if (!scanner.push(text[i]!)) return false;
  return scanner.isComplete;
}

/** @example new PythonLiteral().push("[") // "[" */
export class PythonLiteral {
  #state: State = "value";
  /** The closing brackets of the open ones, innermost last. */
  readonly #open: string[] = [];
  #isKey = false;
  #quote = "";
  #text = "";
  #numHexDigits = 0;

  /** The JSON text that the character adds; undefined: the character is not part of the literal. */
  push(char: string): string | undefined {
    switch (this.#state) {
      case "string":
        return this.#readString(char);
      case "escape":
        return this.#readEscape(char);
      case "hex":
        return this.#readHex(char);
      case "word":
        return this.#readWord(char);
      case "end":
        return undefined;
      default:
        return isJsonSpace(char) ? "" : this.#readStructure(char);
    }
  }

  /** Ends the literal and returns the rest of its JSON text; undefined: the literal is incomplete. */
  end(): string | undefined {
    if (this.#state === "word" && this.#open.length === 0) return jsonOfWord(this.#text);
    return this.#state === "end" ? "" : undefined;
  }

  #readString(char: string): string {
    if (char === this.#quote) {
      this.#state = this.#isKey ? "colon" : this.#afterValue();
      return '"';
    }
    if (char !== "\\") return jsonUnit(char);
    this.#state = "escape";
    return "";
  }

  /** As in Python, an unknown escape stands for itself. */
  #readEscape(char: string): string {
    this.#state = "string";
    const plain = ESCAPES[char];
    if (plain !== undefined) return [...plain].map(jsonUnit).join("");
    if (!(char in NUM_HEX_DIGITS)) return `\\\\${jsonUnit(char)}`;
    this.#state = "hex";
    this.#numHexDigits = NUM_HEX_DIGITS[char]!;
    this.#text = "";
    return "";
  }

  #readHex(char: string): string | undefined {
    if (!/^[0-9a-fA-F]$/.test(char)) return undefined;
    this.#text += char;
    if (this.#text.length < this.#numHexDigits) return "";
    this.#state = "string";
    const code = Number.parseInt(this.#text, 16);
    if (code > 0x10ffff) return undefined;
    // The halves of a pair arrive separately, and combine only as escapes.
    return code >= 0xd800 && code <= 0xdfff ? `\\u${code.toString(16)}` : jsonUnit(String.fromCodePoint(code));
  }

  #readWord(char: string): string | undefined {
    if (/^[\w.+-]$/.test(char)) {
      this.#text += char;
      return this.#text.length <= MAX_WORD_LENGTH ? "" : undefined;
    }
    const word = this.#open.length === 0 ? undefined : jsonOfWord(this.#text);
    if (word === undefined) return undefined;
    this.#state = "after";
    const rest = this.push(char);
    return rest === undefined ? undefined : word + rest;
  }

  #readStructure(char: string): string | undefined {
    const closer = this.#open.at(-1);
    const isFirst = this.#state === "firstValue" || this.#state === "firstKey";
    if (char === closer && (isFirst || this.#state === "after")) return this.#close();
    switch (this.#state) {
      case "after":
        // Python permits a comma after the last element.
        if (char !== ",") return undefined;
        this.#state = closer === "}" ? "firstKey" : "firstValue";
        this.#text = ",";
        return "";
      case "colon":
        this.#state = "value";
        return char === ":" ? ": " : undefined;
      default:
        return this.#startValue(char);
    }
  }

  #startValue(char: string): string | undefined {
    const comma = this.#text === "," ? ", " : "";
    const isKey = this.#state === "key" || this.#state === "firstKey";
    this.#text = "";
    if (char === "'" || char === '"') {
      this.#quote = char;
      this.#isKey = isKey;
      this.#state = "string";
      return `${comma}"`;
    }
    if (isKey) return undefined;
    const closer = CLOSERS[char];
    if (closer !== undefined) {
      this.#open.push(closer);
      this.#state = closer === "}" ? "firstKey" : "firstValue";
      return comma + (closer === "}" ? "{" : "[");
    }
    if (!/^[\w.+-]$/.test(char)) return undefined;
    this.#state = "word";
    this.#text = char;
    return comma;
  }

  #close(): string {
    this.#text = "";
    const closer = this.#open.pop();
    this.#state = this.#afterValue();
    return closer === "}" ? "}" : "]";
  }

  #afterValue(): State {
    return this.#open.length === 0 ? "end" : "after";
  }
}

/** A constant or a number as JSON; undefined if the word is neither. */
function jsonOfWord(word: string): string | undefined {
  const constant = CONSTANTS.get(word);
  if (constant !== undefined) return constant;
  const number = word
    .replace(/^\+/, "")
    .replace(/^(-?)\./, "$10.")
    .replace(/\.(?=$|[eE])/, ".0");
  return isJson(number) && /^[-\d]/.test(number) ? number : undefined;
}

/** The Python literal as JSON; undefined if the text is not a literal. */
export function jsonOfPython(text: string): string | undefined {
  const literal = new PythonLiteral();
  let json = "";
  for (let i = 0; i < text.length; i++) {
    const next = literal.push(text[i]!);
    if (next === undefined) return undefined;
    json += next;
  }
  const rest = literal.end();
  return rest === undefined ? undefined : json + rest;
}
