/** OLMo 3: `<function_calls>`, then a line `name(key='value', other=1)` for each call, then `</function_calls>`. */
import type { CallRegion, CallSink, CallStep, ToolCallFormat } from "./call-format.js";
import { isJsonSpace } from "./json-scanner.js";
import { PythonLiteral } from "./python-literal.js";

const OPEN = "<function_calls>";
const CLOSE = "</function_calls>";
/** Longer than any name; the limit keeps white space from accumulating. */
const MAX_NAME_LENGTH = 200;

type State = "name" | "key" | "value" | "afterValue" | "closing";

class PythonicRegion implements CallRegion {
  readonly #sink: CallSink;
  #state: State = "name";
  /** The name, key or tag being read. */
  #text = "";
  #literal = new PythonLiteral();
  #numCalls = 0;
  #numArguments = 0;

  constructor(sink: CallSink) {
    this.#sink = sink;
  }

  push(char: string): CallStep {
    switch (this.#state) {
      case "name":
        return this.#readName(char);
      case "key":
        return this.#readKey(char);
      case "value":
        return this.#readValue(char);
      case "afterValue":
        return this.#readAfterValue(char);
      case "closing":
        return this.#readClosing(char);
    }
  }

  #readName(char: string): CallStep {
    if (this.#text === "") {
      if (isJsonSpace(char)) return "held";
      if (char === "<" && this.#numCalls > 0) {
        this.#enter("closing", "held");
        return this.#readClosing(char);
      }
    }
    if (char !== "(") {
      this.#text += char;
      return /^[\w-]+[ \t]*$/.test(this.#text) && this.#text.length <= MAX_NAME_LENGTH ? "held" : "rejected";
    }
    const name = this.#text.trimEnd();
    if (!this.#sink.tools.has(name)) return "rejected";
    this.#sink.begin(name);
    this.#sink.arguments("{");
    this.#numCalls++;
    this.#numArguments = 0;
    return this.#enter("key", "taken");
  }

  #readKey(char: string): CallStep {
    if (this.#text === "" && isJsonSpace(char)) return "taken";
    if (this.#text === "" && char === ")") return this.#endCall();
    if (char !== "=") {
      this.#text += char;
      return /^[^\s=(),'"[\]{}]+\s*$/.test(this.#text) && this.#text.length <= MAX_NAME_LENGTH ? "taken" : "rejected";
    }
    const key = this.#text.trimEnd();
    if (key === "") return "rejected";
    this.#sink.arguments(`${this.#numArguments++ === 0 ? "" : ", "}${JSON.stringify(key)}: `);
    this.#literal = new PythonLiteral();
    return this.#enter("value", "taken");
  }

  #readValue(char: string): CallStep {
    const json = this.#literal.push(char);
    if (json !== undefined) {
      this.#sink.arguments(json);
      return "taken";
    }
    // Only the character behind a number or a constant shows that it is complete.
    const rest = this.#literal.end();
    if (rest === undefined) return "rejected";
    this.#sink.arguments(rest);
    this.#enter("afterValue", "taken");
    return this.#readAfterValue(char);
  }

  #readAfterValue(char: string): CallStep {
    if (isJsonSpace(char)) return "taken";
    if (char === ")") return this.#endCall();
    return char === "," ? this.#enter("key", "taken") : "rejected";
  }

  #endCall(): CallStep {
    this.#sink.arguments("}");
    this.#sink.end();
    return this.#enter("name", "taken");
  }

  #readClosing(char: string): CallStep {
    this.#text += char;
    if (this.#text === CLOSE) return "ended";
    return CLOSE.startsWith(this.#text) ? "held" : "rejected";
  }

  #enter(state: State, step: CallStep): CallStep {
    this.#state = state;
    this.#text = "";
    return step;
  }
}

export const olmo3: ToolCallFormat = {
  name: "olmo3",
  openers: [OPEN],
  startOpeners: [],
  markers: [OPEN, CLOSE],
  spelling: {
    start: `${OPEN}\n`,
    beforeName: "",
    beforeArguments: "(",
    parameters: { beforeKey: "", beforeValue: "=", afterValue: "", valueEnd: "", between: ", " },
    afterArguments: ")",
    between: "\n",
    end: `\n${CLOSE}`,
  },
  startRegion: (_opener, sink) => new PythonicRegion(sink),
};
