/**
 * Gemma 4: `<|tool_call>call:NAME{KEY:VALUE,…}<tool_call|>`. Keys are bare, texts stand verbatim between two `<|"|>`,
 * and objects and lists use the same notation; other values are JSON. The reader also accepts JSON's own keys and
 * texts, because grammars require these inside objects and lists.
 */
import type { CallRegion, CallSink, CallStep, ToolCallFormat } from "./call-format.js";
import { isJsonSpace } from "./json-scanner.js";
import { isJson, jsonUnit } from "./python-literal.js";

const OPEN = "<|tool_call>";
const CLOSE = "<tool_call|>";
const BEFORE_NAME = "call:";
/** Encloses a text. Its first character occurs in it only once. */
const QUOTE = '<|"|>';
/** Exceeds every name together with its surrounding white space. */
const MAX_NAME_LENGTH = 200;
/** Exceeds every key, number and unquoted word. */
const MAX_WORD_LENGTH = 512;
const CLOSERS: Readonly<Record<string, string>> = { "{": "}", "[": "]" };

type LiteralState =
  | "value"
  | "firstValue"
  | "key"
  | "firstKey"
  | "colon"
  | "after"
  | "quote"
  | "text"
  | "string"
  | "word";

/** Follows an object in Gemma's notation, character by character, and converts it to JSON. */
class GemmaObject {
  #state: LiteralState = "firstKey";
  /** The closing brackets of the open ones, innermost last. */
  readonly #open: string[] = ["}"];
  /** Whether the text, string or word is a key. */
  #isKey = false;
  /** The word so far, or the escape in a JSON string. */
  #text = "";
  /** Number of characters of QUOTE read so far. */
  #numQuote = 0;

  /** Whether the bracket that closes the object has been read. */
  get isComplete(): boolean {
    return this.#open.length === 0;
  }

  /** The JSON text that the character adds; undefined: the character does not fit. */
  push(char: string): string | undefined {
    switch (this.#state) {
      case "quote":
        return this.#readQuote(char);
      case "text":
        return this.#readText(char);
      case "string":
        return this.#readString(char);
      case "word":
        return this.#readWord(char);
      default:
        return isJsonSpace(char) ? "" : this.#readStructure(char);
    }
  }

  #readStructure(char: string): string | undefined {
    const closer = this.#open.at(-1)!;
    const isFirst = this.#state === "firstValue" || this.#state === "firstKey";
    if (char === closer && (isFirst || this.#state === "after")) return this.#close();
    switch (this.#state) {
      case "after":
        if (char !== ",") return undefined;
        this.#state = closer === "}" ? "key" : "value";
        return ", ";
      case "colon":
        if (char !== ":") return undefined;
        this.#state = "value";
        return ": ";
      case "key":
      case "firstKey":
        this.#isKey = true;
        return this.#startWord(char);
      default:
        this.#isKey = false;
        return char in CLOSERS ? this.#openBracket(char) : this.#startWord(char);
    }
  }

  #openBracket(char: string): string {
    this.#open.push(CLOSERS[char]!);
    this.#state = char === "{" ? "firstKey" : "firstValue";
    return char;
  }

