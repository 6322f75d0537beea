/** Reads calls written as JSON objects, `{"name": …, "arguments": {…}}`, passing the arguments on as they come. */
import { isPlainObject } from "../../core/is-plain-object.js";
import type { CallRegion, CallSink, CallStep } from "./call-format.js";
import { isJsonSpace, JsonScanner } from "./json-scanner.js";

/** Llama names the field `parameters`; the other formats name it `arguments`. */
const ARGUMENT_KEYS: readonly string[] = ["arguments", "parameters"];
/** Some models write fields that the API adds itself. */
const IGNORED_KEYS: readonly string[] = ["id", "type"];

type State = "open" | "key" | "inKey" | "colon" | "value" | "inValue" | "after";

export class CallObject {
  readonly #sink: CallSink;
  #state: State = "open";
  #scanner = new JsonScanner();
  /** The key or value being read. */
  #raw = "";
  #key = "";
  #name: string | undefined;
  /** Arguments that precede the name are held until the name is known. */
  #earlyArguments = "";
  #hasArguments = false;
  /** The value being read is a string. */
  #isQuoted = false;
  #hasBegun = false;

  constructor(sink: CallSink) {
    this.#sink = sink;
  }

  push(char: string): CallStep {
    if (this.#state === "inKey") return this.#readKey(char);
    if (this.#state === "inValue") return this.#readValue(char);
    if (isJsonSpace(char)) return "held";
    switch (this.#state) {
      case "open":
        return this.#expect(char, "{", "key");
      case "key":
        this.#startScan("inKey");
        return char === '"' ? this.#readKey(char) : "rejected";
      case "colon":
        return this.#expect(char, ":", "value");
      case "value":
        this.#startScan("inValue");
        if (this.#key === "name" && char !== '"') return "rejected";
        this.#isQuoted = char === '"';
        if (ARGUMENT_KEYS.includes(this.#key) && char !== "{" && !this.#isQuoted) return "rejected";
        return this.#readValue(char);
      case "after":
        return char === "}" ? this.#end() : this.#expect(char, ",", "key");
    }
  }

  #expect(char: string, expected: string, next: State): CallStep {
    this.#state = next;
    return char === expected ? "held" : "rejected";
  }

  #startScan(state: State): void {
    this.#scanner = new JsonScanner();
    this.#raw = "";
    this.#state = state;
  }

  #readKey(char: string): CallStep {
    this.#raw += char;
    if (!this.#scanner.push(char)) return "rejected";
    if (!this.#scanner.isClosed) return "held";
    this.#key = String(JSON.parse(this.#raw));
    this.#state = "colon";
    if (this.#key === "name") return this.#name === undefined ? "held" : "rejected";
    if (ARGUMENT_KEYS.includes(this.#key)) return this.#hasArguments ? "rejected" : "held";
    return IGNORED_KEYS.includes(this.#key) ? "held" : "rejected";
  }

  #readValue(char: string): CallStep {
    if (!this.#scanner.push(char)) {
      if (!this.#scanner.isComplete) return "rejected";
      // Only the character after a number shows that the number is complete.
      this.#state = "after";
      return this.push(char);
    }
    if (this.#scanner.isClosed) this.#state = "after";
    const isArgument = ARGUMENT_KEYS.includes(this.#key);
    if (isArgument && !this.#isQuoted) return this.#takeArguments(char);
    this.#raw += char;
    if (!this.#scanner.isClosed) return "held";
    if (isArgument) return this.#takeQuoted();
    return this.#key === "name" ? this.#takeName() : "held";
  }

  #takeArguments(text: string): CallStep {
    this.#hasArguments = true;
    if (this.#name === undefined) {
      this.#earlyArguments += text;
      return "held";
    }
    if (!this.#hasBegun) this.#begin(this.#name);
    this.#sink.arguments(text);
    return "taken";
  }

  /** Granite 4 writes the arguments' JSON inside a quoted text, so their type is known only at its end. */
  #takeQuoted(): CallStep {
    const text = String(JSON.parse(this.#raw));
    try {
      return isPlainObject(JSON.parse(text)) ? this.#takeArguments(text) : "rejected";
    } catch {
      return "rejected";
    }
  }

  #takeName(): CallStep {
    const name = String(JSON.parse(this.#raw));
    if (!this.#sink.tools.has(name)) return "rejected";
    this.#name = name;
    if (!this.#hasArguments) return "held";
    this.#begin(name);
    this.#sink.arguments(this.#earlyArguments);
    return "taken";
  }

  #begin(name: string): void {
    this.#hasBegun = true;
    this.#sink.begin(name);
  }

  #end(): CallStep {
    if (!this.#hasBegun) return "rejected";
    this.#sink.end();
    return "ended";
  }
}

/**
 * Calls written as consecutive objects. If `end` is set, they form a list that it closes, and separators are required.
 */
export class CallObjects implements CallRegion {
  readonly #sink: CallSink;
  readonly #separator: string;
  readonly #end: string | undefined;
  #object: CallObject | undefined;
  #hasEnded = false;

  constructor(sink: CallSink, { separator, end }: { readonly separator: string; readonly end?: string }) {
    this.#sink = sink;
    this.#separator = separator;
    this.#end = end;
    this.#object = new CallObject(sink);
  }

  push(char: string): CallStep {
    if (this.#object !== undefined) {
      const step = this.#object.push(char);
      if (step !== "ended") return step;
      this.#object = undefined;
      this.#hasEnded = true;
      return "taken";
    }
    if (isJsonSpace(char)) return "held";
    if (char === this.#end) return "ended";
    if (char !== this.#separator && this.#end !== undefined) return "rejected";
    this.#object = new CallObject(this.#sink);
    return char === this.#separator ? "held" : this.#object.push(char);
  }
  /** After a call in a list, held text can only be the list's separator or end. */
  cutOff(): boolean {
    return this.#hasEnded && this.#end !== undefined;
  }
}
