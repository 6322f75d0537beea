/** Llama 3: `{"name": …, "parameters": {…}}` in place of an answer or behind `<|python_tag|>`; several are separated by `;` or white space. */
import { CallObject } from "./call-object.js";
import type { CallRegion, CallSink, CallStep, ToolCallFormat } from "./format.js";
import { isJsonSpace } from "./json-scanner.js";

const PYTHON_TAG = "<|python_tag|>";

class Llama3Region implements CallRegion {
  readonly #sink: CallSink;
  #object: CallObject | undefined;

  constructor(opener: string, sink: CallSink) {
    this.#sink = sink;
    this.#object = new CallObject(sink);
    if (opener === "{") this.#object.push(opener);
  }

  push(char: string): CallStep {
    if (this.#object !== undefined) {
      const step = this.#object.push(char);
      if (step !== "ended") return step;
      this.#object = undefined;
      return "taken";
    }
    if (isJsonSpace(char)) return "held";
    this.#object = new CallObject(this.#sink);
    return char === ";" ? "held" : this.#object.push(char);
  }
}

export const llama3Json: ToolCallFormat = {
  name: "llama3_json",
  openers: [PYTHON_TAG],
  startOpeners: ["{"],
  markers: [PYTHON_TAG],
  opening: (name) => `{"name": "${name === undefined ? "" : `${name}", "parameters":`}`,
  startRegion: (opener, sink) => new Llama3Region(opener, sink),
};
