/**
 * Mistral: `[TOOL_CALLS][{"name": …, "arguments": {…}}, …]`; from tokenizer version 11 on, `[TOOL_CALLS]name{…}` or
 * `[TOOL_CALLS]name[ARGS]{…}` for each call, in some models with `[CALL_ID]…` between name and arguments.
 */

import type { CallRegion, CallSink, CallStep, ToolCallFormat } from "./call-format.js";
import { CallObject, CallObjects } from "./call-object.js";
import { isJsonSpace, JsonScanner } from "./json-scanner.js";

const OPEN = "[TOOL_CALLS]";
const ARGS = "[ARGS]";
const CALL_ID = "[CALL_ID]";
/** Exceeds every name with its id and markers; the limit keeps white space from accumulating. */
const MAX_HEAD_LENGTH = 264;

/** A name, the separators that may follow, and its arguments. */
class NamedCall implements CallRegion {
  readonly #sink: CallSink;
  readonly #scanner = new JsonScanner();
  #head = "";
  #isInArguments = false;

  constructor(sink: CallSink) {
    this.#sink = sink;
  }

  push(char: string): CallStep {
    if (this.#isInArguments) return this.#readArguments(char);
    if (char !== "{") {
      this.#head += char;
      return this.#mayBeHead() ? "held" : "rejected";
    }
    const name = /^([\w-]+)(?:\[CALL_ID\][\w-]+)?(?:\[ARGS\])?\s*$/.exec(this.#head)?.[1];
    if (name === undefined || !this.#sink.tools.has(name)) return "rejected";
    this.#isInArguments = true;
    this.#sink.begin(name);
    return this.#readArguments(char);
  }

  #readArguments(char: string): CallStep {
    if (!this.#scanner.push(char)) return "rejected";
    this.#sink.arguments(char);
    if (!this.#scanner.isClosed) return "taken";
    this.#sink.end();
    return "ended";
  }

  /**
   * Whether a brace could still turn the held text into a call's head. Names are short, so longer text is plain text.
   */
  #mayBeHead(): boolean {
    const match = /^([\w-]{1,128})(\[[A-Z_]*\]?)?([\w-]{0,64})(\[[A-Z_]*\]?)?\s*$/.exec(this.#head);
    if (match === null || this.#head.length > MAX_HEAD_LENGTH) return false;
    const [, , first = "", callId = "", second = ""] = match;
    if (first === "") return true;
    if (ARGS.startsWith(first)) return callId === "" && second === "";
    return CALL_ID.startsWith(first) && (first === CALL_ID || callId === "") && ARGS.startsWith(second);
  }
}

class MistralRegion implements CallRegion {
  readonly #sink: CallSink;
  #calls: CallRegion | undefined;

  constructor(sink: CallSink) {
    this.#sink = sink;
  }

  push(char: string): CallStep {
    if (this.#calls !== undefined) return this.#calls.push(char);
    if (isJsonSpace(char)) return "held";
    if (char === "[") {
      this.#calls = new CallObjects(this.#sink, { separator: ",", end: "]" });
      return "held";
    }
    this.#calls = char === "{" ? new CallObject(this.#sink) : new NamedCall(this.#sink);
    return this.#calls.push(char);
  }

  cutOff(): boolean {
    return this.#calls?.cutOff?.() === true;
  }
}

/** Templates require an id of nine letters or digits; the last characters are kept because they are the random ones. */
function templateCallId(id: string): string {
  const CALL_ID_LENGTH = 9;
  return id
    .replace(/[^a-zA-Z0-9]/g, "")
    .slice(-CALL_ID_LENGTH)
    .padStart(CALL_ID_LENGTH, "0");
}

const OBJECT_IN_ARRAY = { beforeName: '{"name": "', beforeArguments: '", "arguments":', afterArguments: "}" };

/** The template shows which of the three forms the model writes. */
export function mistral(templateSource: string): ToolCallFormat {
  const writesArgs = templateSource.includes(ARGS);
  const writesArray = !writesArgs && templateSource.includes(`${OPEN}[`);
  return {
    name: "mistral",
    openers: [OPEN],
    startOpeners: [],
    markers: [OPEN, ARGS, CALL_ID],
    spelling: writesArray
      ? { start: `${OPEN}[`, ...OBJECT_IN_ARRAY, between: ", ", end: "]" }
      : {
          start: OPEN,
          beforeName: "",
          beforeArguments: writesArgs ? ARGS : "",
          afterArguments: "",
          between: OPEN,
          end: "",
        },
    startRegion: (_opener, sink) => new MistralRegion(sink),
    templateCallId,
  };
}
