/** Reads one call or a list of calls as JSON, with the tag that ends them. */
import type { CallRegion, CallSink, CallStep } from "./call-format.js";
import { CallObject, CallObjects } from "./call-object.js";
import { isJsonSpace } from "./json-scanner.js";

export class CallsInTags implements CallRegion {
  readonly #sink: CallSink;
  readonly #close: string;
  #calls: CallRegion | undefined;
  #areComplete = false;
  #numClosing = 0;

  constructor(sink: CallSink, close: string) {
    this.#sink = sink;
    this.#close = close;
  }

  push(char: string): CallStep {
    if (this.#areComplete) return this.#readClose(char);
    if (this.#calls === undefined) {
      if (isJsonSpace(char)) return "held";
      if (char === "[") {
        this.#calls = new CallObjects(this.#sink, { separator: ",", end: "]" });
        return "held";
      }
      this.#calls = new CallObject(this.#sink);
    }
    const step = this.#calls.push(char);
    if (step !== "ended") return step;
    this.#areComplete = true;
    return this.#close === "" ? step : "taken";
  }

  cutOff(): boolean {
    return this.#areComplete || this.#calls?.cutOff?.() === true;
  }

  #readClose(char: string): CallStep {
    if (this.#numClosing === 0 && isJsonSpace(char)) return "held";
    if (char !== this.#close[this.#numClosing]) return "rejected";
    this.#numClosing++;
    return this.#numClosing === this.#close.length ? "ended" : "held";
  }
}
