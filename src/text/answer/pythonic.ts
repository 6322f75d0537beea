/**
 * Calls in Python's notation, `name(key='value', other=1)`, between two tags: OLMo 3 writes one per line, LFM2 a list.
 * Any Python may appear there, so a call is reported when it is complete; a call with other arguments is text.
 */
import type { CallRegion, CallSink, CallStep, ToolCallFormat } from "./call-format.js";
import { isJsonSpace } from "./json-scanner.js";
import { PythonLiteral } from "./python-literal.js";

interface Tags {
  readonly open: string;
  readonly close: string;
  /** Whether calls stand between brackets, separated by commas. */
  readonly isList: boolean;
}
const OLMO3_TAGS: Tags = { open: "<function_calls>", close: "</function_calls>", isList: false };
const LFM2_TAGS: Tags = { open: "<|tool_call_start|>", close: "<|tool_call_end|>", isList: true };

/** Exceeds every name; the limit keeps white space from accumulating. */
const MAX_NAME_LENGTH = 200;
/** A longer call is reported while it arrives: the limit keeps hostile text from being read again and again. */
const MAX_HELD_LENGTH = 8192;

type State = "opening" | "name" | "key" | "value" | "afterValue" | "afterCall" | "closing";

class PythonicRegion implements CallRegion {
  readonly #sink: CallSink;
  readonly #tags: Tags;
  #state: State;
  /** The name, key or tag being read. */
  #text = "";
  /** The call being read; "" if it has been reported. */
  #name = "";
  #arguments = "";
  #numHeld = 0;
  #literal = new PythonLiteral();
  #numCalls = 0;
  #numArguments = 0;

  constructor(sink: CallSink, tags: Tags) {
    this.#sink = sink;
    this.#tags = tags;
    this.#state = tags.isList ? "opening" : "name";
  }

  push(char: string): CallStep {
    if (this.#state === "opening") return this.#readOpening(char);
    if (this.#state === "name") return this.#readName(char);
    if (this.#state === "afterCall") return this.#readAfterCall(char);
    if (this.#state === "closing") return this.#readClosing(char);
    const step = this.#readArguments(char);
    if (step === "rejected") return "rejected";
    if (++this.#numHeld >= MAX_HELD_LENGTH) this.#report();
    return this.#name === "" ? "taken" : "held";
  }

  cutOff(): boolean {
    const isHeld = this.#name !== "";
    this.#report();
    return isHeld;
  }

  #readOpening(char: string): CallStep {
    if (isJsonSpace(char)) return "held";
    return char === "[" ? this.#enter("name") : "rejected";
  }

  /** Reads the text after a call of a list. */
  #readAfterCall(char: string): CallStep {
    if (isJsonSpace(char)) return "held";
    if (char === ",") return this.#enter("name");
    return char === "]" ? this.#enter("closing") : "rejected";
  }

  #readName(char: string): CallStep {
    if (this.#text === "") {
      if (isJsonSpace(char)) return "held";
      if (char === "<" && this.#numCalls > 0 && !this.#tags.isList) {
        this.#enter("closing");
        return this.#readClosing(char);
      }
    }
    if (char !== "(") {
      this.#text += char;
      return /^[\w-]+[ \t]*$/.test(this.#text) && this.#text.length <= MAX_NAME_LENGTH ? "held" : "rejected";
    }
    const name = this.#text.trimEnd();
    if (!this.#sink.tools.has(name)) return "rejected";
    this.#name = name;
    this.#arguments = "{";
    this.#numHeld = 0;
    this.#numArguments = 0;
    return this.#enter("key");
  }

  #readArguments(char: string): CallStep {
    switch (this.#state) {
      case "key":
        return this.#readKey(char);
      case "value":
        return this.#readValue(char);
      default:
        return this.#readAfterValue(char);
    }
  }

  #readKey(char: string): CallStep {
    if (this.#text === "" && isJsonSpace(char)) return "held";
    if (this.#text === "" && char === ")") return this.#endCall();
    if (char !== "=") {
      this.#text += char;
      return /^[^\s=(),'"[\]{}]+\s*$/.test(this.#text) && this.#text.length <= MAX_NAME_LENGTH ? "held" : "rejected";
    }
    const key = this.#text.trimEnd();
    if (key === "") return "rejected";
    this.#add(`${this.#numArguments++ === 0 ? "" : ", "}${JSON.stringify(key)}: `);
    this.#literal = new PythonLiteral();
    return this.#enter("value");
  }

  #readValue(char: string): CallStep {
    const json = this.#literal.push(char);
    if (json !== undefined) {
      this.#add(json);
      return "held";
    }
    // Only the character after a number or constant shows that it is complete.
    const rest = this.#literal.end();
    if (rest === undefined) return "rejected";
    this.#add(rest);
    this.#enter("afterValue");
    return this.#readAfterValue(char);
  }

  #readAfterValue(char: string): CallStep {
    if (isJsonSpace(char)) return "held";
    if (char === ")") return this.#endCall();
    return char === "," ? this.#enter("key") : "rejected";
  }

  #endCall(): CallStep {
    this.#add("}");
    this.#report();
    this.#sink.end();
    return this.#enter(this.#tags.isList ? "afterCall" : "name");
  }

  #add(json: string): void {
    if (this.#name === "") this.#sink.arguments(json);
    else this.#arguments += json;
  }

  /** Reports the held call as far as it goes. */
  #report(): void {
    if (this.#name === "") return;
    this.#numCalls++;
    this.#sink.begin(this.#name);
    this.#sink.arguments(this.#arguments);
    this.#name = "";
  }

  #readClosing(char: string): CallStep {
    const { close } = this.#tags;
    if (this.#text === "" && isJsonSpace(char)) return "held";
    this.#text += char;
    if (this.#text === close) return "ended";
    return close.startsWith(this.#text) ? "held" : "rejected";
  }

  #enter(state: State): CallStep {
    this.#state = state;
    this.#text = "";
    return "held";
  }
}

function pythonic(name: string, tags: Tags): ToolCallFormat {
  const { open, close, isList } = tags;
  return {
    name,
    openers: [open],
    startOpeners: [],
    markers: [open, close],
    spelling: {
      start: isList ? `${open}[` : `${open}\n`,
      beforeName: "",
      beforeArguments: "(",
      parameters: { beforeKey: "", beforeValue: "=", afterValue: "", valueEnd: "", between: ", " },
      afterArguments: ")",
      between: isList ? ", " : "\n",
      end: isList ? `]${close}` : `\n${close}`,
    },
    startRegion: (_opener, sink) => new PythonicRegion(sink, tags),
  };
}

export const olmo3 = pythonic("olmo3", OLMO3_TAGS);
export const lfm2 = pythonic("lfm2", LFM2_TAGS);
