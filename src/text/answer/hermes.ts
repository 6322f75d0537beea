/** Hermes and Qwen: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, one element per call. */

import type { CallRegion, CallSink, CallStep, ToolCallFormat } from "./call-format.js";
import { CallObject } from "./call-object.js";
import { isJsonSpace } from "./json-scanner.js";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

class HermesRegion implements CallRegion {
  readonly #object: CallObject;
  #isInObject = true;
  #numClosing = 0;

  constructor(sink: CallSink) {
    this.#object = new CallObject(sink);
  }

  push(char: string): CallStep {
    if (this.#isInObject) {
      const step = this.#object.push(char);
      if (step !== "ended") return step;
      this.#isInObject = false;
      return "taken";
    }
    if (this.#numClosing === 0 && isJsonSpace(char)) return "held";
    if (char !== CLOSE[this.#numClosing]) return "rejected";
    this.#numClosing++;
    return this.#numClosing === CLOSE.length ? "ended" : "held";
  }
}

export const hermes: ToolCallFormat = {
  name: "hermes",
  openers: [OPEN],
  startOpeners: [],
  markers: [OPEN, CLOSE],
  spelling: {
    start: `${OPEN}\n`,
    beforeName: '{"name": "',
    // The text ends before the space, because models write the space and the brace as one token.
    beforeArguments: '", "arguments":',
    afterArguments: `}\n${CLOSE}`,
    between: `\n${OPEN}\n`,
    end: "",
  },
  startRegion: (_opener, sink) => new HermesRegion(sink),
};