  #close(): string {
    this.#state = "after";
    return this.#open.pop()!;
  }

  #startWord(char: string): string | undefined {
    this.#text = "";
    if (char === '"') {
      this.#state = "string";
      return '"';
    }
    this.#state = char === QUOTE[0] ? "quote" : "word";
    this.#numQuote = 1;
    return this.#state === "quote" ? "" : this.#readWord(char);
  }

  #readQuote(char: string): string | undefined {
    if (char !== QUOTE[this.#numQuote]) return undefined;
    if (++this.#numQuote < QUOTE.length) return "";
    this.#numQuote = 0;
    this.#state = "text";
    return '"';
  }

  #readText(char: string): string {
    if (char === QUOTE[this.#numQuote]) {
      if (++this.#numQuote < QUOTE.length) return "";
      this.#endValue();
      return '"';
    }
    const before = QUOTE.slice(0, this.#numQuote);
    this.#numQuote = char === QUOTE[0] ? 1 : 0;
    return [...before, ...(this.#numQuote === 1 ? [] : [char])].map(jsonUnit).join("");
  }

  /** A JSON string; its escapes are checked while they arrive. */
  #readString(char: string): string | undefined {
    if (this.#text !== "") {
      this.#text += char;
      if (isJson(`"${this.#text}"`)) {
        const spelled = this.#text;
        this.#text = "";
        return spelled;
      }
      return /^\\u[0-9a-fA-F]{0,3}$/.test(this.#text) ? "" : undefined;
    }
    if (char === "\\") {
      this.#text = char;
      return "";
    }
    if (char === '"') this.#endValue();
    return char === '"' ? char : jsonUnit(char);
  }

  /**
   * A key ends at its colon. Without quotes, a value ends at a comma or bracket, and counts as text unless it is JSON.
   */
  #readWord(char: string): string | undefined {
    const isEnd = this.#isKey ? char === ":" : char === "," || char === this.#open.at(-1);
    if (!isEnd) {
      if ('{}[]"<'.includes(char) || (this.#isKey && char === ",")) return undefined;
      this.#text += char;
      return this.#text.length <= MAX_WORD_LENGTH ? "" : undefined;
    }
    const word = this.#text.trimEnd();
    if (word === "") return undefined;
    const json = this.#isKey || !isJson(word) ? JSON.stringify(word) : word;
    this.#endValue();
    const rest = this.#readStructure(char);
    return rest === undefined ? undefined : json + rest;
  }

  #endValue(): void {
    this.#numQuote = 0;
    this.#state = this.#isKey ? "colon" : "after";
  }
}

class GemmaCall implements CallRegion {
  readonly #sink: CallSink;
  /** The part read so far of the text before the arguments, or of the tag after them. */
  #text = "";
  #arguments: GemmaObject | undefined;

  constructor(sink: CallSink) {
    this.#sink = sink;
  }

  push(char: string): CallStep {
    if (this.#arguments === undefined) return this.#readName(char);
    if (this.#arguments.isComplete) return this.#readClosing(char);
    const json = this.#arguments.push(char);
    if (json === undefined) return "rejected";
    this.#sink.arguments(json);
    if (this.#arguments.isComplete) this.#sink.end();
    return "taken";
  }

  #readName(char: string): CallStep {
    if (this.#text === "" && isJsonSpace(char)) return "held";
    if (char !== "{") {
      this.#text += char;
      const isHeld = BEFORE_NAME.startsWith(this.#text) || /^call:\s*[^\s<>{}]*\s*$/.test(this.#text);
      return isHeld && this.#text.length <= MAX_NAME_LENGTH ? "held" : "rejected";
    }
    const name = this.#text.startsWith(BEFORE_NAME) ? this.#text.slice(BEFORE_NAME.length).trim() : "";
    if (!this.#sink.tools.has(name)) return "rejected";
    this.#text = "";
    this.#arguments = new GemmaObject();
    this.#sink.begin(name);
    this.#sink.arguments("{");
    return "taken";
  }

  #readClosing(char: string): CallStep {
    if (this.#text === "" && isJsonSpace(char)) return "held";
    this.#text += char;
    if (this.#text === CLOSE) return "ended";
    return CLOSE.startsWith(this.#text) ? "held" : "rejected";
  }
}

export const gemma4: ToolCallFormat = {
  name: "gemma4",
  openers: [OPEN],
  startOpeners: [],
  markers: [OPEN, CLOSE, QUOTE],
  spelling: {
    start: OPEN,
    beforeName: BEFORE_NAME,
    beforeArguments: "{",
    parameters: { beforeKey: "", beforeValue: ":", afterValue: "", valueEnd: "", quote: QUOTE, between: "," },
    afterArguments: `}${CLOSE}`,
    between: OPEN,
    end: "",
  },
  startRegion: (_opener, sink) => new GemmaCall(sink),
};
